// One rank: its buffers, its prepared kernels and steps, and the loop over instructions. Single
// threaded; talks to the other ranks through communicators only.
//
// Memory: a buffer exists from the instruction that writes it to its kFree. Sources' stored values
// stay; inputs are filled again each step. peak_bytes counts live buffers and the scratch of
// kernels and collectives.
#ifndef TANDEM_RUNTIME_RANK_EXECUTOR_H_
#define TANDEM_RUNTIME_RANK_EXECUTOR_H_

#include <functional>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "pcg/graph/graph.h"
#include "pcg/io/record.h"
#include "pcg/program/program.h"
#include "runtime/buffer_pool.h"
#include "runtime/kernel.h"
#include "runtime/program_instances.h"
#include "runtime/sources.h"
#include "runtime/step_mover.h"

namespace tandem {

// Gives the communicator of a group of devices.
using CommunicatorFactory =
    std::function<absl::StatusOr<std::unique_ptr<Communicator>>(const std::vector<int>& members)>;

template <typename T>
class RankExecutor {
 public:
  // Called before each instruction of a step: says where the rank is, and may stop it.
  using BeforeInstruction = std::function<absl::Status(int64_t step, int instruction)>;

  // All by reference, and to outlive the executor. The Program is one that CheckExecutable passes.
  RankExecutor(const Graph& graph, const Program& program, const ProgramInstances& instances,
               const Sources& sources, int64_t device);

  // Compiles kernels, joins groups, fills parameters and states.
  absl::Status Prepare(const CommunicatorFactory& join, const BeforeInstruction& before);
  // One training step, from 1, but for StoreStates: an output may be a state's value before it is
  // replaced. With `record`, spans are added to it, seconds since `origin`.
  absl::Status Step(int64_t step, const BeforeInstruction& before, double origin, Record* record);
  // Ends a step that succeeded: the next values become the stored ones.
  void StoreStates();

  // The stored or last value of a buffer that a step keeps (state, output, loss), after a step.
  const T* data(BufferId buffer) const { return buffers_[buffer.index()].data(); }
  // Logical indices of a buffer's elements on this device (of micro-batch 0).
  std::vector<int64_t> Indices(BufferId buffer) const;
  int64_t peak_bytes() const { return pool_.peak_bytes(); }
  int64_t kernels() const { return static_cast<int64_t>(kernels_.size()); }

 private:
  struct Prepared {
    std::vector<Kernel<T>*> kernels;   // by micro-batch where pieces differ, else one
    std::vector<StepMover<T>> movers;  // one for each value of a step
    std::string category;
  };
  absl::Status PrepareKernel(size_t at);
  absl::Status PrepareMove(size_t at, const CommunicatorFactory& join);
  void FillSource(size_t buffer, int64_t step);
  absl::Status Execute(size_t at, int64_t micro_batch);
  int64_t Elements(BufferId buffer) const;
  absl::Status Missing(BufferId buffer) const;

  const Graph& graph_;
  const Program& program_;
  const ProgramInstances& instances_;
  const Sources& sources_;
  const int64_t device_;
  BufferPool<T> pool_;
  std::vector<typename BufferPool<T>::Block> buffers_;  // by BufferId; empty: not alive
  std::vector<bool> source_;                            // by BufferId: no instruction writes it
  std::map<std::string, std::unique_ptr<Kernel<T>>> kernels_;
  std::vector<Prepared> prepared_;  // by instruction
  std::vector<T> kernel_scratch_, move_scratch_;
  std::vector<size_t> stores_;  // kStoreState instructions
};

extern template class RankExecutor<float>;
extern template class RankExecutor<double>;

}  // namespace tandem

#endif  // TANDEM_RUNTIME_RANK_EXECUTOR_H_
