#include "optimizer/solver/memory.h"

#include <atomic>
#include <catch2/catch.hpp>
#include <cmath>
#include <limits>
#include <random>

#include "absl/strings/match.h"
#include "optimizer/solver/mix.h"
#include "optimizer/solver/random_problem.h"
#include "optimizer/solver/repeat.h"
#include "optimizer/solver/trade.h"

namespace tandem::solver {
namespace {

constexpr double kRounding = 1e-9;

Problem Sample(int seed, double forbidden) {
  const Shape shapes[] = {Shape::kChain, Shape::kTree, Shape::kGrid, Shape::kRandom,
                          Shape::kMultiEdge};
  std::mt19937 random(seed);
  RandomOptions options;
  options.shape = shapes[seed % 5];
  options.nodes = 4 + seed % 4;
  options.forbidden = forbidden;
  options.memory = true;
  return RandomProblem(options, random);
}

}  // namespace

TEST_CASE("400 random problems with a memory limit against enumeration") {
  int binding = 0;
  int infeasible = 0;
  int exact = 0;
  double excess = 0.0;
  for (int seed = 0; seed < 400; ++seed) {
    CAPTURE(seed);
    const Problem problem = Sample(seed, seed % 3 == 0 ? 0.25 : 0.0);
    const BruteForce free = Enumerate(problem, 0.0, 1e18);
    if (!free.permitted) continue;
    const double needs = MemoryBytes(problem, free.plan);
    // From below the least to above the free optimum's memory.
    const double share = -0.2 + 0.15 * (seed % 10);
    const double limit = std::floor(free.least_memory + share * (needs - free.least_memory + 1));
    const BruteForce best = Enumerate(problem, 0.0, limit);
    const auto result = SolveWithinMemory(problem, limit);
    REQUIRE(result.ok());
    CHECK(result->least_memory_bound_bytes <= free.least_memory + 1e-6);
    if (!best.permitted) {
      ++infeasible;
      CHECK(result->status == MemoryStatus::kInfeasible);
      CHECK(result->least_memory_bytes == Approx(free.least_memory));
      CHECK(result->memory_bytes > limit);
      CHECK(absl::StrContains(result->detail, "least memory found"));
      continue;
    }
    binding += limit < needs;
    CHECK((result->status == MemoryStatus::kOptimal || result->status == MemoryStatus::kFeasible));
    CHECK(IsPermitted(problem, result->plan));
    CHECK(result->memory_bytes <= limit);
    CHECK(result->memory_bytes == MemoryBytes(problem, result->plan));
    CHECK(result->seconds == Approx(ObjectiveSeconds(problem, result->plan)));
    CHECK(result->lower_bound_seconds <= best.seconds + kRounding);
    CHECK(result->seconds >= best.seconds - kRounding);
    if (result->status == MemoryStatus::kOptimal) {
      CHECK(result->seconds <= best.seconds * (1 + 1e-6) + kRounding);
    }
    // A free solve that is known already changes nothing that is promised.
    const auto known = Solve(problem);
    REQUIRE(known.ok());
    MemoryOptions given;
    given.free = &*known;
    const auto again = SolveWithinMemory(problem, limit, given);
    REQUIRE(again.ok());
    CHECK(IsPermitted(problem, again->plan));
    CHECK(again->memory_bytes <= limit);
    CHECK(again->lower_bound_seconds <= best.seconds + kRounding);
    CHECK(again->seconds >= best.seconds - kRounding);
    exact += result->seconds <= best.seconds + kRounding;
    excess += result->seconds / std::max(best.seconds, 1e-3) - 1.0;
  }
  CHECK(binding > 100);
  CHECK(infeasible > 20);
  // The multiplier leaves little to gain even on problems too small for it.
  CHECK(exact > 250);
  CHECK(excess / 400 < 0.01);
}

TEST_CASE("the example of the documentation") {
  Problem problem;
  Node node;
  node.name = "matmul";
  node.unary = problem.AddVector({1e-3, 2e-3});
  node.memory = problem.AddVector({8e6, 4e6});
  node.block = 0;
  const int32_t a = problem.AddNode(node);
  const int32_t b = problem.AddNode(node);
  problem.AddEdge(a, b, problem.AddTable({2, 2, {0, 1e-4, kForbidden, 0}}));

  const absl::StatusOr<SolveResult> free = SolveRepeated(problem);
  const absl::StatusOr<MemoryResult> small = SolveWithinMemory(problem, 14e6);
  REQUIRE(free.ok());
  REQUIRE(small.ok());
  CHECK(free->plan == Plan{0, 0});
  CHECK(small->plan == Plan{0, 1});
  CHECK(small->memory_bytes == 12e6);
  CHECK(SolveWithinMemory(problem, 7e6)->status == MemoryStatus::kInfeasible);
}

TEST_CASE("a limit that does not bind gives the free optimum") {
  const Problem problem = Sample(3, 0.0);
  const BruteForce free = Enumerate(problem, 0.0, 1e18);
  for (double limit : {1e18, std::numeric_limits<double>::infinity()}) {
    const auto result = SolveWithinMemory(problem, limit);
    REQUIRE(result.ok());
    CHECK(result->status == MemoryStatus::kOptimal);
    CHECK(result->seconds == Approx(free.seconds));
    CHECK(result->solves == 1);
    CHECK(result->price_seconds_per_byte == 0.0);
  }
}

TEST_CASE("forbidden everywhere is infeasible whatever the limit") {
  Problem p;
  Node node;
  node.name = "n";
  node.unary = p.AddVector({kForbidden});
  node.memory = p.AddVector({5});
  p.AddNode(node);
  for (double limit : {0.0, 100.0}) {
    const auto result = SolveWithinMemory(p, limit);
    REQUIRE(result.ok());
    CHECK(result->status == MemoryStatus::kInfeasible);
    CHECK_FALSE(result->detail.empty());
  }
}

TEST_CASE("nonsense limits and problems are errors, impossible limits are not") {
  const Problem problem = Sample(1, 0.0);
  CHECK(SolveWithinMemory(problem, std::nan("")).status().code() ==
        absl::StatusCode::kInvalidArgument);
  Problem bad;
  bad.AddNode(Node());
  CHECK(SolveWithinMemory(bad, 1.0).status().code() == absl::StatusCode::kInvalidArgument);
  const auto negative = SolveWithinMemory(problem, -1.0);
  REQUIRE(negative.ok());
  CHECK(negative->status == MemoryStatus::kInfeasible);
}

TEST_CASE("an empty problem fits any limit but a negative one") {
  CHECK(SolveWithinMemory(Problem(), 0.0).value().status == MemoryStatus::kOptimal);
  CHECK(SolveWithinMemory(Problem(), -1.0).value().status == MemoryStatus::kInfeasible);
}

TEST_CASE("a cancelled search says so and keeps its promises") {
  std::atomic<bool> cancel{true};
  MemoryOptions options;
  options.solve.cancel = &cancel;
  for (int seed = 0; seed < 20; ++seed) {
    const Problem problem = Sample(seed, 0.0);
    const BruteForce free = Enumerate(problem, 0.0, 1e18);
    const auto result = SolveWithinMemory(problem, free.least_memory, options);
    REQUIRE(result.ok());
    CHECK(result->cancelled);
    CHECK(ValidatePlan(problem, result->plan).ok());
    if (result->status == MemoryStatus::kOptimal || result->status == MemoryStatus::kFeasible) {
      CHECK(result->memory_bytes <= free.least_memory);
    }
  }
}

TEST_CASE("a limit whose bound exceeds the incumbent is dropped") {
  const Problem problem = Sample(2, 0.0);
  const BruteForce free = Enumerate(problem, 0.0, 1e18);
  MemoryOptions options;
  options.solve.incumbent_seconds = 0.5 * free.seconds;
  const auto result = SolveWithinMemory(problem, 1e18, options);
  REQUIRE(result.ok());
  CHECK(result->status == MemoryStatus::kDropped);
}

TEST_CASE("the same limit twice gives the same result") {
  for (int seed = 0; seed < 30; ++seed) {
    const Problem problem = Sample(seed, 0.0);
    const BruteForce free = Enumerate(problem, 0.0, 1e18);
    const double limit = 0.5 * (free.least_memory + MemoryBytes(problem, free.plan));
    const auto a = SolveWithinMemory(problem, limit);
    const auto b = SolveWithinMemory(problem, limit);
    CHECK(a->plan == b->plan);
    CHECK(a->lower_bound_seconds == b->lower_bound_seconds);
    CHECK(a->steps.sweeps == b->steps.sweeps);
  }
}

TEST_CASE("trades stay within the limit and never make a plan slower") {
  int gained = 0;
  for (int seed = 0; seed < 60; ++seed) {
    CAPTURE(seed);
    const Problem problem = Sample(seed, 0.0);
    const CompiledProblem compiled = Compile(problem, 0.0);
    const Model& model = compiled.model;
    WeightedModel weighted{model, {}};
    for (int32_t n : compiled.node_of_place) {
      for (int32_t s = 0; s < problem.states(n); ++s) {
        weighted.bytes.push_back(problem.memory_bytes(n, s));
      }
    }
    const std::vector<int32_t> start(model.size(), 0);
    const double limit = weighted.Bytes(start) + seed % 7;
    std::vector<int32_t> plan = start;
    TradeOptions options;
    options.price = 1e-3;
    TradeByWindows(weighted, limit, options, plan);
    CHECK(weighted.Bytes(plan) <= limit);
    CHECK(model.Value(plan) <= model.Value(start));
    gained += model.Value(plan) < model.Value(start);

    std::vector<int32_t> untouched = start;
    std::atomic<bool> cancel{true};
    options = TradeOptions();
    options.cancel = &cancel;
    CHECK(TradeByWindows(weighted, limit, options, untouched) == 0);
    CHECK(untouched == start);
  }
  CHECK(gained > 30);
}

TEST_CASE("mixing and descent stay within the limit and never lose to the light plan") {
  int gained = 0;
  for (int seed = 0; seed < 60; ++seed) {
    CAPTURE(seed);
    const Problem problem = Sample(seed, 0.0);
    const CompiledProblem compiled = Compile(problem, 0.0);
    const Model& model = compiled.model;
    WeightedModel weighted{model, {}};
    for (int32_t n : compiled.node_of_place) {
      for (int32_t s = 0; s < problem.states(n); ++s) {
        weighted.bytes.push_back(problem.memory_bytes(n, s));
      }
    }
    std::vector<int32_t> light(model.size(), 0);
    for (int32_t k = 0; k < model.size(); ++k) {
      for (int32_t s = 0; s < model.states(k); ++s) {
        if (weighted.bytes[model.first[k] + s] < weighted.bytes[model.first[k] + light[k]]) {
          light[k] = s;
        }
      }
    }
    const std::vector<int32_t> heavy = compiled.FromProblem(Enumerate(problem, 0.0, 1e18).plan);
    const double limit = 0.5 * (weighted.Bytes(light) + weighted.Bytes(heavy));
    std::vector<int32_t> mixed = MixPlans(weighted, heavy, light, limit);
    CHECK(weighted.Bytes(mixed) <= limit);
    CHECK(model.Value(mixed) <= model.Value(light) + kRounding);
    const double before = model.Value(mixed);
    DescendWithin(weighted, limit, 20, mixed);
    CHECK(weighted.Bytes(mixed) <= limit);
    CHECK(model.Value(mixed) <= before);
    gained += model.Value(mixed) < model.Value(light) - kRounding;
  }
  CHECK(gained > 30);
}

}  // namespace tandem::solver
