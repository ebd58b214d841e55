// Costs read off an operator instance, and its structural class. An executor or a cost model
// recognises structure (a contraction, a windowed contraction), never an operator's name.
#ifndef TANDEM_PCG_INSTANCE_OP_ANALYSIS_H_
#define TANDEM_PCG_INSTANCE_OP_ANALYSIS_H_

#include <cstdint>
#include <optional>
#include <vector>

#include "pcg/instance/op_instance.h"

namespace tandem {

enum class OpClass : uint8_t {
  kGemm,       // sum of products of two plain reads
  kConv,       // the same with windowed indices (forward, input or filter gradient)
  kAttention,  // two contractions around a softmax in one instance
  kNorm,       // reductions feeding elementwise results of the same shape (layer, rms, batch norm)
  kSoftmax,
  kReduction,
  kPool,
  kEmbedding,  // data-dependent reads or writes
  kElementwise,
  kCopy,       // only moves elements (reshape, transpose, slice, concat)
  kOptimizer,  // elementwise with more than one output
};
const char* OpClassName(OpClass kind);

// A two-operand contraction seen as batched GEMM: out[batch, m, n] += lhs[batch, m, k] rhs[batch,
// k, n], each a list of sizes (indices into the instance).
struct Contraction {
  int lhs = 0, rhs = 1;  // tensors
  std::vector<int> batch, m, n, k;
  // The contraction is the whole instance. Else it is the core of its equation, with an epilogue
  // (bias, scale, activation) or other equations around it.
  bool exact = false;
  bool operator==(const Contraction&) const = default;
};

struct OpCost {
  OpClass kind = OpClass::kElementwise;
  double flops = 0;              // 2 per multiply-add, after one-hot sums became reads
  double contraction_flops = 0;  // the part in contractions (what model FLOPs count)
  double bytes_read = 0;         // elements read once each, times bytes (dtypes given)
  double bytes_written = 0;
  std::optional<Contraction> contraction;  // kGemm, and the main one of kAttention
};

// `extents` overrides the instance's (local pieces); empty = the instance's own. Bytes use
// `input_bytes`/`output_bytes` per element (one entry an input/output).
OpCost AnalyzeOp(const OpInstance& instance, const std::vector<int64_t>& extents,
                 const std::vector<int64_t>& input_bytes, const std::vector<int64_t>& output_bytes);

// The contraction of plain reads in an instance with exactly one contraction. Absent for windowed
// (convolution) and data-dependent ones.
std::optional<Contraction> AsContraction(const OpInstance& instance);

}  // namespace tandem

#endif  // TANDEM_PCG_INSTANCE_OP_ANALYSIS_H_
