// Replays a counterexample in the reference interpreter, which shares no code with the prover: what
// it does not confirm is not shown.
#ifndef TANDEM_VERIFIER_SPLITS_SPLIT_REPLAY_H_
#define TANDEM_VERIFIER_SPLITS_SPLIT_REPLAY_H_

#include <cstdint>
#include <functional>
#include <vector>

#include "pcg/instance/op_instance.h"
#include "pcg/layout/factor_table.h"
#include "verifier/certificates/verdict.h"

namespace tandem::prover {

struct SplitReplay {
  int64_t degree = 1;
  int64_t piece = 1;             // local extent of the split size
  std::vector<int64_t> extents;  // of the logical operator's sizes
  // Value of an input: the whole (device -1) or a device's piece, at an index a factor.
  std::function<double(int tensor, int64_t device, const std::vector<int64_t>& index)> value;
};

// True if the interpreter, too, finds the whole and the claimed pieces different at the example's
// point. False if it finds them equal or cannot evaluate the whole.
bool Confirmed(const OpInstance& op, const SplitRow& row, const SplitReplay& replay,
               const Counterexample& example);

}  // namespace tandem::prover

#endif  // TANDEM_VERIFIER_SPLITS_SPLIT_REPLAY_H_
