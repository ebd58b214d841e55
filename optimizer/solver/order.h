// The order in which nodes are eliminated, and what that will cost: known before a table is filled.
#ifndef OPTIMIZER_SOLVER_ORDER_H_
#define OPTIMIZER_SOLVER_ORDER_H_

#include <cstdint>
#include <vector>

#include "optimizer/solver/model.h"

namespace tandem::solver {

enum class OrderRule {
  kMinWeight,        // the smallest table next
  kWeightedMinFill,  // the least (log-weighted) new adjacency next
};

struct EliminationOrder {
  std::vector<int32_t> places;  // those with two or more states; the others are folded away
  double largest_table = 0.0;   // cells
  double cells = 0.0;           // of all tables, times the eliminated node's states: the work
};

// Ties to the lowest place. Stops early, with `cells` at least `hopeless_cells`, when it gets
// there.
EliminationOrder FindOrder(const Model& model, OrderRule rule, double hopeless_cells);

// The cheaper of both rules.
EliminationOrder FindBestOrder(const Model& model, double hopeless_cells);

}  // namespace tandem::solver

#endif  // OPTIMIZER_SOLVER_ORDER_H_
