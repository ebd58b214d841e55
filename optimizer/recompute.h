// Recomputation as a rewrite of the training graph: the backward pass of a block reads copies of
// the block's forward nodes instead of what they saved. The copies compute the same tensors from
// the same inputs, which is all that the verifier needs to know.
#ifndef TANDEM_OPTIMIZER_RECOMPUTE_H_
#define TANDEM_OPTIMIZER_RECOMPUTE_H_

#include <set>

#include "absl/status/statusor.h"
#include "pcg/graph/graph.h"

namespace tandem {

// Blocks of the training graph that have forward nodes whose results the backward pass reads.
std::set<int> RecomputableBlocks(const Graph& training);

// Copies are named "<node>.recompute", belong to the backward phase and come just before their
// first reader. What other blocks read is kept, not recomputed. `weights`: the working copies of
// weights are made again, too, which frees them between the phases; not in a loop over
// micro-batches, before which both copies would be made and held.
absl::StatusOr<Graph> WithRecompute(const Graph& training, const std::set<int>& blocks,
                                    bool weights = true);

}  // namespace tandem

#endif  // TANDEM_OPTIMIZER_RECOMPUTE_H_
