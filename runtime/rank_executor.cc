#include "runtime/rank_executor.h"

#include <algorithm>
#include <chrono>
#include <utility>

#include "absl/strings/str_cat.h"
#include "pcg/instance/op_analysis.h"
#include "runtime/index_use.h"

namespace tandem {
namespace {

double Now() {
  return std::chrono::duration<double>(std::chrono::steady_clock::now().time_since_epoch()).count();
}

size_t Index(int64_t i) { return static_cast<size_t>(i); }

}  // namespace

template <typename T>
RankExecutor<T>::RankExecutor(const Graph& graph, const Program& program,
                              const ProgramInstances& instances, const Sources& sources,
                              int64_t device)
    : graph_(graph),
      program_(program),
      instances_(instances),
      sources_(sources),
      device_(device),
      buffers_(program.buffers.size()),
      source_(program.buffers.size(), true),
      prepared_(program.instructions.size()) {
  for (size_t i = 0; i < program.instructions.size(); ++i) {
    const Instruction& code = program.instructions[i];
    if (code.kind == InstructionKind::kStoreState) {
      stores_.push_back(i);
      continue;
    }
    for (BufferId output : code.outputs) source_[output.index()] = false;
  }
  // What is read from a stored value comes before that value is replaced.
  std::stable_partition(stores_.begin(), stores_.end(), [&](size_t at) {
    return source_[program.instructions[at].inputs[0].index()];
  });
}

template <typename T>
int64_t RankExecutor<T>::Elements(BufferId buffer) const {
  return ElementCount(program_.buffer(buffer).local_shape);
}

template <typename T>
absl::Status RankExecutor<T>::Missing(BufferId buffer) const {
  return absl::FailedPreconditionError(
      absl::StrCat("needs buffer '", program_.buffer(buffer).name,
                   "', which is not there; the plan is damaged: see tandem verify"));
}

template <typename T>
std::vector<int64_t> RankExecutor<T>::Indices(BufferId buffer) const {
  const Buffer& b = program_.buffer(buffer);
  return PieceIndices(graph_.tensor(b.tensor).shape, b.layout, program_.mesh,
                      program_.mesh.Coordinates(device_));
}

template <typename T>
void RankExecutor<T>::FillSource(size_t buffer, int64_t step) {
  const BufferId id(static_cast<int64_t>(buffer));
  typename BufferPool<T>::Block& block = buffers_[buffer];
  if (!block.alive()) block = pool_.Take(Elements(id));
  sources_.Fill(graph_.tensor(program_.buffer(id).tensor).name, Indices(id), step, block.data());
}

template <typename T>
absl::Status RankExecutor<T>::Prepare(const CommunicatorFactory& join,
                                      const BeforeInstruction& before) {
  for (size_t i = 0; i < program_.instructions.size(); ++i) {
    const Instruction& code = program_.instructions[i];
    if (absl::Status s = before(0, static_cast<int>(i)); !s.ok()) return s;
    absl::Status status;
    switch (code.kind) {
      case InstructionKind::kKernel:
        status = PrepareKernel(i);
        break;
      case InstructionKind::kCollective:
      case InstructionKind::kLocal:
      case InstructionKind::kLoop:
        status = PrepareMove(i, join);
        break;
      case InstructionKind::kFree:
      case InstructionKind::kStoreState:
        break;
    }
    if (!status.ok()) return status;
  }
  for (size_t b = 0; b < buffers_.size(); ++b) {
    if (source_[b]) FillSource(b, 1);
  }
  return absl::OkStatus();
}

template <typename T>
absl::Status RankExecutor<T>::PrepareKernel(size_t at) {
  const Instruction& code = program_.instructions[at];
  const OpInstance& op = *instances_[at];
  const Mesh& mesh = program_.mesh;
  std::vector<int64_t> mesh_extents;
  for (const MeshAxis& axis : mesh.axes) mesh_extents.push_back(axis.extent);
  std::vector<int64_t> coords = mesh.Coordinates(device_);
  Prepared& prepared = prepared_[at];
  std::string first_key;
  for (int64_t m = 0; m < mesh.MicroBatches(); ++m) {
    if (m > 0) coords[Index(mesh.TemporalAxis())] = m;
    const PieceOfOp piece = PieceAt(op, code.size_axes, mesh_extents, coords);
    const std::string key = KernelKey(op, piece);
    if (m > 0 && key == first_key) break;  // the same in every micro-batch
    if (m == 0) first_key = key;
    std::unique_ptr<Kernel<T>>& kernel = kernels_[key];
    if (kernel == nullptr) {
      absl::StatusOr<std::unique_ptr<Kernel<T>>> made = Kernel<T>::Prepare(op, piece);
      if (!made.ok()) return made.status();
      kernel = *std::move(made);
    }
    prepared.kernels.push_back(kernel.get());
  }
  const std::vector<int64_t> no_bytes_in(code.inputs.size(), 0), no_bytes_out(code.outputs.size());
  prepared.category = OpClassName(AnalyzeOp(op, {}, no_bytes_in, no_bytes_out).kind);
  return absl::OkStatus();
}

template <typename T>
absl::Status RankExecutor<T>::PrepareMove(size_t at, const CommunicatorFactory& join) {
  const Instruction& code = program_.instructions[at];
  std::vector<int> members;
  if (code.kind == InstructionKind::kCollective) {
    for (int64_t d : program_.mesh.Group(device_, code.axes)) {
      members.push_back(static_cast<int>(d));
    }
  }
  Instruction one = code;
  for (size_t i = 0; i < code.inputs.size(); ++i) {
    one.inputs = {code.inputs[i]};
    one.outputs = {code.outputs[i]};
    std::unique_ptr<Communicator> communicator;
    if (code.kind == InstructionKind::kCollective) {
      absl::StatusOr<std::unique_ptr<Communicator>> joined = join(members);
      if (!joined.ok()) return joined.status();
      communicator = *std::move(joined);
    }
    const FactoredShape& shape = graph_.tensor(program_.buffer(code.inputs[i]).tensor).shape;
    absl::StatusOr<StepMover<T>> mover =
        StepMover<T>::Prepare(shape, program_, one, device_, std::move(communicator));
    if (!mover.ok()) return mover.status();
    prepared_[at].movers.push_back(*std::move(mover));
  }
  prepared_[at].category = StepKindName(code.step);
  return absl::OkStatus();
}

template <typename T>
absl::Status RankExecutor<T>::Execute(size_t at, int64_t micro_batch) {
  const Instruction& code = program_.instructions[at];
  if (code.kind == InstructionKind::kStoreState) return absl::OkStatus();  // at the step's end
  for (BufferId input : code.inputs) {
    if (buffers_[input.index()].alive()) continue;
    return Missing(input);
  }
  if (code.kind == InstructionKind::kFree) {
    for (BufferId input : code.inputs) {
      const BufferRole role = program_.buffer(input).role;
      if (source_[input.index()] &&
          (role == BufferRole::kParameter || role == BufferRole::kState)) {
        return absl::FailedPreconditionError(
            absl::StrCat("frees '", program_.buffer(input).name,
                         "', whose stored value the next step needs; the plan is damaged: see "
                         "tandem verify"));
      }
      pool_.Give(buffers_[input.index()]);
    }
    return absl::OkStatus();
  }
  for (BufferId output : code.outputs) {
    auto& block = buffers_[output.index()];
    if (!block.alive()) block = pool_.Take(Elements(output));
  }
  Prepared& prepared = prepared_[at];
  if (code.kind != InstructionKind::kKernel) {
    absl::Status status;
    for (size_t i = 0; i < code.inputs.size() && status.ok(); ++i) {
      status = prepared.movers[i].Run(micro_batch, data(code.inputs[i]),
                                      buffers_[code.outputs[i].index()].data(), move_scratch_);
    }
    pool_.NoteScratch(static_cast<int64_t>(move_scratch_.size()));
    return status;
  }
  std::vector<const T*> inputs;
  std::vector<T*> outputs;
  for (BufferId input : code.inputs) inputs.push_back(data(input));
  for (BufferId output : code.outputs) outputs.push_back(buffers_[output.index()].data());
  Kernel<T>& kernel = *prepared.kernels[prepared.kernels.size() > 1 ? Index(micro_batch) : 0];
  pool_.NoteScratch(kernel.scratch_elements());
  return kernel.Run(inputs, outputs, kernel_scratch_);
}

template <typename T>
absl::Status RankExecutor<T>::Step(int64_t step, const BeforeInstruction& before, double origin,
                                   Record* record) {
  // Inputs are the same in every step, but for the learning rate and the step's number.
  for (size_t b = 0; b < buffers_.size(); ++b) {
    if (!source_[b]) continue;
    const bool changes = graph_.tensor(program_.buffers[b].tensor).role == TensorRole::kStepInput;
    if (changes || !buffers_[b].alive()) FillSource(b, step);
  }
  const auto run = [&](int begin, int end, int64_t micro_batch) -> absl::Status {
    for (int i = begin; i < end; ++i) {
      const Instruction& code = program_.instructions[Index(i)];
      if (absl::Status s = before(step, i); !s.ok()) return s;
      const double start = record != nullptr ? Now() : 0;
      if (absl::Status s = Execute(Index(i), micro_batch); !s.ok()) return s;
      const bool shown =
          code.kind != InstructionKind::kFree && code.kind != InstructionKind::kStoreState;
      if (record == nullptr || !shown) continue;
      Span span;
      span.name = code.name;
      span.category = prepared_[Index(i)].category;
      span.stream =
          code.kind == InstructionKind::kCollective ? Stream::kCommunication : Stream::kCompute;
      span.device = device_;
      span.instruction = i;
      span.micro_batch = static_cast<int>(micro_batch);
      span.start_seconds = start - origin;
      span.end_seconds = Now() - origin;
      record->spans.push_back(std::move(span));
    }
    return absl::OkStatus();
  };
  const int end = static_cast<int>(program_.instructions.size());
  if (absl::Status s = run(0, program_.loop_begin, 0); !s.ok()) return s;
  for (int64_t m = 0; m < program_.mesh.MicroBatches(); ++m) {
    if (absl::Status s = run(program_.loop_begin, program_.loop_end, m); !s.ok()) return s;
  }
  if (absl::Status s = run(program_.loop_end, end, 0); !s.ok()) return s;
  std::vector<BufferId> kept = program_.outputs;
  kept.insert(kept.end(), program_.states.begin(), program_.states.end());
  if (program_.loss.valid()) kept.push_back(program_.loss);
  for (size_t at : stores_) {
    kept.push_back(program_.instructions[at].inputs[0]);
    kept.push_back(program_.instructions[at].outputs[0]);
  }
  for (BufferId buffer : kept) {
    if (!buffers_[buffer.index()].alive()) return Missing(buffer);
  }
  return absl::OkStatus();
}

template <typename T>
void RankExecutor<T>::StoreStates() {
  for (size_t at : stores_) {
    const Instruction& code = program_.instructions[at];
    const auto& from = buffers_[code.inputs[0].index()];
    std::copy(from.data(), from.data() + from.elements(), buffers_[code.outputs[0].index()].data());
  }
}

template class RankExecutor<float>;
template class RankExecutor<double>;

}  // namespace tandem
