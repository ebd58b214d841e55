// Builds values in normal form. Every function here is an exact identity over the reals with
// 1/0 = 0; the rewrites are numbered in docs/proofs.md. Sums are not distributed over products
// until a comparison needs it: a factor kGroup holds the sum (match.h expands on mismatch).
#ifndef TANDEM_VERIFIER_PROVER_ALGEBRA_H_
#define TANDEM_VERIFIER_PROVER_ALGEBRA_H_

#include <map>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include "verifier/prover/store.h"

namespace tandem::prover {

// A term whose binder is open: its bound variables are fresh free variables.
struct OpenTerm {
  Rational c = Rational(1);
  SizeMonomial sizes;
  std::vector<Atom> vars;
  Guard guard;
  FactorPowers factors;
};

struct OpenBranch {
  std::vector<Atom> vars;
  Guard guard;
  Value value;
};

class Algebra {
 public:
  explicit Algebra(Store& store) : s_(store) {}
  Store& store() { return s_; }

  Value Zero() { return s_.Intern(ValueData{}); }
  Value Number(Rational r);
  Value Number(
      double x);  // small decimals become rationals, others opaque constants; +-inf a symbol
  Value FromPoly(Poly p);
  // The polynomial whose value this is, if it is visibly one.
  std::optional<Poly> AsPoly(Value v);
  Value Read(int tensor, std::vector<std::vector<Poly>> index);

  Value Add(Value a, Value b);
  Value Sub(Value a, Value b) { return a == b ? Zero() : Add(a, Scale(b, Rational(-1))); }
  Value Scale(Value v, Rational c);
  Value Mul(Value a, Value b);
  Value Inverse(Value v);
  Value Power(Value v, int exponent);
  Value Guarded(Guard g, Value v);
  // SUM over `vars` (each in its range) of v. Extents must be >= 1: see unproved_extents().
  Value Sum(const std::vector<Atom>& vars, Value v);
  Value Max(std::vector<OpenBranch> branches);
  Value Call(const std::string& name, const std::vector<Value>& args);
  Value Opaque(const std::string& name, const OpenBranch& vector);

  // v >= 0, v = 0 on the reals (on integers where v is an index polynomial).
  Guard ValueGe(Value v);
  Guard ValueEq(Value v);

  OpenTerm Open(Body body, Rational c);
  Value Close(const OpenTerm& term);
  OpenBranch Open(const Branch& branch);
  bool Expandable(Body body) const;
  // One level: distributes the sums that are factors with exponent >= 1.
  Value Expand(Body body, Rational c);
  // Unconditional range guard of the variables.
  Guard Ranges(const std::vector<Atom>& vars);

  using Replacement = std::map<Atom, Poly>;
  Poly Replace(Poly p, const Replacement& r);
  Guard Replace(Guard g, const Replacement& r);
  Factor Replace(Factor f, const Replacement& r);
  Value Replace(Value v, const Replacement& r);

  bool NonNegative(Value v);
  bool NonZero(Factor f) const;  // by a fact about the function (exp) or the kind

  // exp(a+b) = exp a * exp b may be used (and is then recorded).
  void EnableExpFact() { exp_fact_ = true; }
  const std::set<std::string>& facts() const { return facts_; }
  // Extents over which something was counted or maximised, not >= 1 by inspection.
  const std::vector<Poly>& unproved_extents() const { return unproved_extents_; }

  // A term from its parts, normalised; nothing if it is zero. The parts may have loose bounds.
  std::optional<std::pair<Body, Rational>> Normalize(SizeMonomial sizes, std::vector<Poly> ranges,
                                                     Guard guard, FactorPowers factors);

 private:
  friend class Substitution;
  void NeedPositive(Poly extent);
  Value MinusInfinity();
  // Positive rational c such that v / c has coprime integer coefficients.
  Rational Content(Value v) const;
  // v where c holds.
  Value Under(Guard c, Value v);
  // A conjunct of the guards of v's terms that no binder of v binds; none: True.
  Guard FreeCondition(Value v);
  void SolveEqualities(OpenTerm& term);
  // A variable that only its own range mentions counts: it becomes a factor, its extent.
  void CountUnused(OpenTerm& term);
  bool SolveEquality(const std::vector<Atom>& vars, Guard guard, Atom* var, Poly* value);
  void Append(OpenTerm& term, const OpenTerm& other);
  OpenTerm AsTerm(Value v);
  // v = term with exactly one factor kGroup (or none, if v is a plain product).
  OpenTerm GroupOf(Value v);
  bool NonNegative(Factor f, int exponent);

  Store& s_;
  bool exp_fact_ = false;
  std::set<std::string> facts_;
  std::vector<Poly> unproved_extents_;
};

}  // namespace tandem::prover

#endif  // TANDEM_VERIFIER_PROVER_ALGEBRA_H_
