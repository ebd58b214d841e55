// A bound by elimination that never needs a large table: a bucket that is too wide is split, and
// each part is minimised on its own (Dechter and Rish, "Mini-buckets", JACM 2003), after costs are
// moved between the parts so that they agree on their minima (Ihler et al., UAI 2012). Started from
// the messages of the dual, it is never below the dual's bound, and exact where nothing had to be
// split.
#ifndef OPTIMIZER_SOLVER_MINI_BUCKET_H_
#define OPTIMIZER_SOLVER_MINI_BUCKET_H_

#include <atomic>
#include <cstdint>
#include <optional>
#include <vector>

#include "optimizer/solver/model.h"
#include "optimizer/solver/order.h"

namespace tandem::solver {

struct MiniBucketOptions {
  int64_t max_table_cells = 100'000;
  int64_t max_cells = 500'000'000;  // in all
  const std::atomic<bool>* cancel = nullptr;
};

struct MiniBucketResult {
  double bound = 0.0;
  bool exact = false;  // nothing was split
  int64_t cells = 0;
};

// `order` must hold every place of two or more states. Nothing when out of budget or cancelled.
std::optional<MiniBucketResult> MiniBucketBound(const Model& model,
                                                const std::vector<double>& messages,
                                                const EliminationOrder& order,
                                                const MiniBucketOptions& options);

}  // namespace tandem::solver

#endif  // OPTIMIZER_SOLVER_MINI_BUCKET_H_
