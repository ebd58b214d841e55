#include "pcg/program/program_interpreter.h"

#include <cmath>
#include <optional>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "pcg/layout/step_data.h"
#include "pcg/program/program_liveness.h"

namespace tandem {
namespace {

using Values = std::vector<double>;

class Machine {
 public:
  Machine(const Graph& graph, const Program& program)
      : graph_(graph),
        program_(program),
        mesh_(program.mesh),
        kept_(KeptBuffers(program)),
        memory_(static_cast<size_t>(mesh_.Devices())) {
    for (auto& device : memory_) device.resize(program.buffers.size());
  }

  absl::StatusOr<std::map<TensorId, HostTensor>> Run(
      const std::map<TensorId, HostTensor>& sources) {
    if (absl::Status s = Load(sources); !s.ok()) return s;
    const int end = static_cast<int>(program_.instructions.size());
    if (absl::Status s = Section(0, program_.loop_begin); !s.ok()) return s;
    for (micro_ = 0; micro_ < mesh_.MicroBatches(); ++micro_) {
      if (absl::Status s = Section(program_.loop_begin, program_.loop_end); !s.ok()) return s;
    }
    micro_ = 0;
    if (absl::Status s = Section(program_.loop_end, end); !s.ok()) return s;
    for (size_t b = 0; b < program_.buffers.size(); ++b) {
      if (!kept_[b] && memory_[0][b]) {
        return absl::InternalError(
            absl::StrCat("buffer \"", program_.buffers[b].name, "\" is never freed"));
      }
    }
    return Results();
  }

 private:
  std::vector<int64_t> Coords(int64_t device) const {
    std::vector<int64_t> coords = mesh_.Coordinates(device);
    if (mesh_.TemporalAxis() >= 0) coords[static_cast<size_t>(mesh_.TemporalAxis())] = micro_;
    return coords;
  }
  std::optional<Values>& At(int64_t device, BufferId buffer) {
    return memory_[static_cast<size_t>(device)][buffer.index()];
  }
  const FactoredShape& ShapeOf(BufferId buffer) const {
    return graph_.tensor(program_.buffer(buffer).tensor).shape;
  }

  // Sources are the buffers that nothing writes.
  absl::Status Load(const std::map<TensorId, HostTensor>& sources) {
    std::vector<bool> written(program_.buffers.size(), false);
    for (const Instruction& code : program_.instructions) {
      if (code.kind == InstructionKind::kStoreState) continue;
      for (BufferId output : code.outputs) written[output.index()] = true;
    }
    for (size_t b = 0; b < program_.buffers.size(); ++b) {
      if (written[b]) continue;
      const Buffer& buffer = program_.buffers[b];
      const Tensor& tensor = graph_.tensor(buffer.tensor);
      const auto given = sources.find(buffer.tensor);
      const Values& whole = given != sources.end() ? given->second.data : tensor.values;
      if (static_cast<int64_t>(whole.size()) != ElementCount(tensor.shape)) {
        return absl::InvalidArgumentError(absl::StrCat("source \"", tensor.name, "\" has ",
                                                       whole.size(), " values, its shape ",
                                                       ElementCount(tensor.shape)));
      }
      for (int64_t d = 0; d < mesh_.Devices(); ++d) {
        Values local;
        for (int64_t i : PieceIndices(tensor.shape, buffer.layout, mesh_, Coords(d))) {
          local.push_back(whole[static_cast<size_t>(i)]);
        }
        memory_[static_cast<size_t>(d)][b] = std::move(local);
      }
    }
    return absl::OkStatus();
  }

  absl::Status Section(int begin, int end) {
    for (int i = begin; i < end; ++i) {
      const Instruction& code = program_.instructions[static_cast<size_t>(i)];
      for (BufferId input : code.inputs) {
        if (At(0, input)) continue;
        return absl::InternalError(absl::StrCat("instruction ", i, " \"", code.name,
                                                "\" needs buffer \"", program_.buffer(input).name,
                                                "\", which is not there"));
      }
      if (absl::Status s = Execute(code); !s.ok()) {
        return absl::Status(s.code(), absl::StrCat("instruction ", i, " \"", code.name,
                                                   "\": ", std::string(s.message())));
      }
    }
    return absl::OkStatus();
  }

  absl::Status Execute(const Instruction& code) {
    switch (code.kind) {
      case InstructionKind::kKernel:
        return Kernel(code);
      case InstructionKind::kCollective:
      case InstructionKind::kLocal:
      case InstructionKind::kLoop:
        for (size_t i = 0; i < code.inputs.size(); ++i) {
          Move(code, code.inputs[i], code.outputs[i]);
        }
        return absl::OkStatus();
      case InstructionKind::kFree:
        for (BufferId input : code.inputs) {
          for (int64_t d = 0; d < mesh_.Devices(); ++d) At(d, input).reset();
        }
        return absl::OkStatus();
      case InstructionKind::kStoreState:
        return absl::OkStatus();  // at the step's end: Results
    }
    return absl::InternalError("unknown instruction");
  }

