// Sums over variables: one-point equalities, counting, and the expansion of closed sums.
#include <algorithm>

#include "verifier/prover/algebra.h"
#include "verifier/prover/substitution.h"

namespace tandem::prover {
namespace {

constexpr size_t kMaxTerms = 2000;

}  // namespace

void Algebra::NeedPositive(Poly extent) {
  if (!s_.SizesAtLeast(extent, 1)) unproved_extents_.push_back(extent);
}

bool Algebra::SolveEquality(const std::vector<Atom>& vars, Guard guard, Atom* var, Poly* value) {
  const GuardData data = s_[guard];
  if (data.kind != GuardKind::kEq) return false;
  for (Atom v : vars) {
    int64_t c = s_.Coefficient(data.poly, v);
    if ((c != 1 && c != -1) || !s_.LinearIn(data.poly, v)) continue;
    // c*v + rest = 0, so v = -c*rest.
    Poly rest = s_.Sub(data.poly, s_.Scale(s_.Of(v), c));
    *var = v;
    *value = s_.Scale(rest, -c);
    return true;
  }
  return false;
}

void Algebra::SolveEqualities(OpenTerm& t) {
  for (bool again = true; again;) {
    again = false;
    for (Guard g : s_.Conjuncts(t.guard)) {
      Atom var;
      Poly value;
      if (!SolveEquality(t.vars, g, &var, &value)) continue;
      std::erase(t.vars, var);
      Substitution replace = Substitution::Replacing(*this, {{var, value}});
      t.guard = replace.Apply(t.guard, 0);
      for (auto& [f, e] : t.factors) f = replace.Apply(f, 0);
      again = true;
      break;
    }
  }
}

void Algebra::CountUnused(OpenTerm& t) {
  const std::vector<Atom> vars = t.vars;
  for (Atom v : vars) {
    if (!s_[v].range.valid()) continue;
    bool used = false;
    for (auto [f, e] : t.factors) used = used || s_[f].scope.Has(v);
    if (used) continue;
    const auto range = s_.Conjuncts(s_.InRange(s_.Of(v), s_[v].range));
    std::vector<Guard> rest;
    size_t own = 0;
    for (Guard g : s_.Conjuncts(t.guard)) {
      bool is_range = std::find(range.begin(), range.end(), g) != range.end();
      own += is_range;
      used = used || (!is_range && s_[g].scope.Has(v));
      if (!is_range) rest.push_back(g);
    }
    if (used || own != range.size()) continue;
    NeedPositive(s_[v].range);
    std::erase(t.vars, v);
    t.guard = s_.And(std::move(rest));
    FactorData f;
    f.kind = FactorKind::kIndex;
    f.poly = s_[v].range;
    t.factors.emplace_back(s_.Intern(std::move(f)), 1);
  }
}

Value Algebra::Sum(const std::vector<Atom>& vars, Value v) {
  Value sum = Zero();
  const auto terms = s_[v].terms;
  for (const auto& [b, c] : terms) {
    OpenTerm t = Open(b, c);
    Scope used = s_[t.guard].scope;
    for (auto [f, e] : t.factors) used.Include(s_[f].scope);
    for (Atom x : vars) {
      Poly range = s_[x].range;
      if (used.Has(x)) {
        t.vars.push_back(x);
        t.guard = s_.And(t.guard, s_.InRange(s_.Of(x), range));
      } else {
        NeedPositive(range);
        FactorData f;
        f.kind = FactorKind::kIndex;
        f.poly = range;
        t.factors.emplace_back(s_.Intern(std::move(f)), 1);
      }
    }
    SolveEqualities(t);
    sum = Add(sum, Close(t));
  }
  return sum;
}

Value Algebra::Expand(Body body, Rational c) {
  OpenTerm t = Open(body, c);
  std::vector<OpenTerm> all(1);
  all[0] = t;
  all[0].factors.clear();
  for (auto [f, e] : t.factors) {
    const FactorData data = s_[f];
    bool group = e >= 1 && data.kind == FactorKind::kGroup;
    bool index = e >= 1 && data.kind == FactorKind::kIndex && s_[data.poly].terms.size() > 1;
    if (!group && !index) {
      for (OpenTerm& a : all) a.factors.emplace_back(f, e);
      continue;
    }
    const auto parts = s_[group ? data.args[0] : FromPoly(data.poly)].terms;
    for (int i = 0; i < e; ++i) {
      std::vector<OpenTerm> next;
      for (const OpenTerm& a : all) {
        for (const auto& [b, k] : parts) {
          OpenTerm product = a;
          Append(product, Open(b, k));
          next.push_back(std::move(product));
        }
      }
      if (next.size() > kMaxTerms) throw LimitExceeded("a product of sums grows too large");
      all = std::move(next);
    }
  }
  Value sum = Zero();
  for (OpenTerm& a : all) {
    SolveEqualities(a);
    CountUnused(a);
    sum = Add(sum, Close(a));
  }
  return sum;
}

bool Algebra::Expandable(Body body) const {
  for (auto [f, e] : s_[body].factors) {
    const FactorData& data = s_[f];
    if (e < 1) continue;
    if (data.kind == FactorKind::kGroup) return true;
    if (data.kind == FactorKind::kIndex && s_[data.poly].terms.size() > 1) return true;
  }
  return false;
}

}  // namespace tandem::prover
