#include "optimizer/solver/order.h"

#include <algorithm>
#include <cmath>
#include <set>
#include <tuple>
#include <utility>

namespace tandem::solver {
namespace {

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

}  // namespace tandem::solver
