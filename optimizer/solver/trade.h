// Trades of time against memory inside windows of blocks: each window is solved exactly at several
// prices, and an outcome is taken when the whole plan gets faster and still fits.
#ifndef OPTIMIZER_SOLVER_TRADE_H_
#define OPTIMIZER_SOLVER_TRADE_H_

#include <atomic>
#include <cstdint>
#include <vector>

#include "optimizer/solver/mix.h"

namespace tandem::solver {

struct TradeOptions {
  double price = 0.0;  // seconds per byte around which windows are priced
  int32_t blocks = 2;  // of a window; windows overlap by half
  int64_t max_table_cells = 1'000'000;
  int64_t max_cells = 10'000'000;         // of one elimination
  int64_t max_total_cells = 100'000'000;  // of all
  const std::atomic<bool>* cancel = nullptr;
};

// `plan` must fit; never makes it slower. Returns the cells walked.
int64_t TradeByWindows(const WeightedModel& weighted, double limit, const TradeOptions& options,
                       std::vector<int32_t>& plan);

}  // namespace tandem::solver

#endif  // OPTIMIZER_SOLVER_TRADE_H_
