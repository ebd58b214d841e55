#include "pcg/program/program_liveness.h"

#include <utility>

namespace tandem {

std::vector<bool> KeptBuffers(const Program& program) {
  std::vector<bool> kept(program.buffers.size(), true);
  // A source is a buffer that no instruction writes.
  for (const Instruction& code : program.instructions) {
    if (code.kind == InstructionKind::kStoreState || code.kind == InstructionKind::kFree) continue;
    for (BufferId output : code.outputs) kept[output.index()] = false;
  }
  for (BufferId output : program.outputs) kept[output.index()] = true;
  if (program.loss.valid()) kept[program.loss.index()] = true;
  for (const Instruction& code : program.instructions) {
    if (code.kind == InstructionKind::kStoreState) kept[code.inputs[0].index()] = true;
  }
  return kept;
}

void AddFrees(Program& program) {
  const std::vector<bool> kept = KeptBuffers(program);
  const auto in_loop = [&](int i) { return i >= program.loop_begin && i < program.loop_end; };
  std::vector<int> last(program.buffers.size(), -1);
  std::vector<bool> outlives(program.buffers.size(), true);  // a micro-batch
  for (int i = 0; i < static_cast<int>(program.instructions.size()); ++i) {
    const Instruction& code = program.instructions[static_cast<size_t>(i)];
    for (BufferId input : code.inputs) last[input.index()] = i;
    if (code.kind == InstructionKind::kStoreState) continue;
    for (BufferId output : code.outputs) {
      last[output.index()] = i;
      outlives[output.index()] = !in_loop(i) || code.kind == InstructionKind::kLoop;
    }
  }
  std::vector<std::vector<BufferId>> dead_after(program.instructions.size());
  std::vector<BufferId> dead_after_loop;
  for (size_t b = 0; b < program.buffers.size(); ++b) {
    if (kept[b] || last[b] < 0) continue;
    const BufferId buffer(static_cast<int64_t>(b));
    if (in_loop(last[b]) && outlives[b]) {
      dead_after_loop.push_back(buffer);
    } else {
      dead_after[static_cast<size_t>(last[b])].push_back(buffer);
    }
  }
  std::vector<Instruction> code;
  const auto free = [&](const std::vector<BufferId>& buffers) {
    if (buffers.empty()) return;
    Instruction instruction;
    instruction.kind = InstructionKind::kFree;
    instruction.name = "free";
    instruction.inputs = buffers;
    code.push_back(std::move(instruction));
  };
  const int begin = program.loop_begin;
  const int end = program.loop_end;
  for (int i = 0; i < static_cast<int>(program.instructions.size()); ++i) {
    if (i == begin) program.loop_begin = static_cast<int>(code.size());
    code.push_back(std::move(program.instructions[static_cast<size_t>(i)]));
    free(dead_after[static_cast<size_t>(i)]);
    if (i + 1 == end) {
      program.loop_end = static_cast<int>(code.size());
      free(dead_after_loop);
    }
  }
  if (begin == end) program.loop_begin = program.loop_end = static_cast<int>(code.size());
  program.instructions = std::move(code);
}

}  // namespace tandem
