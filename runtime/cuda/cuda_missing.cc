// Stands in for the cuda back end where it was not built in.
#include "runtime/backend.h"

namespace tandem {

absl::StatusOr<std::unique_ptr<Backend>> CreateCudaBackend() {
  return absl::FailedPreconditionError(
      "this tandem was built without the cuda back end; install the CUDA toolkit (cudart, cuBLAS, "
      "cuDNN, NCCL, NVRTC) and build with `bazel build --config=cuda //tools:tandem`, or use "
      "--backend cpu");
}

}  // namespace tandem
