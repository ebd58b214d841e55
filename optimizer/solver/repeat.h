// Repetition: a deep model is a few blocks over and over. Solving four of them gives the plan and
// the messages of all; a few sweeps over the whole then certify it.
#ifndef OPTIMIZER_SOLVER_REPEAT_H_
#define OPTIMIZER_SOLVER_REPEAT_H_

#include <cstdint>
#include <vector>

#include "absl/status/statusor.h"
#include "optimizer/solver/problem.h"
#include "optimizer/solver/solve.h"

namespace tandem::solver {

// Consecutive blocks that are copies of each other: node by node (in order of position) the same
// cost vectors, the same tables inside each and between each and the next, no edge that skips a
// block, and only the first and the last touch anything outside.
struct BlockRun {
  int32_t first_block = 0;
  int32_t last_block = 0;
  int32_t count = 0;  // blocks; ids need not be dense
};

// Maximal runs of two or more blocks, from the lowest block on. Needs a valid problem.
std::vector<BlockRun> FindRuns(const Problem& problem);

// Every run shortened to its first two and last two blocks.
struct FoldedProblem {
  Problem problem;
  std::vector<int32_t> image;       // node of the whole -> node of the fold
  std::vector<int32_t> edge_image;  // edge of the whole -> edge of the fold
};
FoldedProblem Fold(const Problem& problem, const std::vector<BlockRun>& runs);

// Whether some run is longer than what a fold keeps of it. Needs a valid problem.
bool Repeats(const Problem& problem);

// As Solve, and with the same meaning; faster where blocks repeat. Falls back to Solve where no run
// is longer than what a fold keeps, or where options bring their own start.
absl::StatusOr<SolveResult> SolveRepeated(const Problem& problem, const SolveOptions& options = {});

}  // namespace tandem::solver

#endif  // OPTIMIZER_SOLVER_REPEAT_H_
