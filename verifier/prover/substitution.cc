#include "verifier/prover/substitution.h"

#include <algorithm>

namespace tandem::prover {
namespace {

uint64_t MemoKey(int kind, int32_t id, int depth) {
  return (static_cast<uint64_t>(static_cast<uint32_t>(id)) << 16) |
         (static_cast<uint64_t>(depth) << 2) | static_cast<uint64_t>(kind);
}

}  // namespace

Substitution Substitution::Replacing(Algebra& algebra, const std::map<Atom, Poly>& images) {
  Substitution s(algebra, Mode::kReplace);
  s.images_ = images;
  return s;
}
Substitution Substitution::Opening(Algebra& algebra, const std::vector<Atom>& fresh) {
  Substitution s(algebra, Mode::kOpen);
  s.fresh_ = fresh;
  return s;
}
Substitution Substitution::Closing(Algebra& algebra, const std::vector<Atom>& vars) {
  Substitution s(algebra, Mode::kClose);
  for (size_t k = 0; k < vars.size(); ++k) s.positions_[vars[k]] = static_cast<int>(k);
  return s;
}

bool Substitution::Touches(const Scope& scope, int depth) const {
  if (mode_ == Mode::kOpen) return scope.loose > depth;
  for (Atom a : scope.vars) {
    if (mode_ == Mode::kReplace ? images_.count(a) != 0 : positions_.count(a) != 0) return true;
  }
  return false;
}

Poly Substitution::Image(Atom a, int depth) {
  const AtomData data = s_[a];
  switch (data.kind) {
    case AtomKind::kSize:
      return s_.Of(a);
    case AtomKind::kVar: {
      if (mode_ == Mode::kReplace) {
        auto it = images_.find(a);
        if (it != images_.end()) return it->second;
      } else if (mode_ == Mode::kClose) {
        auto it = positions_.find(a);
        if (it != positions_.end()) return s_.Of(s_.Bound(depth, it->second));
      }
      return s_.Of(a);
    }
    case AtomKind::kBound:
      if (mode_ == Mode::kOpen && data.depth == depth) {
        return s_.Of(fresh_[static_cast<size_t>(data.k)]);
      }
      return s_.Of(a);
    case AtomKind::kDiv:
      return s_.FloorDiv(Apply(data.a, depth), Apply(data.b, depth));
    case AtomKind::kMod:
      return s_.Mod(Apply(data.a, depth), Apply(data.b, depth));
    case AtomKind::kValue: {
      Value v = Apply(data.value, depth);
      if (auto p = algebra_.AsPoly(v)) return *p;
      return s_.Of(s_.ValueAtom(v));
    }
  }
  return s_.Of(a);
}

Poly Substitution::Apply(Poly p, int depth) {
  if (!Touches(s_[p].scope, depth)) return p;
  uint64_t key = MemoKey(0, p.value, depth);
  if (auto it = memo_.find(key); it != memo_.end()) return Poly(it->second);
  Poly sum = s_.Const(0);
  const auto terms = s_[p].terms;
  for (const auto& [m, c] : terms) {
    Poly product = s_.Const(c);
    for (Atom a : m) product = s_.Mul(product, Image(a, depth));
    sum = s_.Add(sum, product);
  }
  memo_[key] = sum.value;
  return sum;
}

Guard Substitution::Apply(Guard g, int depth) {
  if (!Touches(s_[g].scope, depth)) return g;
  uint64_t key = MemoKey(1, g.value, depth);
  if (auto it = memo_.find(key); it != memo_.end()) return Guard(it->second);
  const GuardData data = s_[g];
  std::vector<Guard> args;
  for (Guard a : data.args) args.push_back(Apply(a, depth));
  Guard r = g;
  switch (data.kind) {
    case GuardKind::kTrue:
    case GuardKind::kFalse:
      break;
    case GuardKind::kGe:
      r = s_.Ge(Apply(data.poly, depth));
      break;
    case GuardKind::kEq:
      r = s_.Eq(Apply(data.poly, depth));
      break;
    case GuardKind::kAnd:
      r = s_.And(std::move(args));
      break;
    case GuardKind::kOr:
      r = s_.Or(std::move(args));
      break;
    case GuardKind::kNot:
      r = s_.Not(args[0]);
      break;
    case GuardKind::kValueGe:
      r = algebra_.ValueGe(Apply(data.value, depth));
      break;
    case GuardKind::kValueEq:
      r = algebra_.ValueEq(Apply(data.value, depth));
      break;
  }
  memo_[key] = r.value;
  return r;
}

Factor Substitution::Apply(Factor f, int depth) {
  if (!Touches(s_[f].scope, depth)) return f;
  uint64_t key = MemoKey(2, f.value, depth);
  if (auto it = memo_.find(key); it != memo_.end()) return Factor(it->second);
  FactorData data = s_[f];
  for (auto& dim : data.index) {
    for (Poly& p : dim) p = Apply(p, depth);
  }
  if (data.poly.valid()) data.poly = Apply(data.poly, depth);
  for (Value& v : data.args) v = Apply(v, depth);
  std::vector<Branch> branches;
  for (Branch& b : data.branches) {
    Branch r{b.ranges, Apply(b.guard, depth + 1), Apply(b.value, depth + 1)};
    if (data.kind == FactorKind::kMax && s_[r.guard].kind == GuardKind::kFalse) continue;
    branches.push_back(std::move(r));
  }
  if (data.kind == FactorKind::kMax) {
    std::sort(branches.begin(), branches.end());
    branches.erase(std::unique(branches.begin(), branches.end()), branches.end());
  }
  data.branches = std::move(branches);
  Factor r = s_.Intern(std::move(data));
  memo_[key] = r.value;
  return r;
}

Value Substitution::Apply(Value v, int depth) {
  if (!Touches(s_[v].scope, depth)) return v;
  uint64_t key = MemoKey(3, v.value, depth);
  if (auto it = memo_.find(key); it != memo_.end()) return Value(it->second);
  const auto terms = s_[v].terms;
  std::map<Body, Rational> sum;
  for (const auto& [body, c] : terms) {
    if (!Touches(s_[body].scope, depth)) {
      sum[body] = sum[body] + c;
      continue;
    }
    const BodyData data = s_[body];
    FactorPowers factors;
    for (auto [f, e] : data.factors) factors.emplace_back(Apply(f, depth + 1), e);
    auto term = algebra_.Normalize(data.sizes, data.ranges, Apply(data.guard, depth + 1),
                                   std::move(factors));
    if (term) sum[term->first] = sum[term->first] + c * term->second;
  }
  ValueData data;
  for (const auto& [body, c] : sum) {
    if (!c.IsZero()) data.terms.emplace_back(body, c);
  }
  Value r = s_.Intern(std::move(data));
  memo_[key] = r.value;
  return r;
}

}  // namespace tandem::prover
