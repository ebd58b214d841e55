#include "optimizer/solver/descent.h"

#include <algorithm>

namespace tandem::solver {
namespace {

// Gains below this are rounding, not improvement.
constexpr double kLeastGainSeconds = 1e-15;

}  // namespace

bool Descend(const Model& model, int32_t max_rounds, std::vector<int32_t>& plan) {
  std::vector<char> dirty(model.size(), 1);
  std::vector<double> cost;
  bool ever = false;
  for (int32_t round = 0; round < max_rounds; ++round) {
    bool changed = false;
    for (int32_t k = 0; k < model.size(); ++k) {
      if (!dirty[k]) continue;
      dirty[k] = 0;
      const int32_t states = model.states(k);
      if (states == 1) continue;
      cost.assign(model.costs(k), model.costs(k) + states);
      for (const Arc& arc : model.arcs_of(k)) {
        const double* row = model.row(k, arc, plan[arc.neighbour]);
        for (int32_t s = 0; s < states; ++s) cost[s] += row[s];
      }
      const auto best =
          static_cast<int32_t>(std::min_element(cost.begin(), cost.end()) - cost.begin());
      if (!(cost[best] < cost[plan[k]] - kLeastGainSeconds)) continue;
      plan[k] = best;
      changed = true;
      for (const Arc& arc : model.arcs_of(k)) dirty[arc.neighbour] = 1;
    }
    if (!changed) break;
    ever = true;
  }
  return ever;
}

}  // namespace tandem::solver
