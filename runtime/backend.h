// What an executor needs of devices that have their own memory: memory, streams, kernels compiled
// from text, GEMMs, collectives. The cpu back end needs none of this (its ranks are threads and its
// memory is the process's); the cuda back end is behind this interface, in runtime/cuda.
//
// Work on one stream happens in order, and asynchronously: data must stay until Synchronize.
#ifndef TANDEM_RUNTIME_BACKEND_H_
#define TANDEM_RUNTIME_BACKEND_H_

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "pcg/dtype.h"
#include "runtime/communicator.h"

namespace tandem {

struct DeviceInfo {
  std::string name;
  std::string architecture;  // "sm_90"
  int64_t memory_bytes = 0;
  int multiprocessors = 0;
};

class DeviceStream {
 public:
  virtual ~DeviceStream() = default;
  virtual absl::Status Synchronize() = 0;
};

// Device memory, given back when it goes out of scope.
class DeviceMemory {
 public:
  virtual ~DeviceMemory() = default;
  virtual void* data() const = 0;
  virtual int64_t bytes() const = 0;
};

class DeviceKernel {
 public:
  virtual ~DeviceKernel() = default;
  // `arguments` point at the kernel's parameters, as cudaLaunchKernel wants them.
  virtual absl::Status Launch(DeviceStream& stream, int64_t blocks, int threads,
                              const std::vector<void*>& arguments) = 0;
};

class Device {
 public:
  virtual ~Device() = default;
  virtual const DeviceInfo& info() const = 0;
  virtual absl::StatusOr<std::unique_ptr<DeviceMemory>> Allocate(int64_t bytes) = 0;
  virtual absl::StatusOr<std::unique_ptr<DeviceStream>> NewStream() = 0;
  virtual absl::Status CopyIn(DeviceMemory& to, const void* from, int64_t bytes,
                              DeviceStream& stream) = 0;
  virtual absl::Status CopyOut(void* to, const DeviceMemory& from, int64_t bytes,
                               DeviceStream& stream) = 0;
  // `source` defines extern "C" `entry`. Errors carry the compiler's log.
  virtual absl::StatusOr<std::unique_ptr<DeviceKernel>> Compile(const std::string& source,
                                                                const std::string& entry) = 0;
  // Row-major c[m, n] = a[m, k] b[k, n], all of `type`, accumulated in fp32 (fp64 for fp64).
  virtual absl::Status Gemm(DeviceStream& stream, DType type, int64_t m, int64_t n, int64_t k,
                            const void* a, const void* b, void* c) = 0;
};

class Backend {
 public:
  virtual ~Backend() = default;
  virtual std::string name() const = 0;
  // Libraries and their versions, for `run --verbose` and bug reports.
  virtual std::string versions() const = 0;
  virtual int devices() const = 0;
  virtual absl::StatusOr<std::unique_ptr<Device>> Open(int device) = 0;
  // A communicator of `size` ranks, of which this process is `rank`; `id` is what rank 0's UniqueId
  // gave. Calls of it go to `stream` and return once queued.
  virtual absl::StatusOr<std::string> UniqueId() = 0;
  virtual absl::StatusOr<std::unique_ptr<Communicator>> Join(Device& device, DeviceStream& stream,
                                                             int rank, int size,
                                                             const std::string& id) = 0;
};

// The cuda back end. FailedPrecondition with what is missing and what to do: not built in, no
// toolkit libraries, no driver, no device.
absl::StatusOr<std::unique_ptr<Backend>> CreateCudaBackend();

// CUDA C++ of the kernel that adds `count` elements: the smallest generated kernel, which the back
// end compiles to show that its compiler works.
std::string ProbeKernelSource();

}  // namespace tandem

#endif  // TANDEM_RUNTIME_BACKEND_H_
