// Exact re-optimisation of windows: a few neighbouring blocks at a time, everything else held
// fixed.
#ifndef OPTIMIZER_SOLVER_WINDOWS_H_
#define OPTIMIZER_SOLVER_WINDOWS_H_

#include <atomic>
#include <cstdint>
#include <vector>

#include "optimizer/solver/model.h"

namespace tandem::solver {

struct WindowOptions {
  int32_t blocks = 2;  // width; windows overlap by half
  int32_t passes = 3;
  int64_t max_table_cells = 3'000'000;
  int64_t max_cells = 50'000'000;           // of one window; dearer ones are split
  int64_t max_total_cells = 1'500'000'000;  // of all windows together
  const std::atomic<bool>* cancel = nullptr;
};

struct WindowWork {
  int32_t windows = 0;
  int64_t cells = 0;
};

// The first place of each block, then the number of places.
std::vector<int32_t> BlockStarts(const Model& model);

// The model of `places` (ascending) alone, the rest fixed as in `plan`: its costs join the nodes'.
Model Condition(const Model& model, const std::vector<int32_t>& places,
                const std::vector<int32_t>& plan);

// Never makes `plan` worse. Where a window is too wide for the budget, small connected
// neighbourhoods inside it are solved instead. Stops after a pass without gain.
WindowWork ImproveByWindows(const Model& model, const WindowOptions& options,
                            std::vector<int32_t>& plan);

}  // namespace tandem::solver

#endif  // OPTIMIZER_SOLVER_WINDOWS_H_
