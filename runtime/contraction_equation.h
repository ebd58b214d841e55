// Equations that a BLAS or a convolution library runs whole, recognised by their form alone: what
// contraction_hoist.h leaves, one contraction an equation. Tensors, variables and positions are
// indices into the instance; "per (dim, factor)" counts the factors of all dims, major to minor.
#ifndef TANDEM_RUNTIME_CONTRACTION_EQUATION_H_
#define TANDEM_RUNTIME_CONTRACTION_EQUATION_H_

#include <cstdint>
#include <optional>
#include <vector>

#include "pcg/instance/op_instance.h"

namespace tandem {

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

#endif  // TANDEM_RUNTIME_CONTRACTION_EQUATION_H_
