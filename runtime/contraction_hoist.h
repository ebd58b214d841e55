// Takes the contractions out of an operator instance, so that a BLAS or a convolution library runs
// them: the result has the same inputs, outputs and meaning, and each contraction is an equation of
// its own,
//   t[...] = sum(k...) a[...] * b[...]
// What surrounds it (a scale, a bias, a softmax; further factors of the product) stays as equations
// before and after. Sums over a window become sums over an expanded copy of the operand; the
// scatter of a windowed gradient becomes a contraction and a sum of its terms. With
// `keep_convolutions`, convolutions and their gradients stay whole where AsConvolution (below)
// recognises them.
//
// Structure is recognised, never a name: what automatic differentiation or a user writes goes the
// same way.
#ifndef TANDEM_RUNTIME_CONTRACTION_HOIST_H_
#define TANDEM_RUNTIME_CONTRACTION_HOIST_H_

#include <optional>
#include <vector>

#include "pcg/op_instance.h"

namespace tandem {

OpInstance HoistContractions(const OpInstance& op, bool keep_convolutions);

// t[target vars] = sum(k) a[...] * b[...] with plain indices. Each variable is in two or three of
// the tensors.
struct GemmEquation {
  int out = -1, a = -1, b = -1;               // tensors
  std::vector<int> out_vars, a_vars, b_vars;  // per (dim, factor); -1: the index is 0
  std::vector<int> batch, m, n, k;            // variables: in all; in a; in b; summed over
};
std::optional<GemmEquation> AsGemm(const OpInstance& op, const InstanceEquation& equation);

// One spatial dim of a convolution: x position = stride * y position + dilation * tap - pad.
struct Window {
  int x_position = -1;  // index among the (dim, factor)s of x
  int y_var = -1;
  int tap_var = -1;
  int64_t stride = 1, dilation = 1, pad = 0;
};

// y[batch, group, out, y...] = sum(in, tap...) x[batch, group, in, window] * f[group, out, in,
// tap], read in one of three directions: the target is y, x (data gradient) or f (filter gradient).
struct ConvolutionEquation {
  enum class Target : uint8_t { kY, kX, kF };
  Target target = Target::kY;
  int x = -1, f = -1, y = -1;               // tensors
  std::vector<int> x_vars, f_vars, y_vars;  // per (dim, factor); in x, -1 at window positions
  std::vector<int> batch, group, in, out;   // variables
  std::vector<Window> windows;
};
std::optional<ConvolutionEquation> AsConvolution(const OpInstance& op,
                                                 const InstanceEquation& equation);

}  // namespace tandem

#endif  // TANDEM_RUNTIME_CONTRACTION_HOIST_H_
