// Lowers a graph under a strategy to a Program. No hidden cleverness: every node becomes one
// kernel, every layout change the steps of CheapestReshard, frees follow liveness. Backward and
// update nodes are ordinary nodes.
#ifndef TANDEM_PCG_PROGRAM_LOWER_H_
#define TANDEM_PCG_PROGRAM_LOWER_H_

#include "absl/status/statusor.h"
#include "pcg/layout/reshard.h"
#include "pcg/layout/strategy.h"
#include "pcg/program/program.h"

namespace tandem {

// `cost` chooses between equivalent step sequences. Nodes are issued in IssueOrder; steps when they
// are first needed, but gradient reductions as soon as the gradient is complete. Nodes that depend
// on the temporal axis go inside the loop. Errors: a node that needs a value completed over the
// temporal axis inside the loop (for example batch statistics under gradient accumulation), named.
absl::StatusOr<Program> Lower(const Graph& graph, const Strategy& strategy, const StepCost& cost);

}  // namespace tandem

#endif  // TANDEM_PCG_PROGRAM_LOWER_H_
