// The cuda back end: cudart for memory and streams, NVRTC for generated kernels, cuBLASLt for
// GEMMs, NCCL for collectives.
#include <cublasLt.h>
#include <cuda_runtime.h>
#include <cudnn.h>

#include <utility>

#include "runtime/backend.h"
#include "runtime/cuda/cuda_status.h"
#include "runtime/cuda/nccl_communicator.h"
#include "runtime/cuda/nvrtc_compile.h"

namespace tandem {
namespace {

class CudaStream : public DeviceStream {
 public:
  explicit CudaStream(cudaStream_t stream) : stream_(stream) {}
  ~CudaStream() override { cudaStreamDestroy(stream_); }
  absl::Status Synchronize() override {
    return CudaStatus(cudaStreamSynchronize(stream_), "cudaStreamSynchronize");
  }
  cudaStream_t get() const { return stream_; }

 private:
  cudaStream_t stream_;
};
cudaStream_t Get(DeviceStream& stream) { return static_cast<CudaStream&>(stream).get(); }

class CudaMemory : public DeviceMemory {
 public:
  CudaMemory(void* data, int64_t bytes) : data_(data), bytes_(bytes) {}
  ~CudaMemory() override { cudaFree(data_); }
  void* data() const override { return data_; }
  int64_t bytes() const override { return bytes_; }

 private:
  void* data_;
  int64_t bytes_;
};

class CudaKernel : public DeviceKernel {
 public:
  CudaKernel(cudaLibrary_t library, cudaKernel_t kernel) : library_(library), kernel_(kernel) {}
  ~CudaKernel() override { cudaLibraryUnload(library_); }
  absl::Status Launch(DeviceStream& stream, int64_t blocks, int threads,
                      const std::vector<void*>& arguments) override {
    std::vector<void*> pointers = arguments;
    const dim3 grid(static_cast<unsigned>(blocks)), block(static_cast<unsigned>(threads));
    return CudaStatus(cudaLaunchKernel(reinterpret_cast<const void*>(kernel_), grid, block,
                                       pointers.data(), 0, Get(stream)),
                      "cudaLaunchKernel");
  }

 private:
  cudaLibrary_t library_;
  cudaKernel_t kernel_;
};

// Descriptors of one cuBLASLt call.
struct GemmDescriptors {
  cublasLtMatmulDesc_t matmul = nullptr;
  cublasLtMatrixLayout_t a = nullptr, b = nullptr, c = nullptr;
  ~GemmDescriptors() {
    if (matmul != nullptr) cublasLtMatmulDescDestroy(matmul);
    for (cublasLtMatrixLayout_t layout : {a, b, c}) {
      if (layout != nullptr) cublasLtMatrixLayoutDestroy(layout);
    }
  }
};

struct GemmTypes {
  cudaDataType_t data = CUDA_R_32F;
  cublasComputeType_t compute = CUBLAS_COMPUTE_32F;
  cudaDataType_t scale = CUDA_R_32F;
};
absl::StatusOr<GemmTypes> TypesOf(DType type) {
  switch (type) {
    case DType::kF64:
      return GemmTypes{CUDA_R_64F, CUBLAS_COMPUTE_64F, CUDA_R_64F};
    case DType::kF32:
      return GemmTypes{};
    case DType::kTF32:
      return GemmTypes{CUDA_R_32F, CUBLAS_COMPUTE_32F_FAST_TF32, CUDA_R_32F};
    case DType::kBF16:
      return GemmTypes{CUDA_R_16BF, CUBLAS_COMPUTE_32F, CUDA_R_32F};
    case DType::kF16:
      return GemmTypes{CUDA_R_16F, CUBLAS_COMPUTE_32F, CUDA_R_32F};
    default:
      return absl::InvalidArgumentError(absl::StrCat("no GEMM of ", DTypeName(type)));
  }
}

class CudaDevice : public Device {
 public:
  CudaDevice(int device, DeviceInfo info) : device_(device), info_(std::move(info)) {}
  ~CudaDevice() override {
    if (blas_ != nullptr) cublasLtDestroy(blas_);
  }
  absl::Status Start() {
    if (absl::Status s = Select(); !s.ok()) return s;
    return CudaStatus(cublasLtCreate(&blas_), "cublasLtCreate");
  }

