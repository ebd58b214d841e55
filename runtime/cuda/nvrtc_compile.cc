#include "runtime/cuda/nvrtc_compile.h"

#include <vector>

#include "runtime/cuda/cuda_status.h"

namespace tandem {
namespace {

struct Program {
  nvrtcProgram handle = nullptr;
  ~Program() {
    if (handle != nullptr) nvrtcDestroyProgram(&handle);
  }
};

std::string LogOf(nvrtcProgram program) {
  size_t size = 0;
  if (nvrtcGetProgramLogSize(program, &size) != NVRTC_SUCCESS || size == 0) return "";
  std::string log(size, '\0');
  if (nvrtcGetProgramLog(program, log.data()) != NVRTC_SUCCESS) return "";
  log.resize(size - 1);  // a final 0
  return log;
}

}  // namespace

absl::StatusOr<std::string> CompileToCubin(const std::string& source,
                                           const std::string& architecture) {
  Program program;
  if (absl::Status s = CudaStatus(
          nvrtcCreateProgram(&program.handle, source.c_str(), "kernel.cu", 0, nullptr, nullptr),
          "NVRTC");
      !s.ok()) {
    return s;
  }
  const std::string target = absl::StrCat("--gpu-architecture=", architecture);
  const std::vector<const char*> options = {target.c_str(), "--std=c++17"};
  const nvrtcResult compiled =
      nvrtcCompileProgram(program.handle, static_cast<int>(options.size()), options.data());
  if (compiled != NVRTC_SUCCESS) {
    return absl::InvalidArgumentError(absl::StrCat("NVRTC for ", architecture, ": ",
                                                   nvrtcGetErrorString(compiled), "\n",
                                                   LogOf(program.handle)));
  }
  size_t size = 0;
  if (absl::Status s = CudaStatus(nvrtcGetCUBINSize(program.handle, &size), "NVRTC"); !s.ok()) {
    return s;
  }
  std::string cubin(size, '\0');
  if (absl::Status s = CudaStatus(nvrtcGetCUBIN(program.handle, cubin.data()), "NVRTC"); !s.ok()) {
    return s;
  }
  return cubin;
}

}  // namespace tandem
