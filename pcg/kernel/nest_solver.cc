#include "pcg/kernel/nest_solver.h"

#include <algorithm>
#include <cmath>
#include <cstdlib>

namespace tandem {
namespace {

class GuardSolver {
 public:
  GuardSolver(const OpInstance& instance, const std::vector<int64_t>& extents)
      : instance_(instance), extents_(extents) {}

  std::map<int, Solution> Run(const std::vector<int>& bound, const std::vector<int>& free,
                              std::vector<ExprId>& guards) {
    std::vector<ExprId> kept;
    for (ExprId guard : guards) {
      const ExprNode& node = expr(guard);
      if (node.kind != ExprKind::kCompare || node.name != "==") {
        kept.push_back(guard);
        continue;
      }
      Solution equation;  // left - right == 0
      Linearize(node.args[0], 1, equation);
      Linearize(node.args[1], -1, equation);
      if (!SolveFor(equation, Candidates(equation, bound), /*unit_only=*/false) &&
          !SolveFor(equation, Candidates(equation, free), /*unit_only=*/true)) {
        kept.push_back(guard);
      }
    }
    guards = std::move(kept);
    return std::move(solved_);
  }

 private:
  const ExprNode& expr(ExprId id) const { return instance_.exprs[id]; }
  int64_t Extent(int var) const { return extents_[static_cast<size_t>(var)]; }
  int64_t WholeExtent(int var) const {
    const int size = instance_.vars[static_cast<size_t>(var)].size;
    return instance_.sizes[static_cast<size_t>(size)].extent;
  }

  bool IntegerConstant(ExprId id, int64_t& value) const {
    const ExprNode& node = expr(id);
    double number = 0;
    if (node.kind == ExprKind::kNumber) {
      number = node.number;
    } else if (node.kind == ExprKind::kSize) {
      number = static_cast<double>(instance_.sizes[static_cast<size_t>(node.ref)].extent);
    } else if (node.kind == ExprKind::kMul || node.kind == ExprKind::kAdd) {
      int64_t a = 0, b = 0;
      if (!IntegerConstant(node.args[0], a) || !IntegerConstant(node.args[1], b)) return false;
      value = node.kind == ExprKind::kMul ? a * b : a + b;
      return true;
    } else {
      return false;
    }
    if (std::abs(number) > 1e15 || number != std::floor(number)) return false;
    value = static_cast<int64_t>(number);
    return true;
  }

  // Adds scale * expression. Variables that are solved already are opaque.
  void Linearize(ExprId id, int64_t scale, Solution& out) const {
    const ExprNode& node = expr(id);
    int64_t constant = 0;
    if (IntegerConstant(id, constant)) {
      out.constant += scale * constant;
    } else if (node.kind == ExprKind::kVar && solved_.count(node.ref) == 0) {
      out.vars[node.ref] += scale;
    } else if (node.kind == ExprKind::kAdd || node.kind == ExprKind::kSub) {
      Linearize(node.args[0], scale, out);
      Linearize(node.args[1], node.kind == ExprKind::kAdd ? scale : -scale, out);
    } else if (node.kind == ExprKind::kNeg) {
      Linearize(node.args[0], -scale, out);
    } else if (node.kind == ExprKind::kMul && IntegerConstant(node.args[0], constant)) {
      Linearize(node.args[1], scale * constant, out);
    } else if (node.kind == ExprKind::kMul && IntegerConstant(node.args[1], constant)) {
      Linearize(node.args[0], scale * constant, out);
    } else {
      out.opaque.emplace_back(scale, id);
    }
  }

  // Variables that the opaque terms of an equation depend on, through solutions too.
  void OpaqueDependencies(const Solution& equation, std::set<int>& vars) const {
    for (const auto& [scale, id] : equation.opaque) {
      for (int var : FreeVarsOf(instance_, id)) Depend(var, vars);
    }
  }

  void Depend(int var, std::set<int>& vars) const {
    if (!vars.insert(var).second) return;
    const auto it = solved_.find(var);
    if (it == solved_.end()) return;
    for (const auto& [other, coefficient] : it->second.vars) Depend(other, vars);
    OpaqueDependencies(it->second, vars);
  }