  const DeviceInfo& info() const override { return info_; }

  absl::StatusOr<std::unique_ptr<DeviceMemory>> Allocate(int64_t bytes) override {
    if (absl::Status s = Select(); !s.ok()) return s;
    void* data = nullptr;
    const std::string what = absl::StrCat("device ", device_, ": allocating ", bytes, " bytes");
    if (absl::Status s = CudaStatus(cudaMalloc(&data, static_cast<size_t>(bytes)), what); !s.ok()) {
      return s;
    }
    return std::unique_ptr<DeviceMemory>(new CudaMemory(data, bytes));
  }

  absl::StatusOr<std::unique_ptr<DeviceStream>> NewStream() override {
    if (absl::Status s = Select(); !s.ok()) return s;
    cudaStream_t stream = nullptr;
    if (absl::Status s = CudaStatus(cudaStreamCreateWithFlags(&stream, cudaStreamNonBlocking),
                                    "cudaStreamCreate");
        !s.ok()) {
      return s;
    }
    return std::unique_ptr<DeviceStream>(new CudaStream(stream));
  }

  absl::Status CopyIn(DeviceMemory& to, const void* from, int64_t bytes,
                      DeviceStream& stream) override {
    if (bytes > to.bytes()) return TooMany(bytes, to.bytes());
    return CudaStatus(cudaMemcpyAsync(to.data(), from, static_cast<size_t>(bytes),
                                      cudaMemcpyHostToDevice, Get(stream)),
                      "copy to device");
  }
  absl::Status CopyOut(void* to, const DeviceMemory& from, int64_t bytes,
                       DeviceStream& stream) override {
    if (bytes > from.bytes()) return TooMany(bytes, from.bytes());
    return CudaStatus(cudaMemcpyAsync(to, from.data(), static_cast<size_t>(bytes),
                                      cudaMemcpyDeviceToHost, Get(stream)),
                      "copy from device");
  }

  absl::StatusOr<std::unique_ptr<DeviceKernel>> Compile(const std::string& source,
                                                        const std::string& entry) override {
    if (absl::Status s = Select(); !s.ok()) return s;
    const absl::StatusOr<std::string> cubin = CompileToCubin(source, info_.architecture);
    if (!cubin.ok()) return cubin.status();
    cudaLibrary_t library = nullptr;
    if (absl::Status s = CudaStatus(
            cudaLibraryLoadData(&library, cubin->data(), nullptr, nullptr, 0, nullptr, nullptr, 0),
            "loading a kernel");
        !s.ok()) {
      return s;
    }
    cudaKernel_t kernel = nullptr;
    if (absl::Status s = CudaStatus(cudaLibraryGetKernel(&kernel, library, entry.c_str()), entry);
        !s.ok()) {
      cudaLibraryUnload(library);
      return s;
    }
    return std::unique_ptr<DeviceKernel>(new CudaKernel(library, kernel));
  }

  absl::Status Gemm(DeviceStream& stream, DType type, int64_t m, int64_t n, int64_t k,
                    const void* a, const void* b, void* c) override {
    const absl::StatusOr<GemmTypes> types = TypesOf(type);
    if (!types.ok()) return types.status();
    // cuBLASLt reads by columns: c' [n, m] = b' [n, k] a' [k, m].
    GemmDescriptors d;
    const auto rows = [](int64_t v) { return static_cast<uint64_t>(v); };
    absl::Status s =
        CudaStatus(cublasLtMatmulDescCreate(&d.matmul, types->compute, types->scale), "cuBLASLt");
    const auto layout = [&](cublasLtMatrixLayout_t* made, int64_t r, int64_t columns) {
      if (s.ok()) {
        s = CudaStatus(cublasLtMatrixLayoutCreate(made, types->data, rows(r), rows(columns), r),
                       "cuBLASLt");
      }
    };
    layout(&d.b, n, k), layout(&d.a, k, m), layout(&d.c, n, m);
    if (!s.ok()) return s;
    const double one_double = 1, zero_double = 0;
    const float one_float = 1, zero_float = 0;
    const bool wide = types->scale == CUDA_R_64F;
    const void* one = wide ? static_cast<const void*>(&one_double) : &one_float;
    const void* zero = wide ? static_cast<const void*>(&zero_double) : &zero_float;
    return CudaStatus(cublasLtMatmul(blas_, d.matmul, one, b, d.b, a, d.a, zero, c, d.c, c, d.c,
                                     nullptr, nullptr, 0, Get(stream)),
                      absl::StrCat("GEMM of ", m, " x ", n, " x ", k));
  }

