#include "optimizer/solver/eliminate.h"

#include <algorithm>
#include <atomic>
#include <catch2/catch.hpp>
#include <optional>
#include <random>

#include "optimizer/solver/dual.h"
#include "optimizer/solver/random_problem.h"

namespace tandem::solver {
namespace {

constexpr double kNeverHopeless = 1e30;

}  // namespace

TEST_CASE("elimination equals enumeration under both orders") {
  const Shape shapes[] = {Shape::kChain, Shape::kTree, Shape::kGrid, Shape::kRandom,
                          Shape::kMultiEdge};
  for (int seed = 0; seed < 150; ++seed) {
    CAPTURE(seed);
    std::mt19937 random(seed);
    RandomOptions options;
    options.shape = shapes[seed % 5];
    options.nodes = 3 + seed % 5;
    options.most_states = 5;
    options.forbidden = seed % 4 == 0 ? 0.2 : 0.0;
    const Problem problem = RandomProblem(options, random);
    const CompiledProblem compiled = Compile(problem, 0.0);
    double least = 1e30;
    Plan plan(problem.node_count(), 0);
    while (true) {
      least = std::min(least, ObjectiveSeconds(problem, plan));
      int32_t k = problem.node_count() - 1;
      while (k >= 0 && ++plan[k] == problem.states(k)) plan[k--] = 0;
      if (k < 0) break;
    }
    for (OrderRule rule : {OrderRule::kMinWeight, OrderRule::kWeightedMinFill}) {
      const EliminationOrder order = FindOrder(compiled.model, rule, kNeverHopeless);
      const auto result = Eliminate(compiled.model, order, EliminationBudget());
      REQUIRE(result.has_value());
      CHECK(result->value == Approx(least).margin(1e-12));
      CHECK(compiled.model.Value(result->plan) == Approx(least).margin(1e-12));
    }
  }
}

TEST_CASE("elimination refuses what its budget forbids") {
  std::mt19937 random(3);
  RandomOptions options;
  options.nodes = 8;
  const Problem problem = RandomProblem(options, random);
  const CompiledProblem compiled = Compile(problem, 0.0);
  const EliminationOrder order = FindBestOrder(compiled.model, kNeverHopeless);
  REQUIRE(Eliminate(compiled.model, order, EliminationBudget()).has_value());
  EliminationBudget few_cells;
  few_cells.max_cells = static_cast<int64_t>(order.cells) - 1;
  CHECK_FALSE(Eliminate(compiled.model, order, few_cells).has_value());
  EliminationBudget small_tables;
  small_tables.max_table_cells = static_cast<int64_t>(order.largest_table) - 1;
  CHECK_FALSE(Eliminate(compiled.model, order, small_tables).has_value());
  std::atomic<bool> cancel{true};
  EliminationBudget cancelled;
  cancelled.cancel = &cancel;
  CHECK_FALSE(Eliminate(compiled.model, order, cancelled).has_value());
}

TEST_CASE("elimination below a value finds what is there and nothing else") {
  int walked_less = 0;
  for (int seed = 0; seed < 100; ++seed) {
    CAPTURE(seed);
    std::mt19937 random(seed);
    RandomOptions options;
    options.shape = seed % 2 == 0 ? Shape::kRandom : Shape::kGrid;
    options.nodes = 7;
    options.most_states = 5;
    const Problem problem = RandomProblem(options, random);
    const CompiledProblem compiled = Compile(problem, 0.0);
    const double optimum = Enumerate(problem, 0.0, 1e18).seconds;
    const EliminationOrder order = FindBestOrder(compiled.model, kNeverHopeless);
    Dual dual(compiled.model);
    dual.Run(DualOptions());
    const auto above =
        EliminateBelow(optimum + 1e-6, compiled.model, dual.messages(), order, EliminationBudget());
    REQUIRE(above.has_value());
    CHECK(above->value == Approx(optimum).margin(1e-9));
    CHECK(compiled.model.Value(above->plan) == Approx(optimum).margin(1e-9));
    CHECK(above->cells <= order.cells);
    walked_less += above->cells < order.cells;
    const auto below =
        EliminateBelow(optimum - 1e-6, compiled.model, dual.messages(), order, EliminationBudget());
    REQUIRE(below.has_value());
    CHECK(below->plan.empty());
    CHECK(below->value > optimum);
  }
  CHECK(walked_less > 10);
}

TEST_CASE("an order given up as hopeless is not eliminated by mistake") {
  std::mt19937 random(5);
  RandomOptions options;
  options.shape = Shape::kGrid;
  options.nodes = 9;
  options.most_states = 4;
  const Problem problem = RandomProblem(options, random);
  const CompiledProblem compiled = Compile(problem, 0.0);
  const EliminationOrder order = FindOrder(compiled.model, OrderRule::kMinWeight, 2.0);
  CHECK(order.cells >= 2.0);
  CHECK_FALSE(Eliminate(compiled.model, order, EliminationBudget()).has_value());
}

}  // namespace tandem::solver
