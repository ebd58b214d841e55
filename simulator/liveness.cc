#include "simulator/liveness.h"

#include <algorithm>
#include <array>

namespace tandem {
namespace {

int64_t BytesOf(const Program& program, const std::vector<BufferId>& buffers) {
  int64_t bytes = 0;
  for (BufferId id : buffers) bytes += program.buffer(id).bytes;
  return bytes;
}

bool IsResident(BufferRole role) {
  return role == BufferRole::kParameter || role == BufferRole::kState ||
         role == BufferRole::kConstant;
}

// First and last position at which a buffer takes memory; positions are instructions.
struct Life {
  int first = -1;
  int last = -1;
  bool alias = false;  // Lives in the memory of a state.
};

class Lives {
 public:
  Lives(const Program& program, const std::vector<bool>& views)
      : program_(program),
        count_(static_cast<int>(program.instructions.size())),
        lives_(program.buffers.size()),
        written_by_(program.buffers.size(), -1),
        freed_(program.buffers.size(), false),
        root_(program.buffers.size()) {
    for (int i = 0; i < count_; ++i) Visit(i, program.instructions[static_cast<size_t>(i)]);
    for (int i = 0; i < count_; ++i) {
      const Instruction& instruction = program.instructions[static_cast<size_t>(i)];
      if (instruction.kind == InstructionKind::kStoreState) Store(instruction);
    }
    FillIn();
    for (int i = 0; i < count_; ++i) {
      if (static_cast<size_t>(i) < views.size() && views[static_cast<size_t>(i)]) {
        Share(program.instructions[static_cast<size_t>(i)]);
      }
    }
  }

  const Life& of(BufferId id) const { return lives_[id.index()]; }
  int writer(BufferId id) const { return written_by_[id.index()]; }

 private:
  bool InLoop(int position) const {
    return position >= program_.loop_begin && position < program_.loop_end;
  }

  void Visit(int i, const Instruction& instruction) {
    if (instruction.kind == InstructionKind::kFree) {
      for (BufferId id : instruction.inputs) {
        lives_[id.index()].last = i;
        freed_[id.index()] = true;
      }
      return;
    }
    if (instruction.kind == InstructionKind::kStoreState) return;
    for (BufferId id : instruction.outputs) {
      if (written_by_[id.index()] >= 0) continue;
      written_by_[id.index()] = i;
      lives_[id.index()].first =
          instruction.kind == InstructionKind::kLoop ? program_.loop_begin : i;
    }
  }

  // A state's next value: in the state's own memory, or beside it to the end of the step.
  void Store(const Instruction& store) {
    if (store.inputs.empty() || store.outputs.empty()) return;
    const BufferId next = store.inputs[0], state = store.outputs[0];
    Life& life = lives_[next.index()];
    const int writer = written_by_[next.index()];
    if (writer < 0) return;  // Another state or an input: stored as it is.
    if (!freed_[next.index()]) life.last = count_;
    bool read_later = false;
    for (int i = writer + 1; i < count_ && !read_later; ++i) {
      const Instruction& instruction = program_.instructions[static_cast<size_t>(i)];
      if (instruction.kind == InstructionKind::kFree ||
          instruction.kind == InstructionKind::kStoreState) {
        continue;
      }
      for (BufferId id : instruction.inputs) read_later |= id == state;
    }
    life.alias = !InLoop(writer) && !read_later &&
                 program_.buffer(next).bytes == program_.buffer(state).bytes;
  }

  // The output of a view is the memory of its input, which lives as long as either.
  void Share(const Instruction& view) {
    if (view.inputs.empty() || view.outputs.empty()) return;
    Life& out = lives_[view.outputs[0].index()];
    if (out.alias) return;
    BufferId root = view.inputs[0];
    while (root_[root.index()].valid()) root = root_[root.index()];
    Life& in = lives_[root.index()];
    in.last = std::max(in.last, out.last);
    out.alias = true;
    root_[view.outputs[0].index()] = root;
  }

  void FillIn() {
    for (size_t b = 0; b < lives_.size(); ++b) {
      Life& life = lives_[b];
      const bool resident = IsResident(program_.buffers[b].role) && written_by_[b] < 0;
      if (life.first < 0) life.first = 0;
      if (resident || !freed_[b]) life.last = count_;
    }
  }

