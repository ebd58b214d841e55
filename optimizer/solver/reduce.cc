#include "optimizer/solver/reduce.h"

#include <algorithm>
#include <cmath>
#include <numeric>

namespace tandem::solver {
namespace {

// Rounding room, relative to the incumbent, before a state counts as beaten.
constexpr double kFixingSlack = 1e-9;

// The costs of one place's kept states against the kept states of one neighbour: rows contiguous.
struct Rows {
  int32_t width = 0;
  std::vector<double> cost;
};

Rows GatherRows(const Model& model, const KeptStates& kept, int32_t place, const Arc& arc) {
  Rows rows;
  const std::vector<int32_t>& others = kept[arc.neighbour];
  rows.width = static_cast<int32_t>(others.size());
  const Link& link = model.links[arc.link];
  const PairTable& table = model.table(link);
  const bool is_i = link.i == place;
  const double* base = is_i ? table.by_i.data() : table.by_j.data();
  const int64_t stride = is_i ? table.states_j : table.states_i;
  rows.cost.reserve(kept[place].size() * others.size());
  for (int32_t s : kept[place]) {
    for (int32_t o : others) rows.cost.push_back(base[s * stride + o]);
  }
  return rows;
}

// The neighbours' states that suit state s best, one per link.
std::vector<int32_t> FavouriteContext(size_t s, const std::vector<Rows>& rows) {
  std::vector<int32_t> context;
  for (const Rows& r : rows) {
    const double* a = r.cost.data() + s * r.width;
    context.push_back(static_cast<int32_t>(std::min_element(a, a + r.width) - a));
  }
  return context;
}

// By how much s is dearer than t there: a cheap upper bound on what Dominates computes.
double DifferenceIn(const std::vector<int32_t>& context, size_t t, size_t s,
                    const std::vector<Rows>& rows) {
  double difference = 0.0;
  for (size_t r = 0; r < rows.size(); ++r) {
    difference +=
        rows[r].cost[s * rows[r].width + context[r]] - rows[r].cost[t * rows[r].width + context[r]];
  }
  return difference;
}

// Whether state t (index into the kept ones) is never dearer than s.
bool Dominates(size_t t, size_t s, double unary_difference, const std::vector<Rows>& rows) {
  double difference = unary_difference;  // of s over t, at least
  for (const Rows& r : rows) {
    const double* a = r.cost.data() + s * r.width;
    const double* b = r.cost.data() + t * r.width;
    double least = a[0] - b[0];
    for (int32_t k = 1; k < r.width; ++k) least = std::min(least, a[k] - b[k]);
    difference += least;
  }
  return difference >= 0.0;
}

}  // namespace

KeptStates FixByBound(const Model& model, const Dual& dual, double upper) {
  const std::vector<double> excess = dual.Excess();
  const double room = upper - dual.lower() + kFixingSlack * std::abs(upper);
  KeptStates kept(model.size());
  for (int32_t k = 0; k < model.size(); ++k) {
    for (int32_t s = 0; s < model.states(k); ++s) {
      if (excess[model.first[k] + s] <= room || s == dual.plan()[k]) kept[k].push_back(s);
    }
  }
  return kept;
}

KeptStates DropDominated(const Model& model, int32_t max_rounds) {
  KeptStates kept(model.size());
  for (int32_t k = 0; k < model.size(); ++k) {
    kept[k].resize(model.states(k));
    std::iota(kept[k].begin(), kept[k].end(), 0);
  }
  std::vector<char> dirty(model.size(), 1);
  std::vector<Rows> rows;
  for (int32_t round = 0; round < max_rounds; ++round) {
    bool changed = false;
    for (int32_t k = 0; k < model.size(); ++k) {
      if (!dirty[k]) continue;
      dirty[k] = 0;
      if (kept[k].size() == 1) continue;
      rows.clear();
      for (const Arc& arc : model.arcs_of(k)) rows.push_back(GatherRows(model, kept, k, arc));
      std::vector<char> gone(kept[k].size(), 0);
      // From the highest state down, so that of two equal ones the lower stays.
      for (size_t s = kept[k].size(); s-- > 0;) {
        const std::vector<int32_t> context = FavouriteContext(s, rows);
        for (size_t t = 0; t < kept[k].size() && !gone[s]; ++t) {
          if (t == s || gone[t]) continue;
          const double difference = model.costs(k)[kept[k][s]] - model.costs(k)[kept[k][t]];
          if (difference + DifferenceIn(context, t, s, rows) < 0.0) continue;
          gone[s] = Dominates(t, s, difference, rows);
        }
      }
      std::vector<int32_t> left;
      for (size_t s = 0; s < gone.size(); ++s) {
        if (!gone[s]) left.push_back(kept[k][s]);
      }
      if (left.size() == kept[k].size()) continue;
      kept[k] = left;
      changed = true;
      for (const Arc& arc : model.arcs_of(k)) dirty[arc.neighbour] = 1;
    }
    if (!changed) break;
  }
  return kept;
}

int64_t CellsAfter(const Model& model, const KeptStates& kept) {
  int64_t cells = 0;
  for (const Link& link : model.links) {
    cells += static_cast<int64_t>(kept[link.i].size()) * static_cast<int64_t>(kept[link.j].size());
  }
  return cells;
}

std::vector<double> RestrictMessages(const Model& model, const KeptStates& kept,
                                     const std::vector<double>& messages) {
  std::vector<double> out;
  for (size_t l = 0; l < model.links.size(); ++l) {
    const Link& link = model.links[l];
    const double* at_i = messages.data() + model.message_i(static_cast<int32_t>(l));
    const double* at_j = messages.data() + model.message_j(static_cast<int32_t>(l));
    for (int32_t s : kept[link.i]) out.push_back(at_i[s]);
    for (int32_t s : kept[link.j]) out.push_back(at_j[s]);
  }
  return out;
}

}  // namespace tandem::solver
