// Seconds of one kernel on one device, alone: a smooth roofline for contractions, a form of its own
// for fused attention, the achieved share of the memory bandwidth for everything else. Monotone in
// flops and in bytes. The constants are data of the machine (simulator/machines), the forms and
// their errors on measured kernels are in docs/machines.md.
#ifndef TANDEM_SIMULATOR_KERNEL_COST_H_
#define TANDEM_SIMULATOR_KERNEL_COST_H_

#include <cstdint>

#include "simulator/machine.h"

namespace tandem {

// A kernel by its local (per device) shape. flops counts a multiply-add as two; bytes are those
// that must move at least once. gemm_* are zero where the contraction is no matrix product or its
// extents are not known: then nothing is said about alignment.
struct KernelShape {
  KernelKind kind = KernelKind::kElementwise;
  Precision precision = Precision::kFp32;
  double flops = 0;
  double bytes_read = 0;
  double bytes_written = 0;
  // C[batch, m, n] = A[batch, m, k] B[batch, k, n].
  int64_t gemm_batch = 1;
  int64_t gemm_m = 0;
  int64_t gemm_n = 0;
  int64_t gemm_k = 0;
  // Fused attention.
  int64_t attention_batch = 0;
  int64_t attention_heads = 0;
  int64_t query_length = 0;
  int64_t key_length = 0;
  int64_t head_dim = 0;
  bool backward = false;
};

double KernelSeconds(const Machine& machine, const KernelShape& shape);

// A (batched) matrix product that reads both operands and writes the result once, element_bytes
// each.
KernelShape GemmShape(Precision precision, int64_t m, int64_t n, int64_t k, int64_t batch = 1,
                      double element_bytes = 2);

// Forward: 4 b h s_q s_k d FLOPs, half of it when causal; backward 2.5 times that. Reads and writes
// q, k, v, o (and their gradients) once; the scores stay on chip.
KernelShape AttentionShape(Precision precision, int64_t batch, int64_t heads, int64_t query_length,
                           int64_t key_length, int64_t head_dim, bool causal, bool backward,
                           double element_bytes = 2);

// A kernel bound by memory.
KernelShape MemoryShape(KernelKind kind, double bytes_read, double bytes_written, double flops = 0,
                        Precision precision = Precision::kFp32);

}  // namespace tandem

#endif  // TANDEM_SIMULATOR_KERNEL_COST_H_
