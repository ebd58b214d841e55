#include "pcg/autodiff/output_patterns.h"

#include <algorithm>
#include <cmath>
#include <utility>

namespace tandem {

void OutputPatterns::Add(const SymbolicEquation& equation) {
  Monomial body = AsMonomial(x_, equation.body);
  const bool work = std::any_of(body.factors.begin(), body.factors.end(), [&](const auto& f) {
    return f.second < 0 || x_[f.first].kind != ExprKind::kRead;
  });
  if (work && body.conditions.empty()) {
    patterns_.push_back({equation.target, equation.vars, std::move(body)});
  }
}

Polynomial OutputPatterns::Simplified(const Polynomial& a) {
  Polynomial result;
  for (const Monomial& m : Stable(x_, a)) result = Sum(result, {WithOutputs(m)});
  return result;
}

Monomial OutputPatterns::WithOutputs(Monomial m) {
  for (const Pattern& pattern : patterns_) {
    while (true) {
      std::map<int, ExprId> binding;
      if (!Matches(pattern, 0, m, binding) || binding.size() != pattern.vars.size()) break;
      Polynomial rest = {m};
      for (const auto& [factor, power] : pattern.body.factors) {
        const ExprId bound = x_.Substitute(factor, binding);
        rest = Product(rest, {Monomial{1, {{bound, -power}}, {}}});
      }
      std::vector<ExprId> at;
      ExprNode read = x_[x_.Read(
          pattern.tensor, op_.tensors[static_cast<size_t>(pattern.tensor)].dims, pattern.vars)];
      const ExprId out = x_.Substitute(x_.WithArgs(read, read.args), binding);
      rest = Product(rest, {Monomial{1 / pattern.body.coefficient, {{out, 1}}, {}}});
      m = rest[0];
    }
  }
  return m;
}

// Factors of the pattern from `i` on are found in m, with the same sign and no smaller power.
bool OutputPatterns::Matches(const Pattern& pattern, size_t i, const Monomial& m,
                             std::map<int, ExprId>& binding) {
  if (i == pattern.body.factors.size()) return true;
  const auto& [factor, power] = pattern.body.factors[i];
  for (const auto& [candidate, has] : m.factors) {
    if ((power > 0) != (has > 0) || std::abs(has) < std::abs(power)) continue;
    std::map<int, ExprId> attempt = binding;
    if (Unify(factor, candidate, pattern.vars, attempt) && Matches(pattern, i + 1, m, attempt)) {
      binding = attempt;
      return true;
    }
  }
  return false;
}

bool OutputPatterns::Unify(ExprId pattern, ExprId id, const std::vector<int>& vars,
                           std::map<int, ExprId>& binding) {
  const ExprNode& p = x_[pattern];
  if (p.kind == ExprKind::kVar && std::find(vars.begin(), vars.end(), p.ref) != vars.end()) {
    const auto [it, inserted] = binding.emplace(p.ref, id);
    return inserted ? x_[id].kind == ExprKind::kVar : it->second == id;
  }
  const ExprNode& n = x_[id];
  if (p.kind != n.kind || p.number != n.number || p.ref != n.ref || p.name != n.name ||
      p.has_else != n.has_else || p.args.size() != n.args.size() || p.bound != n.bound) {
    return false;
  }
  for (size_t i = 0; i < p.args.size(); ++i) {
    if (!Unify(p.args[i], n.args[i], vars, binding)) return false;
  }
  return true;
}

}  // namespace tandem
