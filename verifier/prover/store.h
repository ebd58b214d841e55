// The prover's terms: index polynomials, guards and values in normal form, interned (equal terms
// have equal ids). docs/proofs.md explains the normal form and why each rewrite is exact.
//
//   Value = SUM of Rational * Body
//   Body  = monomial of sizes * SUM over bound variables in Z of [guard] * product of Factor^e
//
// Bound variables range over all integers; their range is part of the guard, so concatenation,
// slices, padding and partial ranges are the same thing. Binders (Body and Branch) are locally
// nameless: a bound variable is the atom Bound(depth, k), where depth counts the binders between,
// so terms equal up to renaming are one id and capture cannot happen. A binder is opened with fresh
// variables before anything looks inside (algebra.h).
//
// Exponents: f^-1 is 1/f with 1/0 = 0. f^0 is kept and means [f != 0], unless f is known non-zero.
#ifndef TANDEM_VERIFIER_PROVER_STORE_H_
#define TANDEM_VERIFIER_PROVER_STORE_H_

#include <cstdint>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "pcg/ids.h"
#include "verifier/prover/rational.h"

namespace tandem::prover {

using Atom = Id<struct AtomTag>;      // an integer unknown
using Poly = Id<struct PolyTag>;      // integer polynomial over atoms
using Guard = Id<struct GuardTag>;    // condition
using Factor = Id<struct FactorTag>;  // what products are made of
using Body = Id<struct BodyTag>;      // a term without its rational coefficient
using Value = Id<struct ValueTag>;    // a real number

enum class AtomKind : uint8_t {
  kSize,   // a size or degree, >= 1 everywhere
  kVar,    // a free variable; `range` valid if it came from a loop (not assumed: guards say so)
  kBound,  // (depth, k)
  kDiv,    // floor(a / b), b >= 1
  kMod,    // a - b * floor(a / b)
  kValue,  // an integer held by a tensor, as an unknown
};

struct AtomData {
  AtomKind kind = AtomKind::kSize;
  std::string name;
  Poly range;
  int depth = 0, k = 0;
  Poly a, b;
  Value value;
};

using Monomial = std::vector<Atom>;  // sorted, with repetitions

// What occurs in a term: free variables (sorted), and how many enclosing binders it refers to.
struct Scope {
  std::vector<Atom> vars;
  int loose = 0;
  void Include(const Scope& other, int binders = 0);
  bool Has(Atom var) const;
};

struct PolyData {
  std::vector<std::pair<Monomial, int64_t>> terms;  // sorted, coefficients not 0
  Scope scope;
};

enum class GuardKind : uint8_t { kTrue, kFalse, kGe, kEq, kAnd, kOr, kNot, kValueGe, kValueEq };

struct GuardData {
  GuardKind kind = GuardKind::kTrue;
  Poly poly;                // kGe: poly >= 0; kEq: poly = 0
  Value value;              // the same on reals
  std::vector<Guard> args;  // kAnd, kOr: sorted; kNot: one
  Scope scope;
};

// One branch of a maximum or the lambda of an opaque reduction: bound variables, each with its
// extent, the guard (range included) and the value.
struct Branch {
  std::vector<Poly> ranges;
  Guard guard;
  Value value;
  bool operator==(const Branch&) const = default;
  auto operator<=>(const Branch&) const = default;
};

enum class FactorKind : uint8_t {
  kRead,      // tensor `tensor` at `index`: per dim its digits, or one flat index
  kIndex,     // an index polynomial used as a number
  kConstant,  // a positive number that is not a small rational
  kFn,        // uninterpreted scalar function `name` of args
  kGroup,     // args[0], a sum not (yet) distributed
  kMax,       // maximum over branches; of nothing: minus infinity
  kOpaque,    // uninterpreted function `name` of the whole vector branches[0]
};

struct FactorData {
  FactorKind kind = FactorKind::kRead;
  int tensor = -1;
  std::string name;
  std::vector<std::vector<Poly>> index;
  Poly poly;
  double number = 0;
  std::vector<Value> args;
  std::vector<Branch> branches;
  Scope scope;
};

using SizeMonomial = std::vector<std::pair<Atom, int>>;    // sorted, exponents not 0
using FactorPowers = std::vector<std::pair<Factor, int>>;  // sorted by factor

struct BodyData {
  SizeMonomial sizes;
  std::vector<Poly> ranges;  // of the bound variables
  Guard guard;
  FactorPowers factors;
  Scope scope;
};

struct ValueData {
  std::vector<std::pair<Body, Rational>> terms;  // sorted by body, coefficients not 0
  Scope scope;
};

// A tensor that proofs do not look into.
struct TensorData {
  std::string name;
  std::vector<std::vector<Poly>> dims;  // per dim, the extents of its digits, major to minor
};

class Store {
 public:
  Store();
  ~Store();
  Store(const Store&) = delete;
  Store& operator=(const Store&) = delete;

