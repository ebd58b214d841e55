#include "optimizer/solver/deep_problem.h"

#include <catch2/catch.hpp>

#include "optimizer/solver/memory.h"
#include "optimizer/solver/repeat.h"
#include "optimizer/solver/solve.h"

namespace tandem::solver {
namespace {

Problem Deep(int32_t layers) {
  DeepOptions options;
  options.layers = layers;
  options.mesh = {{4, 4.5e10, 2e-5}, {8, 3.7e11, 7e-6}};
  return DeepProblem(options);
}

}  // namespace

TEST_CASE("a deep problem is proved optimal, plainly and by repetition") {
  const Problem problem = Deep(32);
  CHECK(problem.node_count() > 1500);
  CHECK(problem.tables().size() < 100);
  const auto plain = Solve(problem);
  REQUIRE(plain.ok());
  CHECK(plain->status == SolveStatus::kOptimal);
  CHECK(plain->gap() <= 1e-6);
  const auto repeated = SolveRepeated(problem);
  REQUIRE(repeated.ok());
  CHECK(repeated->status == SolveStatus::kOptimal);
  CHECK(repeated->objective_seconds == Approx(plain->objective_seconds).epsilon(1e-6));
  CHECK(repeated->steps.dual_cells < plain->steps.dual_cells);
}

TEST_CASE("time is affine in depth") {
  const double a = SolveRepeated(Deep(8))->objective_seconds;
  const double b = SolveRepeated(Deep(12))->objective_seconds;
  const double c = SolveRepeated(Deep(24))->objective_seconds;
  CHECK(c == Approx(b + 3 * (b - a)).epsilon(1e-6));
}

TEST_CASE("a deep problem under memory limits has a small gap") {
  const Problem problem = Deep(16);
  const auto free = SolveWithinMemory(problem, 1e18);
  const auto least = SolveWithinMemory(problem, 0.0);
  REQUIRE(free.ok());
  REQUIRE(least.ok());
  CHECK(least->status == MemoryStatus::kInfeasible);
  REQUIRE(least->least_memory_bytes < free->memory_bytes);
  double last = free->seconds;
  for (double share : {0.75, 0.5, 0.25, 0.1}) {
    const double limit =
        least->least_memory_bytes + share * (free->memory_bytes - least->least_memory_bytes);
    const auto result = SolveWithinMemory(problem, limit);
    REQUIRE(result.ok());
    CHECK((result->status == MemoryStatus::kOptimal || result->status == MemoryStatus::kFeasible));
    CHECK(result->memory_bytes <= limit);
    CHECK(result->gap() <= 0.01);
    CHECK(result->seconds >= result->lower_bound_seconds);
    CHECK(result->lower_bound_seconds >= last * (1 - 0.01) - 1e-9);
    last = result->seconds;
  }
}

}  // namespace tandem::solver
