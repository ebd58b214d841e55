// The door to the layout solver: a plan, a bound that no plan can beat, and how far apart they are.
//
// Message passing on the dual; states that the bound proves useless are removed on the way; what
// stays open is improved by exact windows of blocks and, where it fits the budget, eliminated
// exactly. Deterministic: fixed order, ties to the lowest state, budgets counted in steps, never in
// seconds.
#ifndef OPTIMIZER_SOLVER_SOLVE_H_
#define OPTIMIZER_SOLVER_SOLVE_H_

#include <atomic>
#include <cstdint>
#include <functional>
#include <limits>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "optimizer/solver/messages.h"
#include "optimizer/solver/problem.h"

namespace tandem::solver {

enum class SolveStatus {
  kOptimal,     // no plan is cheaper by more than the tolerance
  kFeasible,    // a permitted plan; the gap is what is not known
  kDropped,     // the bound exceeds SolveOptions::incumbent_seconds: nothing better is here
  kInfeasible,  // proved: every plan has a forbidden choice
  kNoPlan,      // no permitted plan found within the budget; whether there is one is not known
};
const char* SolveStatusName(SolveStatus status);

// Work done, counted so that two machines agree.
struct SolveSteps {
  int32_t sweeps = 0;
  int64_t dual_cells = 0;         // table cells read by the sweeps
  int64_t elimination_cells = 0;  // cells of exact elimination, windows included
  int32_t windows = 0;            // windows solved
};

struct Progress {
  const char* stage = "";  // "dual", "windows", "eliminate", ...
  SolveSteps steps;
  double lower_bound_seconds = 0.0;
  double objective_seconds = 0.0;  // infinite before the first plan
};

struct SolveOptions {
  double price_seconds_per_byte = 0.0;  // objective = seconds + price * bytes
  double relative_tolerance = 1e-7;
  double incumbent_seconds = std::numeric_limits<double>::infinity();
  int32_t max_sweeps = 500;
  int64_t max_table_cells = 30'000'000;           // of one eliminated table
  int64_t max_elimination_cells = 1'000'000'000;  // of one elimination, in all
  int32_t window_blocks = 2;                      // 0: no windows
  int64_t max_window_cells = 100'000'000;         // of one window, in all
  bool exact = true;                              // try elimination when the dual stays open
  bool cut = true;  // drop useless states on the way; false: better messages for warm starts
  const Plan* start_plan = nullptr;
  const Messages* start_messages = nullptr;
  bool want_messages = false;
  std::function<void(const Progress&)> progress;
  const std::atomic<bool>* cancel =
      nullptr;  // set from another thread; the best so far is returned
};

struct SolveResult {
  SolveStatus status = SolveStatus::kNoPlan;
  Plan plan;                       // a state for every node in every case
  double objective_seconds = 0.0;  // seconds + price * bytes of the plan
  double seconds = 0.0;
  double memory_bytes = 0.0;
  double lower_bound_seconds = 0.0;  // on the objective; never above any plan's
  bool cancelled = false;
  std::string detail;  // why infeasible, what the budget stopped
  SolveSteps steps;
  Messages messages;  // when asked for

  // (objective - bound) / |objective|, at least 0.
  double gap() const;
};

// InvalidArgument for a malformed problem, plan or messages. Everything else is a status in the
// result.
absl::StatusOr<SolveResult> Solve(const Problem& problem, const SolveOptions& options = {});

}  // namespace tandem::solver

#endif  // OPTIMIZER_SOLVER_SOLVE_H_
