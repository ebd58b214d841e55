// From a forward graph to a training step: loss (loss.h), backward, optimizer update, precision.
#ifndef TANDEM_PCG_AUTODIFF_TRAINING_H_
#define TANDEM_PCG_AUTODIFF_TRAINING_H_

#include "absl/status/statusor.h"
#include "pcg/graph/graph.h"
#include "pcg/program/plan.h"

namespace tandem {

// Deterministic: same graph and options, same result (verify relies on it). With precision bf16 or
// fp16, each trained parameter is stored as an fp32 master and cast to a working copy by a node at
// the start of the step; activations take the precision, the loss and the parts that a rule took it
// apart into fp32. Learning rate and, if the optimizer uses it, step are added as kStepInput
// scalars "lr" and "step". Optimizer moments are kState tensors "<param>.m",
// "<param>.v". Trained are the float kParameter tensors that no `freeze` expression is found in,
// and those kParameter or kState tensors that a `train` expression is found in (train overrules
// freeze); an expression found in no name is an error. Other parameters, and those the loss does
// not depend on, become kState with a note. An updated value is the first output of the node
// "<param>.update". Without `outputs` the model's outputs are none of the step's (the loss is, in
// any case). `loss` none is precision alone.
absl::StatusOr<Graph> TrainLoss(const Graph& with_loss, const TrainingOptions& options);

// The step with no output but its loss and new states, and without what only outputs need.
Graph WithoutOutputs(const Graph& training);

// TrainLoss of WithLoss.
absl::StatusOr<Graph> MakeTrainingGraph(const Graph& forward, const TrainingOptions& options);

// Precision alone, for serving.
absl::StatusOr<Graph> WithPrecision(const Graph& forward, DType precision);

}  // namespace tandem

#endif  // TANDEM_PCG_AUTODIFF_TRAINING_H_
