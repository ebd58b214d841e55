// Local search: one node at a time takes its cheapest state given its neighbours (iterated
// conditional modes), until nothing changes.
#ifndef OPTIMIZER_SOLVER_DESCENT_H_
#define OPTIMIZER_SOLVER_DESCENT_H_

#include <cstdint>
#include <vector>

#include "optimizer/solver/model.h"

namespace tandem::solver {

// Never makes `plan` worse. Visits places in order, at most `max_rounds` times each; a state is
// changed only for a strictly cheaper one, ties to the lowest state. Returns whether anything
// changed.
bool Descend(const Model& model, int32_t max_rounds, std::vector<int32_t>& plan);

}  // namespace tandem::solver

#endif  // OPTIMIZER_SOLVER_DESCENT_H_
