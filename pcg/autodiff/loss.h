// The loss of a forward graph, as a node like any other: rules see it.
#ifndef TANDEM_PCG_AUTODIFF_LOSS_H_
#define TANDEM_PCG_AUTODIFF_LOSS_H_

#include <string>

#include "absl/status/statusor.h"
#include "pcg/graph/graph.h"
#include "pcg/program/plan.h"

namespace tandem {

// The graph with the loss that the options name, whatever loss it has. Folds a trailing softmax or
// log-softmax of the logits into the loss (the model's own output stays an output). Labels are
// added as the input "labels" (int64; for mse: floats). `loss` none: the graph as it is. Errors: no
// float output, a scalar output for cross-entropy, more than one element for `output`.
absl::StatusOr<Graph> WithLoss(const Graph& forward, const TrainingOptions& options);

// What masters, moments, statistics and the loss are stored as.
DType WideType(DType precision);

// `wish`, or with a number behind it, such that no tensor or node of the graph is called so.
std::string UniqueName(const Graph& graph, const std::string& wish);

}  // namespace tandem

#endif  // TANDEM_PCG_AUTODIFF_LOSS_H_
