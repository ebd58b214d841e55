// Formulas over sizes and attributes: of defined sizes, and inside indices.
#include <algorithm>
#include <cmath>

#include "absl/strings/str_cat.h"
#include "pcg/instance/op_sizes.h"
#include "pcg/instance/symbolic_attribute.h"

namespace tandem {

bool DependsOnSizes(const OpSpec& spec, ExprId id) {
  const ExprNode& node = spec.exprs[id];
  if (node.kind == ExprKind::kSize) return true;
  return std::any_of(node.args.begin(), node.args.end(),
                     [&](ExprId arg) { return DependsOnSizes(spec, arg); });
}

absl::StatusOr<double> EvaluateFormula(const OpSpec& spec, const SizeTable& table, ExprId id) {
  const ExprNode& node = spec.exprs[id];
  std::vector<double> args;
  for (ExprId arg : node.args) {
    auto value = EvaluateFormula(spec, table, arg);
    if (!value.ok()) return value;
    args.push_back(*value);
  }
  switch (node.kind) {
    case ExprKind::kNumber:
      return node.number;
    case ExprKind::kAttr:
      return table.AttributeNumber(spec, node.name);
    case ExprKind::kSize: {
      const auto it = table.names.find(node.name);
      double product = 1;
      if (it == table.names.end()) {
        return OpError(spec, absl::StrCat("size ", node.name, " is not known"));
      }
      for (int base : it->second) {
        const int64_t extent = table.bases[static_cast<size_t>(base)].extent;
        if (extent < 0) return OpError(spec, absl::StrCat("size ", node.name, " is not known"));
        product *= static_cast<double>(extent);
      }
      return product;
    }
    case ExprKind::kAdd:
      return args[0] + args[1];
    case ExprKind::kSub:
      return args[0] - args[1];
    case ExprKind::kMul:
      return args[0] * args[1];
    case ExprKind::kNeg:
      return -args[0];
    case ExprKind::kDiv:
    case ExprKind::kFloorDiv:
    case ExprKind::kMod: {
      if (args[1] == 0) return OpError(spec, "a size's formula divides by zero");
      const double quotient = std::floor(args[0] / args[1]);
      return node.kind == ExprKind::kMod ? args[0] - quotient * args[1] : quotient;
    }
    case ExprKind::kCall:
      if (node.name == "max") return std::max(args[0], args[1]);
      if (node.name == "min") return std::min(args[0], args[1]);
      if (node.name == "floor") return std::floor(args[0]);
      return OpError(spec, absl::StrCat("a size's formula cannot use ", node.name));
    default:
      return OpError(spec, "a size's formula has numbers, attributes, sizes and + - * / // % only");
  }
}

bool AsAffine(const OpSpec& spec, const SizeTable& table, ExprId id, AffineForm& form) {
  const ExprNode& node = spec.exprs[id];
  const auto combine = [](AffineForm& to, const AffineForm& from, double scale) {
    to.number += scale * from.number;
    for (const auto& [name, coefficient] : from.vars)
      to.vars.emplace_back(name, scale * coefficient);
    for (const auto& [base, coefficient] : from.sizes)
      to.sizes.emplace_back(base, scale * coefficient);
  };
  std::vector<AffineForm> args(node.args.size());
  if (node.kind == ExprKind::kRead) return false;
  for (size_t i = 0; i < node.args.size(); ++i) {
    if (!AsAffine(spec, table, node.args[i], args[i])) return false;
  }
  switch (node.kind) {
    case ExprKind::kNumber:
      form.number = node.number;
      return true;
    case ExprKind::kAttr: {
      auto number = table.AttributeNumber(spec, node.name);
      if (!number.ok() || AsSymbolic(table.attributes.at(node.name))) return false;
      form.number = *number;
      return true;
    }
    case ExprKind::kVar:
      form.vars.emplace_back(node.name, 1);
      return true;
    case ExprKind::kSize: {
      const auto it = table.names.find(node.name);
      if (it == table.names.end() || it->second.size() != 1) return false;
      form.sizes.emplace_back(it->second[0], 1);
      return true;
    }
    case ExprKind::kAdd:
    case ExprKind::kSub:
      combine(form, args[0], 1);
      combine(form, args[1], node.kind == ExprKind::kAdd ? 1 : -1);
      return true;
    case ExprKind::kNeg:
      combine(form, args[0], -1);
      return true;
    case ExprKind::kMul: {
      const size_t scalar = args[0].IsNumber() ? 0 : 1;
      if (!args[scalar].IsNumber()) return false;
      combine(form, args[1 - scalar], args[scalar].number);
      return true;
    }
    case ExprKind::kDiv:
      if (!args[0].IsNumber() || !args[1].IsNumber()) return false;
      form.number = args[0].number / args[1].number;
      return true;
    case ExprKind::kCall:
      if (node.name != "floor" || !args[0].IsNumber()) return false;
      form.number = std::floor(args[0].number);
      return true;
    default:
      return false;
  }
}

}  // namespace tandem