  absl::Status Kernel(const Instruction& code) {
    absl::StatusOr<OpInstance> op = InstanceOf(graph_, code.node);
    if (!op.ok()) return op.status();
    for (int64_t d = 0; d < mesh_.Devices(); ++d) {
      const std::vector<int64_t> coords = Coords(d);
      PieceOfOp piece;
      for (size_t s = 0; s < op->sizes.size(); ++s) {
        int64_t extent = op->sizes[s].extent;
        int64_t at = 0;
        for (int a : code.size_axes[s]) {
          const MeshAxis& axis = mesh_.axes[static_cast<size_t>(a)];
          extent /= axis.extent;
          at = at * axis.extent + coords[static_cast<size_t>(a)];
        }
        piece.extents.push_back(extent);
        piece.offsets.push_back(at * extent);
      }
      std::vector<HostTensor> inputs;
      std::vector<const HostTensor*> pointers;
      for (size_t i = 0; i < code.inputs.size(); ++i) {
        HostTensor input;
        for (const auto& dim : op->input(static_cast<int>(i)).dims) {
          int64_t extent = 1;
          for (int size : dim) extent *= piece.extents[static_cast<size_t>(size)];
          input.shape.push_back(extent);
        }
        input.data = *At(d, code.inputs[i]);
        inputs.push_back(std::move(input));
      }
      for (const HostTensor& input : inputs) pointers.push_back(&input);
      absl::StatusOr<std::vector<HostTensor>> outputs = Evaluate(*op, pointers, piece);
      if (!outputs.ok()) return outputs.status();
      for (size_t o = 0; o < code.outputs.size(); ++o) {
        At(d, code.outputs[o]) = std::move((*outputs)[o].data);
      }
    }
    return absl::OkStatus();
  }

  void Move(const Instruction& code, BufferId from, BufferId to) {
    const ReshardStep step{code.step, code.axes, program_.buffer(from).layout,
                           program_.buffer(to).layout};
    const bool keeps = code.kind == InstructionKind::kLoop && micro_ > 0;
    std::vector<Values> results;
    for (int64_t d = 0; d < mesh_.Devices(); ++d) {
      const bool alone = code.kind == InstructionKind::kLoop || code.step == StepKind::kUnstack;
      const std::vector<int64_t> group =
          alone ? std::vector<int64_t>{d} : mesh_.Group(d, code.axes);
      const auto elements = static_cast<size_t>(ElementCount(program_.buffer(to).local_shape));
      const double rest = code.step == StepKind::kKeepFirst ? Neutral(code.combiner) : std::nan("");
      Values result = keeps ? *At(d, to) : Values(elements, rest);
      std::vector<bool> written(elements, keeps);
      for (const BlockCopy& block : StepCopies(ShapeOf(from), mesh_, step, Coords(d))) {
        const Values& source = *At(group[static_cast<size_t>(block.rank)], from);
        ForEachElement(block, [&](int64_t s, int64_t t) {
          const auto at = static_cast<size_t>(t);
          const double value = source[static_cast<size_t>(s)];
          result[at] = Combines(code.step) && written[at]
                           ? Combine(code.combiner, result[at], value)
                           : value;
          written[at] = true;
        });
      }
      results.push_back(std::move(result));
    }
    for (int64_t d = 0; d < mesh_.Devices(); ++d)
      At(d, to) = std::move(results[static_cast<size_t>(d)]);
  }

  absl::StatusOr<std::map<TensorId, HostTensor>> Results() {
    std::map<TensorId, HostTensor> results;
    std::vector<std::pair<TensorId, BufferId>> wanted;
    for (BufferId output : program_.outputs) {
      wanted.emplace_back(program_.buffer(output).tensor, output);
    }
    if (program_.loss.valid())
      wanted.emplace_back(program_.buffer(program_.loss).tensor, program_.loss);
    for (const Instruction& code : program_.instructions) {
      if (code.kind != InstructionKind::kStoreState) continue;
      wanted.emplace_back(program_.buffer(code.outputs[0]).tensor, code.inputs[0]);
    }
    for (const auto& [tensor, buffer] : wanted) {
      absl::StatusOr<HostTensor> whole = Assemble(buffer);
      if (!whole.ok()) return whole.status();
      results[tensor] = *std::move(whole);
    }
    return results;
  }

  absl::StatusOr<HostTensor> Assemble(BufferId buffer) {
    HostTensor whole;
    whole.shape = PlainShape(ShapeOf(buffer));
    whole.data.resize(static_cast<size_t>(ElementCount(ShapeOf(buffer))));
    std::vector<bool> set(whole.data.size(), false);
    for (int64_t d = 0; d < mesh_.Devices(); ++d) {
      const std::vector<int64_t> indices =
          PieceIndices(ShapeOf(buffer), program_.buffer(buffer).layout, mesh_, Coords(d));
      const std::optional<Values>& local = At(d, buffer);
      if (!local || local->size() != indices.size()) {
        return absl::InternalError(absl::StrCat("buffer \"", program_.buffer(buffer).name,
                                                "\" is not the piece it claims to be"));
      }
      for (size_t i = 0; i < indices.size(); ++i) {
        const auto at = static_cast<size_t>(indices[i]);
        const double value = (*local)[i];
        if (set[at] && whole.data[at] != value &&
            !(std::isnan(value) && std::isnan(whole.data[at]))) {
          return absl::InternalError(absl::StrCat("copies of \"", program_.buffer(buffer).name,
                                                  "\" differ on device ", d, ": ", value, " and ",
                                                  whole.data[at]));
        }
        whole.data[at] = value;
        set[at] = true;
      }
    }
    return whole;
  }

  const Graph& graph_;
  const Program& program_;
  const Mesh& mesh_;
  const std::vector<bool> kept_;
  std::vector<std::vector<std::optional<Values>>> memory_;  // [device][buffer]
  int64_t micro_ = 0;
};

}  // namespace

absl::StatusOr<std::map<TensorId, HostTensor>> ExecuteProgram(
    const Graph& graph, const Program& program, const std::map<TensorId, HostTensor>& sources) {
  return Machine(graph, program).Run(sources);
}

}  // namespace tandem
