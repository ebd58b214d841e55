#include "runtime/program_instances.h"

#include <map>
#include <utility>

#include "absl/strings/str_cat.h"

namespace tandem {
namespace {

absl::Status Damaged(const std::string& where, const std::string& what) {
  return absl::InvalidArgumentError(
      absl::StrCat(where, ": ", what, "; the plan is damaged: see tandem verify"));
}

std::string Where(const Program& program, size_t at) {
  return absl::StrCat("instruction ", at, " '", program.instructions[at].name, "'");
}

InstructionKind ExecutedAs(StepKind step) {
  switch (step) {
    case StepKind::kSlice:
    case StepKind::kUnstack:
    case StepKind::kKeepFirst:
      return InstructionKind::kLocal;
    case StepKind::kAccumulate:
    case StepKind::kStack:
      return InstructionKind::kLoop;
    case StepKind::kAllGather:
    case StepKind::kAllReduce:
    case StepKind::kReduceScatter:
    case StepKind::kAllToAll:
      break;
  }
  return InstructionKind::kCollective;
}

class Checker {
 public:
  Checker(const Graph& graph, const Program& program, const ProgramInstances& instances)
      : graph_(graph), program_(program), instances_(instances) {}

  absl::Status Run() const {
    if (absl::Status s = Buffers(); !s.ok()) return s;
    for (size_t i = 0; i < program_.instructions.size(); ++i) {
      std::string wrong;
      switch (program_.instructions[i].kind) {
        case InstructionKind::kKernel:
          wrong = Kernel(program_.instructions[i], *instances_[i]);
          break;
        case InstructionKind::kCollective:
        case InstructionKind::kLocal:
        case InstructionKind::kLoop:
          wrong = Step(program_.instructions[i]);
          break;
        case InstructionKind::kStoreState:
          wrong = Store(program_.instructions[i]);
          break;
        case InstructionKind::kFree:
          break;
      }
      if (!wrong.empty()) return Damaged(Where(program_, i), wrong);
    }
    return absl::OkStatus();
  }

 private:
  int64_t Elements(BufferId id) const { return ElementCount(program_.buffer(id).local_shape); }
  const FactoredShape& ShapeOf(BufferId id) const {
    return graph_.tensor(program_.buffer(id).tensor).shape;
  }

  absl::Status Buffers() const {
    std::vector<bool> written(program_.buffers.size(), false);
    for (const Instruction& code : program_.instructions) {
      const bool writes =
          code.kind != InstructionKind::kStoreState && code.kind != InstructionKind::kFree;
      if (!writes) continue;
      for (BufferId id : code.outputs) written[id.index()] = true;
    }
    for (size_t i = 0; i < program_.buffers.size(); ++i) {
      const Buffer& b = program_.buffers[i];
      const std::string where = absl::StrCat("buffer '", b.name, "'");
      if (!b.tensor.valid()) return Damaged(where, "is of no tensor");
      const Tensor& tensor = graph_.tensor(b.tensor);
      const absl::Status legal = CheckLayout(tensor.shape, b.layout, program_.mesh);
      if (!legal.ok()) return Damaged(where, std::string(legal.message()));
      if (b.local_shape != LocalShape(tensor.shape, b.layout, program_.mesh)) {
        return Damaged(where, "has another shape than its layout says");
      }
      if (!written[i] && tensor.producer.valid()) {
        return Damaged(where, absl::StrCat("nothing writes it, and '", tensor.name,
                                           "' does not come from outside"));
      }
    }
    return absl::OkStatus();
  }

