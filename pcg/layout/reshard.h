// The steps that change a tensor's layout, and the cheapest sequence between two layouts.
#ifndef TANDEM_PCG_LAYOUT_RESHARD_H_
#define TANDEM_PCG_LAYOUT_RESHARD_H_

#include <functional>
#include <map>
#include <optional>
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
  kKeepFirst,      // replicated -> partial: the first device of the group keeps the value, the
                   // others take the combiner's neutral element; local
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

// Whether the step is executed once a micro-batch; else once a training step.
bool RunsEachMicroBatch(const ReshardStep& step, const Mesh& mesh);

// All single steps out of `from` that are legal for this shape, but for kKeepFirst: nothing is
// gained by a step after it, so that it is always the last. Axes taken together share their
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
// at most once and straight to what `to` wants. Partial values that are wanted and not there are
// made last, by one kKeepFirst. Error if unreachable (a value is wanted partial over the temporal
// axis that is not; a split must change that the temporal axis is nested in).
absl::StatusOr<std::vector<ReshardStep>> CheapestReshard(const FactoredShape& shape,
                                                         const Mesh& mesh, const Layout& from,
                                                         const Layout& to, int64_t element_bytes,
                                                         const StepCost& cost);

// The step that makes `to` partial where `from` is not, from the layout that it needs before; none
// if `to` wants no partial value that `from` has not, or wants it over the temporal axis.
std::optional<ReshardStep> MakesPartial(const Layout& from, const Layout& to, const Mesh& mesh);

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
