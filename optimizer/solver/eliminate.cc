#include "optimizer/solver/eliminate.h"

#include <algorithm>
#include <limits>
#include <utility>

#include "optimizer/solver/bucket.h"

namespace tandem::solver {
namespace {

// Back pointers are kept for every table until the end: this many times the largest one in all.
constexpr int64_t kPointerTables = 8;

struct Step {
  int32_t place = 0;
  std::vector<int32_t> scope;
  std::vector<uint16_t> best;
};

std::optional<EliminationResult> Run(double most, const Model& model,
                                     const std::vector<double>* messages,
                                     const EliminationOrder& order,
                                     const EliminationBudget& budget) {
  if (order.largest_table > static_cast<double>(budget.max_table_cells)) return std::nullopt;
  std::vector<int32_t> rank(model.size(), 0);
  for (size_t q = 0; q < order.places.size(); ++q) {
    rank[order.places[q]] = static_cast<int32_t>(q) + 1;
  }
  for (int32_t k = 0; k < model.size(); ++k) {
    if (model.states(k) > std::numeric_limits<uint16_t>::max()) return std::nullopt;
    if (model.states(k) > 1 && rank[k] == 0) return std::nullopt;  // an order cut short
  }
  std::vector<Factor> factors;
  EliminationResult result;
  result.value = SeedFactors(model, rank, messages, factors);
  const double room = most - result.value;
  std::vector<std::vector<int32_t>> factors_of(model.size());
  // A factor waits in the bucket of the place that is eliminated first: the last of its scope.
  for (size_t f = 0; f < factors.size(); ++f) {
    factors_of[factors[f].scope.back()].push_back(static_cast<int32_t>(f));
  }
  std::vector<Step> steps;
  WalkBudget walk{budget.max_cells};
  int64_t pointers = 0;
  for (int32_t place : order.places) {
    if (budget.cancel != nullptr && budget.cancel->load(std::memory_order_relaxed)) {
      return std::nullopt;
    }
    Step step;
    step.place = place;
    std::vector<const Factor*> bucket;
    for (int32_t f : factors_of[place]) bucket.push_back(&factors[f]);
    step.scope = JointScope(bucket, rank);
    Factor out;
    Bucket(model, place, step.scope, bucket).Minimise(room, walk, out, &step.best);
    pointers += static_cast<int64_t>(step.best.size());
    if (walk.spent() || pointers > kPointerTables * budget.max_table_cells) return std::nullopt;
    for (int32_t f : factors_of[place]) factors[f] = Factor();
    if (out.scope.empty()) {
      result.value += out.values[0];
    } else {
      factors_of[out.scope.back()].push_back(static_cast<int32_t>(factors.size()));
      factors.push_back(std::move(out));
    }
    steps.push_back(std::move(step));
  }
  result.cells = budget.max_cells - walk.cells_left;
  if (result.value == kDead) return result;
  result.plan.assign(model.size(), 0);
  for (size_t q = steps.size(); q-- > 0;) {
    const Step& step = steps[q];
    int64_t at = 0;
    for (int32_t p : step.scope) at = at * model.states(p) + result.plan[p];
    result.plan[step.place] = step.best[at];
  }
  return result;
}

}  // namespace

std::optional<EliminationResult> Eliminate(const Model& model, const EliminationOrder& order,
                                           const EliminationBudget& budget) {
  if (order.cells > static_cast<double>(budget.max_cells)) return std::nullopt;
  return Run(kDead, model, nullptr, order, budget);
}

std::optional<EliminationResult> EliminateBelow(double most, const Model& model,
                                                const std::vector<double>& messages,
                                                const EliminationOrder& order,
                                                const EliminationBudget& budget) {
  return Run(most, model, &messages, order, budget);
}

}  // namespace tandem::solver
