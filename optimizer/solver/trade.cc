#include "optimizer/solver/trade.h"

#include <algorithm>
#include <optional>
#include <utility>

#include "optimizer/solver/eliminate.h"
#include "optimizer/solver/reduce.h"
#include "optimizer/solver/windows.h"

namespace tandem::solver {
namespace {

// Of the price: from a window that may use all the room left to one that gives some back.
constexpr double kPriceFactors[] = {0.0, 0.5, 0.8, 0.95, 1.05, 1.3, 2.0};
constexpr double kLeastGainSeconds = 1e-15;
constexpr int32_t kDominanceRounds = 10;

class Trader {
 public:
  Trader(const WeightedModel& weighted, double limit, const TradeOptions& options,
         std::vector<int32_t>& plan)
      : weighted_(weighted), limit_(limit), options_(options), plan_(plan) {}

  void Window(const std::vector<int32_t>& places);
  bool Spent() const {
    return cells_ >= options_.max_total_cells ||
           (options_.cancel != nullptr && options_.cancel->load(std::memory_order_relaxed));
  }
  int64_t cells() const { return cells_; }

 private:
  bool Try(const std::vector<int32_t>& places, const Model& window, double price);

  const WeightedModel& weighted_;
  const double limit_;
  const TradeOptions& options_;
  std::vector<int32_t>& plan_;
  int64_t cells_ = 0;
};

// False when the window is too wide.
bool Trader::Try(const std::vector<int32_t>& places, const Model& window, double price) {
  Model priced = window;
  for (size_t q = 0; q < places.size(); ++q) {
    const double* bytes = weighted_.bytes.data() + weighted_.model.first[places[q]];
    const double least = *std::min_element(bytes, bytes + window.states(static_cast<int32_t>(q)));
    for (int32_t s = 0; s < window.states(static_cast<int32_t>(q)); ++s) {
      priced.unary[priced.first[q] + s] += price * (bytes[s] - least);
    }
  }
  const KeptStates kept = DropDominated(priced, kDominanceRounds);
  const Model kernel = Restrict(priced, kept);
  EliminationBudget budget;
  budget.max_table_cells = options_.max_table_cells;
  budget.max_cells = options_.max_cells;
  budget.cancel = options_.cancel;
  const EliminationOrder order =
      FindBestOrder(kernel, static_cast<double>(options_.max_cells) + 1.0);
  const std::optional<EliminationResult> result = Eliminate(kernel, order, budget);
  if (!result.has_value()) return false;
  cells_ += result->cells;
  const std::vector<int32_t> found = Unrestrict(kept, result->plan);
  std::vector<int32_t> changed = plan_;
  for (size_t q = 0; q < places.size(); ++q) changed[places[q]] = found[q];
  if (weighted_.Bytes(changed) <= limit_ &&
      weighted_.model.Value(changed) < weighted_.model.Value(plan_) - kLeastGainSeconds) {
    plan_ = std::move(changed);
  }
  return true;
}

void Trader::Window(const std::vector<int32_t>& places) {
  const Model window = Condition(weighted_.model, places, plan_);
  for (double factor : kPriceFactors) {
    if (Spent() || !Try(places, window, factor * options_.price)) return;
  }
}

}  // namespace

int64_t TradeByWindows(const WeightedModel& weighted, double limit, const TradeOptions& options,
                       std::vector<int32_t>& plan) {
  const Model& model = weighted.model;
  Trader trader(weighted, limit, options, plan);
  const std::vector<int32_t> starts = BlockStarts(model);
  const auto blocks = static_cast<int32_t>(starts.size()) - 1;
  for (int32_t b = 0; b < blocks; b += std::max(1, options.blocks / 2)) {
    if (trader.Spent()) break;
    std::vector<int32_t> places;
    for (int32_t k = starts[b]; k < starts[std::min(b + options.blocks, blocks)]; ++k) {
      places.push_back(k);
    }
    trader.Window(places);
  }
  return trader.cells();
}

}  // namespace tandem::solver
