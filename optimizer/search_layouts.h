// The inner search: the best layouts of one graph for a number of micro-batches, over meshes,
// within a memory limit, judged by the timeline of the lowered Program.
#ifndef TANDEM_OPTIMIZER_SEARCH_LAYOUTS_H_
#define TANDEM_OPTIMIZER_SEARCH_LAYOUTS_H_

#include <optional>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "optimizer/forced.h"
#include "optimizer/node_classes.h"
#include "optimizer/optimize.h"

namespace tandem {

struct LayoutSearch {
  const Machine* machine = nullptr;
  int64_t memory_limit_bytes = 0;
  std::vector<std::vector<int64_t>> meshes;
  int64_t micro_batches = 1;
  std::vector<AxisKind> kinds;  // one an axis of the mesh; empty = free
  const OptimizeOptions* options = nullptr;
};

struct LayoutSearchResult {
  std::optional<Evaluated> best;  // fits if anything did; else the one that needs least
  std::vector<Evaluated> others;  // other meshes' plans, for re-use
  double bound_seconds = 0;       // least over the meshes
  int64_t steps = 0;
  std::string reason;  // why there is none
};

// Lowers and simulates a strategy. `graph` must have its factors propagated.
absl::StatusOr<Evaluated> Evaluate(const Graph& graph, Strategy strategy, const Machine& machine,
                                   int64_t memory_limit_bytes);

absl::StatusOr<LayoutSearchResult> SearchLayouts(const Graph& graph, const NodeClasses& classes,
                                                 const LayoutSearch& search);

}  // namespace tandem

#endif  // TANDEM_OPTIMIZER_SEARCH_LAYOUTS_H_
