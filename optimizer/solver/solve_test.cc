#include "optimizer/solver/solve.h"

#include <catch2/catch.hpp>
#include <random>

#include "optimizer/solver/random_problem.h"

namespace tandem::solver {
namespace {

constexpr double kRounding = 1e-9;

}  // namespace

TEST_CASE("random problems: the bound is never above, the plan never below the optimum") {
  const Shape shapes[] = {Shape::kChain, Shape::kTree, Shape::kGrid, Shape::kRandom,
                          Shape::kMultiEdge};
  for (int seed = 0; seed < 300; ++seed) {
    CAPTURE(seed);
    std::mt19937 random(seed);
    RandomOptions options;
    options.shape = shapes[seed % 5];
    options.nodes = 4 + seed % 4;
    options.coarse = seed % 3 == 0;
    const Problem problem = RandomProblem(options, random);
    const BruteForce best = Enumerate(problem, 0.0, 1e18);
    auto result = Solve(problem);
    REQUIRE(result.ok());
    CHECK(result->objective_seconds == Approx(ObjectiveSeconds(problem, result->plan)));
    CHECK(result->lower_bound_seconds <= best.seconds + kRounding);
    CHECK(result->objective_seconds >= best.seconds - kRounding);
    if (options.shape == Shape::kChain || options.shape == Shape::kTree) {
      CHECK(result->status == SolveStatus::kOptimal);
    }
    if (result->status == SolveStatus::kOptimal) {
      CHECK(result->objective_seconds <= best.seconds * (1 + 1e-6) + kRounding);
    }
  }
}

}  // namespace tandem::solver
