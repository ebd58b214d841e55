// How a graph is distributed: for every node, the row of its factor table that each mesh axis
// takes; for every source tensor, its stored layout. Tensors' layouts follow: an activation lies as
// its producer leaves it; an edge whose reader wants another layout becomes collectives
// (reshard.h).
#ifndef TANDEM_PCG_LAYOUT_STRATEGY_H_
#define TANDEM_PCG_LAYOUT_STRATEGY_H_

#include <map>
#include <vector>

#include "absl/status/statusor.h"
#include "pcg/graph/graph.h"
#include "pcg/layout/factor_table.h"
#include "pcg/layout/layout.h"

namespace tandem {

struct NodeStrategy {
  std::vector<int> rows;  // one a mesh axis: index into FactorTable(instance of the node)
  bool operator==(const NodeStrategy&) const = default;
};

struct Strategy {
  Mesh mesh;
  std::vector<NodeStrategy> nodes;  // by NodeId
  std::vector<Layout> sources;      // by TensorId; meaningful for sources only
  // A relay: the tensor is first brought to this layout once, and its readers of that phase take it
  // from there. At most one a (tensor, phase); several readers share one gather.
  struct Relay {
    TensorId tensor;
    Phase phase = Phase::kForward;
    Layout layout;
    // Of a tensor that is known before the loop over micro-batches: made there once and kept,
    // instead of once a micro-batch just before its first reader.
    bool before_loop = false;
    bool operator==(const Relay&) const = default;
  };
  std::vector<Relay> relays;
  // State updates' `next` is brought to the stored layout of `state`.
  bool operator==(const Strategy&) const = default;
};

// Layouts that a node's strategy implies. Errors: row out of range, degree does not divide.
struct NodeLayouts {
  std::vector<Layout> inputs;
  std::vector<Layout> outputs;
  std::vector<std::vector<int>> size_axes;  // per size of the instance: axes splitting it
};
absl::StatusOr<NodeLayouts> LayoutsOf(const OpInstance& instance,
                                      const std::vector<SplitRow>& table,
                                      const NodeStrategy& strategy, const Mesh& mesh);

// Everything replicated on every spatial axis; the serial plan on a mesh of one device.
Strategy ReplicatedStrategy(const Graph& graph, const Mesh& mesh);

}  // namespace tandem

#endif  // TANDEM_PCG_LAYOUT_STRATEGY_H_
