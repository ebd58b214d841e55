#include "optimizer/solver/mini_bucket.h"

#include <algorithm>
#include <utility>

#include "optimizer/solver/bucket.h"

namespace tandem::solver {
namespace {

struct Part {
  std::vector<const Factor*> factors;
  std::vector<int32_t> scope;
  double cells = 0.0;  // of the scope
};

double Cells(const Model& model, const std::vector<int32_t>& scope) {
  double cells = 1.0;
  for (int32_t p : scope) cells *= model.states(p);
  return cells;
}

// Largest factors first, each into the part that it widens least; a new part when none has room.
std::vector<Part> Split(const Model& model, const std::vector<int32_t>& rank,
                        std::vector<const Factor*> factors, double max_cells) {
  std::stable_sort(factors.begin(), factors.end(), [](const Factor* a, const Factor* b) {
    return a->values.size() > b->values.size();
  });
  std::vector<Part> parts;
  for (const Factor* factor : factors) {
    Part* best = nullptr;
    std::vector<int32_t> best_scope;
    double best_growth = 0.0;
    for (Part& part : parts) {
      std::vector<const Factor*> joint = part.factors;
      joint.push_back(factor);
      std::vector<int32_t> scope = JointScope(joint, rank);
      const double growth = Cells(model, scope) / part.cells;
      if (growth * part.cells > max_cells) continue;
      if (best != nullptr && growth >= best_growth) continue;
      best = &part;
      best_growth = growth;
      best_scope = std::move(scope);
    }
    if (best == nullptr) {
      parts.emplace_back();
      best = &parts.back();
      best_scope = JointScope({factor}, rank);
    }
    best->factors.push_back(factor);
    best->scope = std::move(best_scope);
    best->cells = Cells(model, best->scope);
  }
  return parts;
}

// What each part must be given for all to have the same least sum for each state of the place.
std::vector<Factor> Reconcile(const Model& model, int32_t place, const std::vector<Part>& parts,
                              WalkBudget& budget) {
  std::vector<Factor> shifts;
  std::vector<double> mean(model.states(place), 0.0);
  for (const Part& part : parts) {
    shifts.push_back({{place}, Bucket(model, place, part.scope, part.factors).Marginal(budget)});
    for (size_t s = 0; s < mean.size(); ++s) {
      mean[s] += shifts.back().values[s] / static_cast<double>(parts.size());
    }
  }
  for (Factor& shift : shifts) {
    for (size_t s = 0; s < mean.size(); ++s) shift.values[s] = mean[s] - shift.values[s];
  }
  return shifts;
}

}  // namespace

std::optional<MiniBucketResult> MiniBucketBound(const Model& model,
                                                const std::vector<double>& messages,
                                                const EliminationOrder& order,
                                                const MiniBucketOptions& options) {
  std::vector<int32_t> rank(model.size(), 0);
  for (size_t q = 0; q < order.places.size(); ++q) {
    rank[order.places[q]] = static_cast<int32_t>(q) + 1;
  }
  for (int32_t k = 0; k < model.size(); ++k) {
    if (model.states(k) > 1 && rank[k] == 0) return std::nullopt;
  }
  MiniBucketResult result;
  result.exact = true;
  std::vector<Factor> factors;
  result.bound = SeedFactors(model, rank, &messages, factors);
  WalkBudget budget{options.max_cells};
  std::vector<std::vector<int32_t>> factors_of(model.size());
  for (size_t f = 0; f < factors.size(); ++f) {
    factors_of[factors[f].scope.back()].push_back(static_cast<int32_t>(f));
  }
  for (int32_t place : order.places) {
    if (options.cancel != nullptr && options.cancel->load(std::memory_order_relaxed)) {
      return std::nullopt;
    }
    std::vector<const Factor*> bucket;
    for (int32_t f : factors_of[place]) bucket.push_back(&factors[f]);
    std::vector<Part> parts =
        Split(model, rank, std::move(bucket), static_cast<double>(options.max_table_cells));
    std::vector<Factor> shifts;
    if (parts.size() > 1) {
      result.exact = false;
      shifts = Reconcile(model, place, parts, budget);
      for (size_t p = 0; p < parts.size(); ++p) parts[p].factors.push_back(&shifts[p]);
    }
    std::vector<Factor> outs(parts.size());
    for (size_t p = 0; p < parts.size(); ++p) {
      Bucket(model, place, parts[p].scope, parts[p].factors)
          .Minimise(kDead, budget, outs[p], nullptr);
    }
    if (budget.spent()) return std::nullopt;
    for (int32_t f : factors_of[place]) factors[f] = Factor();
    for (Factor& out : outs) {
      if (out.scope.empty()) {
        result.bound += out.values[0];
      } else {
        factors_of[out.scope.back()].push_back(static_cast<int32_t>(factors.size()));
        factors.push_back(std::move(out));
      }
    }
  }
  result.cells = options.max_cells - budget.cells_left;
  return result;
}

}  // namespace tandem::solver
