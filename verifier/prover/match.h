// Decides whether two values are equal for all values of all unknowns under a condition. `false`
// means "not shown".
//
// Terms of the difference are grouped into classes with one body up to a change of bound variables;
// in each class the guarded coefficients must cancel, which is one question to the solver. Changes
// of variables are read off paired tensor reads, and accepted only as bijections: integer matrices
// of determinant +-1, or mixed radix v = p*n + o with 0 <= o < n. Sums that are factors stay closed
// until the classes fail to cancel; then they are expanded one level and matched again.
#ifndef TANDEM_VERIFIER_PROVER_MATCH_H_
#define TANDEM_VERIFIER_PROVER_MATCH_H_

#include <map>
#include <optional>
#include <string>
#include <tuple>
#include <vector>

#include "verifier/prover/algebra.h"
#include "verifier/prover/solver.h"

namespace tandem::prover {

class Matcher {
 public:
  Matcher(Algebra& algebra, Solver& solver) : a_(algebra), s_(algebra.store()), solver_(solver) {}

  bool Equal(Guard context, Value a, Value b);
  // What did not cancel, for people; of the last failure.
  const std::string& why() const { return why_; }

 private:
  using Change = std::map<Atom, Poly>;
  struct ReadAt {
    int tensor = 0;  // < 0: not a tensor (index used as a value)
    std::vector<std::vector<Poly>> index;
  };

  bool Vanishes(Guard context, Value difference);
  bool EqualIndex(Guard context, Poly a, Poly b);
  bool EqualFactor(Guard context, Factor f, Factor g);
  bool EqualFactors(Guard context, FactorPowers f, FactorPowers g);
  bool EqualMax(Guard context, Factor f, Factor g);
  bool EqualOpaque(Guard context, const Branch& a, const Branch& b);
  bool SameHeads(const FactorPowers& f, const FactorPowers& g) const;
  // u rewritten over t's variables, when their bodies are equal wherever u's guard holds.
  std::vector<OpenTerm> Align(Guard context, const OpenTerm& t, const OpenTerm& u);
  bool Cancels(Guard context, const std::vector<OpenTerm>& group);
  // The condition that integer and boolean unknowns which are equal values are equal.
  Guard Congruence(Guard context, const std::vector<Guard>& guards);

  void CollectReads(Value v, std::vector<ReadAt>* out) const;
  void CollectReads(Factor f, std::vector<ReadAt>* out) const;
  void CollectReads(Guard g, std::vector<ReadAt>* out) const;
  void CollectReads(Poly p, std::vector<ReadAt>* out) const;
  std::vector<Change> Candidates(const std::vector<Atom>& to, const std::vector<ReadAt>& to_reads,
                                 const std::vector<Atom>& from,
                                 const std::vector<ReadAt>& from_reads);
  bool Unimodular(const Change& change, const std::vector<Atom>& from,
                  const std::vector<Atom>& to) const;
  std::optional<Guard> MixedRadix(const Change& change, const std::vector<Atom>& from,
                                  const std::vector<Atom>& to);
  Poly Flatten(const std::vector<Poly>& digits, const std::vector<Poly>& extents);
  std::string Describe(const OpenTerm& t) const;

  Algebra& a_;
  Store& s_;
  Solver& solver_;
  std::map<std::tuple<Guard, Value, Value>, bool> memo_;
  std::string why_;
  int depth_ = 0;
  int work_ = 0;
};

}  // namespace tandem::prover

#endif  // TANDEM_VERIFIER_PROVER_MATCH_H_
