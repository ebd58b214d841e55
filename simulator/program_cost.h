// Seconds of the instructions of a Program: the bridge from operator instances and resharding steps
// to the machine's kernel and collective costs. The search's tables and the timeline both use it,
// so that they agree by construction.
#ifndef TANDEM_SIMULATOR_PROGRAM_COST_H_
#define TANDEM_SIMULATOR_PROGRAM_COST_H_

#include <cstdint>
#include <map>
#include <utility>
#include <vector>

#include "pcg/dtype.h"
#include "pcg/instance/op_instance.h"
#include "pcg/layout/reshard.h"
#include "simulator/collective_cost.h"
#include "simulator/machine.h"

namespace tandem {

Precision PrecisionOf(DType type);

// One kernel on local pieces. `extents`: local extent of each of the instance's sizes. The
// contraction precision is the widest of the float inputs'. A view (reshape, identity) takes no
// time.
double NodeSeconds(const Machine& machine, const OpInstance& instance,
                   const std::vector<int64_t>& extents, const std::vector<DType>& inputs,
                   const std::vector<DType>& outputs);

// The same, for an instance whose cost is already analysed.
struct NodeCost {
  double seconds = 0;
  double flops = 0;
  double contraction_flops = 0;
  double bytes = 0;
  KernelKind kind = KernelKind::kElementwise;
};
NodeCost CostOfNode(const Machine& machine, const OpInstance& instance,
                    const std::vector<int64_t>& extents, const std::vector<DType>& inputs,
                    const std::vector<DType>& outputs);

// Costs of resharding steps on one machine and mesh; remembers the group shapes.
class StepPricer {
 public:
  StepPricer(const Machine& machine, const Mesh& mesh);
  // One execution of the step (inside the micro-batch loop it runs MicroBatches() times). Local
  // copies (slice, accumulate, stack, unstack) are memory-bound kernels.
  double Seconds(StepKind kind, const std::vector<int>& axes, double bytes_before,
                 double bytes_after) const;
  // Communication level of a collective over these axes: 0 inside a node.
  int Level(const std::vector<int>& axes) const;
  // For CheapestReshard: each step run once.
  StepCost AsStepCost() const;

 private:
  const GroupShape& Shape(const std::vector<int>& axes) const;
  Machine machine_;
  Mesh mesh_;
  std::vector<int64_t> extents_;
  mutable std::map<std::vector<int>, GroupShape> shapes_;
};

}  // namespace tandem

#endif  // TANDEM_SIMULATOR_PROGRAM_COST_H_
