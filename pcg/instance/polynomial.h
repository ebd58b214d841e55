// Sums of products of symbolic expressions: the form that adjoints are kept in, so that like terms
// meet, what does not depend on a summation leaves it, and a forward value that is already there
// (the output of a softmax) is recognised in a product.
#ifndef TANDEM_PCG_INSTANCE_POLYNOMIAL_H_
#define TANDEM_PCG_INSTANCE_POLYNOMIAL_H_

#include <map>
#include <optional>
#include <utility>
#include <vector>

#include "pcg/instance/symbolic.h"

namespace tandem {

// coefficient * product of factor^power where all conditions hold, else 0 (whatever the factors are
// there: a read out of range, an infinity).
struct Monomial {
  double coefficient = 1;
  std::vector<std::pair<ExprId, int>> factors;  // ascending ids, powers not 0
  std::vector<ExprId> conditions;               // ascending
  bool operator==(const Monomial&) const = default;
};
// A sum; empty is 0. Normalised: no two monomials alike but for the coefficient, none with 0.
using Polynomial = std::vector<Monomial>;

Polynomial Sum(const Polynomial& a, const Polynomial& b);
Polynomial Product(const Polynomial& a, const Polynomial& b);
Polynomial Scaled(const Polynomial& a, double coefficient);
Monomial Inverse(const Monomial& a);
// `id` as one product of atoms: factors of products and quotients taken apart, sums left whole.
Monomial AsMonomial(SymbolicExprs& exprs, ExprId id);
Polynomial Atom(SymbolicExprs& exprs, ExprId id);
// Adds a condition; decided ones vanish, or make the whole vanish.
Polynomial Guarded(SymbolicExprs& exprs, const Polynomial& a, ExprId condition);
// t * (c + t)^-1 = 1 - c * (c + t)^-1, which stays finite where t overflows (sigmoids).
Polynomial Stable(SymbolicExprs& exprs, const Polynomial& a);
Polynomial Substitute(SymbolicExprs& exprs, const Polynomial& a,
                      const std::map<int, ExprId>& replacement);
// Common factors first: d_out * (1 - out * out).
ExprId ToExpr(SymbolicExprs& exprs, const Polynomial& a);

}  // namespace tandem

#endif  // TANDEM_PCG_INSTANCE_POLYNOMIAL_H_