 private:
  absl::Status Select() { return CudaStatus(cudaSetDevice(device_), "cudaSetDevice"); }
  static absl::Status TooMany(int64_t bytes, int64_t room) {
    return absl::InvalidArgumentError(absl::StrCat("copy of ", bytes, " bytes, room for ", room));
  }

  const int device_;
  const DeviceInfo info_;
  cublasLtHandle_t blas_ = nullptr;
};

class CudaBackend : public Backend {
 public:
  explicit CudaBackend(int devices) : devices_(devices) {}
  std::string name() const override { return "cuda"; }
  std::string versions() const override {
    int runtime = 0, driver = 0, nccl = 0, nvrtc_major = 0, nvrtc_minor = 0;
    cudaRuntimeGetVersion(&runtime);
    cudaDriverGetVersion(&driver);
    ncclGetVersion(&nccl);
    nvrtcVersion(&nvrtc_major, &nvrtc_minor);
    return absl::StrCat("cudart ", runtime, ", driver ", driver, ", cuBLASLt ",
                        cublasLtGetVersion(), ", cuDNN ", cudnnGetVersion(), ", NCCL ", nccl,
                        ", NVRTC ", nvrtc_major, ".", nvrtc_minor);
  }
  int devices() const override { return devices_; }

  absl::StatusOr<std::unique_ptr<Device>> Open(int device) override {
    if (device < 0 || device >= devices_) {
      return absl::InvalidArgumentError(
          absl::StrCat("no CUDA device ", device, "; there are ", devices_));
    }
    cudaDeviceProp properties;
    if (absl::Status s = CudaStatus(cudaGetDeviceProperties(&properties, device), "device");
        !s.ok()) {
      return s;
    }
    DeviceInfo info;
    info.name = properties.name;
    info.architecture = absl::StrCat("sm_", properties.major, properties.minor);
    info.memory_bytes = static_cast<int64_t>(properties.totalGlobalMem);
    info.multiprocessors = properties.multiProcessorCount;
    auto opened = std::make_unique<CudaDevice>(device, std::move(info));
    if (absl::Status s = opened->Start(); !s.ok()) return s;
    return std::unique_ptr<Device>(std::move(opened));
  }

  absl::StatusOr<std::string> UniqueId() override { return NewNcclId(); }
  absl::StatusOr<std::unique_ptr<Communicator>> Join(Device&, DeviceStream& stream, int rank,
                                                     int size, const std::string& id) override {
    return JoinNccl(Get(stream), rank, size, id);
  }

 private:
  const int devices_;
};

}  // namespace

absl::StatusOr<std::unique_ptr<Backend>> CreateCudaBackend() {
  int driver = 0;
  if (cudaDriverGetVersion(&driver) != cudaSuccess || driver == 0) {
    return absl::FailedPreconditionError(
        "the cuda back end finds no NVIDIA driver on this machine (libcuda.so.1); install one, run "
        "where there is a GPU, or use --backend cpu");
  }
  int devices = 0;
  const cudaError_t error = cudaGetDeviceCount(&devices);
  if (error != cudaSuccess || devices == 0) {
    return absl::FailedPreconditionError(
        absl::StrCat("the cuda back end finds no GPU: ", cudaGetErrorString(error),
                     " (CUDA_VISIBLE_DEVICES?); run where there is one, or use --backend cpu"));
  }
  return std::unique_ptr<Backend>(new CudaBackend(devices));
}

}  // namespace tandem
