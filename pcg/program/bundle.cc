#include "pcg/program/bundle.h"

#include <algorithm>
#include <map>
#include <tuple>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "pcg/program/program_liveness.h"

namespace tandem {
namespace {

int64_t BytesOf(const Program& program, const Instruction& code) {
  int64_t read = 0, written = 0;
  for (BufferId id : code.inputs) read += program.buffer(id).bytes;
  for (BufferId id : code.outputs) written += program.buffer(id).bytes;
  return std::max(read, written);
}

// Where values are made and first read, in kernels issued before.
class Use {
 public:
  explicit Use(const Program& program)
      : made_(program.buffers.size(), kNever), read_(program.buffers.size(), -kNever) {
    int kernels = 0;
    for (const Instruction& code : program.instructions) {
      if (code.kind == InstructionKind::kFree) continue;
      for (BufferId id : code.inputs) {
        read_[id.index()] = std::min(read_[id.index()], kernels);
      }
      if (code.kind == InstructionKind::kStoreState) continue;
      if (code.kind == InstructionKind::kKernel) ++kernels;
      for (BufferId id : code.outputs) made_[id.index()] = kernels;
    }
  }

  // Kernels wait for it: what it reads has just been made, and what it writes is read at once.
  bool Urgent(const Instruction& code) const {
    const int made = made_[code.inputs[0].index()];
    const int read = read_[code.outputs[0].index()];
    return read - made < kSlackKernels;
  }

 private:
  static constexpr int kNever = -(1 << 28);
  // Fewer kernels than this are too little time for anything to join, or to hide what it takes.
  static constexpr int kSlackKernels = 4;
  std::vector<int> made_, read_;
};

// One sweep over a stretch of instructions. `forward`: in issue order, collectives are held back
// and join later ones. Else in reverse, and they join earlier ones.
class Sweep {
 public:
  Sweep(const Program& program, const Use& use, int64_t bundle_bytes, bool forward)
      : program_(program), use_(use), bundle_bytes_(bundle_bytes), forward_(forward) {}

  // `stretch` in the direction of the sweep; so is the result.
  std::vector<Instruction> Run(std::vector<Instruction> stretch) {
    for (Instruction& code : stretch) {
      Close(code);
      if (Joins(code)) {
        Join(std::move(code));
      } else {
        done_.push_back(std::move(code));
      }
    }
    for (Open& open : open_) Put(open);
    return std::move(done_);
  }

 private:
  struct Open {
    Instruction code;
    int64_t bytes = 0;
    bool closed = false;
  };

  static bool Alike(const Instruction& a, const Instruction& b) {
    return a.step == b.step && a.axes == b.axes && a.combiner == b.combiner;
  }

  bool Joins(const Instruction& code) const {
    if (code.kind != InstructionKind::kCollective || BytesOf(program_, code) >= bundle_bytes_) {
      return false;
    }
    if (!forward_) return code.step == StepKind::kAllGather && !use_.Urgent(code);
    return (code.step == StepKind::kAllReduce || code.step == StepKind::kReduceScatter) &&
           !use_.Urgent(code);
  }

  // Bundles that may not be moved past `code` end here.
  void Close(const Instruction& code) {
    const std::vector<BufferId>& touched = forward_ ? code.inputs : code.outputs;
    for (Open& open : open_) {
      if (open.closed) continue;
      const std::vector<BufferId>& held = forward_ ? open.code.outputs : open.code.inputs;
      const bool meets = std::any_of(touched.begin(), touched.end(), [&](BufferId id) {
        return std::find(held.begin(), held.end(), id) != held.end();
      });
      if (meets) Put(open);
    }
  }

  void Join(Instruction code) {
    const int64_t bytes = BytesOf(program_, code);
    const DType type = program_.buffer(code.inputs[0]).dtype;
    for (Open& open : open_) {
      if (open.closed || !Alike(open.code, code) ||
          program_.buffer(open.code.inputs[0]).dtype != type) {
        continue;
      }
      open.code.inputs.insert(open.code.inputs.end(), code.inputs.begin(), code.inputs.end());
      open.code.outputs.insert(open.code.outputs.end(), code.outputs.begin(), code.outputs.end());
      open.bytes += bytes;
      if (open.bytes >= bundle_bytes_) Put(open);
      return;
    }
    open_.push_back({std::move(code), bytes, false});
  }

  void Put(Open& open) {
    if (open.closed) return;
    open.closed = true;
    if (open.code.inputs.size() > 1) {
      if (!forward_) {  // back in issue order
        std::reverse(open.code.inputs.begin(), open.code.inputs.end());
        std::reverse(open.code.outputs.begin(), open.code.outputs.end());
      }
      const std::string& first = program_.buffer(open.code.inputs[0]).name;
      open.code.name = absl::StrCat(StepKindName(open.code.step), " ", first, " and ",
                                    open.code.inputs.size() - 1, " more");
    }
    done_.push_back(std::move(open.code));
  }

  const Program& program_;
  const Use& use_;
  const int64_t bundle_bytes_;
  const bool forward_;
  std::vector<Open> open_;
  std::vector<Instruction> done_;
};

}  // namespace

Program Bundled(const Program& program, int64_t bundle_bytes) {
  if (bundle_bytes <= 0) return program;
  Program result = program;
  result.instructions.clear();
  const Use use(program);
  const int count = static_cast<int>(program.instructions.size());
  const int ends[] = {0, program.loop_begin, program.loop_end, count};
  for (int part = 0; part < 3; ++part) {
    std::vector<Instruction> stretch;
    for (int i = ends[part]; i < ends[part + 1]; ++i) {
      const Instruction& code = program.instructions[static_cast<size_t>(i)];
      if (code.kind != InstructionKind::kFree) stretch.push_back(code);
    }
    stretch = Sweep(program, use, bundle_bytes, /*forward=*/true).Run(std::move(stretch));
    std::reverse(stretch.begin(), stretch.end());
    stretch = Sweep(program, use, bundle_bytes, /*forward=*/false).Run(std::move(stretch));
    std::reverse(stretch.begin(), stretch.end());
    if (part == 1) result.loop_begin = static_cast<int>(result.instructions.size());
    result.instructions.insert(result.instructions.end(), std::make_move_iterator(stretch.begin()),
                               std::make_move_iterator(stretch.end()));
    if (part == 1) result.loop_end = static_cast<int>(result.instructions.size());
  }
  AddFrees(result);
  return result;
}

}  // namespace tandem
