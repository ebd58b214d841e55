#include "runtime/step_mover.h"

#include <algorithm>
#include <type_traits>
#include <utility>

#include "absl/strings/str_cat.h"

namespace tandem {
namespace {

template <typename T>
constexpr DType kType = std::is_same_v<T, double> ? DType::kF64 : DType::kF32;

// Calls f(source offset, target offset, count, source stride, target stride) for each innermost
// run.
template <typename F>
void ForEachRun(const BlockCopy& block, F f) {
  if (block.extents.empty()) {
    f(block.source_offset, block.target_offset, 1, 1, 1);
    return;
  }
  BlockCopy outer = block;
  const int64_t count = outer.extents.back();
  const int64_t source_stride = outer.source_strides.back();
  const int64_t target_stride = outer.target_strides.back();
  outer.extents.pop_back();
  outer.source_strides.pop_back();
  outer.target_strides.pop_back();
  ForEachElement(outer, [&](int64_t source, int64_t target) {
    f(source, target, count, source_stride, target_stride);
  });
}

template <typename T>
void Copy(const BlockCopy& block, const T* from, T* to) {
  ForEachRun(block, [&](int64_t s, int64_t t, int64_t count, int64_t ds, int64_t dt) {
    if (ds == 1 && dt == 1) {
      std::copy(from + s, from + s + count, to + t);
    } else {
      for (int64_t i = 0; i < count; ++i) to[t + i * dt] = from[s + i * ds];
    }
  });
}

template <typename T>
void CombineInto(const BlockCopy& block, Combiner combiner, const T* from, T* to) {
  ForEachRun(block, [&](int64_t s, int64_t t, int64_t count, int64_t ds, int64_t dt) {
    for (int64_t i = 0; i < count; ++i) {
      T& at = to[t + i * dt];
      const T value = from[s + i * ds];
      at = combiner == Combiner::kSum   ? at + value
           : combiner == Combiner::kMax ? std::max(at, value)
                                        : std::min(at, value);
    }
  });
}

// The block with its elements one after the other on the given side.
BlockCopy Packed(BlockCopy block, bool source) {
  int64_t stride = 1;
  std::vector<int64_t>& strides = source ? block.source_strides : block.target_strides;
  for (size_t d = block.extents.size(); d-- > 0;) {
    strides[d] = stride;
    stride *= block.extents[d];
  }
  (source ? block.source_offset : block.target_offset) = 0;
  return block;
}

}  // namespace

template <typename T>
absl::StatusOr<StepMover<T>> StepMover<T>::Prepare(const FactoredShape& shape,
                                                   const Program& program,
                                                   const Instruction& instruction, int64_t device,
                                                   std::unique_ptr<Communicator> communicator) {
  const Mesh& mesh = program.mesh;
  const Buffer& before = program.buffer(instruction.inputs[0]);
  const Buffer& after = program.buffer(instruction.outputs[0]);
  const ReshardStep step = {instruction.step, instruction.axes, before.layout, after.layout};
  StepMover<T> mover;
  mover.kind_ = step.kind;
  mover.combiner_ = instruction.combiner;
  mover.before_elements_ = ElementCount(before.local_shape);
  mover.after_elements_ = ElementCount(after.local_shape);
  std::vector<int64_t> coords = mesh.Coordinates(device);
  const bool by_micro_batch = step.kind == StepKind::kStack || step.kind == StepKind::kUnstack;
  for (int64_t m = 0; m < (by_micro_batch ? mesh.MicroBatches() : 1); ++m) {
    if (by_micro_batch) coords[static_cast<size_t>(mesh.TemporalAxis())] = m;
    mover.received_.push_back(StepCopies(shape, mesh, step, coords));
  }
  if (communicator == nullptr) return mover;
  const std::vector<int64_t> group = mesh.Group(device, instruction.axes);
  const auto error = [&](const std::string& what) {
    return absl::InternalError(absl::StrCat(StepKindName(step.kind), ": ", what));
  };
  if (static_cast<int>(group.size()) != communicator->size()) return error("group of another size");
  const auto ranks = static_cast<int64_t>(group.size());
  const std::vector<BlockCopy>& received = mover.received_[0];
  switch (step.kind) {
    case StepKind::kAllReduce:
      if (mover.before_elements_ != mover.after_elements_) return error("sizes differ");
      break;
    case StepKind::kAllGather: {
      mover.in_place_ = mover.before_elements_ * ranks == mover.after_elements_;
      for (const BlockCopy& block : received) {
        const bool whole = block.Elements() == mover.before_elements_ && block.extents.size() <= 1;
        mover.in_place_ &= whole && block.target_offset == block.rank * mover.before_elements_ &&
                           (block.extents.empty() ||
                            (block.source_strides[0] == 1 && block.target_strides[0] == 1));
      }
      break;
    }
    case StepKind::kReduceScatter:
    case StepKind::kAllToAll: {
      const int64_t share = mover.after_elements_ / (step.kind == StepKind::kAllToAll ? ranks : 1);
      for (int64_t peer : group) {
        // What the peer takes from here: its block of this rank.
        for (const BlockCopy& block : StepCopies(shape, mesh, step, mesh.Coordinates(peer))) {
          if (block.rank == communicator->rank()) mover.sent_.push_back(block);
        }
      }
      const auto wrong = [&](const BlockCopy& block) { return block.Elements() != share; };
      if (static_cast<int64_t>(mover.sent_.size()) != ranks ||
          static_cast<int64_t>(received.size()) != ranks ||
          std::any_of(mover.sent_.begin(), mover.sent_.end(), wrong) ||
          std::any_of(received.begin(), received.end(), wrong)) {
        return error("the group's members do not exchange equal blocks");
      }
      break;
    }
    default:
      return error("is not a collective");
  }
  mover.communicator_ = std::move(communicator);
  return mover;
}

template <typename T>
absl::Status StepMover<T>::Gather(const T* before, T* after, std::vector<T>& scratch) {
  if (in_place_) return communicator_->AllGather(before, before_elements_, after, kType<T>);
  scratch.resize(static_cast<size_t>(before_elements_ * communicator_->size()));
  if (absl::Status s = communicator_->AllGather(before, before_elements_, scratch.data(), kType<T>);
      !s.ok()) {
    return s;
  }
  for (const BlockCopy& block : received_[0]) {
    Copy(block, scratch.data() + block.rank * before_elements_, after);
  }
  return absl::OkStatus();
}

template <typename T>
absl::Status StepMover<T>::ReduceScatter(const T* before, T* after, std::vector<T>& scratch) {
  // Each receiver's share in the order of its own buffer.
  scratch.resize(static_cast<size_t>(after_elements_ * communicator_->size()));
  for (size_t r = 0; r < sent_.size(); ++r) {
    Copy(sent_[r], before, scratch.data() + static_cast<int64_t>(r) * after_elements_);
  }
  return communicator_->ReduceScatter(scratch.data(), after_elements_, after, kType<T>, combiner_);
}

template <typename T>
absl::Status StepMover<T>::AllToAll(const T* before, T* after, std::vector<T>& scratch) {
  const int64_t share = after_elements_ / communicator_->size();
  scratch.resize(static_cast<size_t>(2 * after_elements_));
  T* const packed = scratch.data();
  T* const arrived = packed + after_elements_;
  for (size_t r = 0; r < sent_.size(); ++r) {
    Copy(Packed(sent_[r], false), before, packed + static_cast<int64_t>(r) * share);
  }
  if (absl::Status s = communicator_->AllToAll(packed, share, arrived, kType<T>); !s.ok()) return s;
  for (const BlockCopy& block : received_[0]) {
    Copy(Packed(block, true), arrived + block.rank * share, after);
  }
  return absl::OkStatus();
}

template <typename T>
absl::Status StepMover<T>::Run(int64_t micro_batch, const T* before, T* after,
                               std::vector<T>& scratch) {
  if (communicator_ != nullptr) {
    switch (kind_) {
      case StepKind::kAllReduce:
        std::copy(before, before + before_elements_, after);
        return communicator_->AllReduce(after, after_elements_, kType<T>, combiner_);
      case StepKind::kAllGather:
        return Gather(before, after, scratch);
      case StepKind::kReduceScatter:
        return ReduceScatter(before, after, scratch);
      default:
        return AllToAll(before, after, scratch);
    }
  }
  if (kind_ == StepKind::kKeepFirst && received_[0].empty()) {
    std::fill(after, after + after_elements_, static_cast<T>(Neutral(combiner_)));
  }
  const size_t at = received_.size() > 1 ? static_cast<size_t>(micro_batch) : 0;
  for (const BlockCopy& block : received_[at]) {
    if (kind_ == StepKind::kAccumulate && micro_batch > 0) {
      CombineInto(block, combiner_, before, after);
    } else {
      Copy(block, before, after);
    }
  }
  return absl::OkStatus();
}

template class StepMover<float>;
template class StepMover<double>;

}  // namespace tandem
