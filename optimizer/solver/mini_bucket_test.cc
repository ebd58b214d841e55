#include "optimizer/solver/mini_bucket.h"

#include <atomic>
#include <catch2/catch.hpp>
#include <random>

#include "optimizer/solver/dual.h"
#include "optimizer/solver/random_problem.h"

namespace tandem::solver {
namespace {

Problem Sample(int seed) {
  std::mt19937 random(seed);
  RandomOptions options;
  options.shape = seed % 2 == 0 ? Shape::kRandom : Shape::kGrid;
  options.nodes = 8;
  options.most_states = 4;
  return RandomProblem(options, random);
}

}  // namespace

TEST_CASE("mini-buckets bound from the dual's bound up to the optimum") {
  int gained = 0;
  int exact = 0;
  for (int seed = 0; seed < 100; ++seed) {
    CAPTURE(seed);
    const Problem problem = Sample(seed);
    const CompiledProblem compiled = Compile(problem, 0.0);
    const double optimum = Enumerate(problem, 0.0, 1e18).seconds;
    Dual dual(compiled.model);
    DualOptions dual_options;
    dual_options.max_sweeps = seed % 4;
    dual.Run(dual_options);
    const EliminationOrder order = FindBestOrder(compiled.model, kInfinity);
    for (int64_t cells : {1, 4, 16, 100000}) {
      MiniBucketOptions options;
      options.max_table_cells = cells;
      const auto result = MiniBucketBound(compiled.model, dual.messages(), order, options);
      REQUIRE(result.has_value());
      CHECK(result->bound <= optimum + 1e-9);
      CHECK(result->bound >= dual.lower() - 1e-9);
      if (result->exact) CHECK(result->bound == Approx(optimum).margin(1e-9));
      if (cells == 100000) CHECK(result->exact);
      gained += !result->exact && result->bound > dual.lower() + 1e-9;
      exact += result->exact;
    }
  }
  CHECK(gained > 20);
  CHECK(exact > 100);
}

TEST_CASE("mini-buckets give nothing when out of budget, cancelled or without a full order") {
  const Problem problem = Sample(2);
  const CompiledProblem compiled = Compile(problem, 0.0);
  const std::vector<double> messages(compiled.model.message_size(), 0.0);
  const EliminationOrder order = FindBestOrder(compiled.model, kInfinity);
  MiniBucketOptions options;
  REQUIRE(MiniBucketBound(compiled.model, messages, order, options).has_value());
  options.max_cells = 1;
  CHECK_FALSE(MiniBucketBound(compiled.model, messages, order, options).has_value());
  options = MiniBucketOptions();
  std::atomic<bool> cancel{true};
  options.cancel = &cancel;
  CHECK_FALSE(MiniBucketBound(compiled.model, messages, order, options).has_value());
  EliminationOrder cut = order;
  cut.places.pop_back();
  CHECK_FALSE(MiniBucketBound(compiled.model, messages, cut, MiniBucketOptions()).has_value());
}

}  // namespace tandem::solver
