// Nodes grouped by signature: nodes of one class have equal instances, factor tables, costs and
// hence states. A model of thousands of nodes has a few dozen classes.
#ifndef TANDEM_OPTIMIZER_NODE_CLASSES_H_
#define TANDEM_OPTIMIZER_NODE_CLASSES_H_

#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "pcg/factor_table.h"
#include "pcg/graph.h"
#include "substitutions/apply.h"

namespace tandem {

struct NodeClass {
  OpInstance instance;
  std::vector<SplitRow> table;
  std::vector<bool> proved;  // by row: may be used
  std::vector<DType> inputs;
  std::vector<DType> outputs;
};

struct NodeClasses {
  std::vector<NodeClass> classes;
  std::vector<int> of_node;  // by NodeId
  const NodeClass& Of(NodeId id) const { return classes[static_cast<size_t>(of_node[id.index()])]; }
};

// Rows that `rules` has no proof of are in the tables and may not be used.
absl::StatusOr<NodeClasses> ClassifyNodes(const Graph& graph, const ProvedRuleSet& rules);

}  // namespace tandem

#endif  // TANDEM_OPTIMIZER_NODE_CLASSES_H_
