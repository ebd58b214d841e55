// Plans within a memory limit made from two others, and local search that keeps within it.
#ifndef OPTIMIZER_SOLVER_MIX_H_
#define OPTIMIZER_SOLVER_MIX_H_

#include <cstdint>
#include <vector>

#include "optimizer/solver/model.h"

namespace tandem::solver {

// A model together with the bytes of each state (flat, as Model::unary).
struct WeightedModel {
  const Model& model;
  std::vector<double> bytes;

  double Bytes(const std::vector<int32_t>& plan) const;
};

// The best plan within `limit` among: `light` with a range of blocks (cyclic) taken from `heavy`,
// and `light` with some of the connected parts in which the two differ taken from `heavy`, most
// seconds saved per byte first. `light` must fit.
std::vector<int32_t> MixPlans(const WeightedModel& weighted, const std::vector<int32_t>& heavy,
                              const std::vector<int32_t>& light, double limit);

// Local search under the limit: a node changes state for a cheaper one that still fits; where the
// cheaper one does not fit, another node may make room if the two changes together are cheaper.
// Never worse, always fits.
void DescendWithin(const WeightedModel& weighted, double limit, int32_t max_rounds,
                   std::vector<int32_t>& plan);

}  // namespace tandem::solver

#endif  // OPTIMIZER_SOLVER_MIX_H_
