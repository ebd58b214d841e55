#include "optimizer/solver/eliminate.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <set>
#include <tuple>
#include <utility>

#include "optimizer/solver/min_plus.h"

namespace tandem::solver {
namespace {

// Back pointers are kept for every table until the end: this many times the largest one in all.
constexpr int64_t kPointerTables = 8;
// Above these sizes the fill of neighbours' neighbours is left stale: an order, not a result.
constexpr size_t kMostNeighboursForFill = 40;
constexpr size_t kMostSecondNeighbours = 60;

using Neighbours = std::vector<std::vector<int32_t>>;  // sorted

void Insert(std::vector<int32_t>& sorted, int32_t value) {
  const auto it = std::lower_bound(sorted.begin(), sorted.end(), value);
  if (it == sorted.end() || *it != value) sorted.insert(it, value);
}

void Erase(std::vector<int32_t>& sorted, int32_t value) {
  const auto it = std::lower_bound(sorted.begin(), sorted.end(), value);
  if (it != sorted.end() && *it == value) sorted.erase(it);
}

Neighbours GraphOfOpenPlaces(const Model& model) {
  Neighbours graph(model.size());
  for (const Link& link : model.links) {
    if (model.states(link.i) == 1 || model.states(link.j) == 1) continue;
    graph[link.i].push_back(link.j);
    graph[link.j].push_back(link.i);
  }
  for (std::vector<int32_t>& n : graph) std::sort(n.begin(), n.end());
  return graph;
}

using Key = std::tuple<double, double, int32_t>;

Key KeyOf(int32_t place, const Neighbours& graph, const std::vector<double>& log_states,
          OrderRule rule) {
  double weight = 0.0;
  for (int32_t n : graph[place]) weight += log_states[n];
  if (rule == OrderRule::kMinWeight) return {weight, 0.0, place};
  double fill = 0.0;
  const std::vector<int32_t>& around = graph[place];
  for (size_t a = 0; a < around.size(); ++a) {
    const std::vector<int32_t>& near = graph[around[a]];
    for (size_t b = a + 1; b < around.size(); ++b) {
      if (!std::binary_search(near.begin(), near.end(), around[b])) {
        fill += log_states[around[a]] * log_states[around[b]];
      }
    }
  }
  return {fill, weight, place};
}

// A cost over several places. Scopes are sorted by falling elimination rank, so the place
// eliminated next is always the last one and its states are contiguous: no table is ever
// transposed.
struct Factor {
  std::vector<int32_t> scope;
  std::vector<double> values;
};

struct Step {
  int32_t place = 0;
  std::vector<int32_t> scope;
  std::vector<uint16_t> best;
};

// Adds up one bucket's factors over all joint states of `scope` and minimises over the last place.
class Bucket {
 public:
  Bucket(const Model& model, int32_t place, std::vector<int32_t> scope,
         const std::vector<const Factor*>& factors)
      : scope_(std::move(scope)), own_states_(model.states(place)) {
    for (int32_t p : scope_) states_.push_back(model.states(p));
    complete_at_.resize(scope_.size() + 1);
    open_at_.resize(scope_.size() + 1);
    zeros_.assign(own_states_, 0.0);
    scratch_.assign(own_states_, 0.0);
    sums_.assign(scope_.size() + 1, std::vector<double>(own_states_, 0.0));
    for (const Factor* factor : factors) {
      Reader reader{factor->values.data(), std::vector<int64_t>(scope_.size(), 0), {}};
      int64_t stride = own_states_;
      size_t level = 0;
      for (size_t q = factor->scope.size() - 1; q-- > 0;) {
        const size_t at =
            std::find(scope_.begin(), scope_.end(), factor->scope[q]) - scope_.begin();
        reader.stride[at] = stride;
        stride *= states_[at];
        level = std::max(level, at + 1);
      }
      reader.offset.assign(scope_.size() + 1, 0);
      complete_at_[level].push_back(readers_.size());
      for (size_t q = 0; q < level; ++q) open_at_[q].push_back(readers_.size());
      readers_.push_back(std::move(reader));
    }
  }

  void Fill(Factor& out, std::vector<uint16_t>& best) {
    int64_t cells = 1;
    for (int32_t s : states_) cells *= s;
    out.scope = scope_;
    out.values.resize(cells);
    best.resize(cells);
    value_ = out.values.data();
    best_ = best.data();
    if (!scope_.empty()) AddComplete(0, complete_at_[0].size());
    Walk(0);
  }

