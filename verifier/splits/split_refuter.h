// Looks for numbers that contradict a row of a factor table, small sizes first. What is found is
// replayed in the reference interpreter before it counts.
#ifndef TANDEM_VERIFIER_SPLITS_SPLIT_REFUTER_H_
#define TANDEM_VERIFIER_SPLITS_SPLIT_REFUTER_H_

#include <optional>

#include "pcg/instance/op_instance.h"
#include "pcg/layout/factor_table.h"
#include "verifier/certificates/verdict.h"

namespace tandem::prover {

// Claims and loops of the row do not fit together (an input is said to be whole where the local
// operator wants a piece, ...); the text says which.
std::optional<std::string> ShapeMismatch(const OpInstance& op, const SplitRow& row);

struct RefuteOptions {
  int samples = 40;
  // Sizes keep the instance's extents; the degree is one of the divisors.
  bool own_extents = false;
};

struct RefuteResult {
  std::optional<Counterexample> counterexample;
  int64_t points = 0;  // outputs compared
};

RefuteResult RefuteSplit(const OpInstance& op, const SplitRow& row, const RefuteOptions& options);

}  // namespace tandem::prover

#endif  // TANDEM_VERIFIER_SPLITS_SPLIT_REFUTER_H_
