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
#include "optimizer/solver/order.h"

namespace tandem::solver {

struct EliminationBudget {
  int64_t max_table_cells = 30'000'000;
  int64_t max_cells = 3'000'000'000;
  const std::atomic<bool>* cancel = nullptr;
};

struct EliminationResult {
  double value = 0.0;         // infinite when no plan is at most `most`
  std::vector<int32_t> plan;  // empty then
  int64_t cells = 0;          // walked
};

// The best plan. Nothing when the budget forbids it, a place has more than 65,535 states, or it was
// cancelled. Ties to the lowest state of the node eliminated last.
std::optional<EliminationResult> Eliminate(const Model& model, const EliminationOrder& order,
                                           const EliminationBudget& budget);

// The best plan of value at most `most`. Joint states that already exceed it, by what the messages
// of a dual leave of their costs, are not walked further, so the work can be far below order.cells:
// the budget is of cells really walked, while tables still take their full space.
std::optional<EliminationResult> EliminateBelow(double most, const Model& model,
                                                const std::vector<double>& messages,
                                                const EliminationOrder& order,
                                                const EliminationBudget& budget);

}  // namespace tandem::solver

#endif  // OPTIMIZER_SOLVER_ELIMINATE_H_
