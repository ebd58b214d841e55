// The only place that sees Z3. Decides one validity question over the integers; deterministic
// (resource limits, not wall time), with every exception of Z3 turned into kUnknown.
#ifndef TANDEM_VERIFIER_PROVER_Z3_QUERY_H_
#define TANDEM_VERIFIER_PROVER_Z3_QUERY_H_

#include <string>
#include <utility>
#include <vector>

#include "verifier/prover/store.h"

namespace tandem::prover {

// Valid means: for all integers, hypotheses imply the goal.
//   kGuard  the guard holds
//   kSum    SUM of coefficient * [guard] = 0
//   kUnion  OR of the guards with coefficient 1 <=> OR of those with coefficient -1
struct Goal {
  enum class Kind { kGuard, kSum, kUnion };
  Kind kind = Kind::kGuard;
  std::vector<std::pair<int64_t, Guard>> parts;
};

enum class Answer { kValid, kNotValid, kUnknown };

// linear: products of atoms become opaque integers with lemmas that hold for all integers;
// kNotValid is then final only if nothing was abstracted (otherwise kUnknown). Not linear: Z3's
// nonlinear arithmetic.
Answer CheckWithZ3(const Store& store, const std::vector<Guard>& hypotheses, const Goal& goal,
                   bool linear);

// Is the conjunction satisfiable? kValid: yes.
Answer SatisfiableWithZ3(const Store& store, const std::vector<Guard>& hypotheses);

std::string Z3Version();

}  // namespace tandem::prover

#endif  // TANDEM_VERIFIER_PROVER_Z3_QUERY_H_