  // Variables of `pool` with a coefficient in the equation on which the rest of it does not depend.
  std::vector<int> Candidates(const Solution& equation, const std::vector<int>& pool) const {
    std::set<int> elsewhere;
    OpaqueDependencies(equation, elsewhere);
    std::vector<int> out;
    for (int var : pool) {
      const auto it = equation.vars.find(var);
      if (it != equation.vars.end() && it->second != 0 && elsewhere.count(var) == 0) {
        out.push_back(var);
      }
    }
    return out;
  }

  // Fixes the variables that save the most iterations. `unit_only`: coefficient 1 or -1.
  bool SolveFor(const Solution& equation, std::vector<int> candidates, bool unit_only) {
    if (candidates.empty()) return false;
    const auto coefficient = [&](int var) { return equation.vars.find(var)->second; };
    std::stable_sort(candidates.begin(), candidates.end(), [&](int a, int b) {
      return std::abs(coefficient(a)) < std::abs(coefficient(b));
    });
    // Digits of mixed radix: coefficients 1, e1, e1*e2, ... of one sign. All are fixed at once.
    std::vector<int> digits;
    int64_t next = coefficient(candidates[0]) < 0 ? -1 : 1, digits_product = 1;
    for (int var : candidates) {
      if (coefficient(var) != next) continue;
      digits.push_back(var);
      digits_product *= Extent(var);
      next *= WholeExtent(var);
    }
    int best = -1;
    for (int var : candidates) {
      if (unit_only && std::abs(coefficient(var)) != 1) continue;
      if (best < 0 || Extent(var) > Extent(best)) best = var;
    }
    if (digits.size() > 1 && (best < 0 || digits_product >= Extent(best))) {
      SolveDigits(equation, digits);
      return true;
    }
    if (best < 0) return false;
    Solution solution = Rest(equation, {best}, coefficient(best) > 0 ? -1 : 1);
    solution.divisor = std::abs(coefficient(best));
    solved_.emplace(best, std::move(solution));
    return true;
  }

  // scale * the equation without the terms of `vars`.
  static Solution Rest(const Solution& equation, const std::vector<int>& vars, int64_t scale) {
    Solution rest;
    rest.constant = scale * equation.constant;
    for (const auto& [var, coefficient] : equation.vars) {
      const bool taken = std::find(vars.begin(), vars.end(), var) != vars.end();
      if (!taken && coefficient != 0) rest.vars[var] = scale * coefficient;
    }
    for (const auto& [coefficient, id] : equation.opaque) {
      rest.opaque.emplace_back(scale * coefficient, id);
    }
    return rest;
  }

  void SolveDigits(const Solution& equation, const std::vector<int>& digits) {
    const Solution rest = Rest(equation, digits, -equation.vars.find(digits[0])->second);
    int64_t below = 1;
    for (size_t i = 0; i < digits.size(); ++i) {
      Solution solution = rest;
      solution.digit = true;
      solution.divisor = below;
      solution.modulus = i + 1 < digits.size() ? WholeExtent(digits[i]) : 0;
      below *= WholeExtent(digits[i]);
      solved_.emplace(digits[i], std::move(solution));
    }
  }

  const OpInstance& instance_;
  const std::vector<int64_t>& extents_;
  std::map<int, Solution> solved_;
};

}  // namespace

std::map<int, Solution> SolveGuards(const OpInstance& instance, const std::vector<int64_t>& extents,
                                    const std::vector<int>& bound, const std::vector<int>& free,
                                    std::vector<ExprId>& guards) {
  return GuardSolver(instance, extents).Run(bound, free, guards);
}

std::set<int> FreeVarsOf(const OpInstance& instance, ExprId id) {
  const ExprNode& node = instance.exprs[id];
  std::set<int> vars;
  if (node.kind == ExprKind::kVar) vars.insert(node.ref);
  for (ExprId arg : node.args) vars.merge(FreeVarsOf(instance, arg));
  for (const BoundVar& bound : node.bound) vars.erase(bound.var);
  return vars;
}

}  // namespace tandem
