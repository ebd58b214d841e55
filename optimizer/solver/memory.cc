#include "optimizer/solver/memory.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <optional>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "optimizer/solver/mix.h"
#include "optimizer/solver/model.h"
#include "optimizer/solver/repeat.h"
#include "optimizer/solver/trade.h"

namespace tandem::solver {
namespace {

constexpr double kInfinity = std::numeric_limits<double>::infinity();
// A price may make the spread of memory worth at most this; beyond it the least-memory problem is
// exact where the priced one would drown in rounding.
constexpr double kMostPricedSeconds = 50.0;
// What all memory together is worth in the least-memory problem: far below kForbidden.
constexpr double kMemoryScale = 100.0;
constexpr double kMemoryTolerance = 1e-12;
constexpr int32_t kDescentRounds = 20;
// A gap below this share of the seconds is not worth more mixing.
constexpr double kMixingTolerance = 3e-4;
constexpr size_t kMostMixed = 3;  // plans on each side of the limit
constexpr int32_t kTradeRounds = 2;

// Memory as the objective: vectors scaled, tables only say what is permitted.
struct MemoryProblem {
  Problem problem;
  double seconds_per_byte = 0.0;
};

MemoryProblem MakeMemoryProblem(const Problem& problem) {
  MemoryProblem out;
  double most = 0.0;
  std::vector<double> least(problem.node_count(), 0.0);
  for (int32_t n = 0; n < problem.node_count(); ++n) {
    if (problem.nodes()[n].memory < 0) continue;
    const std::vector<double>& bytes = problem.vectors()[problem.nodes()[n].memory];
    const auto [low, high] = std::minmax_element(bytes.begin(), bytes.end());
    least[n] = *low;
    most += *high - *low;
  }
  out.seconds_per_byte = most > 0.0 ? kMemoryScale / most : 1.0;
  for (int32_t n = 0; n < problem.node_count(); ++n) {
    std::vector<double> unary = problem.unary(n);
    for (size_t s = 0; s < unary.size(); ++s) {
      const double bytes = problem.memory_bytes(n, static_cast<int32_t>(s)) - least[n];
      unary[s] = IsForbidden(unary[s]) ? kForbidden : bytes * out.seconds_per_byte;
    }
    Node node = problem.nodes()[n];
    node.unary = out.problem.AddVector(std::move(unary));
    node.memory = -1;
    out.problem.AddNode(std::move(node));
  }
  std::vector<int32_t> table_ids;
  for (const Table& table : problem.tables()) {
    Table permitted = table;
    for (double& cost : permitted.cost) cost = IsForbidden(cost) ? kForbidden : 0.0;
    table_ids.push_back(out.problem.AddTable(std::move(permitted)));
  }
  for (const Edge& edge : problem.edges()) {
    out.problem.AddEdge(edge.i, edge.j, table_ids[edge.table]);
  }
  return out;
}

struct Candidate {
  Plan plan;
  double seconds = 0.0;
  double bytes = 0.0;
};

class MemorySolver {
 public:
  MemorySolver(const Problem& problem, double limit, const MemoryOptions& options)
      : problem_(problem),
        limit_(limit),
        options_(options),
        repeats_(options.repetition && Repeats(problem)) {
    for (int32_t n = 0; n < problem.node_count(); ++n) {
      if (problem.nodes()[n].memory < 0) continue;
      const std::vector<double>& bytes = problem.vectors()[problem.nodes()[n].memory];
      const auto [low, high] = std::minmax_element(bytes.begin(), bytes.end());
      result_.least_memory_bound_bytes += *low;
      spread_ += *high - *low;
    }
    result_.least_memory_bytes = kInfinity;
    result_.lower_bound_seconds = -kInfinity;
  }

  absl::StatusOr<MemoryResult> Run();

 private:
  absl::Status SolveAt(double price);
  void Take(SolveResult solved, double price, double allowance);
  absl::Status SolveLeastMemory();
  absl::Status RaisePriceUntilItFits();
  absl::Status Secant();
  void Mix();
  double Gap() const { return best_->seconds - result_.lower_bound_seconds; }
  void Note(const Plan& plan);
  void Count(const SolveSteps& steps);
  bool Stop() const {
    return result_.cancelled || infeasible_ || dropped_ || result_.solves >= options_.max_solves;
  }
  void Finish();

