// Errors of the CUDA libraries as Status: the one boundary where they change form.
#ifndef TANDEM_RUNTIME_CUDA_CUDA_STATUS_H_
#define TANDEM_RUNTIME_CUDA_CUDA_STATUS_H_

#include <cublasLt.h>
#include <cuda_runtime.h>
#include <nccl.h>
#include <nvrtc.h>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"

namespace tandem {

inline absl::Status CudaStatus(cudaError_t error, absl::string_view what) {
  if (error == cudaSuccess) return absl::OkStatus();
  const std::string message = absl::StrCat(what, ": ", cudaGetErrorString(error));
  return error == cudaErrorMemoryAllocation ? absl::ResourceExhaustedError(message)
                                            : absl::InternalError(message);
}

inline absl::Status CudaStatus(cublasStatus_t status, absl::string_view what) {
  if (status == CUBLAS_STATUS_SUCCESS) return absl::OkStatus();
  return absl::InternalError(absl::StrCat(what, ": cuBLASLt status ", static_cast<int>(status)));
}

inline absl::Status CudaStatus(ncclResult_t result, absl::string_view what) {
  if (result == ncclSuccess) return absl::OkStatus();
  return absl::InternalError(absl::StrCat(what, ": ", ncclGetErrorString(result)));
}

inline absl::Status CudaStatus(nvrtcResult result, absl::string_view what) {
  if (result == NVRTC_SUCCESS) return absl::OkStatus();
  return absl::InternalError(absl::StrCat(what, ": ", nvrtcGetErrorString(result)));
}

}  // namespace tandem

#endif  // TANDEM_RUNTIME_CUDA_CUDA_STATUS_H_
