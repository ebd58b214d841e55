// The least time within a limit on additive memory: one Lagrange multiplier (a price in seconds per
// byte), then the two plans on either side of the limit mixed.
//
// For any price p >= 0, (least of seconds + p * bytes) - p * limit bounds the seconds of every plan
// within the limit; the best price gives the best bound. What the multiplier leaves open shrinks
// with the number of equal blocks and is reported as the gap.
#ifndef OPTIMIZER_SOLVER_MEMORY_H_
#define OPTIMIZER_SOLVER_MEMORY_H_

#include <cstdint>
#include <string>

#include "absl/status/statusor.h"
#include "optimizer/solver/problem.h"
#include "optimizer/solver/solve.h"

namespace tandem::solver {

enum class MemoryStatus {
  kOptimal,     // fits, and no plan that fits is faster by more than the tolerance
  kFeasible,    // fits; the gap is what is not known
  kDropped,     // the bound exceeds SolveOptions::incumbent_seconds
  kInfeasible,  // proved: no permitted plan fits
  kNoPlan,      // none found within the budget
};
const char* MemoryStatusName(MemoryStatus status);

struct MemoryOptions {
  SolveOptions solve;  // of each solve; its price, start messages and want_messages are not used
  int32_t max_solves = 24;  // prices tried, the free and the least-memory solve included
  bool repetition = true;   // fold repeated blocks in the first solve
  // What Solve or SolveRepeated said of this problem at this price, when that is known already:
  // stands for the first solve, at price 0. The price should be next to nothing.
  const SolveResult* free = nullptr;
  double free_price_seconds_per_byte = 0.0;
};

struct MemoryResult {
  MemoryStatus status = MemoryStatus::kNoPlan;
  Plan plan;  // within the limit for kOptimal and kFeasible, else the plan of least memory found
  double seconds = 0.0;
  double memory_bytes = 0.0;
  double lower_bound_seconds = 0.0;       // on the seconds of any plan within the limit
  double price_seconds_per_byte = 0.0;    // that gave the bound: what a byte more would be worth
  double least_memory_bytes = 0.0;        // the least seen of any permitted plan
  double least_memory_bound_bytes = 0.0;  // no permitted plan needs less
  int32_t solves = 0;
  bool cancelled = false;
  std::string detail;
  SolveSteps steps;

  double gap() const;  // (seconds - bound) / seconds, at least 0
};

// InvalidArgument for a malformed problem or a limit that is not a number.
absl::StatusOr<MemoryResult> SolveWithinMemory(const Problem& problem, double limit_bytes,
                                               const MemoryOptions& options = {});

}  // namespace tandem::solver

#endif  // OPTIMIZER_SOLVER_MEMORY_H_
