// Reverse-mode differentiation of one operator instance, as equations. autodiff.h makes operators
// of the result; this is the calculus.
//
// Equations are taken in reverse. What a read x[e] contributes to the adjoint of x is summed over
// the loops that e does not determine: a plain index names its loop; an index with one loop is
// solved for it; a window y*stride + dy - pad stays as the condition that it equals x's own index.
// The adjoint of a reduction is made a tensor unless it is one read, so that contractions stay
// products of two reads.
#ifndef TANDEM_PCG_AUTODIFF_ADJOINT_H_
#define TANDEM_PCG_AUTODIFF_ADJOINT_H_

#include <vector>

#include "absl/status/statusor.h"
#include "pcg/autodiff/gradient_seed.h"
#include "pcg/autodiff/output_patterns.h"
#include "pcg/instance/op_instance.h"
#include "pcg/instance/symbolic.h"

namespace tandem {

struct AdjointProgram {
  using Equation = SymbolicEquation;
  explicit AdjointProgram(const OpInstance& op) : exprs(op), tensors(op.tensors) {}

  SymbolicExprs exprs;
  std::vector<InstanceOperand> tensors;  // the instance's, then adjoints and what they need
  std::vector<int> output_gradients;     // per forward output: its given adjoint, as a tensor
  std::vector<int> gradients;  // per wanted input: a tensor, or -1 if it is zero everywhere
  // What the gradients need, in order: forward equations computed again, then the adjoint ones. A
  // tensor without an equation is an operand.
  std::vector<Equation> equations;
};

// Choices without one best answer; autodiff.cc takes the better result.
struct AdjointStyle {
  bool use_outputs = true;       // forward outputs may be operands
  bool inline_adjoints = false;  // the adjoint of a reduction is not made a tensor where no loop of
                                 // its body is summed
};

// `seeds` says what is known of each output's adjoint.
absl::StatusOr<AdjointProgram> Differentiate(const OpInstance& op, const std::vector<int>& wanted,
                                             const std::vector<GradientSeed>& seeds,
                                             const AdjointStyle& style);

}  // namespace tandem

#endif  // TANDEM_PCG_AUTODIFF_ADJOINT_H_