  // Atoms.
  Atom Size(const std::string& name);               // the same name gives the same atom
  Atom Fresh(const std::string& stem, Poly range);  // a new variable
  Atom Bound(int depth, int k);
  Atom ValueAtom(Value value);
  const AtomData& operator[](Atom id) const { return atoms_[id.index()]; }

  // Polynomials.
  Poly Const(int64_t c);
  Poly Of(Atom a);
  Poly FromTerms(std::map<Monomial, int64_t> terms);
  Poly Add(Poly a, Poly b);
  Poly Sub(Poly a, Poly b);
  Poly Mul(Poly a, Poly b);
  Poly Scale(Poly a, int64_t c);
  Poly FloorDiv(Poly a, Poly b);  // b >= 1 is the caller's to know
  // a = q * b + r, with the monomials of `a` that are multiples of b in q; r in [0, b) or not.
  std::pair<Poly, Poly> SplitMultiples(Poly a, Poly b);
  Poly Mod(Poly a, Poly b);
  std::optional<int64_t> Constant(Poly p) const;
  int64_t Coefficient(Poly p, Atom a) const;  // of the monomial {a}
  bool LinearIn(Poly p, Atom a) const;        // a occurs in the monomial {a} only, or not at all
  // p >= min for all sizes >= 1, by inspection; false says nothing.
  bool SizesAtLeast(Poly p, int64_t min) const;
  const PolyData& operator[](Poly id) const { return polys_[id.index()]; }

  // Guards; constants are folded.
  Guard True() const { return true_; }
  Guard False() const { return false_; }
  Guard Ge(Poly p);
  Guard Eq(Poly p);
  Guard Less(Poly a, Poly b) { return Ge(Sub(Sub(b, a), Const(1))); }
  Guard InRange(Poly i, Poly extent);
  Guard And(std::vector<Guard> args);
  Guard And(Guard a, Guard b) { return And(std::vector<Guard>{a, b}); }
  Guard Or(std::vector<Guard> args);
  Guard Not(Guard g);
  Guard RawValueGuard(GuardKind kind, Value v);  // algebra.h has the normalising forms
  std::vector<Guard> Conjuncts(Guard g) const;
  const GuardData& operator[](Guard id) const { return guards_[id.index()]; }

  // Values: interning only; algebra.h builds them.
  Factor Intern(FactorData data);
  Body Intern(BodyData data);
  Value Intern(ValueData data);
  const FactorData& operator[](Factor id) const { return factors_[id.index()]; }
  const BodyData& operator[](Body id) const { return bodies_[id.index()]; }
  const ValueData& operator[](Value id) const { return values_[id.index()]; }

  int AddTensor(TensorData tensor);
  const TensorData& tensor(int id) const { return tensors_[static_cast<size_t>(id)]; }

  std::string ToString(Poly p) const;
  std::string ToString(Guard g) const;
  std::string ToString(Value v) const;
  size_t nodes() const;

 private:
  struct Index;
  Atom AddAtom(AtomData data);
  Atom DivAtom(AtomKind kind, Poly a, Poly b);
  std::string ToString(Atom a) const;
  std::string ToString(Factor f) const;

  std::vector<AtomData> atoms_;
  std::vector<PolyData> polys_;
  std::vector<GuardData> guards_;
  std::vector<FactorData> factors_;
  std::vector<BodyData> bodies_;
  std::vector<ValueData> values_;
  std::vector<TensorData> tensors_;
  std::unique_ptr<Index> index_;
  Guard true_, false_;
};

}  // namespace tandem::prover

#endif  // TANDEM_VERIFIER_PROVER_STORE_H_
