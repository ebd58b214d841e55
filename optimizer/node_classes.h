// Nodes grouped by signature: nodes of one class have equal instances, factor tables, costs and
// hence states. A model of thousands of nodes has a few dozen classes.
#ifndef TANDEM_OPTIMIZER_NODE_CLASSES_H_
#define TANDEM_OPTIMIZER_NODE_CLASSES_H_

#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "pcg/graph/graph.h"
#include "pcg/layout/factor_table.h"
#include "pcg/layout/strategy.h"
#include "substitutions/apply.h"

namespace tandem {

struct NodeClass {
  OpInstance instance;
  std::vector<SplitRow> table;
  std::vector<bool> usable;  // by row: may be used
  std::vector<DType> inputs;
  std::vector<DType> outputs;
};

struct NodeClasses {
  std::vector<NodeClass> classes;
  std::vector<int> of_node;  // by NodeId
  const NodeClass& Of(NodeId id) const { return classes[static_cast<size_t>(of_node[id.index()])]; }
};

// Which rows of factor tables the search may use. Proofs cost more than the search itself, and a
// plan uses few rows of many: so rows are taken for granted while searching, and those of a plan
// are proved before it is offered. After the first row that has no proof nothing is taken for
// granted any more.
class RowProofs {
 public:
  explicit RowProofs(const ProvedRuleSet& rules) : rules_(rules) {}
  // What the search may assume of a row.
  bool Usable(const OpInstance& instance, const SplitRow& row) const {
    return !strict_ || rules_.IsProved(instance, row);
  }
  // Proves every row that the strategy uses; false when one has no proof, and Usable is strict from
  // then on. `classes` are those of the strategy's graph.
  bool Prove(const NodeClasses& classes, const Strategy& strategy);

 private:
  const ProvedRuleSet& rules_;
  bool strict_ = false;
};

// Rows that may not be used are in the tables all the same.
absl::StatusOr<NodeClasses> ClassifyNodes(const Graph& graph, const RowProofs& proofs);

}  // namespace tandem

#endif  // TANDEM_OPTIMIZER_NODE_CLASSES_H_
