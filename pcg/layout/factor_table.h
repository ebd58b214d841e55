// The factor table: which ways of splitting an operator instance over one mesh axis are legal, read
// off its equations. No parallel strategy is written by hand anywhere: data, tensor, sequence,
// vocabulary and expert parallelism and ZeRO are all rows of such tables.
#ifndef TANDEM_PCG_LAYOUT_FACTOR_TABLE_H_
#define TANDEM_PCG_LAYOUT_FACTOR_TABLE_H_

#include <cstdint>
#include <string>
#include <vector>

#include "pcg/instance/op_instance.h"

namespace tandem {

enum class Combiner : uint8_t { kSum, kMax, kMin };
const char* CombinerName(Combiner combiner);  // "sum", "max", "min"

// What one mesh axis does to one tensor: split one factor of one dim, replicate, or leave a partial
// value that `combiner` over the axis completes.
struct AxisPlacement {
  enum class Kind : uint8_t { kReplicated, kSplit, kPartial };
  Kind kind = Kind::kReplicated;
  int dim = -1;                        // kSplit
  int factor = -1;                     // kSplit: which factor of the dim
  Combiner combiner = Combiner::kSum;  // kPartial
  static AxisPlacement Replicated() { return {}; }
  static AxisPlacement Split(int dim, int factor) { return {Kind::kSplit, dim, factor, {}}; }
  static AxisPlacement Partial(Combiner c) { return {Kind::kPartial, -1, -1, c}; }
  bool operator==(const AxisPlacement&) const = default;
  auto operator<=>(const AxisPlacement&) const = default;
};

// One legal way: inputs placed so => outputs placed so, each device running the same operator on
// its pieces. size >= 0: that size is split (an axis of degree d needs d to divide its extent); an
// input without it may have to be partial (the bias of a contraction whose sum is split).
// size == -1: nothing is split; the axis's partial inputs pass through a linear operator, or (all
// replicated) every device computes the same.
struct SplitRow {
  int size = -1;
  std::vector<AxisPlacement> inputs;
  std::vector<AxisPlacement> outputs;
  bool needs_offset = false;  // the size's index is used as a value: kernels need the piece's base
  std::string reason;         // "split n", "split k, partial bias", "partial lhs", "replicate"
  bool operator==(const SplitRow&) const = default;
};

// Rows in a fixed order; row 0 is "replicate". A row is a claim: the verifier proves it (one proof
// per operator text and row, sizes and degree symbolic) before the optimizer may use it.
std::vector<SplitRow> FactorTable(const OpInstance& instance);

}  // namespace tandem

#endif  // TANDEM_PCG_LAYOUT_FACTOR_TABLE_H_
