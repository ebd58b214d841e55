// Makes expressions of an instance, folding what is known: numbers, + 0, * 1, select of numbers. So
// a missing bias or a stride of 1 leaves no trace that an analysis would have to see through.
#ifndef TANDEM_PCG_INSTANCE_INSTANCE_EXPRS_H_
#define TANDEM_PCG_INSTANCE_INSTANCE_EXPRS_H_

#include <string>
#include <utility>
#include <vector>

#include "pcg/instance/op_instance.h"

namespace tandem {

class InstanceExprs {
 public:
  explicit InstanceExprs(OpInstance* instance) : instance_(instance) {}

  ExprId Number(double value);
  ExprId Var(int var);    // one node a variable
  ExprId Size(int size);  // a number where the size is constant
  ExprId Add(ExprId a, ExprId b) { return Binary(ExprKind::kAdd, a, b); }
  ExprId Binary(ExprKind kind, ExprId a, ExprId b);
  ExprId Neg(ExprId a);
  ExprId Unary(ExprKind kind, ExprId a);
  ExprId Call(std::string name, std::vector<ExprId> args);
  ExprId Compare(std::string name, ExprId a, ExprId b);
  ExprId Select(ExprId condition, ExprId then, ExprId otherwise);
  ExprId Tuple(std::vector<ExprId> parts);
  ExprId Node(ExprNode node);

  bool IsNumber(ExprId id) const { return node(id).kind == ExprKind::kNumber; }
  double NumberOf(ExprId id) const { return node(id).number; }

 private:
  const ExprNode& node(ExprId id) const { return instance_->exprs[id]; }
  OpInstance* instance_;
  std::vector<ExprId> vars_;   // by variable, invalid until used
  std::vector<ExprId> sizes_;  // by size
};

}  // namespace tandem

#endif  // TANDEM_PCG_INSTANCE_INSTANCE_EXPRS_H_