 private:
  struct Reader {
    const double* values;
    std::vector<int64_t> stride;  // per place of the scope
    std::vector<int64_t> offset;  // per level, given the states chosen above it
  };

  const double* RowOf(size_t reader, size_t level) const {
    return readers_[reader].values + readers_[reader].offset[level];
  }

  // `count` of the readers whose places are all chosen at `level`, into its sums.
  void AddComplete(size_t level, size_t count) {
    double* sum = sums_[level].data();
    for (size_t q = 0; q < count; ++q) {
      const double* row = RowOf(complete_at_[level][q], level);
      for (int32_t s = 0; s < own_states_; ++s) sum[s] += row[s];
    }
  }

  // All places are chosen: the last reader is added while minimising.
  void Minimise() {
    const size_t level = scope_.size();
    const std::vector<size_t>& complete = complete_at_[level];
    const double* sum = sums_[level].data();
    const double* last = zeros_.data();
    if (!complete.empty()) last = RowOf(complete.back(), level);
    if (level > 0 && complete.size() <= 1) {
      sum = sums_[level - 1].data();
    } else {
      if (level > 0) sums_[level] = sums_[level - 1];
      AddComplete(level, complete.size() - 1);
    }
    int32_t least = 0;
    *value_++ = LeastSum(sum, last, own_states_, scratch_.data(), &least);
    *best_++ = static_cast<uint16_t>(least);
  }

  void Walk(size_t level) {
    if (level == scope_.size()) {
      Minimise();
      return;
    }
    for (int32_t s = 0; s < states_[level]; ++s) {
      for (size_t r : open_at_[level]) {
        Reader& reader = readers_[r];
        reader.offset[level + 1] = reader.offset[level] + reader.stride[level] * s;
      }
      if (level + 1 < scope_.size()) {
        std::copy(sums_[level].begin(), sums_[level].end(), sums_[level + 1].begin());
        AddComplete(level + 1, complete_at_[level + 1].size());
      }
      Walk(level + 1);
    }
  }

