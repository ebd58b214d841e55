#include "optimizer/solver/windows.h"

#include <atomic>
#include <catch2/catch.hpp>
#include <random>

#include "optimizer/solver/random_problem.h"

namespace tandem::solver {
namespace {

Problem Sample(int seed) {
  std::mt19937 random(seed);
  RandomOptions options;
  options.shape = Shape::kGrid;
  options.nodes = 8;
  options.most_states = 3;
  return RandomProblem(options, random);  // two nodes a block
}

}  // namespace

TEST_CASE("a conditioned window has the value of the whole up to a constant") {
  const Problem problem = Sample(1);
  const CompiledProblem compiled = Compile(problem, 0.0);
  std::vector<int32_t> plan(compiled.model.size(), 0);
  const std::vector<int32_t> places = {2, 3, 5};
  const Model window = Condition(compiled.model, places, plan);
  REQUIRE(window.size() == 3);
  std::vector<int32_t> inner(3, 0);
  const double constant = compiled.model.Value(plan) - window.Value(inner);
  while (true) {
    std::vector<int32_t> whole = plan;
    for (size_t q = 0; q < places.size(); ++q) whole[places[q]] = inner[q];
    CHECK(compiled.model.Value(whole) == Approx(window.Value(inner) + constant));
    int32_t k = 2;
    while (k >= 0 && ++inner[k] == window.states(k)) inner[k--] = 0;
    if (k < 0) break;
  }
}

TEST_CASE("windows never make a plan worse and reach the optimum when one holds everything") {
  for (int seed = 0; seed < 60; ++seed) {
    CAPTURE(seed);
    const Problem problem = Sample(seed);
    const CompiledProblem compiled = Compile(problem, 0.0);
    const double optimum = Enumerate(problem, 0.0, 1e18).seconds;
    for (int32_t blocks : {1, 2, 4}) {
      std::vector<int32_t> plan(compiled.model.size(), 0);
      const double before = compiled.model.Value(plan);
      WindowOptions options;
      options.blocks = blocks;
      const WindowWork work = ImproveByWindows(compiled.model, options, plan);
      CHECK(work.windows > 0);
      CHECK(compiled.model.Value(plan) <= before);
      CHECK(compiled.model.Value(plan) >= optimum - 1e-12);
      if (blocks == 4) CHECK(compiled.model.Value(plan) == Approx(optimum));
    }
  }
}

TEST_CASE("windows too wide for the budget are split, not given up") {
  int helped = 0;
  for (int seed = 0; seed < 20; ++seed) {
    const CompiledProblem compiled = Compile(Sample(seed), 0.0);
    std::vector<int32_t> plan(compiled.model.size(), 0);
    const double before = compiled.model.Value(plan);
    WindowOptions options;
    options.blocks = 4;
    options.max_table_cells = 8;
    ImproveByWindows(compiled.model, options, plan);
    CHECK(compiled.model.Value(plan) <= before);
    helped += compiled.model.Value(plan) < before;
  }
  CHECK(helped > 10);
}

TEST_CASE("cancelled windows leave the plan as it is") {
  const CompiledProblem compiled = Compile(Sample(3), 0.0);
  std::vector<int32_t> plan(compiled.model.size(), 0);
  std::atomic<bool> cancel{true};
  WindowOptions options;
  options.cancel = &cancel;
  const WindowWork work = ImproveByWindows(compiled.model, options, plan);
  CHECK(work.windows == 0);
  CHECK(plan == std::vector<int32_t>(compiled.model.size(), 0));
}

}  // namespace tandem::solver
