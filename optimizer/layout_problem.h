// A graph on a mesh of a machine as one problem of small tables: a variable a node (the row of its
// factor table that each mesh axis takes), a variable a source tensor (its stored layout), a relay
// where a tensor has several readers, a resharding table an edge. Forward, backward and update
// choose freely; ZeRO, sequence and tensor parallelism are points of this space, not cases of it.
#ifndef TANDEM_OPTIMIZER_LAYOUT_PROBLEM_H_
#define TANDEM_OPTIMIZER_LAYOUT_PROBLEM_H_

#include <functional>
#include <optional>
#include <vector>

#include "absl/status/statusor.h"
#include "optimizer/batch_axis.h"
#include "optimizer/node_classes.h"
#include "optimizer/reshard_table.h"
#include "optimizer/solver/problem.h"
#include "pcg/graph/graph.h"
#include "pcg/layout/strategy.h"
#include "simulator/machine.h"

namespace tandem {

// Restrictions, for baselines and for fixed choices by the user. Empty functions allow all.
struct LayoutRestrictions {
  // Row `row` for axis `axis` of this node.
  std::function<bool(NodeId, int axis, int row)> node;
  std::function<bool(TensorId, const Layout&)> source;
};

struct LayoutProblem {
  solver::Problem problem;
  // What the solver's nodes are.
  struct Variable {
    enum class Kind : uint8_t { kNode, kSource, kRelay };
    Kind kind = Kind::kNode;
    NodeId node;
    TensorId tensor;
    Phase phase = Phase::kForward;
    int states = -1;  // index into state lists
  };
  std::vector<Variable> variables;
  std::vector<std::vector<NodeStrategy>> node_states;  // shared by class
  std::vector<std::vector<Layout>> layout_states;
  Mesh mesh;
  int64_t table_cells = 0;

  Strategy ToStrategy(const Graph& graph, const solver::Plan& plan) const;
};

// `costs` are those of the machine and the mesh. `micro` is the temporal axis's propagation when
// mesh has one. Errors: a node without a state.
absl::StatusOr<LayoutProblem> BuildLayoutProblem(const Graph& graph, const NodeClasses& classes,
                                                 const Machine& machine, const Mesh& mesh,
                                                 ReshardCosts& costs,
                                                 const std::optional<BatchAxis>& micro,
                                                 const LayoutRestrictions& restrictions = {});

}  // namespace tandem

#endif  // TANDEM_OPTIMIZER_LAYOUT_PROBLEM_H_