  std::vector<int32_t> scope_;
  int32_t own_states_;
  std::vector<int32_t> states_;
  std::vector<Reader> readers_;
  std::vector<std::vector<size_t>> complete_at_;  // level -> readers whose places are all chosen
  std::vector<std::vector<size_t>> open_at_;      // level -> readers not complete before it
  std::vector<double> zeros_;
  std::vector<double> scratch_;
  std::vector<std::vector<double>> sums_;  // per level, over the eliminated place's states
  double* value_ = nullptr;
  uint16_t* best_ = nullptr;
};

// The model's costs as factors; places of one state are folded into their neighbours.
double Seed(const Model& model, const std::vector<int32_t>& rank, std::vector<Factor>& factors) {
  double constant = 0.0;
  std::vector<std::vector<double>> unary(model.size());
  for (int32_t k = 0; k < model.size(); ++k) {
    unary[k].assign(model.costs(k), model.costs(k) + model.states(k));
    if (model.states(k) > 1) continue;
    constant += unary[k][0];
    for (const Arc& arc : model.arcs_of(k)) {
      if (model.states(arc.neighbour) > 1) continue;
      if (arc.neighbour > k) constant += model.row(k, arc, 0)[0];
    }
  }
  for (const Link& link : model.links) {
    const PairTable& table = model.table(link);
    const bool open_i = table.states_i > 1;
    const bool open_j = table.states_j > 1;
    if (open_i && open_j) {
      const bool i_first = rank[link.i] > rank[link.j];
      factors.push_back(
          {i_first ? std::vector<int32_t>{link.i, link.j} : std::vector<int32_t>{link.j, link.i},
           i_first ? table.by_i : table.by_j});
    } else if (open_i || open_j) {
      std::vector<double>& costs = unary[open_i ? link.i : link.j];
      for (size_t s = 0; s < costs.size(); ++s) costs[s] += table.by_i[s];
    }
  }
  for (int32_t k = 0; k < model.size(); ++k) {
    if (model.states(k) > 1) factors.push_back({{k}, std::move(unary[k])});
  }
  return constant;
}

}  // namespace

EliminationOrder FindOrder(const Model& model, OrderRule rule, double hopeless_cells) {
  EliminationOrder order;
  Neighbours graph = GraphOfOpenPlaces(model);
  std::vector<double> log_states(model.size());
  std::vector<Key> keys(model.size());
  std::set<Key> queue;
  for (int32_t k = 0; k < model.size(); ++k) {
    log_states[k] = std::log(static_cast<double>(model.states(k)));
  }
  for (int32_t k = 0; k < model.size(); ++k) {
    if (model.states(k) == 1) continue;
    keys[k] = KeyOf(k, graph, log_states, rule);
    queue.insert(keys[k]);
  }
  while (!queue.empty()) {
    const int32_t place = std::get<2>(*queue.begin());
    queue.erase(queue.begin());
    const std::vector<int32_t> around = std::move(graph[place]);
    double cells = 1.0;
    for (int32_t n : around) cells *= model.states(n);
    order.largest_table = std::max(order.largest_table, cells);
    order.cells += cells * model.states(place);
    order.places.push_back(place);
    if (order.cells >= hopeless_cells) break;
    for (int32_t n : around) {
      Erase(graph[n], place);
      for (int32_t other : around) {
        if (other != n) Insert(graph[n], other);
      }
    }
    std::vector<int32_t> stale = around;
    if (rule == OrderRule::kWeightedMinFill && around.size() < kMostNeighboursForFill) {
      for (int32_t n : around) {
        if (graph[n].size() < kMostSecondNeighbours) {
          stale.insert(stale.end(), graph[n].begin(), graph[n].end());
        }
      }
      std::sort(stale.begin(), stale.end());
      stale.erase(std::unique(stale.begin(), stale.end()), stale.end());
    }
    for (int32_t n : stale) {
      queue.erase(keys[n]);
      keys[n] = KeyOf(n, graph, log_states, rule);
      queue.insert(keys[n]);
    }
  }
  return order;
}

EliminationOrder FindBestOrder(const Model& model, double hopeless_cells) {
  EliminationOrder weight = FindOrder(model, OrderRule::kMinWeight, hopeless_cells);
  EliminationOrder fill =
      FindOrder(model, OrderRule::kWeightedMinFill, std::min(hopeless_cells, weight.cells));
  return fill.cells < weight.cells ? fill : weight;
}

std::optional<EliminationResult> Eliminate(const Model& model, const EliminationOrder& order,
                                           const EliminationBudget& budget) {
  if (order.cells > static_cast<double>(budget.max_cells) ||
      order.largest_table > static_cast<double>(budget.max_table_cells)) {
    return std::nullopt;
  }
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
  result.value = Seed(model, rank, factors);
  std::vector<std::vector<int32_t>> factors_of(model.size());
  // A factor waits in the bucket of the place that is eliminated first: the last of its scope.
  for (size_t f = 0; f < factors.size(); ++f) {
    factors_of[factors[f].scope.back()].push_back(static_cast<int32_t>(f));
  }
  std::vector<Step> steps;
  int64_t pointers = 0;
  for (int32_t place : order.places) {
    if (budget.cancel != nullptr && budget.cancel->load(std::memory_order_relaxed)) {
      return std::nullopt;
    }
    Step step;
    step.place = place;
    std::vector<const Factor*> bucket;
    for (int32_t f : factors_of[place]) {
      bucket.push_back(&factors[f]);
      step.scope.insert(step.scope.end(), factors[f].scope.begin(), factors[f].scope.end() - 1);
    }
    std::sort(step.scope.begin(), step.scope.end(),
              [&](int32_t a, int32_t b) { return rank[a] > rank[b]; });
    step.scope.erase(std::unique(step.scope.begin(), step.scope.end()), step.scope.end());
    Factor out;
    Bucket(model, place, step.scope, bucket).Fill(out, step.best);
    pointers += static_cast<int64_t>(step.best.size());
    if (pointers > kPointerTables * budget.max_table_cells) return std::nullopt;
    for (int32_t f : factors_of[place]) factors[f] = Factor();
    if (out.scope.empty()) {
      result.value += out.values[0];
    } else {
      factors_of[out.scope.back()].push_back(static_cast<int32_t>(factors.size()));
      factors.push_back(std::move(out));
    }
    steps.push_back(std::move(step));
  }
  result.plan.assign(model.size(), 0);
  for (size_t q = steps.size(); q-- > 0;) {
    const Step& step = steps[q];
    int64_t at = 0;
    for (int32_t p : step.scope) at = at * model.states(p) + result.plan[p];
    result.plan[step.place] = step.best[at];
  }
  return result;
}

}  // namespace tandem::solver
