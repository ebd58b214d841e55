#include "substitutions/attr_expression.h"

#include <cctype>
#include <vector>

#include "pcg/instance/symbolic_attribute.h"

namespace tandem {
namespace {

bool NameStart(char c) { return std::isalpha(static_cast<unsigned char>(c)) || c == '_'; }
bool NameChar(char c) { return std::isalnum(static_cast<unsigned char>(c)) || c == '_'; }

std::optional<double> Value(const ExprArena& arena, ExprId id, const NameValue& value) {
  const ExprNode& e = arena[id];
  if (e.kind == ExprKind::kNumber) return e.number;
  if (e.kind == ExprKind::kAttr) return value(absl::string_view(e.name).substr(1));  // without $
  std::vector<double> args;
  for (ExprId arg : e.args) {
    const std::optional<double> v = Value(arena, arg, value);
    if (!v) return std::nullopt;
    args.push_back(*v);
  }
  switch (e.kind) {
    case ExprKind::kNeg:
      return -args[0];
    case ExprKind::kAdd:
      return args[0] + args[1];
    case ExprKind::kSub:
      return args[0] - args[1];
    case ExprKind::kMul:
      return args[0] * args[1];
    case ExprKind::kDiv:
      return args[1] != 0 ? std::optional<double>(args[0] / args[1]) : std::nullopt;
    default:
      return std::nullopt;
  }
}

}  // namespace

std::optional<double> EvaluateAttr(absl::string_view expression, const NameValue& value) {
  ExprArena arena;
  const std::optional<ExprId> root = AddSymbolic({std::string(expression), 0}, arena);
  return root ? Value(arena, *root, value) : std::nullopt;
}

bool IsBareName(absl::string_view expression) {
  if (expression.empty() || !NameStart(expression[0])) return false;
  for (char c : expression) {
    if (!NameChar(c)) return false;
  }
  return true;
}

std::set<std::string> NamesIn(absl::string_view expression) {
  std::set<std::string> names;
  for (size_t i = 0; i < expression.size();) {
    if (NameStart(expression[i])) {
      size_t j = i;
      while (j < expression.size() && NameChar(expression[j])) ++j;
      names.insert(std::string(expression.substr(i, j - i)));
      i = j;
    } else {
      ++i;
    }
  }
  return names;
}

}  // namespace tandem
