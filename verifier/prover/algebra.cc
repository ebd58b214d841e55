#include "verifier/prover/algebra.h"

#include <algorithm>
#include <cmath>
#include <cstring>
#include <numeric>

#include "verifier/prover/substitution.h"

namespace tandem::prover {
namespace {

constexpr size_t kMaxTerms = 2000;

void AddSizePower(SizeMonomial& sizes, Atom a, int e) {
  auto it = std::lower_bound(sizes.begin(), sizes.end(), a,
                             [](const auto& x, Atom y) { return x.first < y; });
  if (it != sizes.end() && it->first == a) {
    it->second += e;
    if (it->second == 0) sizes.erase(it);
  } else if (e != 0) {
    sizes.insert(it, {a, e});
  }
}

}  // namespace

Rational Algebra::Content(Value v) const {
  int64_t num = 0, den = 1;
  for (const auto& [body, c] : s_[v].terms) {
    num = std::gcd(num, c.num());
    den = CheckedMul(den / std::gcd(den, c.den()), c.den());
  }
  return Rational(num, den);
}

// ---- atoms of values

Value Algebra::Number(Rational r) {
  if (r.IsZero()) return Zero();
  BodyData body;
  body.guard = s_.True();
  return s_.Intern(ValueData{{{s_.Intern(std::move(body)), r}}, {}});
}

Value Algebra::Number(double x) {
  Rational r;
  if (DecimalRational(x, &r)) return Number(r);
  if (std::isnan(x)) throw LimitExceeded("NaN as a number");
  OpenTerm t;
  t.c = Rational(x < 0 ? -1 : 1);
  t.guard = s_.True();
  FactorData f;
  if (std::isinf(x)) {
    facts_.insert("infinity is calculated with as if it were a number");
    return Scale(MinusInfinity(), -t.c);
  }
  f.kind = FactorKind::kConstant;
  f.number = std::fabs(x);
  t.factors.emplace_back(s_.Intern(std::move(f)), 1);
  return Close(t);
}

Value Algebra::MinusInfinity() {
  OpenTerm t;
  t.c = Rational(-1);
  t.guard = s_.True();
  FactorData f;
  f.kind = FactorKind::kFn;
  f.name = "inf";
  t.factors.emplace_back(s_.Intern(std::move(f)), 1);
  return Close(t);
}

Value Algebra::FromPoly(Poly p) {
  Value sum = Zero();
  const auto terms = s_[p].terms;
  for (const auto& [m, c] : terms) {
    OpenTerm t;
    t.guard = s_.True();
    FactorData f;
    f.kind = FactorKind::kIndex;
    f.poly = s_.FromTerms({{m, c}});
    t.factors.emplace_back(s_.Intern(std::move(f)), 1);
    sum = Add(sum, Close(t));
  }
  return sum;
}

std::optional<Poly> Algebra::AsPoly(Value v) {
  Poly sum = s_.Const(0);
  const auto terms = s_[v].terms;
  for (const auto& [b, c] : terms) {
    const BodyData body = s_[b];
    if (!c.IsInteger() || !body.ranges.empty() || body.guard != s_.True()) return std::nullopt;
    Poly p = s_.Const(c.num());
    for (auto [a, e] : body.sizes) {
      if (e < 0) return std::nullopt;
      for (int i = 0; i < e; ++i) p = s_.Mul(p, s_.Of(a));
    }
    for (auto [f, e] : body.factors) {
      // The body is a binder: an index that refers to an outer one is not looked at.
      if (s_[f].kind != FactorKind::kIndex || e < 1 || s_[f].scope.loose > 0) return std::nullopt;
      for (int i = 0; i < e; ++i) p = s_.Mul(p, s_[f].poly);
    }
    sum = s_.Add(sum, p);
  }
  return sum;
}

Value Algebra::Read(int tensor, std::vector<std::vector<Poly>> index) {
  OpenTerm t;
  t.guard = s_.True();
  FactorData f;
  f.kind = FactorKind::kRead;
  f.tensor = tensor;
  f.index = std::move(index);
  t.factors.emplace_back(s_.Intern(std::move(f)), 1);
  return Close(t);
}

// ---- terms

std::optional<std::pair<Body, Rational>> Algebra::Normalize(SizeMonomial sizes,
                                                            std::vector<Poly> ranges, Guard guard,
                                                            FactorPowers factors) {
  if (guard == s_.False()) return std::nullopt;
  Rational c(1);
  std::map<Factor, int> powers;
  std::vector<Factor> zero_power;  // f^0 written as such
  for (auto [f, e] : factors) {
    const FactorData& data = s_[f];
    if (data.kind == FactorKind::kIndex && s_[data.poly].terms.size() <= 1) {
      if (s_[data.poly].terms.empty()) return std::nullopt;  // 0^e: 1/0 = 0, and [0 != 0] = 0
      const auto [m, k] = s_[data.poly].terms[0];
      bool single = m.size() == 1 && k == 1 && s_[m[0]].kind != AtomKind::kSize;
      if (!single) {
        c = c * Rational(k).Power(e);
        for (Atom a : m) {
          if (s_[a].kind == AtomKind::kSize) {
            AddSizePower(sizes, a, e);
          } else {
            FactorData index;
            index.kind = FactorKind::kIndex;
            index.poly = s_.Of(a);
            Factor g = s_.Intern(std::move(index));
            powers[g] += e;
            if (e == 0) zero_power.push_back(g);
          }
        }
        continue;
      }
    }
    if (data.kind == FactorKind::kGroup && s_[data.args[0]].terms.empty()) return std::nullopt;
    powers[f] += e;
    if (e == 0) zero_power.push_back(f);
  }
  FactorPowers kept;
  for (auto [f, e] : powers) {
    if (e == 0 && NonZero(f)) {
      if (s_[f].kind == FactorKind::kFn) facts_.insert(s_[f].name + " is never 0");
      continue;
    }
    kept.emplace_back(f, e);
  }
  BodyData body;
  body.sizes = std::move(sizes);
  body.ranges = std::move(ranges);
  body.guard = guard;
  body.factors = std::move(kept);
  return std::make_pair(s_.Intern(std::move(body)), c);
}

bool Algebra::NonZero(Factor f) const {
  const FactorData& data = s_[f];
  return data.kind == FactorKind::kConstant || (data.kind == FactorKind::kFn && data.name == "exp");
}

OpenTerm Algebra::Open(Body id, Rational c) {
  const BodyData body = s_[id];
  OpenTerm t;
  t.c = c;
  t.sizes = body.sizes;
  t.guard = body.guard;
  t.factors = body.factors;
  if (body.ranges.empty()) return t;
  for (Poly range : body.ranges) t.vars.push_back(s_.Fresh("v", range));
  Substitution open = Substitution::Opening(*this, t.vars);
  t.guard = open.Apply(t.guard, 0);
  for (auto& [f, e] : t.factors) f = open.Apply(f, 0);
  return t;
}

Value Algebra::Close(const OpenTerm& t) {
  std::vector<Poly> ranges;
  Guard guard = t.guard;
  FactorPowers factors = t.factors;
  if (!t.vars.empty()) {
    for (Atom v : t.vars) ranges.push_back(s_[v].range);
    Substitution close = Substitution::Closing(*this, t.vars);
    guard = close.Apply(guard, 0);
    for (auto& [f, e] : factors) f = close.Apply(f, 0);
  }
  auto term = Normalize(t.sizes, std::move(ranges), guard, std::move(factors));
  if (!term) return Zero();
  Rational c = t.c * term->second;
  if (c.IsZero()) return Zero();
  return s_.Intern(ValueData{{{term->first, c}}, {}});
}

OpenBranch Algebra::Open(const Branch& branch) {
  OpenBranch b{{}, branch.guard, branch.value};
  if (branch.ranges.empty()) return b;
  for (Poly range : branch.ranges) b.vars.push_back(s_.Fresh("x", range));
  Substitution open = Substitution::Opening(*this, b.vars);
  b.guard = open.Apply(b.guard, 0);
  b.value = open.Apply(b.value, 0);
  return b;
}

Guard Algebra::Ranges(const std::vector<Atom>& vars) {
  std::vector<Guard> all;
  for (Atom v : vars) all.push_back(s_.InRange(s_.Of(v), s_[v].range));
  return s_.And(std::move(all));
}

// ---- sums and products

Value Algebra::Add(Value a, Value b) {
  const auto& ta = s_[a].terms;
  const auto& tb = s_[b].terms;
  ValueData sum;
  size_t i = 0, j = 0;
  while (i < ta.size() || j < tb.size()) {
    if (j == tb.size() || (i < ta.size() && ta[i].first < tb[j].first)) {
      sum.terms.push_back(ta[i++]);
    } else if (i == ta.size() || tb[j].first < ta[i].first) {
      sum.terms.push_back(tb[j++]);
    } else {
      Rational c = ta[i].second + tb[j].second;
      if (!c.IsZero()) sum.terms.emplace_back(ta[i].first, c);
      ++i;
      ++j;
    }
  }
  if (sum.terms.size() > kMaxTerms) throw LimitExceeded("a sum has too many terms");
  return s_.Intern(std::move(sum));
}

Value Algebra::Scale(Value v, Rational c) {
  if (c.IsZero()) return Zero();
  if (c == Rational(1)) return v;
  ValueData data;
  data.terms = s_[v].terms;
  for (auto& [body, k] : data.terms) k = k * c;
  return s_.Intern(std::move(data));
}

void Algebra::Append(OpenTerm& term, const OpenTerm& other) {
  term.c = term.c * other.c;
  for (auto [a, e] : other.sizes) AddSizePower(term.sizes, a, e);
  term.vars.insert(term.vars.end(), other.vars.begin(), other.vars.end());
  term.guard = s_.And(term.guard, other.guard);
  term.factors.insert(term.factors.end(), other.factors.begin(), other.factors.end());
}

OpenTerm Algebra::GroupOf(Value v) {
  OpenTerm out;
  out.guard = s_.True();
  const auto terms = s_[v].terms;
  // Factors common to all terms and free of bound variables, sizes common to all, content.
  std::map<std::pair<Factor, int>, size_t> count;
  SizeMonomial sizes = s_[terms[0].first].sizes;
  for (const auto& [b, c] : terms) {
    if (s_[b].sizes != sizes) sizes.clear();
    for (auto [f, e] : s_[b].factors) {
      // A group's content may not be pulled out with its zero test (exponent 0).
      if (e != 0 && s_[f].scope.loose == 0) ++count[{f, e}];
    }
  }
  FactorPowers common;
  for (auto& [fe, n] : count) {
    if (n == terms.size()) common.push_back(fe);
  }
  Rational content = Content(v);
  ValueData rest;
  std::map<Body, Rational> sum;
  for (const auto& [b, c] : terms) {
    BodyData body = s_[b];
    SizeMonomial left = body.sizes;
    for (auto [a, e] : sizes) AddSizePower(left, a, -e);
    FactorPowers factors;
    for (auto fe : body.factors) {
      if (std::find(common.begin(), common.end(), fe) == common.end()) factors.push_back(fe);
    }
    auto term = Normalize(left, body.ranges, body.guard, std::move(factors));
    if (term) sum[term->first] = sum[term->first] + c * term->second * content.Inverse();
  }
  for (const auto& [b, c] : sum) {
    if (!c.IsZero()) rest.terms.emplace_back(b, c);
  }
  out.c = content;
  out.sizes = sizes;
  out.factors = common;
  Value inner = s_.Intern(std::move(rest));
  // A lone term without variables needs no group.
  const auto& in = s_[inner].terms;
  if (in.size() == 1 && s_[in[0].first].ranges.empty() && s_[in[0].first].guard == s_.True() &&
      s_[in[0].first].factors.empty()) {
    out.c = out.c * in[0].second;
    for (auto [a, e] : s_[in[0].first].sizes) AddSizePower(out.sizes, a, e);
    return out;
  }
  FactorData group;
  group.kind = FactorKind::kGroup;
  group.args = {inner};
  out.factors.emplace_back(s_.Intern(std::move(group)), 1);
  return out;
}

OpenTerm Algebra::AsTerm(Value v) {
  const auto& terms = s_[v].terms;
  if (terms.size() == 1) return Open(terms[0].first, terms[0].second);
  return GroupOf(v);
}

Value Algebra::Mul(Value a, Value b) {
  for (int swap = 0; swap < 2; ++swap, std::swap(a, b)) {
    const auto& terms = s_[a].terms;
    if (terms.empty()) return Zero();
    if (terms.size() != 1) continue;
    const BodyData body = s_[terms[0].first];
    Rational c = terms[0].second;
    if (!body.ranges.empty() || body.guard != s_.True() || !body.factors.empty()) continue;
    // A number times monomial of sizes: distribute.
    if (body.sizes.empty()) return Scale(b, c);
    ValueData out;
    std::map<Body, Rational> sum;
    const auto other = s_[b].terms;
    for (const auto& [id, k] : other) {
      BodyData scaled = s_[id];
      for (auto [atom, e] : body.sizes) AddSizePower(scaled.sizes, atom, e);
      Body interned = s_.Intern(std::move(scaled));
      sum[interned] = sum[interned] + k * c;
    }
    for (const auto& [id, k] : sum) {
      if (!k.IsZero()) out.terms.emplace_back(id, k);
    }
    return s_.Intern(std::move(out));
  }
  OpenTerm t = AsTerm(a);
  Append(t, AsTerm(b));
  return Close(t);
}

Value Algebra::Power(Value v, int exponent) {
  if (exponent == 0) return Number(Rational(1));  // pow(x, 0) = 1, at 0 as well
  if (exponent < 0) return Inverse(Power(v, -exponent));
  if (exponent == 1 || s_[v].terms.empty()) return v;
  const auto terms = s_[v].terms;
  OpenTerm t = terms.size() == 1 && s_[terms[0].first].ranges.empty()
                   ? Open(terms[0].first, terms[0].second)
                   : GroupOf(v);
  t.c = t.c.Power(exponent);
  for (auto& [a, e] : t.sizes) e *= exponent;
  for (auto& [f, e] : t.factors) e *= exponent;
  return Close(t);
}

Value Algebra::Inverse(Value v) {
  const auto terms = s_[v].terms;
  if (terms.empty()) return v;
  OpenTerm t;
  if (terms.size() == 1 && s_[terms[0].first].ranges.empty()) {
    t = Open(terms[0].first, terms[0].second);  // 1/([g] f) = [g] 1/f, because 1/0 = 0
  } else {
    t = GroupOf(v);
  }
  t.c = t.c.Inverse();
  for (auto& [a, e] : t.sizes) e = -e;
  for (auto& [f, e] : t.factors) e = -e;
  return Close(t);
}

Value Algebra::Guarded(Guard g, Value v) {
  if (g == s_.True()) return v;
  if (g == s_.False()) return Zero();
  Value sum = Zero();
  const auto terms = s_[v].terms;
  for (const auto& [b, c] : terms) {
    OpenTerm t = Open(b, c);
    t.guard = s_.And(t.guard, g);
    sum = Add(sum, Close(t));
  }
  return sum;
}

Poly Algebra::Replace(Poly p, const Replacement& r) {
  return Substitution::Replacing(*this, r).Apply(p, 0);
}
Guard Algebra::Replace(Guard g, const Replacement& r) {
  return Substitution::Replacing(*this, r).Apply(g, 0);
}
Factor Algebra::Replace(Factor f, const Replacement& r) {
  return Substitution::Replacing(*this, r).Apply(f, 0);
}
Value Algebra::Replace(Value v, const Replacement& r) {
  return Substitution::Replacing(*this, r).Apply(v, 0);
}

}  // namespace tandem::prover
