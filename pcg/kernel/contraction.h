// A stage that is a sum of products of two groups of factors, run as blocked matrix products. The
// groups may be anything: a plain read is packed from where it lies, the rest (windows with
// padding, gathers, guards) is written out piece by piece first. Internal to loop_nest.
#ifndef TANDEM_PCG_KERNEL_CONTRACTION_H_
#define TANDEM_PCG_KERNEL_CONTRACTION_H_

#include <cstdint>
#include <optional>
#include <vector>

#include "absl/status/status.h"
#include "pcg/kernel/block_kernel.h"
#include "pcg/kernel/nest_ir.h"

namespace tandem {

// One side: rows (m or n) by the summed index k, for each batch element.
struct ContractionSide {
  std::vector<int> vars;             // rows, major to minor
  int tensor = -1;                   // plain read, or
  std::optional<BlockKernel> fill;   // writes a piece: batch and first row variable are its loops
  int64_t base = 0;                  // offsets of the read
  std::vector<int64_t> batch_steps;  // per batch variable
  std::vector<int64_t> rows;         // per row
  std::vector<int64_t> depth;        // per k
  int64_t chunk = 0;                 // values of the first row variable a piece holds
};

struct ContractionKernel {
  int target = -1;
  std::vector<int64_t> batch_extents;
  int64_t m = 1, n = 1, k = 1;
  int64_t out_base = 0;
  std::vector<int64_t> out_batch_steps, out_m, out_n;
  ContractionSide lhs, rhs;
};

// Empty if the stage is no contraction or too small to gain.
std::optional<ContractionKernel> CompileContraction(const NestStages& stages,
                                                    const NestStage& stage);

template <typename T>
absl::Status RunContraction(const ContractionKernel& kernel, const NestStages& stages,
                            const std::vector<T*>& arrays);

// out[rows[i] + cols[j]] (+)= sum of a[a_rows[i] + a_depth[p]] * b[b_rows[j] + b_depth[p]].
template <typename T>
struct MatrixProduct {
  int64_t m = 0, n = 0, k = 0;
  const T* a = nullptr;
  const int64_t* a_rows = nullptr;
  const int64_t* a_depth = nullptr;
  const T* b = nullptr;
  const int64_t* b_rows = nullptr;
  const int64_t* b_depth = nullptr;
  T* out = nullptr;
  const int64_t* out_rows = nullptr;
  const int64_t* out_cols = nullptr;
};
template <typename T>
void Multiply(const MatrixProduct<T>& product);  // writes, does not add

}  // namespace tandem

#endif  // TANDEM_PCG_KERNEL_CONTRACTION_H_
