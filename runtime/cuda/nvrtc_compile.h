// CUDA C++ text to a device image, with NVRTC. Needs no GPU.
#ifndef TANDEM_RUNTIME_CUDA_NVRTC_COMPILE_H_
#define TANDEM_RUNTIME_CUDA_NVRTC_COMPILE_H_

#include <string>

#include "absl/status/statusor.h"

namespace tandem {

// `architecture`: "sm_90". The result is a cubin. Errors carry the compiler's log.
absl::StatusOr<std::string> CompileToCubin(const std::string& source,
                                           const std::string& architecture);

}  // namespace tandem

#endif  // TANDEM_RUNTIME_CUDA_NVRTC_COMPILE_H_
