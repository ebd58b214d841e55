// Decides conditions over index polynomials: by identity, by bounds of variables, by small models
// that show it false, and only then by Z3. "Not shown" and "false" are the same answer.
#ifndef TANDEM_VERIFIER_PROVER_SOLVER_H_
#define TANDEM_VERIFIER_PROVER_SOLVER_H_

#include <map>
#include <string>
#include <unordered_map>
#include <utility>
#include <vector>

#include "verifier/prover/algebra.h"
#include "verifier/prover/z3_query.h"

namespace tandem::prover {

struct SolverStats {
  int identities = 0;  // decided by looking
  int bounds = 0;      // by substituting the ends of ranges
  int models = 0;      // shown false by a small model
  int cached = 0;
  int queries = 0;    // to Z3
  int linear = 0;     // proved in linear mode
  int nonlinear = 0;  // proved with nonlinear arithmetic
  int unknown = 0;    // Z3 gave up
};

class Solver {
 public:
  explicit Solver(Algebra& algebra) : s_(algebra.store()) {}

  // A fact used in every question (side conditions, definitions of sizes).
  void Assume(Guard g);
  // Assumes that a size is what a formula says; small models then follow it.
  void Define(Atom size, Poly formula);
  const std::vector<Guard>& assumptions() const { return assumptions_; }
  // Are the assumptions satisfiable? Not merely not refuted.
  bool AssumptionsSatisfiable();
  // ... with every size at least 2.
  bool AssumptionsSatisfiableAtTwo(const std::vector<Atom>& sizes);

  // context => goal. `prune` is for choices that only save work: no nonlinear arithmetic.
  bool Implied(Guard context, Guard goal, bool prune = false);
  // SUM of c * [g] = 0 under the context.
  bool Cancels(Guard context, const std::vector<std::pair<Rational, Guard>>& parts);
  // OR(left) <=> OR(right) under the context.
  bool SameUnion(Guard context, const std::vector<Guard>& left, const std::vector<Guard>& right);

  const SolverStats& stats() const { return stats_; }

 private:
  bool Decide(Guard context, Goal goal, bool prune);
  bool ByBounds(Guard context, Guard goal);
  bool HasCounterModel(Guard context, const Goal& goal);

  Store& s_;
  std::vector<Guard> assumptions_;
  std::map<Atom, Poly> definitions_;
  std::unordered_map<std::string, bool> cache_;
  SolverStats stats_;
};

}  // namespace tandem::prover

#endif  // TANDEM_VERIFIER_PROVER_SOLVER_H_
