// Expressions of one operator instance as values to compute with: interned (equal expressions have
// equal ids, children before parents) and simplified while they are built. What automatic
// differentiation is written in, together with polynomial.h.
//
// Variables are indices into vars() (the instance's first, then fresh ones), sizes those of the
// instance, tensors whatever the user of this class numbers them as.
#ifndef TANDEM_PCG_INSTANCE_SYMBOLIC_H_
#define TANDEM_PCG_INSTANCE_SYMBOLIC_H_

#include <map>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/string_view.h"
#include "pcg/instance/op_instance.h"

namespace tandem {

class SymbolicExprs {
 public:
  explicit SymbolicExprs(const OpInstance& op) : op_(op), vars_(op.vars) {}

  const ExprNode& operator[](ExprId id) const { return arena_[id]; }
  const std::vector<LoopVar>& vars() const { return vars_; }
  int64_t ExtentOf(int var) const {
    return op_.sizes[static_cast<size_t>(vars_[static_cast<size_t>(var)].size)].extent;
  }
  int FreshVar(std::string name, int size);

  // An expression of the instance.
  ExprId Import(ExprId instance_expr);

  ExprId Number(double value);
  ExprId Var(int var);
  ExprId Size(int size);
  ExprId Add(ExprId a, ExprId b);
  ExprId Sub(ExprId a, ExprId b);
  ExprId Mul(ExprId a, ExprId b);
  ExprId Div(ExprId a, ExprId b);
  ExprId Neg(ExprId a);
  ExprId Call(absl::string_view function, std::vector<ExprId> args);
  ExprId Compare(ExprId a, absl::string_view relation, ExprId b);
  ExprId And(ExprId a, ExprId b);
  ExprId Not(ExprId a);
  ExprId Select(ExprId condition, ExprId then, ExprId otherwise);
  ExprId Reduce(absl::string_view name, const std::vector<int>& vars, ExprId body);
  // Tensor `tensor` at plain variables, one a (dim, factor), grouped as `dims` says.
  ExprId Read(int tensor, const std::vector<std::vector<int>>& dims, const std::vector<int>& vars);
  // The node with other children, simplified again.
  ExprId WithArgs(const ExprNode& node, std::vector<ExprId> args);

  // Free variables, ascending.
  const std::vector<int>& FreeVars(ExprId id);
  bool UsesAny(ExprId id, const std::vector<int>& vars);
  // Bound variables that a replacement would capture are renamed.
  ExprId Substitute(ExprId id, const std::map<int, ExprId>& replacement);

  bool IsNumber(ExprId id, double value) const;
  std::optional<double> AsNumber(ExprId id) const;

  // constant + sum of coefficient * variable, with sizes and attributes by their values; none if
  // not affine.
  struct Affine {
    double constant = 0;
    std::map<int, double> terms;
  };
  std::optional<Affine> AsAffine(ExprId id) const;
  // Truth of a condition where extents and attributes decide it.
  std::optional<bool> Decide(ExprId condition) const;

 private:
  ExprId Intern(ExprNode node);
  ExprId Binary(ExprKind kind, ExprId a, ExprId b);

  struct Less {
    bool operator()(const ExprNode& a, const ExprNode& b) const;
  };
  const OpInstance& op_;
  std::vector<LoopVar> vars_;
  ExprArena arena_;
  std::map<ExprNode, ExprId, Less> interned_;
  std::map<ExprId, ExprId> imported_;
  std::map<ExprId, std::vector<int>> free_;
};

}  // namespace tandem

#endif  // TANDEM_PCG_INSTANCE_SYMBOLIC_H_
