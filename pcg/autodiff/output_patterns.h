// Where a forward output may stand for an expression: `out = e / z` in the gradient of softmax,
// which then needs neither e nor z.
#ifndef TANDEM_PCG_AUTODIFF_OUTPUT_PATTERNS_H_
#define TANDEM_PCG_AUTODIFF_OUTPUT_PATTERNS_H_

#include <map>
#include <vector>

#include "pcg/instance/polynomial.h"
#include "pcg/instance/symbolic.h"

namespace tandem {

// tensors[target][vars] = body.
struct SymbolicEquation {
  int target = -1;
  std::vector<int> vars;
  ExprId body;
};

class OutputPatterns {
 public:
  OutputPatterns(const OpInstance& op, SymbolicExprs& exprs) : op_(op), x_(exprs) {}

  // An output's equation; kept if its body is one product that is more than reads multiplied.
  void Add(const SymbolicEquation& equation);
  // Stable (polynomial.h), and with outputs where their bodies occur as factors.
  Polynomial Simplified(const Polynomial& a);

 private:
  struct Pattern {
    int tensor = -1;
    std::vector<int> vars;
    Monomial body;
  };
  Monomial WithOutputs(Monomial m);
  bool Matches(const Pattern& pattern, size_t i, const Monomial& m, std::map<int, ExprId>& binding);
  bool Unify(ExprId pattern, ExprId id, const std::vector<int>& vars,
             std::map<int, ExprId>& binding);

  const OpInstance& op_;
  SymbolicExprs& x_;
  std::vector<Pattern> patterns_;
};

}  // namespace tandem

#endif  // TANDEM_PCG_AUTODIFF_OUTPUT_PATTERNS_H_
