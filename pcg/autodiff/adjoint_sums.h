// Sums over loops, as adjoints need them: what a read contributes to the tensor it reads, and sums
// with everything taken out of them that does not depend on their variables.
#ifndef TANDEM_PCG_AUTODIFF_ADJOINT_SUMS_H_
#define TANDEM_PCG_AUTODIFF_ADJOINT_SUMS_H_

#include <optional>
#include <set>
#include <utility>
#include <vector>

#include "pcg/autodiff/output_patterns.h"
#include "pcg/instance/polynomial.h"
#include "pcg/instance/symbolic.h"

namespace tandem {

class AdjointSums {
 public:
  // `tensors`: those that reads refer to (it may grow). `forward`: equations of intermediates.
  AdjointSums(const OpInstance& op, SymbolicExprs& exprs, OutputPatterns& patterns,
              const std::vector<InstanceOperand>& tensors,
              const std::vector<SymbolicEquation>& forward)
      : op_(op), x_(exprs), patterns_(patterns), tensors_(tensors), forward_(forward) {}

  // sum over `loops` of `adjoint` where from == to, solved for as many loops as possible.
  Polynomial Scatter(Polynomial adjoint, std::vector<int> loops, const std::vector<ExprId>& from,
                     const std::vector<ExprId>& to);

  // Whether the expression is a sum made here (not one of the forward equations).
  bool Made(ExprId id) const { return made_.count(id) != 0; }

 private:
  std::optional<std::pair<int, ExprId>> SolveForOne(ExprId index, ExprId own,
                                                    const std::vector<int>& loops);
  Polynomial SumOver(const Polynomial& body, const std::vector<int>& loops);
  bool IsZeroSum(const Monomial& inside, const std::vector<int>& loops);
  ExprId Expanded(ExprId id);
  Monomial OnePointSolved(Monomial m, std::vector<int>& loops);
  Monomial Placed(const Monomial& m, int var, ExprId value);
  bool IndexedBy(ExprId id, int var);
  int SizeOf(int var) const { return x_.vars()[static_cast<size_t>(var)].size; }

  const OpInstance& op_;
  SymbolicExprs& x_;
  OutputPatterns& patterns_;
  const std::vector<InstanceOperand>& tensors_;
  const std::vector<SymbolicEquation>& forward_;
  std::set<ExprId> made_;
};

}  // namespace tandem

#endif  // TANDEM_PCG_AUTODIFF_ADJOINT_SUMS_H_
