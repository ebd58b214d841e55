// Reverse-mode differentiation of a Graph by operator text: the gradient operator of any operator
// is itself an operator (its text generated, added to the graph's library), so a user's operator
// trains without further work, and backward nodes split, cost, run and prove like any others.
#ifndef TANDEM_PCG_AUTODIFF_AUTODIFF_H_
#define TANDEM_PCG_AUTODIFF_AUTODIFF_H_

#include <vector>

#include "absl/status/statusor.h"
#include "pcg/autodiff/gradient_seed.h"
#include "pcg/graph/graph.h"

namespace tandem {

// The instance to derive gradients of: like Instantiate, but numbers that attributes give stay
// attributes, so that convolutions of different strides share their gradients' text. (Exponents
// stay numbers: x^2 is simpler than x^a.) Only for GradientsOf.
absl::StatusOr<OpInstance> InstantiateForGradients(const OpSpec& spec, const Attributes& attributes,
                                                   const std::vector<FactoredShape>& inputs);

// Gradient operators of an instance. Each computes the gradients of some float inputs from forward
// inputs, forward outputs (where that saves work) and output gradients.
struct GradientOp {
  OpSpec spec;  // name "<op>_grad..." + a hash of its text
  Attributes attributes;
  enum class Source : uint8_t { kInput, kOutput, kOutputGradient };
  struct Operand {
    Source source = Source::kInput;
    int position = 0;  // of the forward instance
  };
  std::vector<Operand> inputs;   // of the gradient operator
  std::vector<int> gradient_of;  // per output: which forward input
};
// `wanted` = positions of float inputs. Single-equation operators give one operator per input;
// operators with intermediates give one operator with several outputs, sharing the recomputation.
// An input whose gradient is zero everywhere (it is only compared, or under nograd) is in none.
// `seeds`: one an output; empty means all given.
absl::StatusOr<std::vector<GradientOp>> GradientsOf(const OpInstance& instance,
                                                    const std::vector<int>& wanted,
                                                    const std::vector<GradientSeed>& seeds = {});

// Appends backward nodes (Phase::kBackward) for d(loss)/d(wanted). Returns the gradient tensor per
// wanted tensor (invalid id where the loss does not depend on it). Sums of several contributions
// are `add` nodes. Errors name the operator that has no gradient.
absl::StatusOr<std::vector<TensorId>> AddGradients(Graph& graph, TensorId loss,
                                                   const std::vector<TensorId>& wanted);

}  // namespace tandem

#endif  // TANDEM_PCG_AUTODIFF_AUTODIFF_H_
