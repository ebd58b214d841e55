#include "pcg/instance/instance_exprs.h"

#include <cmath>
#include <optional>

namespace tandem {
namespace {

std::optional<double> Fold(ExprKind kind, double a, double b) {
  switch (kind) {
    case ExprKind::kAdd:
      return a + b;
    case ExprKind::kSub:
      return a - b;
    case ExprKind::kMul:
      return a * b;
    case ExprKind::kDiv:
      return a / b;
    case ExprKind::kFloorDiv:
      if (b == 0) return std::nullopt;
      return std::floor(a / b);
    case ExprKind::kMod:
      if (b == 0) return std::nullopt;
      return a - std::floor(a / b) * b;
    default:
      return std::nullopt;
  }
}

bool Holds(const std::string& comparison, double a, double b) {
  if (comparison == "==") return a == b;
  if (comparison == "!=") return a != b;
  if (comparison == "<") return a < b;
  if (comparison == "<=") return a <= b;
  if (comparison == ">") return a > b;
  return a >= b;
}

}  // namespace

ExprId InstanceExprs::Node(ExprNode node) { return instance_->exprs.Add(std::move(node)); }

ExprId InstanceExprs::Number(double value) {
  ExprNode node;
  node.number = value == 0 ? 0 : value;  // no negative zero
  return Node(std::move(node));
}

ExprId InstanceExprs::Var(int var) {
  const size_t index = static_cast<size_t>(var);
  if (vars_.size() <= index) vars_.resize(index + 1);
  if (!vars_[index].valid()) {
    ExprNode node;
    node.kind = ExprKind::kVar;
    node.ref = var;
    node.name = instance_->vars[index].name;
    vars_[index] = Node(std::move(node));
  }
  return vars_[index];
}

ExprId InstanceExprs::Size(int size) {
  const size_t index = static_cast<size_t>(size);
  const SizeVar& var = instance_->sizes[index];
  if (var.constant) return Number(static_cast<double>(var.extent));
  if (sizes_.size() <= index) sizes_.resize(index + 1);
  if (!sizes_[index].valid()) {
    ExprNode node;
    node.kind = ExprKind::kSize;
    node.ref = size;
    node.name = var.name;
    sizes_[index] = Node(std::move(node));
  }
  return sizes_[index];
}

ExprId InstanceExprs::Binary(ExprKind kind, ExprId a, ExprId b) {
  const bool left = IsNumber(a), right = IsNumber(b);
  if (left && right) {
    const std::optional<double> folded = Fold(kind, NumberOf(a), NumberOf(b));
    if (folded.has_value()) return Number(*folded);
  }
  if (kind == ExprKind::kAdd && left && NumberOf(a) == 0) return b;
  if ((kind == ExprKind::kAdd || kind == ExprKind::kSub) && right && NumberOf(b) == 0) return a;
  if (kind == ExprKind::kMul && left && NumberOf(a) == 1) return b;
  const bool divides =
      kind == ExprKind::kMul || kind == ExprKind::kDiv || kind == ExprKind::kFloorDiv;
  if (divides && right && NumberOf(b) == 1) return a;
  if (kind == ExprKind::kMod && right && NumberOf(b) == 1) return Number(0);
  ExprNode node;
  node.kind = kind;
  node.args = {a, b};
  return Node(std::move(node));
}

ExprId InstanceExprs::Neg(ExprId a) {
  return IsNumber(a) ? Number(-NumberOf(a)) : Unary(ExprKind::kNeg, a);
}

ExprId InstanceExprs::Unary(ExprKind kind, ExprId a) {
  ExprNode node;
  node.kind = kind;
  node.args = {a};
  return Node(std::move(node));
}

ExprId InstanceExprs::Call(std::string name, std::vector<ExprId> args) {
  if (name == "floor" && IsNumber(args[0])) return Number(std::floor(NumberOf(args[0])));
  ExprNode node;
  node.kind = ExprKind::kCall;
  node.name = std::move(name);
  node.args = std::move(args);
  return Node(std::move(node));
}

ExprId InstanceExprs::Compare(std::string name, ExprId a, ExprId b) {
  ExprNode node;
  node.kind = ExprKind::kCompare;
  node.name = std::move(name);
  node.args = {a, b};
  return Node(std::move(node));
}

ExprId InstanceExprs::Select(ExprId condition, ExprId then, ExprId otherwise) {
  const ExprNode& test = node(condition);
  if (test.kind == ExprKind::kCompare && IsNumber(test.args[0]) && IsNumber(test.args[1])) {
    return Holds(test.name, NumberOf(test.args[0]), NumberOf(test.args[1])) ? then : otherwise;
  }
  ExprNode node;
  node.kind = ExprKind::kSelect;
  node.args = {condition, then, otherwise};
  return Node(std::move(node));
}

ExprId InstanceExprs::Tuple(std::vector<ExprId> parts) {
  ExprNode node;
  node.kind = ExprKind::kTuple;
  node.args = std::move(parts);
  return Node(std::move(node));
}

}  // namespace tandem
