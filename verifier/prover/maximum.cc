// Maxima: conditions leave them, nested ones are flattened, and signs drop branches.
#include <algorithm>

#include "verifier/prover/algebra.h"
#include "verifier/prover/substitution.h"

namespace tandem::prover {
namespace {

constexpr size_t kMaxBranches = 24;  // conditions are pulled out of a maximum up to this size

}  // namespace

bool Algebra::NonNegative(Factor f, int exponent) {
  const FactorData data = s_[f];
  if (exponent % 2 == 0) return true;
  switch (data.kind) {
    case FactorKind::kConstant:
      return true;
    case FactorKind::kFn:
      return data.name == "exp" || data.name == "sqrt" || data.name == "inf";
    case FactorKind::kGroup:
      return NonNegative(data.args[0]);
    case FactorKind::kMax:
      for (const Branch& b : data.branches) {
        if (b.ranges.empty() && b.guard == s_.True() && NonNegative(b.value)) return true;
      }
      return false;
    case FactorKind::kRead:
    case FactorKind::kIndex:
    case FactorKind::kOpaque:
      return false;
  }
  return false;
}

bool Algebra::NonNegative(Value v) {
  const auto terms = s_[v].terms;
  for (const auto& [b, c] : terms) {
    if (c.num() < 0) return false;
    const auto factors = s_[b].factors;
    for (auto [f, e] : factors) {
      if (!NonNegative(f, e)) return false;
    }
  }
  return true;
}

Guard Algebra::FreeCondition(Value v) {
  for (const auto& [b, c] : s_[v].terms) {
    for (Guard g : s_.Conjuncts(s_[b].guard)) {
      if (s_[g].scope.loose == 0) return g;
    }
  }
  return s_.True();
}

Value Algebra::Under(Guard c, Value v) {
  Guard n = s_.Not(c);
  std::map<Body, Rational> sum;
  const auto terms = s_[v].terms;
  for (const auto& [b, k] : terms) {
    BodyData body = s_[b];
    std::vector<Guard> rest;
    bool dead = false;
    for (Guard g : s_.Conjuncts(body.guard)) {
      dead = dead || g == n;
      if (g != c) rest.push_back(g);
    }
    if (dead) continue;
    body.guard = s_.And(std::move(rest));
    Body kept = s_.Intern(std::move(body));
    sum[kept] = sum[kept] + k;
  }
  ValueData data;
  for (const auto& [b, k] : sum) {
    if (!k.IsZero()) data.terms.emplace_back(b, k);
  }
  return s_.Intern(std::move(data));
}

Value Algebra::Max(std::vector<OpenBranch> branches) {
  // Conditions inside a branch's value become conditions of branches; those that do not depend on
  // the branches' variables leave the maximum altogether.
  for (size_t i = 0; i < branches.size() && branches.size() < kMaxBranches; ++i) {
    Guard c = FreeCondition(branches[i].value);
    bool outside = c == s_.True();
    if (outside) {
      for (Guard g : s_.Conjuncts(branches[i].guard)) {
        bool mine = false;
        for (Atom v : branches[i].vars) mine = mine || s_[g].scope.Has(v);
        if (!mine && s_[g].scope.loose == 0) c = g;
      }
      if (c == s_.True()) continue;
    }
    bool dependent = false;
    for (const OpenBranch& b : branches) {
      for (Atom v : b.vars) dependent = dependent || s_[c].scope.Has(v);
    }
    Guard n = s_.Not(c);
    if (!dependent && s_[c].scope.loose == 0) {
      Value sum = Zero();
      for (Guard g : {c, n}) {
        std::vector<OpenBranch> under;
        for (const OpenBranch& b : branches) {
          std::vector<Guard> rest;
          bool dead = false;
          for (Guard x : s_.Conjuncts(b.guard)) {
            dead = dead || x == s_.Not(g);
            if (x != g) rest.push_back(x);
          }
          if (!dead) under.push_back({b.vars, s_.And(std::move(rest)), Under(g, b.value)});
        }
        sum = Add(sum, Guarded(g, Max(std::move(under))));
      }
      return sum;
    }
    if (outside) continue;
    OpenBranch other{branches[i].vars, s_.And(branches[i].guard, n), Under(n, branches[i].value)};
    branches[i].guard = s_.And(branches[i].guard, c);
    branches[i].value = Under(c, branches[i].value);
    branches.push_back(std::move(other));
    --i;
  }
  std::vector<OpenBranch> flat;
  Value minus_infinity = MinusInfinity();
  for (OpenBranch& b : branches) {
    const auto terms = s_[b.value].terms;
    bool nested = false;
    if (terms.size() == 1 && terms[0].second == Rational(1)) {
      const BodyData body = s_[terms[0].first];
      if (body.sizes.empty() && body.ranges.empty() && body.guard == s_.True() &&
          body.factors.size() == 1 && body.factors[0].second == 1 &&
          s_[body.factors[0].first].kind == FactorKind::kMax) {
        nested = true;
        const auto inner = s_[body.factors[0].first].branches;
        for (const Branch& i : inner) {
          OpenBranch o = Open(i);
          o.vars.insert(o.vars.begin(), b.vars.begin(), b.vars.end());
          o.guard = s_.And(o.guard, b.guard);
          flat.push_back(std::move(o));
        }
      }
    }
    if (!nested) flat.push_back(std::move(b));
  }
  std::vector<OpenBranch> kept;
  for (OpenBranch& b : flat) {
    if (b.guard == s_.False() || b.value == minus_infinity) continue;
    // One point, then variables that nothing depends on: their range is not empty.
    for (bool again = true; again;) {
      again = false;
      for (Guard g : s_.Conjuncts(b.guard)) {
        Atom var;
        Poly value;
        if (!SolveEquality(b.vars, g, &var, &value)) continue;
        std::erase(b.vars, var);
        b.guard = Replace(b.guard, {{var, value}});
        b.value = Replace(b.value, {{var, value}});
        again = true;
        break;
      }
    }
    std::vector<Atom> vars = b.vars;
    for (Atom v : vars) {
      if (s_[b.value].scope.Has(v)) continue;
      auto range = s_.Conjuncts(s_.InRange(s_.Of(v), s_[v].range));
      std::vector<Guard> rest;
      bool elsewhere = false;
      for (Guard g : s_.Conjuncts(b.guard)) {
        if (std::find(range.begin(), range.end(), g) != range.end()) continue;
        rest.push_back(g);
        elsewhere |= s_[g].scope.Has(v);
      }
      if (elsewhere) continue;
      NeedPositive(s_[v].range);
      b.guard = s_.And(rest);
      std::erase(b.vars, v);
    }
    kept.push_back(std::move(b));
  }
  // max(0, v, ...) = max(v, ...) when all are >= 0 and one of the others surely is there.
  if (kept.size() > 1) {
    bool all = true, present = false;
    for (const OpenBranch& b : kept) {
      all = all && NonNegative(b.value);
      if (s_[b.value].terms.empty()) continue;
      if (b.guard == Ranges(b.vars)) {
        bool positive = true;
        for (Atom v : b.vars) positive = positive && s_.SizesAtLeast(s_[v].range, 1);
        present = present || positive;
      }
    }
    if (all && present) {
      size_t before = kept.size();
      std::erase_if(kept, [&](const OpenBranch& b) { return s_[b.value].terms.empty(); });
      if (kept.size() != before) facts_.insert("exp, sqrt, squares and their sums are >= 0");
    }
  }
  if (kept.empty()) return minus_infinity;
  FactorData f;
  f.kind = FactorKind::kMax;
  for (const OpenBranch& b : kept) {
    Substitution close = Substitution::Closing(*this, b.vars);
    Branch branch{{}, close.Apply(b.guard, 0), close.Apply(b.value, 0)};
    for (Atom v : b.vars) branch.ranges.push_back(s_[v].range);
    f.branches.push_back(std::move(branch));
  }
  std::sort(f.branches.begin(), f.branches.end());
  f.branches.erase(std::unique(f.branches.begin(), f.branches.end()), f.branches.end());
  if (f.branches.size() == 1 && f.branches[0].ranges.empty() && f.branches[0].guard == s_.True()) {
    return f.branches[0].value;
  }
  OpenTerm t;
  t.guard = s_.True();
  t.factors.emplace_back(s_.Intern(std::move(f)), 1);
  return Close(t);
}

}  // namespace tandem::prover
