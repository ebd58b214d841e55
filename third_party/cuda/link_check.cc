// Builds and links against every library of the CUDA toolkit that the executor uses, and prints
// their versions. Building it is the check; it runs without a GPU, as none of these calls needs
// one.

#include <cublasLt.h>
#include <cuda_bf16.h>
#include <cuda_fp16.h>
#include <cuda_runtime.h>
#include <cudnn.h>
#include <nccl.h>
#include <nvrtc.h>

#include <cstdio>

int main() {
  int runtime = 0;
  int nccl = 0;
  int nvrtc_major = 0;
  int nvrtc_minor = 0;
  const bool ok = cudaRuntimeGetVersion(&runtime) == cudaSuccess &&
                  ncclGetVersion(&nccl) == ncclSuccess &&
                  nvrtcVersion(&nvrtc_major, &nvrtc_minor) == NVRTC_SUCCESS;
  std::printf("cudart %d, cublasLt %zu, cudnn %zu, nccl %d, nvrtc %d.%d\n", runtime,
              cublasLtGetVersion(), cudnnGetVersion(), nccl, nvrtc_major, nvrtc_minor);
  return ok ? 0 : 1;
}
