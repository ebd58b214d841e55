// Takes the contractions out of an operator instance, so that a BLAS or a convolution library runs
// them: the result has the same inputs, outputs and meaning, and each contraction is an equation of
// its own,
//   t[...] = sum(k...) a[...] * b[...]
// What surrounds it (a scale, a bias, a softmax; further factors of the product) stays as equations
// before and after. Sums over a window become sums over an expanded copy of the operand; the
// scatter of a windowed gradient becomes a contraction and a sum of its terms. With
// `keep_convolutions`, convolutions and their gradients stay whole where AsConvolution recognises
// them (contraction_equation.h).
//
// Structure is recognised, never a name: what automatic differentiation or a user writes goes the
// same way.
#ifndef TANDEM_RUNTIME_CONTRACTION_HOIST_H_
#define TANDEM_RUNTIME_CONTRACTION_HOIST_H_

#include "pcg/instance/op_instance.h"

namespace tandem {

OpInstance HoistContractions(const OpInstance& op, bool keep_convolutions);

}  // namespace tandem

#endif  // TANDEM_RUNTIME_CONTRACTION_HOIST_H_