  const Program& program_;
  int count_;
  std::vector<Life> lives_;
  std::vector<int> written_by_;
  std::vector<bool> freed_;
  std::vector<BufferId> root_;  // of a view: whose memory it is
};

enum Kind { kParameters, kOptimizerState, kGradients, kActivations, kInputs, kConstants, kComms };
constexpr std::array<const char*, 7> kKindNames = {"parameters",   "optimizer_state", "gradients",
                                                   "activations",  "inputs",          "constants",
                                                   "communication"};

// `source`: nothing in the Program writes it.
Kind KindOf(BufferRole role, bool by_collective, bool source) {
  if (by_collective) return kComms;
  switch (role) {
    case BufferRole::kParameter:
      return source ? kParameters : kActivations;
    case BufferRole::kState:
      return source ? kOptimizerState : kActivations;
    case BufferRole::kConstant:
      return source ? kConstants : kActivations;
    case BufferRole::kGradient:
      return kGradients;
    case BufferRole::kInput:
      return source ? kInputs : kActivations;
    case BufferRole::kActivation:
      return kActivations;
  }
  return kActivations;
}

}  // namespace

int64_t DefaultWindowBytes(const Program& program) {
  int64_t largest = 0;
  for (const Instruction& instruction : program.instructions) {
    if (instruction.kind != InstructionKind::kCollective) continue;
    largest = std::max(
        {largest, BytesOf(program, instruction.inputs), BytesOf(program, instruction.outputs)});
  }
  return std::max<int64_t>(largest, 64 << 20);
}

std::vector<CollectiveWindow> CollectiveWindows(const Program& program, int64_t window_bytes) {
  std::vector<CollectiveWindow> windows;
  for (int i = 0; i < static_cast<int>(program.instructions.size()); ++i) {
    if (program.instructions[static_cast<size_t>(i)].kind == InstructionKind::kCollective) {
      windows.push_back({i, i, i + 1});
    }
  }
  if (window_bytes <= 0) return windows;
  const int count = static_cast<int>(program.instructions.size());
  std::vector<int64_t> reads, writes;
  for (const CollectiveWindow& w : windows) {
    const Instruction& instruction = program.instructions[static_cast<size_t>(w.instruction)];
    reads.push_back(BytesOf(program, instruction.inputs));
    writes.push_back(BytesOf(program, instruction.outputs));
  }
  // Sliding windows: collectives (first..k] are early together, [k..next) late together.
  size_t first = 0;
  int64_t early = 0;
  for (size_t k = 0; k < windows.size(); ++k) {
    early += writes[k];
    while (early > window_bytes && first < k) early -= writes[first++];
    windows[k].earliest = first == 0 ? 0 : windows[first - 1].instruction + 1;
  }
  size_t next = 0;
  int64_t late = 0;
  for (size_t k = 0; k < windows.size(); ++k) {
    while (next < windows.size() && (next <= k || late + reads[next] <= window_bytes)) {
      late += reads[next++];
    }
    windows[k].latest = next < windows.size() ? windows[next].instruction : count;
    late -= reads[k];
  }
  return windows;
}

MemoryReport PeakMemory(const Program& program, int64_t window_bytes,
                        const std::vector<bool>& views) {
  const Lives lives(program, views);
  const int count = static_cast<int>(program.instructions.size());
  std::vector<Life> held(program.buffers.size());
  std::vector<bool> by_collective(program.buffers.size(), false);
  for (size_t b = 0; b < held.size(); ++b) held[b] = lives.of(BufferId(static_cast<int64_t>(b)));
  for (const CollectiveWindow& w : CollectiveWindows(program, window_bytes)) {
    const Instruction& instruction = program.instructions[static_cast<size_t>(w.instruction)];
    const bool in_loop = w.instruction >= program.loop_begin && w.instruction < program.loop_end;
    // Not before its inputs are there, nor across the loop's ends.
    int earliest = w.earliest;
    for (BufferId id : instruction.inputs) earliest = std::max(earliest, lives.writer(id) + 1);
    if (in_loop) earliest = std::max(earliest, program.loop_begin);
    if (w.instruction >= program.loop_end) earliest = std::max(earliest, program.loop_end);
    const int latest = in_loop ? std::min(w.latest, program.loop_end) : w.latest;
    for (BufferId id : instruction.outputs) {
      by_collective[id.index()] = true;
      Life& life = held[id.index()];
      life.first = std::min(life.first, std::min(earliest, w.instruction));
    }
    for (BufferId id : instruction.inputs) {
      Life& life = held[id.index()];
      life.last = std::max(life.last, std::min(latest - 1, count));
    }
  }

  std::vector<std::vector<size_t>> begin(static_cast<size_t>(count) + 1);
  std::vector<std::vector<size_t>> end(static_cast<size_t>(count) + 1);
  for (size_t b = 0; b < held.size(); ++b) {
    if (held[b].alias) continue;
    begin[static_cast<size_t>(std::clamp(held[b].first, 0, count))].push_back(b);
    end[static_cast<size_t>(std::clamp(held[b].last, 0, count))].push_back(b);
  }
  MemoryReport report;
  std::array<int64_t, kKindNames.size()> use{};
  int64_t total = 0;
  const auto add = [&](size_t b, int64_t sign) {
    const Buffer& buffer = program.buffers[b];
    const bool source = lives.writer(BufferId(static_cast<int64_t>(b))) < 0;
    use[KindOf(buffer.role, by_collective[b], source)] += sign * buffer.bytes;
    total += sign * buffer.bytes;
    if (sign > 0 && source && IsResident(buffer.role)) report.resident_bytes += buffer.bytes;
  };
  for (int i = 0; i <= count; ++i) {
    for (size_t b : begin[static_cast<size_t>(i)]) add(b, 1);
    if (i < count) report.live_bytes.push_back(total);
    if (total > report.peak_bytes) {
      report.peak_bytes = total;
      report.peak_instruction = i;
      for (size_t k = 0; k < use.size(); ++k) report.at_peak[kKindNames[k]] = use[k];
    }
    for (size_t b : end[static_cast<size_t>(i)]) add(b, -1);
  }
  return report;
}

}  // namespace tandem
