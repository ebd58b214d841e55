#include "optimizer/solver/windows.h"

#include <algorithm>
#include <cmath>
#include <optional>
#include <utility>

#include "optimizer/solver/eliminate.h"
#include "optimizer/solver/reduce.h"

namespace tandem::solver {
namespace {

constexpr double kLeastRelativeGain = 1e-9;
constexpr int32_t kDominanceRounds = 10;
constexpr size_t kMostInBall = 48;
constexpr size_t kLeastInBall = 6;
constexpr int64_t kBallsPerWindow = 2;

// The work of DropDominated's first round.
double DominanceWork(const Model& model) {
  double work = 0.0;
  for (const Link& link : model.links) {
    const double cells = static_cast<double>(model.states(link.i)) * model.states(link.j);
    work += cells * (model.states(link.i) + model.states(link.j));
  }
  return work;
}

class Windows {
 public:
  Windows(const Model& model, const WindowOptions& options, std::vector<int32_t>& plan)
      : model_(model), options_(options), plan_(plan) {}

  // Solves the window exactly and takes the result if better. False when it is too wide.
  bool Try(const std::vector<int32_t>& places, int64_t max_cells);

  // Small connected neighbourhoods instead, around each of the places [begin, end) in turn.
  void TryBalls(int32_t begin, int32_t end);

  // Out of budget, or cancelled.
  bool Spent() const {
    return work_.cells >= options_.max_total_cells ||
           (options_.cancel != nullptr && options_.cancel->load(std::memory_order_relaxed));
  }

  const WindowWork& work() const { return work_; }

 private:
  std::vector<int32_t> Ball(int32_t centre, size_t most) const;

  const Model& model_;
  const WindowOptions& options_;
  std::vector<int32_t>& plan_;
  WindowWork work_;
};

bool Windows::Try(const std::vector<int32_t>& places, int64_t max_cells) {
  Model window = Condition(model_, places, plan_);
  KeptStates kept;
  const bool dominance = DominanceWork(window) <= static_cast<double>(max_cells);
  if (dominance) {
    kept = DropDominated(window, kDominanceRounds);
    Model smaller = Restrict(window, kept);
    std::swap(window, smaller);
  }
  EliminationBudget budget;
  budget.max_table_cells = options_.max_table_cells;
  budget.max_cells = max_cells;
  budget.cancel = options_.cancel;
  const EliminationOrder order = FindBestOrder(window, static_cast<double>(max_cells) + 1.0);
  const std::optional<EliminationResult> result = Eliminate(window, order, budget);
  if (!result.has_value()) return false;
  ++work_.windows;
  work_.cells += static_cast<int64_t>(order.cells);
  const std::vector<int32_t> found = dominance ? Unrestrict(kept, result->plan) : result->plan;
  std::vector<int32_t> changed = plan_;
  for (size_t q = 0; q < places.size(); ++q) changed[places[q]] = found[q];
  if (model_.Value(changed) < model_.Value(plan_)) plan_ = std::move(changed);
  return true;
}

std::vector<int32_t> Windows::Ball(int32_t centre, size_t most) const {
  std::vector<int32_t> ball = {centre};
  std::vector<char> seen(model_.size(), 0);
  seen[centre] = 1;
  for (size_t q = 0; q < ball.size() && ball.size() < most; ++q) {
    for (const Arc& arc : model_.arcs_of(ball[q])) {
      if (seen[arc.neighbour] || model_.states(arc.neighbour) == 1 || ball.size() >= most) continue;
      seen[arc.neighbour] = 1;
      ball.push_back(arc.neighbour);
    }
  }
  std::sort(ball.begin(), ball.end());
  return ball;
}

void Windows::TryBalls(int32_t begin, int32_t end) {
  std::vector<char> covered(model_.size(), 0);
  for (int32_t k = begin; k < end; ++k) {
    if (covered[k] || model_.states(k) == 1) continue;
    if (Spent()) return;
    for (size_t most = kMostInBall; most >= kLeastInBall; most /= 2) {
      const std::vector<int32_t> ball = Ball(k, most);
      if (!Try(ball, options_.max_cells / kBallsPerWindow)) continue;
      for (int32_t p : ball) covered[p] = 1;
      break;
    }
  }
}

}  // namespace

std::vector<int32_t> BlockStarts(const Model& model) {
  std::vector<int32_t> starts;
  for (int32_t k = 0; k < model.size(); ++k) {
    if (k == 0 || model.block[k] != model.block[k - 1]) starts.push_back(k);
  }
  starts.push_back(model.size());
  return starts;
}

Model Condition(const Model& model, const std::vector<int32_t>& places,
                const std::vector<int32_t>& plan) {
  Model out;
  std::vector<int32_t> states;
  std::vector<int32_t> inside(model.size(), -1);
  for (size_t q = 0; q < places.size(); ++q) inside[places[q]] = static_cast<int32_t>(q);
  std::vector<int32_t> table_ids(model.tables.size(), -1);
  for (int32_t k : places) {
    out.block.push_back(model.block[k]);
    states.push_back(model.states(k));
    const size_t at = out.unary.size();
    out.unary.insert(out.unary.end(), model.costs(k), model.costs(k) + model.states(k));
    for (const Arc& arc : model.arcs_of(k)) {
      if (inside[arc.neighbour] < 0) {
        const double* row = model.row(k, arc, plan[arc.neighbour]);
        for (int32_t s = 0; s < model.states(k); ++s) out.unary[at + s] += row[s];
      } else if (arc.neighbour > k) {
        const int32_t table = model.links[arc.link].table;
        if (table_ids[table] < 0) {
          table_ids[table] = static_cast<int32_t>(out.tables.size());
          out.tables.push_back(model.tables[table]);
        }
        out.links.push_back({inside[k], inside[arc.neighbour], table_ids[table]});
      }
    }
  }
  out.Index(states);
  return out;
}

WindowWork ImproveByWindows(const Model& model, const WindowOptions& options,
                            std::vector<int32_t>& plan) {
  Windows windows(model, options, plan);
  const std::vector<int32_t> starts = BlockStarts(model);
  const auto blocks = static_cast<int32_t>(starts.size()) - 1;
  const int32_t stride = std::max(1, options.blocks / 2);
  double best = model.Value(plan);
  std::vector<char> too_wide(blocks, 0);
  for (int32_t pass = 0; pass < options.passes; ++pass) {
    const double before = best;
    for (int32_t b = 0; b < blocks; b += stride) {
      if (windows.Spent()) return windows.work();
      if (!too_wide[b]) {
        std::vector<int32_t> places;
        for (int32_t k = starts[b]; k < starts[std::min(b + options.blocks, blocks)]; ++k) {
          places.push_back(k);
        }
        too_wide[b] = !windows.Try(places, options.max_cells);
      }
      if (too_wide[b]) windows.TryBalls(starts[b], starts[std::min(b + stride, blocks)]);
    }
    best = model.Value(plan);
    if (best > before - kLeastRelativeGain * std::abs(before)) break;
  }
  return windows.work();
}

}  // namespace tandem::solver
