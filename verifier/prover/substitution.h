// Rewrites atoms inside terms: replacing free variables, opening a binder (bound -> fresh variable)
// and closing one (variable -> bound). Results are normalised as they are rebuilt.
#ifndef TANDEM_VERIFIER_PROVER_SUBSTITUTION_H_
#define TANDEM_VERIFIER_PROVER_SUBSTITUTION_H_

#include <map>
#include <unordered_map>
#include <vector>

#include "verifier/prover/algebra.h"

namespace tandem::prover {

class Substitution {
 public:
  // Free variables -> polynomials.
  static Substitution Replacing(Algebra& algebra, const std::map<Atom, Poly>& images);
  // Bound(d, k) at nesting depth d -> variable k.
  static Substitution Opening(Algebra& algebra, const std::vector<Atom>& fresh);
  // Variable k -> Bound(d, k) at nesting depth d.
  static Substitution Closing(Algebra& algebra, const std::vector<Atom>& vars);

  Poly Apply(Poly p, int depth);
  Guard Apply(Guard g, int depth);
  Factor Apply(Factor f, int depth);
  Value Apply(Value v, int depth);

 private:
  enum class Mode { kReplace, kOpen, kClose };
  Substitution(Algebra& algebra, Mode mode) : algebra_(algebra), s_(algebra.store()), mode_(mode) {}
  bool Touches(const Scope& scope, int depth) const;
  Poly Image(Atom a, int depth);

  Algebra& algebra_;
  Store& s_;
  Mode mode_;
  std::map<Atom, Poly> images_;    // kReplace
  std::map<Atom, int> positions_;  // kClose
  std::vector<Atom> fresh_;        // kOpen
  std::unordered_map<uint64_t, int32_t> memo_;
};

}  // namespace tandem::prover

#endif  // TANDEM_VERIFIER_PROVER_SUBSTITUTION_H_
