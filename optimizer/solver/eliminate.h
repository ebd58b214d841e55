// Exact minimisation by eliminating one node at a time (bucket elimination): the eliminated node's
// best state is tabulated over the joint states of its neighbours. Cost grows with the product of
// the neighbours' states, so the order matters and a budget of cells guards it.
#ifndef OPTIMIZER_SOLVER_ELIMINATE_H_
#define OPTIMIZER_SOLVER_ELIMINATE_H_

#include <atomic>
#include <cstdint>
#include <optional>
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

struct EliminationBudget {
  int64_t max_table_cells = 30'000'000;
  int64_t max_cells = 3'000'000'000;
  const std::atomic<bool>* cancel = nullptr;
};

struct EliminationResult {
  double value = 0.0;
  std::vector<int32_t> plan;
};

// Nothing when the budget forbids it, a place has more than 65,535 states, or it was cancelled.
// Ties to the lowest state of the node eliminated last.
std::optional<EliminationResult> Eliminate(const Model& model, const EliminationOrder& order,
                                           const EliminationBudget& budget);

}  // namespace tandem::solver

#endif  // OPTIMIZER_SOLVER_ELIMINATE_H_
