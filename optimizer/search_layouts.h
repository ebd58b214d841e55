// The inner search: the best layouts of one graph for a number of micro-batches, over meshes,
// within a memory limit, judged by the timeline of the lowered Program.
//
// All meshes are first solved quickly (message passing only, on several threads: the meshes do not
// know of each other, so the threads change nothing). Then they are taken in order of what they
// cost: those whose bound is out of reach of the best plan are dropped, those that found the plan
// of a coarser mesh again are not simulated again. Exact elimination is spent only where its gain
// could change the answer or the bound.
#ifndef TANDEM_OPTIMIZER_SEARCH_LAYOUTS_H_
#define TANDEM_OPTIMIZER_SEARCH_LAYOUTS_H_

#include <limits>
#include <optional>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "optimizer/bundles.h"
#include "optimizer/forced.h"
#include "optimizer/node_classes.h"
#include "optimizer/optimize.h"
#include "optimizer/reshard_table.h"

namespace tandem {

struct LayoutSearch {
  const Machine* machine = nullptr;
  int64_t memory_limit_bytes = 0;
  std::vector<std::vector<int64_t>> meshes;
  int64_t micro_batches = 1;
  std::vector<AxisKind> kinds;  // one an axis of the mesh; empty = free
  const OptimizeOptions* options = nullptr;
  ReshardCache* costs = nullptr;  // not null; shared by the searches of one machine
  // Cost and step time of a plan that is known already: meshes out of its reach are dropped, and
  // only what could be faster is refined.
  double incumbent_seconds = std::numeric_limits<double>::infinity();
  double incumbent_step_seconds = std::numeric_limits<double>::infinity();
  // A mesh whose bound is more than so many times the least cost known is dropped: overlap may make
  // the timeline of a plan faster than its cost, but not by more.
  double drop_factor = 1.25;
};

struct LayoutSearchResult {
  std::optional<Evaluated> best;  // fits if anything did; else the one that needs least
  double bound_seconds = 0;       // least over the meshes
  double free_bytes = 0;          // of the fastest layouts without a limit, by the search's own sum
  int64_t least_bytes = 0;        // no plan on any of the meshes needs less
  // Meshes worth a look for another form of the graph: neither dropped nor those that found the
  // plan of another one again.
  std::vector<std::vector<int64_t>> meshes;
  int64_t steps = 0;
  std::string reason;  // why there is none
};

// Lowers and simulates a strategy, with the best of these sizes of bundles (and without bundles
// where none fits the memory). `graph` must have its factors propagated.
absl::StatusOr<Evaluated> Evaluate(const Graph& graph, Strategy strategy, const Machine& machine,
                                   int64_t memory_limit_bytes,
                                   const std::vector<int64_t>& bundles = {kBundleBytes});

absl::StatusOr<LayoutSearchResult> SearchLayouts(const Graph& graph, const NodeClasses& classes,
                                                 const LayoutSearch& search);

}  // namespace tandem

#endif  // TANDEM_OPTIMIZER_SEARCH_LAYOUTS_H_
