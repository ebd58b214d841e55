// Collectives between GPUs through NCCL. Calls are queued on one stream.
#ifndef TANDEM_RUNTIME_CUDA_NCCL_COMMUNICATOR_H_
#define TANDEM_RUNTIME_CUDA_NCCL_COMMUNICATOR_H_

#include <cuda_runtime.h>
#include <nccl.h>

#include <memory>
#include <string>

#include "absl/status/statusor.h"
#include "runtime/communicator.h"

namespace tandem {

// What rank 0 makes and every rank joins with.
absl::StatusOr<std::string> NewNcclId();

// The calling thread's current device is the rank's. Waits for all ranks.
absl::StatusOr<std::unique_ptr<Communicator>> JoinNccl(cudaStream_t stream, int rank, int size,
                                                       const std::string& id);

}  // namespace tandem

#endif  // TANDEM_RUNTIME_CUDA_NCCL_COMMUNICATOR_H_
