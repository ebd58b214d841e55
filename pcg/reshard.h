// The steps that change a tensor's layout, and the cheapest sequence between two layouts.
#ifndef TANDEM_PCG_RESHARD_H_
#define TANDEM_PCG_RESHARD_H_

#include <functional>
#include <vector>

#include "absl/status/statusor.h"
#include "pcg/layout.h"

namespace tandem {

enum class StepKind : uint8_t {
  kSlice,          // replicated -> split; local, free of communication
  kAllGather,      // split -> replicated
  kAllReduce,      // partial -> replicated
  kReduceScatter,  // partial -> split
  kAllToAll,       // split(d) -> split(e)
  kAccumulate,     // partial over the temporal axis -> replicated, once, after the last micro-batch
  kStack,          // split over the temporal axis -> replicated, after the last micro-batch
  kUnstack,        // replicated -> split over the temporal axis: take this micro-batch's piece
};
const char* StepKindName(StepKind kind);

// One step over a set of mesh axes (ascending) taken together as one group. `before` and `after`
// differ exactly on those axes.
struct ReshardStep {
  StepKind kind = StepKind::kSlice;
  std::vector<int> axes;
  Layout before;
  Layout after;
  bool operator==(const ReshardStep&) const = default;
};

// All single steps out of `from` that are legal for this shape (nesting order, divisibility).
std::vector<ReshardStep> StepsFrom(const FactoredShape& shape, const Mesh& mesh,
                                   const Layout& from);

// Cost of one step in seconds, given the local bytes before and after.
using StepCost = std::function<double(const ReshardStep&, double bytes_before, double bytes_after)>;

// Cheapest sequence (empty when equal; ties to the fewest steps, then the first in StepsFrom order).
// Never creates partial values. Error if unreachable (a partial is wanted that is not there).
absl::StatusOr<std::vector<ReshardStep>> CheapestReshard(const FactoredShape& shape,
                                                         const Mesh& mesh, const Layout& from,
                                                         const Layout& to, int64_t element_bytes,
                                                         const StepCost& cost);

}  // namespace tandem

#endif  // TANDEM_PCG_RESHARD_H_
