#include "pcg/instance/polynomial.h"

#include <algorithm>
#include <cmath>

namespace tandem {
namespace {

bool Alike(const Monomial& a, const Monomial& b) {
  return a.factors == b.factors && a.conditions == b.conditions;
}

void AddTo(Polynomial& sum, const Monomial& m) {
  if (m.coefficient == 0) return;
  for (size_t i = 0; i < sum.size(); ++i) {
    if (!Alike(sum[i], m)) continue;
    sum[i].coefficient += m.coefficient;
    if (sum[i].coefficient == 0) sum.erase(sum.begin() + static_cast<std::ptrdiff_t>(i));
    return;
  }
  sum.push_back(m);
}

void MultiplyBy(Monomial& m, ExprId factor, int power) {
  const auto at = std::lower_bound(m.factors.begin(), m.factors.end(), factor,
                                   [](const auto& f, ExprId id) { return f.first < id; });
  if (at == m.factors.end() || at->first != factor) {
    m.factors.insert(at, {factor, power});
  } else if ((at->second += power) == 0) {
    m.factors.erase(at);
  }
}

void AddCondition(const SymbolicExprs& exprs, Monomial& m, ExprId condition) {
  if (exprs[condition].kind == ExprKind::kAnd) {
    AddCondition(exprs, m, exprs[condition].args[0]);
    AddCondition(exprs, m, exprs[condition].args[1]);
    return;
  }
  const auto at = std::lower_bound(m.conditions.begin(), m.conditions.end(), condition);
  if (at == m.conditions.end() || *at != condition) m.conditions.insert(at, condition);
}

Monomial Times(Monomial a, const Monomial& b) {
  a.coefficient *= b.coefficient;
  for (const auto& [factor, power] : b.factors) MultiplyBy(a, factor, power);
  for (ExprId condition : b.conditions) {
    const auto at = std::lower_bound(a.conditions.begin(), a.conditions.end(), condition);
    if (at == a.conditions.end() || *at != condition) a.conditions.insert(at, condition);
  }
  return a;
}

int PowerOf(const Monomial& m, ExprId factor) {
  for (const auto& [f, power] : m.factors) {
    if (f == factor) return power;
  }
  return 0;
}

// Products read best with the incoming adjoint first: tensors of high number, then the rest.
std::vector<std::pair<ExprId, int>> InPrintOrder(const SymbolicExprs& exprs, const Monomial& m) {
  std::vector<std::pair<ExprId, int>> factors = m.factors;
  const auto rank = [&](ExprId id) {
    return exprs[id].kind == ExprKind::kRead ? exprs[id].ref : -1;
  };
  std::stable_sort(factors.begin(), factors.end(),
                   [&](const auto& a, const auto& b) { return rank(a.first) > rank(b.first); });
  return factors;
}

ExprId PowerExpr(SymbolicExprs& exprs, ExprId base, int power) {
  if (power > 4) return exprs.Call("pow", {base, exprs.Number(power)});
  ExprId product = base;
  for (int i = 1; i < power; ++i) product = exprs.Mul(product, base);
  return product;
}

// |coefficient| * factors, without conditions.
ExprId ProductExpr(SymbolicExprs& exprs, const Monomial& m) {
  ExprId above = exprs.Number(std::abs(m.coefficient)), below = exprs.Number(1);
  for (const auto& [factor, power] : InPrintOrder(exprs, m)) {
    ExprId& side = power > 0 ? above : below;
    side = exprs.Mul(side, PowerExpr(exprs, factor, std::abs(power)));
  }
  return exprs.Div(above, below);
}

ExprId GuardExpr(SymbolicExprs& exprs, const std::vector<ExprId>& conditions, ExprId value) {
  if (conditions.empty()) return value;
  ExprId all = conditions[0];
  for (size_t i = 1; i < conditions.size(); ++i) all = exprs.And(all, conditions[i]);
  return exprs.Select(all, value, exprs.Number(0));
}

// The largest monomial that divides all. Its coefficient is negative if all are, and of their size
// if they have one.
Monomial CommonPart(const Polynomial& a) {
  Monomial common;
  common.conditions = a[0].conditions;
  bool negative = true, alike = true;
  for (const Monomial& m : a) {
    negative &= m.coefficient < 0;
    alike &= std::abs(m.coefficient) == std::abs(a[0].coefficient);
    std::erase_if(common.conditions, [&](ExprId c) {
      return !std::binary_search(m.conditions.begin(), m.conditions.end(), c);
    });
  }
  common.coefficient = (negative ? -1 : 1) * (alike ? std::abs(a[0].coefficient) : 1);
  for (const auto& [factor, first] : a[0].factors) {
    int power = first;
    for (const Monomial& m : a) {
      const int other = PowerOf(m, factor);
      power = power > 0 ? std::max(0, std::min(power, other)) : std::min(0, std::max(power, other));
    }
    if (power != 0) common.factors.push_back({factor, power});
  }
  return common;
}

ExprId SumExpr(SymbolicExprs& exprs, const Polynomial& a) {
  std::vector<const Monomial*> terms;
  for (const Monomial& m : a) terms.push_back(&m);
  std::stable_partition(terms.begin(), terms.end(),
                        [](const auto* m) { return m->coefficient > 0; });
  ExprId sum = exprs.Number(0);
  for (const Monomial* m : terms) {
    const ExprId value = GuardExpr(exprs, m->conditions, ProductExpr(exprs, *m));
    sum = m->coefficient > 0 ? exprs.Add(sum, value) : exprs.Sub(sum, value);
  }
  return sum;
}

}  // namespace

Polynomial Sum(const Polynomial& a, const Polynomial& b) {
  Polynomial sum = a;
  for (const Monomial& m : b) AddTo(sum, m);
  return sum;
}

Polynomial Product(const Polynomial& a, const Polynomial& b) {
  Polynomial product;
  for (const Monomial& x : a) {
    for (const Monomial& y : b) AddTo(product, Times(x, y));
  }
  return product;
}

Polynomial Scaled(const Polynomial& a, double coefficient) {
  Polynomial scaled;
  for (Monomial m : a) {
    m.coefficient *= coefficient;
    AddTo(scaled, m);
  }
  return scaled;
}

Monomial Inverse(const Monomial& a) {
  Monomial inverse;
  inverse.coefficient = 1 / a.coefficient;
  for (const auto& [factor, power] : a.factors) inverse.factors.push_back({factor, -power});
  return inverse;
}

Monomial AsMonomial(SymbolicExprs& exprs, ExprId id) {
  const ExprNode node = exprs[id];
  if (const std::optional<double> number = exprs.AsNumber(id)) {
    if (std::isfinite(*number)) return {*number, {}, {}};
  }
  if (node.kind == ExprKind::kNeg) {
    Monomial m = AsMonomial(exprs, node.args[0]);
    m.coefficient = -m.coefficient;
    return m;
  }
  if (node.kind == ExprKind::kMul) {
    return Times(AsMonomial(exprs, node.args[0]), AsMonomial(exprs, node.args[1]));
  }
  if (node.kind == ExprKind::kDiv) {
    const Monomial below = AsMonomial(exprs, node.args[1]);
    if (below.coefficient != 0 && below.conditions.empty()) {
      return Times(AsMonomial(exprs, node.args[0]), Inverse(below));
    }
  }
  if (node.kind == ExprKind::kSelect && exprs.IsNumber(node.args[2], 0)) {
    Monomial m = AsMonomial(exprs, node.args[1]);
    AddCondition(exprs, m, node.args[0]);
    return m;
  }
  Monomial m;
  m.factors.push_back({id, 1});
  return m;
}

Polynomial Atom(SymbolicExprs& exprs, ExprId id) {
  Polynomial p;
  AddTo(p, AsMonomial(exprs, id));
  return p;
}

Polynomial Guarded(SymbolicExprs& exprs, const Polynomial& a, ExprId condition) {
  const std::optional<bool> known = exprs.Decide(condition);
  if (known) return *known ? a : Polynomial{};
  Polynomial guarded;
  for (Monomial m : a) {
    AddCondition(exprs, m, condition);
    AddTo(guarded, m);
  }
  return guarded;
}

Polynomial Stable(SymbolicExprs& exprs, const Polynomial& a) {
  for (const Monomial& m : a) {
    for (const auto& [sum, power] : m.factors) {
      const ExprNode node = exprs[sum];
      if (power >= 0 || node.kind != ExprKind::kAdd) continue;
      const bool number_first = exprs.AsNumber(node.args[0]).has_value();
      const ExprId term = node.args[number_first ? 1 : 0];
      const std::optional<double> constant = exprs.AsNumber(node.args[number_first ? 0 : 1]);
      if (!constant || PowerOf(m, term) <= 0) continue;
      Monomial whole = m, rest = m;
      MultiplyBy(whole, term, -1);
      MultiplyBy(whole, sum, 1);
      MultiplyBy(rest, term, -1);
      rest.coefficient *= -*constant;
      Polynomial replaced;
      for (const Monomial& other : a) {
        if (&other != &m) AddTo(replaced, other);
      }
      AddTo(replaced, whole);
      AddTo(replaced, rest);
      return Stable(exprs, replaced);
    }
  }
  return a;
}

Polynomial Substitute(SymbolicExprs& exprs, const Polynomial& a,
                      const std::map<int, ExprId>& replacement) {
  Polynomial result;
  for (const Monomial& m : a) {
    Polynomial term = {{m.coefficient, {}, {}}};
    for (const auto& [factor, power] : m.factors) {
      const Monomial base = AsMonomial(exprs, exprs.Substitute(factor, replacement));
      for (int i = 0; i < std::abs(power); ++i) {
        term = Product(term, {power > 0 ? base : Inverse(base)});
      }
    }
    for (ExprId condition : m.conditions) {
      term = Guarded(exprs, term, exprs.Substitute(condition, replacement));
    }
    result = Sum(result, term);
  }
  return result;
}

ExprId ToExpr(SymbolicExprs& exprs, const Polynomial& a) {
  if (a.empty()) return exprs.Number(0);
  const Monomial common = CommonPart(a);
  Polynomial rest;
  for (const Monomial& m : a) {
    Monomial part = Times(m, Inverse(common));
    std::erase_if(part.conditions, [&](ExprId c) {
      return std::binary_search(common.conditions.begin(), common.conditions.end(), c);
    });
    AddTo(rest, part);
  }
  ExprId value;
  if (rest.size() == 1) {
    value = ProductExpr(exprs, a[0]);
    if (a[0].coefficient < 0) value = exprs.Neg(value);
  } else {
    value = SumExpr(exprs, rest);
    Monomial above, below;
    for (const auto& f : common.factors) (f.second > 0 ? above : below).factors.push_back(f);
    above.coefficient = std::abs(common.coefficient);
    if (!above.factors.empty() || above.coefficient != 1)
      value = exprs.Mul(ProductExpr(exprs, above), value);
    if (!below.factors.empty()) value = exprs.Div(value, ProductExpr(exprs, Inverse(below)));
    if (common.coefficient < 0) value = exprs.Neg(value);
  }
  return GuardExpr(exprs, common.conditions, value);
}

}  // namespace tandem
