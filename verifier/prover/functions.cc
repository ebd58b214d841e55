// Scalar functions, signs, opaque reductions and conditions on values.
#include <algorithm>

#include "verifier/prover/algebra.h"
#include "verifier/prover/substitution.h"

namespace tandem::prover {

Value Algebra::Opaque(const std::string& name, const OpenBranch& vector) {
  FactorData f;
  f.kind = FactorKind::kOpaque;
  f.name = name;
  Substitution close = Substitution::Closing(*this, vector.vars);
  Branch branch{{}, close.Apply(vector.guard, 0), close.Apply(vector.value, 0)};
  for (Atom v : vector.vars) branch.ranges.push_back(s_[v].range);
  f.branches.push_back(std::move(branch));
  OpenTerm t;
  t.guard = s_.True();
  t.factors.emplace_back(s_.Intern(std::move(f)), 1);
  return Close(t);
}

Value Algebra::Call(const std::string& name, const std::vector<Value>& args) {
  auto number = [&](size_t i) -> std::optional<Rational> {
    const auto& terms = s_[args[i]].terms;
    if (terms.empty()) return Rational(0);
    if (terms.size() != 1) return std::nullopt;
    const BodyData& body = s_[terms[0].first];
    if (!body.sizes.empty() || !body.ranges.empty() || !body.factors.empty() ||
        body.guard != s_.True()) {
      return std::nullopt;
    }
    return terms[0].second;
  };
  if (name == "max") {
    std::vector<OpenBranch> branches;
    for (Value v : args) branches.push_back({{}, s_.True(), v});
    return Max(std::move(branches));
  }
  if (name == "min") {
    std::vector<OpenBranch> branches;
    for (Value v : args) branches.push_back({{}, s_.True(), Scale(v, Rational(-1))});
    return Scale(Max(std::move(branches)), Rational(-1));
  }
  if (name == "abs") {
    return Max({{{}, s_.True(), args[0]}, {{}, s_.True(), Scale(args[0], Rational(-1))}});
  }
  if (name == "rsqrt") return Inverse(Call("sqrt", args));
  if (name == "pow") {
    if (auto e = number(1)) {
      if (e->IsInteger() && e->num() >= -8 && e->num() <= 8) {
        return Power(args[0], static_cast<int>(e->num()));
      }
      if (*e == Rational(1, 2)) return Call("sqrt", {args[0]});
      if (*e == Rational(-1, 2)) return Inverse(Call("sqrt", {args[0]}));
    }
  }
  if (name == "exp" && number(0) == Rational(0)) return Number(Rational(1));
  if (name == "log" && number(0) == Rational(1)) return Zero();
  if (name == "sqrt" && (number(0) == Rational(0) || number(0) == Rational(1))) return args[0];
  if (name == "exp" && exp_fact_ && s_[args[0]].terms.size() >= 1) {
    OpenTerm product;
    product.guard = s_.True();
    const auto terms = s_[args[0]].terms;
    for (const auto& [b, c] : terms) {
      // The sign becomes the exponent, so that exp(-m) cancels exp(m).
      FactorData f;
      f.kind = FactorKind::kFn;
      f.name = "exp";
      f.args = {s_.Intern(ValueData{{{b, c.num() < 0 ? -c : c}}, {}})};
      product.factors.emplace_back(s_.Intern(std::move(f)), c.num() < 0 ? -1 : 1);
    }
    facts_.insert("exp(a+b) = exp(a) exp(b)");
    return Close(product);
  }
  FactorData f;
  f.kind = FactorKind::kFn;
  f.name = name;
  f.args = args;
  OpenTerm t;
  t.guard = s_.True();
  t.factors.emplace_back(s_.Intern(std::move(f)), 1);
  return Close(t);
}

Guard Algebra::ValueGe(Value v) {
  if (s_[v].terms.empty()) return s_.True();
  if (auto p = AsPoly(v)) return s_.Ge(*p);
  return s_.RawValueGuard(GuardKind::kValueGe, Scale(v, Content(v).Inverse()));
}

Guard Algebra::ValueEq(Value v) {
  if (s_[v].terms.empty()) return s_.True();
  if (auto p = AsPoly(v)) return s_.Eq(*p);
  Value a = Scale(v, Content(v).Inverse());
  Value b = Scale(a, Rational(-1));
  return s_.RawValueGuard(GuardKind::kValueEq, std::min(a, b));
}

}  // namespace tandem::prover
