// The steps that change a tensor's layout, and the cheapest sequence between two layouts.
#ifndef TANDEM_PCG_LAYOUT_RESHARD_H_
#define TANDEM_PCG_LAYOUT_RESHARD_H_

#include <functional>
#include <map>
#include <tuple>
#include <utility>
#include <vector>

#include "absl/status/statusor.h"
#include "pcg/layout/layout.h"

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

// All single steps out of `from` that are legal for this shape. Axes taken together share their
// placement before and after. Nesting: lower axes are more significant within a factor, so only the
// least significant axes of a factor can be gathered, and only axes after all others can be added.
// (To reshard the batch inside the loop, give the micro-batches a factor of their own: with a dim
// (M, n) the temporal axis splits factor 0 and the others factor 1.)
std::vector<ReshardStep> StepsFrom(const FactoredShape& shape, const Mesh& mesh,
                                   const Layout& from);

// Cost of one step in seconds, given the local bytes before and after, run once.
using StepCost = std::function<double(const ReshardStep&, double bytes_before, double bytes_after)>;

// Cheapest sequence (empty when equal; ties to the fewest steps, then the first in StepsFrom
// order). A step on a tensor that differs between micro-batches runs in the loop and counts once
// for each. Only splits that `from` or `to` has are passed through, and the temporal axis changes
// at most once and straight to what `to` wants. Never creates partial values. Error if unreachable
// (a partial is wanted that is not there; a split must change that the temporal axis is nested in).
absl::StatusOr<std::vector<ReshardStep>> CheapestReshard(const FactoredShape& shape,
                                                         const Mesh& mesh, const Layout& from,
                                                         const Layout& to, int64_t element_bytes,
                                                         const StepCost& cost);

// A StepCost that counts bytes sent by a device, plus 1 a collective (so that one beats two of the
// same bytes); deterministic, machine-free (tests, forced plans).
StepCost BytesStepCost(const Mesh& mesh);

// CheapestReshard for one mesh and cost, remembering answers.
class Resharder {
 public:
  Resharder(Mesh mesh, StepCost cost) : mesh_(std::move(mesh)), cost_(std::move(cost)) {}
  absl::StatusOr<std::vector<ReshardStep>> Cheapest(const FactoredShape& shape, const Layout& from,
                                                    const Layout& to, int64_t element_bytes);
  const Mesh& mesh() const { return mesh_; }

 private:
  using Key = std::tuple<FactoredShape, int64_t, Layout, Layout>;
  Mesh mesh_;
  StepCost cost_;
  std::map<Key, absl::StatusOr<std::vector<ReshardStep>>> known_;
};

}  // namespace tandem

#endif  // TANDEM_PCG_LAYOUT_RESHARD_H_