  const Problem& problem_;
  const double limit_;
  const MemoryOptions& options_;
  double spread_ = 0.0;  // most minus least memory, over all plans
  MemoryResult result_;
  const bool repeats_;
  Messages messages_;  // of the last solve
  std::optional<SolveResult> last_;
  std::vector<Candidate> seen_;     // the plan of every priced solve
  std::optional<Candidate> heavy_;  // over the limit, the nearest hull plan
  std::optional<Candidate> light_;  // within it, the nearest hull plan
  std::optional<Candidate> best_;   // the fastest within it
  Candidate least_;                 // the lightest permitted
  Plan any_;                        // when there is no permitted one
  bool infeasible_ = false;
  bool dropped_ = false;
};

void MemorySolver::Count(const SolveSteps& steps) {
  result_.steps.sweeps += steps.sweeps;
  result_.steps.dual_cells += steps.dual_cells;
  result_.steps.elimination_cells += steps.elimination_cells;
  result_.steps.windows += steps.windows;
  ++result_.solves;
}

void MemorySolver::Note(const Plan& plan) {
  if (any_.empty()) any_ = plan;
  if (!IsPermitted(problem_, plan)) return;
  Candidate candidate{plan, ObjectiveSeconds(problem_, plan), MemoryBytes(problem_, plan)};
  if (candidate.bytes < result_.least_memory_bytes) {
    result_.least_memory_bytes = candidate.bytes;
    least_ = candidate;
  }
  if (candidate.bytes <= limit_ && (!best_ || candidate.seconds < best_->seconds)) {
    best_ = std::move(candidate);
  }
}

absl::Status MemorySolver::SolveAt(double price) {
  SolveOptions options = options_.solve;
  options.price_seconds_per_byte = price;
  // Where blocks repeat, a fresh fold is cheaper than the messages of another price.
  const bool fold = repeats_ && options.start_plan == nullptr;
  options.want_messages = !fold;
  options.start_messages = messages_.to.empty() ? nullptr : &messages_;
  // A bound on the priced objective means a bound on seconds once price * limit is taken off.
  const double allowance = price > 0.0 ? price * limit_ : 0.0;  // the limit may be infinite
  options.incumbent_seconds = options_.solve.incumbent_seconds + allowance;
  absl::StatusOr<SolveResult> solved =
      fold ? SolveRepeated(problem_, options) : Solve(problem_, options);
  if (!solved.ok()) return solved.status();
  Take(*std::move(solved), price, allowance);
  return absl::OkStatus();
}

// `allowance`: what the limit's bytes are worth at this price.
void MemorySolver::Take(SolveResult solved, double price, double allowance) {
  Count(solved.steps);
  result_.cancelled = result_.cancelled || solved.cancelled;
  const double bound = solved.lower_bound_seconds - allowance;
  if (bound > result_.lower_bound_seconds) {
    result_.lower_bound_seconds = bound;
    result_.price_seconds_per_byte = price;
  }
  infeasible_ = infeasible_ || solved.status == SolveStatus::kInfeasible;
  dropped_ = dropped_ || solved.status == SolveStatus::kDropped;
  if (infeasible_) result_.detail = solved.detail;
  Note(solved.plan);
  if (IsPermitted(problem_, solved.plan)) {
    seen_.push_back({solved.plan, solved.seconds, solved.memory_bytes});
  }
  messages_ = std::move(solved.messages);
  last_ = std::move(solved);
}

absl::Status MemorySolver::SolveLeastMemory() {
  const MemoryProblem memory = MakeMemoryProblem(problem_);
  SolveOptions options = options_.solve;
  options.price_seconds_per_byte = 0.0;
  options.incumbent_seconds = kInfinity;
  options.relative_tolerance = kMemoryTolerance;
  options.start_messages = nullptr;
  options.want_messages = false;
  absl::StatusOr<SolveResult> solved =
      repeats_ ? SolveRepeated(memory.problem, options) : Solve(memory.problem, options);
  if (!solved.ok()) return solved.status();
  Count(solved->steps);
  result_.cancelled = result_.cancelled || solved->cancelled;
  infeasible_ = infeasible_ || solved->status == SolveStatus::kInfeasible;
  if (infeasible_) {
    result_.detail = solved->detail;
    return absl::OkStatus();
  }
  // The sum of least memories was in the bound already; this is what permission costs on top.
  double base = 0.0;
  for (int32_t n = 0; n < problem_.node_count(); ++n) {
    if (problem_.nodes()[n].memory < 0) continue;
    const std::vector<double>& bytes = problem_.vectors()[problem_.nodes()[n].memory];
    base += *std::min_element(bytes.begin(), bytes.end());
  }
  const double bound = base + solved->lower_bound_seconds / memory.seconds_per_byte;
  result_.least_memory_bound_bytes = std::max(result_.least_memory_bound_bytes, bound);
  Note(solved->plan);
  if (IsPermitted(problem_, solved->plan)) {
    Candidate found{solved->plan, ObjectiveSeconds(problem_, solved->plan),
                    MemoryBytes(problem_, solved->plan)};
    if (found.bytes <= limit_ && !light_) light_ = std::move(found);
  }
  return absl::OkStatus();
}

// From the free optimum, over the limit, to the first plan within it.
absl::Status MemorySolver::RaisePriceUntilItFits() {
  double price = 0.02 * std::max(heavy_->seconds, 1e-9) / (heavy_->bytes - limit_);
  while (!light_ && !Stop() && price * spread_ <= kMostPricedSeconds) {
    absl::Status status = SolveAt(price);
    if (!status.ok()) return status;
    if (Stop() || !IsPermitted(problem_, last_->plan)) break;
    Candidate found{last_->plan, last_->seconds, last_->memory_bytes};
    if (found.bytes <= limit_) {
      light_ = std::move(found);
    } else {
      heavy_ = std::move(found);
    }
    price *= 6.0;
  }
  if (!light_ && !result_.cancelled && !infeasible_ && !dropped_) return SolveLeastMemory();
  return absl::OkStatus();
}

// Each price is the slope between the two plans; it ends when no plan lies below that line.
absl::Status MemorySolver::Secant() {
  while (!Stop()) {
    if (heavy_->bytes <= light_->bytes || light_->seconds <= heavy_->seconds) break;
    const double price = (light_->seconds - heavy_->seconds) / (heavy_->bytes - light_->bytes);
    if (price * spread_ > kForbidden / 4) break;
    const double line = light_->seconds + price * light_->bytes;
    absl::Status status = SolveAt(price);
    if (!status.ok()) return status;
    if (Stop() || !IsPermitted(problem_, last_->plan)) break;
    if (last_->objective_seconds >= line - 1e-9 * std::abs(line)) break;
    Candidate found{last_->plan, last_->seconds, last_->memory_bytes};
    if (found.bytes <= limit_) {
      light_ = std::move(found);
    } else {
      heavy_ = std::move(found);
    }
  }
  return absl::OkStatus();
}

// Makes plans within the limit out of those seen, the two next to the limit first; the others and
// exact trades inside windows only where that leaves a gap.
void MemorySolver::Mix() {
  const CompiledProblem compiled = Compile(problem_, 0.0);
  WeightedModel weighted{compiled.model, {}};
  for (int32_t n : compiled.node_of_place) {
    for (int32_t s = 0; s < problem_.states(n); ++s) {
      weighted.bytes.push_back(problem_.memory_bytes(n, s));
    }
  }
  const auto improve = [&](std::vector<int32_t> places) {
    DescendWithin(weighted, limit_, kDescentRounds, places);
    Note(compiled.ToProblem(places));
  };
  std::vector<std::vector<int32_t>> heavy;
  std::vector<std::vector<int32_t>> light;
  std::stable_sort(seen_.begin(), seen_.end(), [&](const Candidate& a, const Candidate& b) {
    return std::abs(a.bytes - limit_) < std::abs(b.bytes - limit_);
  });
  for (const Candidate& candidate : seen_) {
    std::vector<std::vector<int32_t>>& side = candidate.bytes <= limit_ ? light : heavy;
    if (side.size() < kMostMixed) side.push_back(compiled.FromProblem(candidate.plan));
  }
  if (heavy_) {
    improve(MixPlans(weighted, compiled.FromProblem(heavy_->plan),
                     compiled.FromProblem(light_->plan), limit_));
  }
  improve(compiled.FromProblem(best_->plan));
  const double enough = kMixingTolerance * std::abs(best_->seconds);
  for (const std::vector<int32_t>& l : light) {
    for (const std::vector<int32_t>& h : heavy) {
      if (Gap() > enough) improve(MixPlans(weighted, h, l, limit_));
    }
  }
  for (int32_t round = 0; round < kTradeRounds && Gap() > enough; ++round) {
    const double before = best_->seconds;
    TradeOptions trade;
    trade.price = result_.price_seconds_per_byte;
    trade.cancel = options_.solve.cancel;
    std::vector<int32_t> places = compiled.FromProblem(best_->plan);
    result_.steps.elimination_cells += TradeByWindows(weighted, limit_, trade, places);
    improve(std::move(places));
    if (!(best_->seconds < before)) break;
  }
}

absl::StatusOr<MemoryResult> MemorySolver::Run() {
  absl::Status status;
  if (result_.least_memory_bound_bytes > limit_) {
    status = SolveLeastMemory();
    if (!status.ok()) return status;
    Finish();
    return std::move(result_);
  }
  if (options_.free != nullptr) {
    const double price = options_.free_price_seconds_per_byte;
    Take(*options_.free, price, price > 0.0 ? price * limit_ : 0.0);
  } else {
    status = SolveAt(0.0);
    if (!status.ok()) return status;
  }
  const bool free_fits = best_.has_value();
  if (!Stop() && !free_fits) {
    if (IsPermitted(problem_, last_->plan)) {
      heavy_ = Candidate{last_->plan, last_->seconds, last_->memory_bytes};
      status = RaisePriceUntilItFits();
    } else {
      status = SolveLeastMemory();
    }
    if (!status.ok()) return status;
    if (light_ && heavy_) {
      status = Secant();
      if (!status.ok()) return status;
    }
    if (light_) Mix();
  }
  Finish();
  return std::move(result_);
}

void MemorySolver::Finish() {
  const bool nothing_fits = infeasible_ || result_.least_memory_bound_bytes > limit_;
  if (best_) {
    result_.plan = best_->plan;
    result_.seconds = best_->seconds;
    result_.memory_bytes = best_->bytes;
    result_.lower_bound_seconds = std::min(result_.lower_bound_seconds, result_.seconds);
    const double room = options_.solve.relative_tolerance * std::abs(result_.seconds);
    result_.status = result_.seconds - result_.lower_bound_seconds <= room
                         ? MemoryStatus::kOptimal
                         : MemoryStatus::kFeasible;
    if (dropped_) result_.status = MemoryStatus::kDropped;
    return;
  }
  const bool permitted = std::isfinite(result_.least_memory_bytes);
  result_.plan = permitted ? least_.plan : any_;
  if (!result_.plan.empty()) {
    result_.seconds = ObjectiveSeconds(problem_, result_.plan);
    result_.memory_bytes = MemoryBytes(problem_, result_.plan);
  }
  result_.status = nothing_fits ? MemoryStatus::kInfeasible
                                : (dropped_ ? MemoryStatus::kDropped : MemoryStatus::kNoPlan);
  if (permitted && !infeasible_ && !dropped_) {
    result_.detail = absl::StrCat(
        "the limit is ", limit_, " bytes; the least memory found is ", result_.least_memory_bytes,
        ", and no permitted plan needs less than ", result_.least_memory_bound_bytes);
  }
}

}  // namespace

const char* MemoryStatusName(MemoryStatus status) {
  switch (status) {
    case MemoryStatus::kOptimal:
      return "optimal";
    case MemoryStatus::kFeasible:
      return "feasible";
    case MemoryStatus::kDropped:
      return "dropped";
    case MemoryStatus::kInfeasible:
      return "infeasible";
    case MemoryStatus::kNoPlan:
      return "no plan";
  }
  return "unknown";
}

double MemoryResult::gap() const {
  if (seconds <= lower_bound_seconds) return 0.0;
  return (seconds - lower_bound_seconds) / std::max(std::abs(seconds), 1e-300);
}

absl::StatusOr<MemoryResult> SolveWithinMemory(const Problem& problem, double limit_bytes,
                                               const MemoryOptions& options) {
  absl::Status status = Validate(problem);
  if (!status.ok()) return status;
  if (std::isnan(limit_bytes)) {
    return absl::InvalidArgumentError("the memory limit is not a number; give bytes");
  }
  return MemorySolver(problem, limit_bytes, options).Run();
}

}  // namespace tandem::solver
