// One mesh axis split along the batch everywhere: the propagation of the inputs' leading dim
// through the factor tables. It decides what a micro-batch is (the temporal axis), and is the
// data-parallel baseline.
#ifndef TANDEM_OPTIMIZER_BATCH_AXIS_H_
#define TANDEM_OPTIMIZER_BATCH_AXIS_H_

#include <cstdint>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "optimizer/node_classes.h"
#include "pcg/graph/graph.h"

namespace tandem {

struct BatchAxis {
  std::vector<int> rows;                  // by node: row of its factor table
  std::vector<AxisPlacement> placements;  // by tensor, as produced
  std::vector<bool> varies;               // by node: runs once a micro-batch (temporal axis)
};

// The graph with the micro-batches as a factor of their own, before that of the examples of one, in
// the leading dim of every batch input and wherever it flows. Then the layouts of the examples can
// change inside the loop over micro-batches as they can outside. The graph as it is where the batch
// does not divide. Errors: PropagateFactors'.
absl::StatusOr<Graph> WithMicroBatches(const Graph& graph, int64_t micro_batches);

// Which factor of an input's leading dim counts the examples of one micro-batch.
int ExampleFactor(const Tensor& input, int64_t micro_batches);

// Splits every input whose leading dim is the graph's batch: the micro-batches if `temporal`, else
// the examples of one. `temporal`: a partial value may not be completed while other inputs of the
// same node are split (it is complete only after the last micro-batch). Errors: the batch does not
// divide (says the nearest that do), or a node mixes examples (named).
absl::StatusOr<BatchAxis> SplitBatch(const Graph& graph, const NodeClasses& classes, int64_t degree,
                                     bool temporal, int64_t micro_batches = 1);

// Of a batch that `pieces` does not divide: "the nearest that do: 62 and 64".
std::string NearestThatDivide(int64_t batch, int64_t pieces);

}  // namespace tandem

#endif  // TANDEM_OPTIMIZER_BATCH_AXIS_H_
