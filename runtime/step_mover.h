// Executes one reshard step of a Program between the local buffers of a device group. Where each
// element goes is what StepCopies (pcg/layout/step_data.h) says; this packs, communicates and
// unpacks.
#ifndef TANDEM_RUNTIME_STEP_MOVER_H_
#define TANDEM_RUNTIME_STEP_MOVER_H_

#include <memory>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "pcg/layout/step_data.h"
#include "pcg/program/program.h"
#include "runtime/communicator.h"

namespace tandem {

// Prepared once for one instruction on one device. T is float or double.
template <typename T>
class StepMover {
 public:
  // `communicator`: of Mesh::Group(device, axes), null for steps that stay on the device. `shape`
  // is the logical tensor's.
  static absl::StatusOr<StepMover<T>> Prepare(const FactoredShape& shape, const Program& program,
                                              const Instruction& instruction, int64_t device,
                                              std::unique_ptr<Communicator> communicator);

  // `before` and `after` are the instruction's input and output. An accumulation starts anew in
  // micro-batch 0. `scratch` is shared between steps that run one after the other.
  absl::Status Run(int64_t micro_batch, const T* before, T* after, std::vector<T>& scratch);

 private:
  absl::Status Gather(const T* before, T* after, std::vector<T>& scratch);
  absl::Status ReduceScatter(const T* before, T* after, std::vector<T>& scratch);
  absl::Status AllToAll(const T* before, T* after, std::vector<T>& scratch);

  StepKind kind_ = StepKind::kSlice;
  Combiner combiner_ = Combiner::kSum;
  int64_t before_elements_ = 0, after_elements_ = 0;
  bool in_place_ = false;  // an all-gather whose pieces follow one another
  std::unique_ptr<Communicator> communicator_;
  std::vector<std::vector<BlockCopy>> received_;  // by micro-batch where it matters, else one entry
  std::vector<BlockCopy> sent_;                   // by receiver: what of `before` it takes
};

extern template class StepMover<float>;
extern template class StepMover<double>;

}  // namespace tandem

#endif  // TANDEM_RUNTIME_STEP_MOVER_H_
