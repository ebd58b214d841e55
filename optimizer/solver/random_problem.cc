#include "optimizer/solver/random_problem.h"

#include <algorithm>
#include <limits>
#include <string>
#include <utility>
#include <vector>

namespace tandem::solver {
namespace {

int32_t Draw(std::mt19937& random, int32_t bound) {
  return static_cast<int32_t>(random() % static_cast<uint32_t>(bound));
}

double Cost(const RandomOptions& options, std::mt19937& random) {
  return 1e-3 * Draw(random, options.coarse ? 3 : 100);
}

std::vector<std::pair<int32_t, int32_t>> Pairs(const RandomOptions& options, std::mt19937& random) {
  const int32_t n = options.nodes;
  std::vector<std::pair<int32_t, int32_t>> pairs;
  for (int32_t i = 0; i < n; ++i) {
    switch (options.shape) {
      case Shape::kChain:
        if (i > 0) pairs.push_back({i - 1, i});
        break;
      case Shape::kTree:
        if (i > 0) pairs.push_back({Draw(random, i), i});
        break;
      case Shape::kGrid:  // three columns
        if (i % 3 > 0) pairs.push_back({i - 1, i});
        if (i >= 3) pairs.push_back({i - 3, i});
        break;
      case Shape::kRandom:
        for (int32_t j = i + 1; j < n; ++j) {
          if (Draw(random, 100) < 55) pairs.push_back({i, j});
        }
        break;
      case Shape::kMultiEdge:  // both directions, some pairs several times
        for (int32_t j = 0; j < n; ++j) {
          for (int32_t k = 0; j != i && k < 2; ++k) {
            if (Draw(random, 100) < 25) pairs.push_back({i, j});
          }
        }
        break;
    }
  }
  return pairs;
}

}  // namespace

Problem RandomProblem(const RandomOptions& options, std::mt19937& random) {
  Problem problem;
  for (int32_t i = 0; i < options.nodes; ++i) {
    const int32_t states = 1 + Draw(random, options.most_states);
    std::vector<double> unary(states);
    std::vector<double> memory(states);
    for (double& cost : unary) cost = Cost(options, random);
    for (double& bytes : memory) bytes = Draw(random, 50);
    Node node;
    node.name = "n" + std::to_string(i);
    node.unary = problem.AddVector(std::move(unary));
    if (options.memory) node.memory = problem.AddVector(std::move(memory));
    node.block = i / 2;
    node.position = i % 2;
    problem.AddNode(std::move(node));
  }
  for (const auto& [i, j] : Pairs(options, random)) {
    Table table{problem.states(i), problem.states(j), {}};
    table.cost.resize(static_cast<size_t>(table.rows) * table.cols);
    for (double& cost : table.cost) {
      cost = Draw(random, 1000) < 1000 * options.forbidden ? kForbidden : Cost(options, random);
    }
    problem.AddEdge(i, j, problem.AddTable(std::move(table)));
  }
  return problem;
}

BruteForce Enumerate(const Problem& problem, double price, double limit_bytes) {
  BruteForce best;
  best.least_memory = std::numeric_limits<double>::infinity();
  double least = std::numeric_limits<double>::infinity();
  Plan plan(problem.node_count(), 0);
  while (true) {
    if (IsPermitted(problem, plan)) {
      const double memory = MemoryBytes(problem, plan);
      best.least_memory = std::min(best.least_memory, memory);
      const double objective = ObjectiveSeconds(problem, plan) + price * memory;
      if (memory <= limit_bytes && objective < least) {
        least = objective;
        best.permitted = true;
        best.plan = plan;
        best.seconds = objective;
      }
    }
    int32_t k = problem.node_count() - 1;
    while (k >= 0 && ++plan[k] == problem.states(k)) plan[k--] = 0;
    if (k < 0) return best;
  }
}

}  // namespace tandem::solver
