#include "pcg/autodiff/adjoint_sums.h"

#include <algorithm>
#include <map>

namespace tandem {

// sum over `loops` of `adjoint` where from == to, solved for as many loops as possible.
Polynomial AdjointSums::Scatter(Polynomial adjoint, std::vector<int> loops,
                                const std::vector<ExprId>& from, const std::vector<ExprId>& to) {
  std::map<int, ExprId> solved;
  std::vector<ExprId> guards;
  const auto solve = [&](int var, ExprId value) {
    for (auto& [v, e] : solved) e = x_.Substitute(e, {{var, value}});
    solved[var] = value;
    std::erase(loops, var);
  };
  std::vector<bool> done(from.size(), false);
  for (size_t i = 0; i < from.size(); ++i) {
    const ExprNode index = x_[from[i]], own = x_[to[i]];
    if (index.kind != ExprKind::kVar || own.kind != ExprKind::kVar) continue;
    if (std::find(loops.begin(), loops.end(), index.ref) == loops.end()) continue;
    if (SizeOf(index.ref) != SizeOf(own.ref)) {
      continue;
    }
    solve(index.ref, to[i]);
    done[i] = true;
  }
  for (size_t i = 0; i < from.size(); ++i) {
    if (done[i]) continue;
    const ExprId index = x_.Substitute(from[i], solved);
    const std::optional<std::pair<int, ExprId>> one = SolveForOne(index, to[i], loops);
    if (one) {
      solve(one->first, one->second);
      const int size = SizeOf(one->first);
      guards.push_back(x_.Compare(one->second, ">=", x_.Number(0)));
      guards.push_back(x_.Compare(one->second, "<", x_.Size(size)));
    } else {
      guards.push_back(x_.Compare(index, "==", to[i]));
    }
  }
  for (const int loop : std::vector<int>(loops)) {  // a dim that the text says is 1
    const SizeVar& size = op_.sizes[static_cast<size_t>(SizeOf(loop))];
    if (size.constant && size.extent == 1) solve(loop, x_.Number(0));
  }
  adjoint = Substitute(x_, adjoint, solved);
  for (ExprId guard : guards) adjoint = Guarded(x_, adjoint, x_.Substitute(guard, solved));
  return SumOver(adjoint, loops);
}

// index == own with exactly one of `loops` in index, at coefficient 1 or -1: that loop's value.
std::optional<std::pair<int, ExprId>> AdjointSums::SolveForOne(ExprId index, ExprId own,
                                                               const std::vector<int>& loops) {
  const std::optional<SymbolicExprs::Affine> affine = x_.AsAffine(index);
  if (!affine) return std::nullopt;
  int var = -1;
  for (int loop : loops) {
    if (affine->terms.count(loop) == 0) continue;
    if (var >= 0) return std::nullopt;
    var = loop;
  }
  if (var < 0) return std::nullopt;
  const ExprId rest = x_.Substitute(index, {{var, x_.Number(0)}});
  const double coefficient = affine->terms.at(var);
  if (coefficient == 1) return std::make_pair(var, x_.Sub(own, rest));
  if (coefficient == -1) return std::make_pair(var, x_.Sub(rest, own));
  return std::nullopt;
}

// sum over `loops`: what does not depend on them comes out, a sum for each thing that comes out.
Polynomial AdjointSums::SumOver(const Polynomial& body, const std::vector<int>& loops) {
  if (loops.empty()) return patterns_.Simplified(body);
  struct Group {
    Monomial outside;
    std::vector<int> vars;
    Polynomial inside;
  };
  std::vector<Group> groups;
  for (const Monomial& term : patterns_.Simplified(body)) {
    std::vector<int> left = loops;
    const Monomial m = OnePointSolved(term, left);
    Monomial outside, inside;
    const auto split = [&](ExprId id) { return x_.UsesAny(id, left); };
    for (const auto& f : m.factors) (split(f.first) ? inside : outside).factors.push_back(f);
    for (ExprId c : m.conditions) (split(c) ? inside : outside).conditions.push_back(c);
    inside.coefficient = IsZeroSum(inside, left) ? 0 : m.coefficient;
    std::vector<int> used;
    Polynomial times = {outside};
    for (int var : left) {
      const auto uses = [&](ExprId id) { return x_.UsesAny(id, {var}); };
      const bool inner = std::any_of(inside.factors.begin(), inside.factors.end(),
                                     [&](const auto& f) { return uses(f.first); }) ||
                         std::any_of(inside.conditions.begin(), inside.conditions.end(), uses);
      if (inner) used.push_back(var);
      if (!inner) times = Product(times, Atom(x_, x_.Size(SizeOf(var))));
    }
    const auto same = std::find_if(groups.begin(), groups.end(), [&](const Group& g) {
      return g.outside == times[0] && g.vars == used;
    });
    if (same != groups.end()) {
      same->inside = Sum(same->inside, {inside});
    } else {
      groups.push_back({times[0], used, {inside}});
    }
  }
  Polynomial result;
  for (Group& g : groups) {
    if (g.inside.empty()) continue;
    if (g.inside.size() == 1) {
      g.outside.coefficient *= g.inside[0].coefficient;
      g.inside[0].coefficient = 1;
    }
    Polynomial sum = g.inside;
    if (!g.vars.empty()) {
      const ExprId reduce = x_.Reduce("sum", g.vars, ToExpr(x_, g.inside));
      made_.insert(reduce);
      sum = {Monomial{1, {{reduce, 1}}, {}}};
    }
    result = Sum(result, Product({g.outside}, sum));
  }
  return patterns_.Simplified(result);
}

// sum over i of x[i] - mu, where mu is the mean of x over i: the second moment's way to the mean.
bool AdjointSums::IsZeroSum(const Monomial& inside, const std::vector<int>& loops) {
  if (inside.factors.size() != 1 || inside.factors[0].second != 1 || !inside.conditions.empty()) {
    return false;
  }
  const ExprNode centred = x_[Expanded(inside.factors[0].first)];
  if (centred.kind != ExprKind::kSub) return false;
  const ExprNode mean = x_[Expanded(centred.args[1])];
  if (mean.kind != ExprKind::kDiv || x_[mean.args[0]].kind != ExprKind::kReduce) return false;
  const ExprNode total = x_[mean.args[0]];
  if (total.name != "sum" || total.bound.size() != loops.size()) return false;
  std::map<int, ExprId> rename;
  ExprId count = x_.Number(1);
  for (size_t i = 0; i < loops.size(); ++i) {
    const int size = SizeOf(loops[i]);
    if (size != SizeOf(total.bound[i].var)) return false;
    rename[total.bound[i].var] = x_.Var(loops[i]);
    count = x_.Mul(count, x_.Size(size));
  }
  return x_.Substitute(total.args[0], rename) == centred.args[0] &&
         AsMonomial(x_, mean.args[1]) == AsMonomial(x_, count);
}

// A read of an intermediate replaced by what its equation says.
ExprId AdjointSums::Expanded(ExprId id) {
  const ExprNode read = x_[id];
  if (read.kind != ExprKind::kRead || read.has_else) return id;
  for (const SymbolicEquation& e : forward_) {
    const bool output = e.target < op_.num_inputs + op_.num_outputs;
    if (e.target != read.ref || output) continue;
    std::map<int, ExprId> at;
    size_t next = 0;
    for (ExprId index : read.args) {
      const ExprNode node = x_[index];
      if (node.kind == ExprKind::kTuple) {
        for (ExprId part : node.args) at[e.vars[next++]] = part;
      } else {
        at[e.vars[next++]] = index;
      }
    }
    return next == e.vars.size() ? x_.Substitute(e.body, at) : id;
  }
  return id;
}

// Conditions y == e with y one of the loops and e an index expression: e takes y's place. A read
// that alone depends on y gets `else 0` in place of the guard that e is in y's range.
Monomial AdjointSums::OnePointSolved(Monomial m, std::vector<int>& loops) {
  for (size_t i = 0; i < m.conditions.size(); ++i) {
    const ExprNode condition = x_[m.conditions[i]];
    if (condition.kind != ExprKind::kCompare || condition.name != "==") continue;
    for (int side = 0; side < 2; ++side) {
      const ExprNode y = x_[condition.args[static_cast<size_t>(side)]];
      const ExprId e = condition.args[static_cast<size_t>(1 - side)];
      if (y.kind != ExprKind::kVar || x_.UsesAny(e, {y.ref}) || !x_.AsAffine(e)) continue;
      if (std::find(loops.begin(), loops.end(), y.ref) == loops.end()) continue;
      m.conditions.erase(m.conditions.begin() + static_cast<std::ptrdiff_t>(i));
      std::erase(loops, y.ref);
      return OnePointSolved(Placed(m, y.ref, e), loops);
    }
  }
  return m;
}

Monomial AdjointSums::Placed(const Monomial& m, int var, ExprId value) {
  std::vector<ExprId> users;
  for (const auto& [factor, power] : m.factors) {
    if (x_.UsesAny(factor, {var})) users.push_back(power == 1 ? factor : ExprId());
  }
  for (ExprId c : m.conditions) {
    if (x_.UsesAny(c, {var})) users.push_back(ExprId());
  }
  const int size = SizeOf(var);
  const ExprId low = x_.Compare(value, ">=", x_.Number(0));
  const ExprId high = x_.Compare(value, "<", x_.Size(size));
  const bool always = x_.Decide(low) == true && x_.Decide(high) == true;
  const bool by_else = !always && users.size() == 1 && users[0].valid() && IndexedBy(users[0], var);
  Polynomial placed = Substitute(x_, {m}, {{var, value}});
  if (by_else) {
    ExprNode read = x_[x_.Substitute(users[0], {{var, value}})];
    const ExprId before = x_.WithArgs(read, read.args);
    read.has_else = true;
    std::vector<ExprId> args = read.args;
    args.push_back(x_.Number(0));
    for (auto& f : placed[0].factors) {
      if (f.first == before) f.first = x_.WithArgs(read, args);
    }
    std::sort(placed[0].factors.begin(), placed[0].factors.end());
  } else if (!always) {
    placed = Guarded(x_, Guarded(x_, placed, low), high);
  }
  return placed.empty() ? Monomial{0, {}, {}} : placed[0];
}

// A read without `else` with `var` as the plain index of dims of var's own size and nowhere else.
bool AdjointSums::IndexedBy(ExprId id, int var) {
  const ExprNode read = x_[id];
  if (read.kind != ExprKind::kRead || read.has_else) return false;
  for (size_t d = 0; d < read.args.size(); ++d) {
    if (!x_.UsesAny(read.args[d], {var})) continue;
    const auto& dim = tensors_[static_cast<size_t>(read.ref)].dims[d];
    if (x_[read.args[d]].kind != ExprKind::kVar || dim.size() != 1) return false;
    if (dim[0] != SizeOf(var)) return false;
  }
  return true;
}

}  // namespace tandem
