// Removing states that no optimal plan needs. Both rules keep at least one optimal plan, and every
// plan strictly better than the incumbent survives the first.
#ifndef OPTIMIZER_SOLVER_REDUCE_H_
#define OPTIMIZER_SOLVER_REDUCE_H_

#include <cstdint>
#include <vector>

#include "optimizer/solver/dual.h"
#include "optimizer/solver/model.h"

namespace tandem::solver {

// The states of each place, ascending; never empty.
using KeptStates = std::vector<std::vector<int32_t>>;

// Reduced-cost fixing: keeps the states whose bound (lower + excess) does not exceed dual.upper(),
// and those of dual.plan().
KeptStates FixByBound(const Model& model, const Dual& dual, double upper);

// Goldstein's dead-end elimination: drops state s where some t is never dearer, the difference
// minimised link by link. Cubic in states, so for kernels and windows. Ties keep the lowest state.
KeptStates DropDominated(const Model& model, int32_t max_rounds);

// Sum of states(i) * states(j) over links, after the cut.
int64_t CellsAfter(const Model& model, const KeptStates& kept);

// The messages of the kept states.
std::vector<double> RestrictMessages(const Model& model, const KeptStates& kept,
                                     const std::vector<double>& messages);

}  // namespace tandem::solver

#endif  // OPTIMIZER_SOLVER_REDUCE_H_
