#include "tools/report/flow.h"

#include <algorithm>

namespace tandem::report {
namespace {

bool IsStep(const Instruction& instruction) {
  return instruction.kind == InstructionKind::kCollective ||
         instruction.kind == InstructionKind::kLocal || instruction.kind == InstructionKind::kLoop;
}

bool Known(const Program& program, BufferId id) {
  return id.valid() && id.index() < program.buffers.size();
}

// What `made` was before the step: a collective of several values gives outputs[i] of inputs[i].
BufferId StepSource(const Instruction& step, BufferId made) {
  const auto at = std::find(step.outputs.begin(), step.outputs.end(), made);
  const size_t i = static_cast<size_t>(at - step.outputs.begin());
  return i < step.outputs.size() && i < step.inputs.size() ? step.inputs[i] : BufferId();
}

Operand Traced(const Program& program, const std::vector<int>& writer, BufferId read) {
  Operand operand;
  operand.read = operand.made = read;
  if (!Known(program, read)) return operand;
  operand.tensor = program.buffer(read).tensor;
  int at = writer[read.index()];
  // Each instruction is passed once: a Program whose steps go round in circles ends here too.
  for (size_t i = 0; at >= 0 && i < program.instructions.size(); ++i) {
    const Instruction& instruction = program.instructions[static_cast<size_t>(at)];
    if (!IsStep(instruction)) break;
    const BufferId from = StepSource(instruction, operand.made);
    if (!Known(program, from)) break;
    operand.steps.push_back(at);
    operand.made = from;
    at = writer[operand.made.index()];
  }
  std::reverse(operand.steps.begin(), operand.steps.end());
  if (at >= 0 && program.instructions[static_cast<size_t>(at)].kind == InstructionKind::kKernel) {
    operand.producer = program.instructions[static_cast<size_t>(at)].node;
  }
  return operand;
}

}  // namespace

const char* PhaseName(Phase phase) {
  switch (phase) {
    case Phase::kForward:
      return "forward";
    case Phase::kBackward:
      return "backward";
    case Phase::kUpdate:
      return "update";
  }
  return "?";
}

bool IsMove(const Instruction& instruction) {
  return instruction.kind == InstructionKind::kCollective ||
         instruction.kind == InstructionKind::kLoop;
}

bool Operand::Moves(const Program& program) const {
  return std::any_of(steps.begin(), steps.end(),
                     [&](int i) { return IsMove(program.instructions[static_cast<size_t>(i)]); });
}

Flow FlowOf(const Graph& pcg, const Program& program) {
  Flow flow;
  flow.nodes.resize(pcg.nodes.size());
  flow.writer.assign(program.buffers.size(), -1);
  for (size_t i = 0; i < program.instructions.size(); ++i) {
    const Instruction& instruction = program.instructions[i];
    if (instruction.kind != InstructionKind::kKernel && !IsStep(instruction)) continue;
    for (BufferId id : instruction.outputs) {
      if (Known(program, id)) flow.writer[id.index()] = static_cast<int>(i);
    }
  }
  for (size_t i = 0; i < program.instructions.size(); ++i) {
    const Instruction& instruction = program.instructions[i];
    if (instruction.kind == InstructionKind::kStoreState && !instruction.inputs.empty() &&
        !instruction.outputs.empty() && Known(program, instruction.outputs[0])) {
      flow.stores.emplace_back(instruction.outputs[0],
                               Traced(program, flow.writer, instruction.inputs[0]));
    }
    if (instruction.kind != InstructionKind::kKernel || !instruction.node.valid() ||
        instruction.node.index() >= flow.nodes.size()) {
      continue;
    }
    NodeFlow& node = flow.nodes[instruction.node.index()];
    node.instruction = static_cast<int>(i);
    node.inputs.clear();
    for (BufferId id : instruction.inputs) node.inputs.push_back(Traced(program, flow.writer, id));
    node.outputs = instruction.outputs;
  }
  flow.readers.resize(pcg.nodes.size());
  for (size_t n = 0; n < flow.nodes.size(); ++n) {
    for (size_t i = 0; i < flow.nodes[n].inputs.size(); ++i) {
      const NodeId producer = flow.nodes[n].inputs[i].producer;
      if (!producer.valid() || producer.index() >= flow.readers.size()) continue;
      flow.readers[producer.index()].emplace_back(NodeId(static_cast<int64_t>(n)),
                                                  static_cast<int>(i));
    }
  }
  return flow;
}

}  // namespace tandem::report
