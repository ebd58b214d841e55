#include "optimizer/solver/solve.h"

#include <atomic>
#include <catch2/catch.hpp>
#include <random>
#include <string>
#include <vector>

#include "absl/strings/match.h"
#include "optimizer/solver/eliminate.h"
#include "optimizer/solver/random_problem.h"

namespace tandem::solver {
namespace {

constexpr double kRounding = 1e-9;
constexpr double kNoLimit = 1e18;

Problem Sample(int seed, double forbidden) {
  const Shape shapes[] = {Shape::kChain, Shape::kTree, Shape::kGrid, Shape::kRandom,
                          Shape::kMultiEdge};
  std::mt19937 random(seed);
  RandomOptions options;
  options.shape = shapes[seed % 5];
  options.nodes = 4 + seed % 4;
  options.coarse = seed % 3 == 0;
  options.forbidden = forbidden;
  options.memory = true;
  return RandomProblem(options, random);
}

// A cycle of three that a linear relaxation cannot close: each pair wants to differ.
Problem Frustrated() {
  Problem p;
  Node node;
  node.unary = p.AddVector({0, 0});
  for (int k = 0; k < 3; ++k) p.AddNode(node);
  const int32_t differ = p.AddTable({2, 2, {1e-3, 0, 0, 1e-3}});
  p.AddEdge(0, 1, differ);
  p.AddEdge(1, 2, differ);
  p.AddEdge(2, 0, differ);
  return p;
}

}  // namespace

TEST_CASE("500 random problems equal enumeration") {
  for (int seed = 0; seed < 500; ++seed) {
    CAPTURE(seed);
    const Problem problem = Sample(seed, 0.0);
    SolveOptions options;
    options.price_seconds_per_byte = seed % 2 == 0 ? 0.0 : 1e-3;
    const BruteForce best = Enumerate(problem, options.price_seconds_per_byte, kNoLimit);
    const auto result = Solve(problem, options);
    REQUIRE(result.ok());
    CHECK(result->status == SolveStatus::kOptimal);
    CHECK(result->seconds == Approx(ObjectiveSeconds(problem, result->plan)));
    CHECK(result->memory_bytes == MemoryBytes(problem, result->plan));
    CHECK(result->objective_seconds == Approx(best.seconds).margin(kRounding));
    CHECK(result->lower_bound_seconds <= best.seconds + kRounding);
    CHECK(result->gap() <= 1e-6);
  }
}

TEST_CASE("middle-sized grids equal elimination, and stay bounded on small budgets") {
  int open = 0;
  for (int seed = 0; seed < 60; ++seed) {
    CAPTURE(seed);
    std::mt19937 random(seed);
    RandomOptions shape;
    shape.shape = Shape::kGrid;
    shape.nodes = 45;
    shape.most_states = 7;
    shape.coarse = seed % 4 == 0;
    shape.forbidden = seed % 3 == 0 ? 0.1 : 0.0;
    const Problem problem = RandomProblem(shape, random);
    const CompiledProblem compiled = Compile(problem, 0.0);
    const auto exact =
        Eliminate(compiled.model, FindBestOrder(compiled.model, 1e30), EliminationBudget());
    REQUIRE(exact.has_value());
    const auto result = Solve(problem);
    REQUIRE(result.ok());
    CHECK(result->status ==
          (IsForbidden(exact->value) ? SolveStatus::kInfeasible : SolveStatus::kOptimal));
    CHECK(result->objective_seconds == Approx(exact->value).epsilon(1e-6));
    SolveOptions small;
    small.max_elimination_cells = 100;
    small.max_window_cells = 50;
    small.max_sweeps = 10;
    const auto bounded = Solve(problem, small);
    REQUIRE(bounded.ok());
    CHECK(bounded->lower_bound_seconds <= exact->value * (1 + 1e-6));
    CHECK(bounded->objective_seconds >= exact->value * (1 - 1e-6));
    open += bounded->status == SolveStatus::kFeasible;
  }
  CHECK(open > 5);
}

TEST_CASE("300 random problems with forbidden pairs: optimum, or proved infeasible") {
  int infeasible = 0;
  for (int seed = 0; seed < 300; ++seed) {
    CAPTURE(seed);
    const Problem problem = Sample(seed, 0.45);
    const BruteForce best = Enumerate(problem, 0.0, kNoLimit);
    const auto result = Solve(problem);
    REQUIRE(result.ok());
    if (best.permitted) {
      CHECK(result->status == SolveStatus::kOptimal);
      CHECK(result->objective_seconds == Approx(best.seconds).margin(kRounding));
      CHECK(IsPermitted(problem, result->plan));
    } else {
      ++infeasible;
      CHECK(result->status == SolveStatus::kInfeasible);
      CHECK_FALSE(IsPermitted(problem, result->plan));
      CHECK_FALSE(result->detail.empty());
    }
  }
  CHECK(infeasible > 50);
  CHECK(infeasible < 250);
}

TEST_CASE("without exact steps the bound is still never above the optimum") {
  int open = 0;
  for (int seed = 0; seed < 300; ++seed) {
    CAPTURE(seed);
    const Problem problem = Sample(seed, seed % 2 == 0 ? 0.0 : 0.2);
    const BruteForce best = Enumerate(problem, 0.0, kNoLimit);
    if (!best.permitted) continue;
    SolveOptions options;
    options.exact = false;
    options.window_blocks = 0;
    options.max_sweeps = 1 + seed % 30;
    const auto result = Solve(problem, options);
    REQUIRE(result.ok());
    CHECK(result->lower_bound_seconds <= best.seconds + kRounding);
    CHECK(result->objective_seconds >= best.seconds - kRounding);
    CHECK(result->steps.sweeps <= options.max_sweeps);
    open += result->status != SolveStatus::kOptimal;
  }
  CHECK(open > 10);
}

TEST_CASE("a frustrated cycle stays open for the dual and is closed by elimination") {
  const Problem problem = Frustrated();
  SolveOptions options;
  options.exact = false;
  auto open = Solve(problem, options);
  REQUIRE(open.ok());
  CHECK(open->status == SolveStatus::kFeasible);
  CHECK(open->objective_seconds == Approx(1e-3));
  CHECK(open->lower_bound_seconds == Approx(0.0).margin(kRounding));
  options.exact = true;
  auto closed = Solve(problem, options);
  REQUIRE(closed.ok());
  CHECK(closed->status == SolveStatus::kOptimal);
  CHECK(closed->lower_bound_seconds == Approx(1e-3));
  options.max_elimination_cells = 1;
  auto refused = Solve(problem, options);
  REQUIRE(refused.ok());
  CHECK(refused->status == SolveStatus::kFeasible);
  CHECK(absl::StrContains(refused->detail, "not eliminated exactly"));
}

TEST_CASE("the same problem twice gives the same result") {
  for (int seed = 0; seed < 40; ++seed) {
    const Problem problem = Sample(seed, 0.1);
    const auto a = Solve(problem);
    const auto b = Solve(problem);
    REQUIRE(a.ok());
    REQUIRE(b.ok());
    CHECK(a->plan == b->plan);
    CHECK(a->objective_seconds == b->objective_seconds);
    CHECK(a->lower_bound_seconds == b->lower_bound_seconds);
    CHECK(a->steps.sweeps == b->steps.sweeps);
    CHECK(a->steps.elimination_cells == b->steps.elimination_cells);
  }
}

TEST_CASE("ties go to the lowest state") {
  Problem p;
  Node node;
  node.unary = p.AddVector({1e-3, 0, 0, 0});
  p.AddNode(node);
  p.AddNode(node);
  p.AddEdge(0, 1, p.AddTable({4, 4, std::vector<double>(16, 0.0)}));
  const auto result = Solve(p);
  REQUIRE(result.ok());
  CHECK(result->plan == Plan{1, 1});
}

TEST_CASE("an empty problem and a single node") {
  Problem p;
  auto result = Solve(p);
  REQUIRE(result.ok());
  CHECK(result->status == SolveStatus::kOptimal);
  CHECK(result->plan.empty());
  Node node;
  node.unary = p.AddVector({3e-3, 2e-3});
  p.AddNode(node);
  result = Solve(p);
  REQUIRE(result.ok());
  CHECK(result->status == SolveStatus::kOptimal);
  CHECK(result->plan == Plan{1});
  CHECK(result->lower_bound_seconds == Approx(2e-3));
}

TEST_CASE("negative costs") {
  Problem p;
  Node node;
  node.unary = p.AddVector({-3e-3, 2e-3});
  p.AddNode(node);
  p.AddNode(node);
  p.AddEdge(0, 1, p.AddTable({2, 2, {4e-3, -2e-3, 0, 0}}));
  const auto result = Solve(p);
  REQUIRE(result.ok());
  CHECK(result->status == SolveStatus::kOptimal);
  CHECK(result->objective_seconds == Approx(-3e-3));
}

TEST_CASE("a node whose states are all forbidden is infeasible") {
  Problem p = Frustrated();
  Node node;
  node.name = "stuck";
  node.unary = p.AddVector({kForbidden, kForbidden});
  p.AddNode(node);
  const auto result = Solve(p);
  REQUIRE(result.ok());
  CHECK(result->status == SolveStatus::kInfeasible);
  CHECK(absl::StrContains(result->detail, "stuck"));
  CHECK(result->plan.size() == 4);
}

TEST_CASE("an edge whose pairs are all forbidden is infeasible") {
  Problem p = Frustrated();
  p.AddEdge(0, 1, p.AddTable({2, 2, std::vector<double>(4, kForbidden)}));
  const auto result = Solve(p);
  REQUIRE(result.ok());
  CHECK(result->status == SolveStatus::kInfeasible);
  CHECK(absl::StrContains(result->detail, "edge 3"));
}

TEST_CASE("malformed problems, plans and messages are errors") {
  Problem bad;
  bad.AddNode(Node());
  CHECK(Solve(bad).status().code() == absl::StatusCode::kInvalidArgument);

  const Problem problem = Frustrated();
  SolveOptions options;
  Plan plan = {0, 1};
  options.start_plan = &plan;
  CHECK(Solve(problem, options).status().code() == absl::StatusCode::kInvalidArgument);
  plan = {0, 1, 2};
  CHECK(Solve(problem, options).status().code() == absl::StatusCode::kInvalidArgument);
  options.start_plan = nullptr;
  Messages messages;
  options.start_messages = &messages;
  CHECK(Solve(problem, options).status().code() == absl::StatusCode::kInvalidArgument);
  messages.to.assign(6, {0.0});
  CHECK(Solve(problem, options).status().code() == absl::StatusCode::kInvalidArgument);
}

TEST_CASE("a cancelled solve returns a valid plan and bound") {
  std::atomic<bool> cancel{true};
  SolveOptions options;
  options.cancel = &cancel;
  for (int seed = 0; seed < 20; ++seed) {
    const Problem problem = Sample(seed, 0.0);
    const BruteForce best = Enumerate(problem, 0.0, kNoLimit);
    const auto result = Solve(problem, options);
    REQUIRE(result.ok());
    CHECK(result->cancelled);
    CHECK(result->steps.sweeps == 0);
    CHECK(ValidatePlan(problem, result->plan).ok());
    CHECK(result->lower_bound_seconds <= best.seconds + kRounding);
    CHECK(result->objective_seconds >= best.seconds - kRounding);
  }
}

TEST_CASE("cancelling from the progress callback ends the solve early") {
  const Problem problem = Frustrated();
  std::atomic<bool> cancel{false};
  SolveOptions options;
  options.cancel = &cancel;
  std::vector<std::string> stages;
  options.progress = [&](const Progress& progress) {
    stages.push_back(progress.stage);
    CHECK(progress.lower_bound_seconds <= progress.objective_seconds);
    cancel = true;
  };
  const auto result = Solve(problem, options);
  REQUIRE(result.ok());
  CHECK(result->cancelled);
  CHECK(stages.size() <= 2);
  CHECK(result->status == SolveStatus::kFeasible);
}

TEST_CASE("a problem that cannot beat the incumbent is dropped") {
  const Problem problem = Sample(1, 0.0);
  const BruteForce best = Enumerate(problem, 0.0, kNoLimit);
  SolveOptions options;
  options.incumbent_seconds = 0.5 * best.seconds;
  auto result = Solve(problem, options);
  REQUIRE(result.ok());
  CHECK(result->status == SolveStatus::kDropped);
  CHECK(result->lower_bound_seconds > options.incumbent_seconds);
  options.incumbent_seconds = 2.0 * best.seconds;
  result = Solve(problem, options);
  REQUIRE(result.ok());
  CHECK(result->status == SolveStatus::kOptimal);
}

TEST_CASE("warm starts: messages and plan of a solved problem close it at once") {
  for (int seed = 0; seed < 60; ++seed) {
    CAPTURE(seed);
    const Problem problem = Sample(seed, 0.0);
    SolveOptions options;
    options.want_messages = true;
    options.exact = false;
    const auto cold = Solve(problem, options);
    REQUIRE(cold.ok());
    if (cold->status != SolveStatus::kOptimal || cold->steps.sweeps > 10) continue;
    SolveOptions warm_options;
    warm_options.start_plan = &cold->plan;
    warm_options.start_messages = &cold->messages;
    const auto warm = Solve(problem, warm_options);
    REQUIRE(warm.ok());
    CHECK(warm->status == SolveStatus::kOptimal);
    CHECK(warm->steps.sweeps <= 1);
    CHECK(warm->objective_seconds == cold->objective_seconds);
  }
}

}  // namespace tandem::solver
