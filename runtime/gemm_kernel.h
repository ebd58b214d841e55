// Contractions of strided operands through a library's GEMM: oneDNN in float32, a BLAS in float64.
//
//   c[batch, m, n] = sum(k) a[batch, m, k] * b[batch, k, n]
//
// with any number of axes in each class and any strides. Prepared once, run many times. Operands
// are used in place where the library can read them, else copied into order first.
#ifndef TANDEM_RUNTIME_GEMM_KERNEL_H_
#define TANDEM_RUNTIME_GEMM_KERNEL_H_

#include <cstdint>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "runtime/strided.h"

namespace tandem {

// Buffers of an Axis: 0 = a, 1 = b, 2 = c.
struct GemmShape {
  std::vector<Axis> batch, m, n, k;
};

template <typename T>
class GemmKernel {
 public:
  explicit GemmKernel(const GemmShape& shape);

  absl::Status Run(const T* a, const T* b, T* c);

  // For tests and records: operands that are copied ("", "a", "abc"), and library calls a run.
  std::string packed() const;
  int64_t calls() const;

 private:
  void Plan();
  bool Reads(size_t buffer, const Axis& row, const Axis& column) const;
  void Pack(size_t buffer);

  GemmShape shape_;
  // Copies into order: axes with the caller's stride at 0 and the packed one at 1. Empty: in place.
  struct Packing {
    bool used = false;
    std::vector<Axis> axes;
    std::vector<T> data;
  };
  Packing packing_[3];
  std::vector<Axis> loops_;    // over blocks of c
  std::vector<Axis> k_loops_;  // accumulated into one block
  Axis m_, n_, k_;             // of one call
};

extern template class GemmKernel<float>;
extern template class GemmKernel<double>;

}  // namespace tandem

#endif  // TANDEM_RUNTIME_GEMM_KERNEL_H_