  // What is wrong; empty: nothing.
  std::string Kernel(const Instruction& code, const OpInstance& op) const {
    std::vector<int64_t> extents;
    for (size_t s = 0; s < op.sizes.size(); ++s) {
      int64_t pieces = 1;
      for (int axis : code.size_axes[s]) {
        pieces *= program_.mesh.axes[static_cast<size_t>(axis)].extent;
      }
      if (op.sizes[s].extent % pieces != 0) {
        return absl::StrCat("size ", op.sizes[s].name, " = ", op.sizes[s].extent,
                            " does not divide into ", pieces, " pieces");
      }
      extents.push_back(op.sizes[s].extent / pieces);
    }
    for (int t = 0; t < op.num_inputs + op.num_outputs; ++t) {
      const auto at = static_cast<size_t>(t < op.num_inputs ? t : t - op.num_inputs);
      const BufferId id = t < op.num_inputs ? code.inputs[at] : code.outputs[at];
      int64_t elements = 1;
      for (const auto& dim : op.tensors[static_cast<size_t>(t)].dims) {
        for (int size : dim) elements *= extents[static_cast<size_t>(size)];
      }
      if (Elements(id) != elements) {
        return absl::StrCat(op.tensors[static_cast<size_t>(t)].name, " has ", elements,
                            " elements, buffer '", program_.buffer(id).name, "' has ",
                            Elements(id));
      }
    }
    return "";
  }

  std::string Step(const Instruction& code) const {
    if (code.kind != ExecutedAs(code.step)) {
      return absl::StrCat(StepKindName(code.step), " is executed by another kind of instruction");
    }
    const bool several = code.kind == InstructionKind::kCollective;
    if (code.inputs.empty() || code.inputs.size() != code.outputs.size() ||
        (!several && code.inputs.size() != 1)) {
      return several ? "has not one output for each input" : "has not one input and output";
    }
    const bool temporal = code.kind == InstructionKind::kLoop || code.step == StepKind::kUnstack;
    if (temporal && program_.mesh.TemporalAxis() < 0) {
      return absl::StrCat(StepKindName(code.step), " without micro-batches");
    }
    for (size_t i = 0; i < code.inputs.size(); ++i) {
      if (ShapeOf(code.inputs[i]) == ShapeOf(code.outputs[i])) continue;
      return absl::StrCat("takes '", program_.buffer(code.inputs[i]).name, "' to '",
                          program_.buffer(code.outputs[i]).name, "', which has another shape");
    }
    return "";
  }

  std::string Store(const Instruction& code) const {
    if (code.inputs.size() != 1 || code.outputs.size() != 1) return "has not one input and output";
    if (Elements(code.inputs[0]) == Elements(code.outputs[0])) return "";
    return absl::StrCat("stores ", Elements(code.inputs[0]), " elements as ",
                        Elements(code.outputs[0]));
  }

  const Graph& graph_;
  const Program& program_;
  const ProgramInstances& instances_;
};

}  // namespace

absl::StatusOr<ProgramInstances> InstancesOf(const Graph& graph, const Program& program) {
  ProgramInstances instances(program.instructions.size());
  std::map<NodeId, std::shared_ptr<const OpInstance>> known;  // recomputed nodes come twice
  for (size_t i = 0; i < program.instructions.size(); ++i) {
    const Instruction& code = program.instructions[i];
    if (code.kind != InstructionKind::kKernel) continue;
    if (!code.node.valid()) return Damaged(Where(program, i), "is a kernel of no node");
    std::shared_ptr<const OpInstance>& instance = known[code.node];
    if (instance == nullptr) {
      absl::StatusOr<OpInstance> op = InstanceOf(graph, code.node);
      if (!op.ok()) return op.status();
      instance = std::make_shared<const OpInstance>(*std::move(op));
    }
    if (instance->sizes.size() != code.size_axes.size()) {
      return Damaged(Where(program, i),
                     absl::StrCat("has axes for ", code.size_axes.size(),
                                  " sizes, the operator has ", instance->sizes.size()));
    }
    if (static_cast<size_t>(instance->num_inputs) != code.inputs.size() ||
        static_cast<size_t>(instance->num_outputs) != code.outputs.size()) {
      return Damaged(Where(program, i),
                     absl::StrCat("has ", code.inputs.size(), " inputs and ", code.outputs.size(),
                                  " outputs, the operator ", instance->num_inputs, " and ",
                                  instance->num_outputs));
    }
    instances[i] = instance;
  }
  return instances;
}

absl::Status CheckExecutable(const Graph& graph, const Program& program,
                             const ProgramInstances& instances) {
  return Checker(graph, program, instances).Run();
}

}  // namespace tandem
