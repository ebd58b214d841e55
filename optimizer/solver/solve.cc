#include "optimizer/solver/solve.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <memory>
#include <numeric>
#include <optional>
#include <utility>

#include "absl/strings/str_cat.h"
#include "optimizer/solver/dual.h"
#include "optimizer/solver/eliminate.h"
#include "optimizer/solver/messages.h"
#include "optimizer/solver/mini_bucket.h"
#include "optimizer/solver/model.h"
#include "optimizer/solver/order.h"
#include "optimizer/solver/reduce.h"
#include "optimizer/solver/windows.h"

namespace tandem::solver {
namespace {

constexpr int32_t kSweepsPerRound = 10;
// With good messages the first bound already removes most states.
constexpr int32_t kWarmSweeps = 1;
// A round that raises the bound by less than kStall of itself ends the dual; kSlowRounds rounds
// that each close less than kSlow of the gap let windows and elimination have a go first.
constexpr double kStall = 1e-8;
constexpr double kSlow = 0.02;
constexpr int32_t kSlowRounds = 2;
// A cut copies the tables: only worth it when it removes this much of the work.
constexpr double kCutWhenCellsBelow = 0.6;
constexpr int64_t kWindowTableCells = 3'000'000;
// Dominance is cubic in states: only where a sweep is cheap.
constexpr int64_t kDominanceCells = 3'000'000;
constexpr int32_t kDominanceRounds = 10;
// Mini-buckets hold every table of the kernel unshared.
constexpr int64_t kMiniBucketCells = 20'000'000;
constexpr int64_t kMiniBucketTables[] = {100'000, 20'000, 2'000};
// How often the width of an elimination is halved, and the share of the budget such a partial one
// may take.
constexpr int32_t kNarrowings = 12;
constexpr int64_t kNarrowShare = 4;
constexpr double kGapWorthAnother = 0.7;
// Pruned elimination walks fewer cells than its order says; it is worth a try up to this many times
// more.
constexpr double kPruningHope = 4.0;

class Solver {
 public:
  Solver(const Problem& problem, const SolveOptions& options)
      : problem_(problem),
        options_(options),
        compiled_(Compile(problem, options.price_seconds_per_byte)) {}

  SolveResult Run();

 private:
  enum class Stop { kClosed, kDropped, kStalled, kSlow, kBudget, kCancelled };

  void StartDual();
  Stop RunDual();
  void RunWindows();
  bool EliminateWithin(double width, int64_t max_cells);
  bool RunElimination();
  void RunMiniBuckets();
  void CutByBound();
  void Cut(const KeptStates& kept);
  void Adopt();
  void Report(const char* stage);
  bool Closed() const;
  double Room() const;
  bool Cancelled() const;
  void Finish(Stop stop);
  void LiftMessages();

  const Problem& problem_;
  const SolveOptions& options_;
  CompiledProblem compiled_;
  // The kernel: what is left of the model after cuts, with the states it kept (of the whole).
  std::unique_ptr<Model> kernel_;
  KeptStates kept_;
  std::unique_ptr<Dual> dual_;
  std::vector<double> whole_messages_;  // of the whole: for cut states as when they were cut
  std::vector<int32_t> best_;           // states of the whole, by place
  double upper_ = kInfinity;            // its objective
  double lower_ = -kInfinity;
  double gap_at_elimination_ = kInfinity;
  SolveResult result_;
};

// The difference between plan and bound that still counts as none.
double Solver::Room() const {
  return options_.relative_tolerance * std::abs(upper_ + compiled_.constant_seconds);
}

bool Solver::Closed() const { return upper_ - lower_ <= Room(); }

bool Solver::Cancelled() const {
  return options_.cancel != nullptr && options_.cancel->load(std::memory_order_relaxed);
}

// Takes over the kernel's plan when it is better. A kernel's value is the whole's: same terms.
void Solver::Adopt() {
  if (!(dual_->upper() < upper_)) return;
  upper_ = dual_->upper();
  best_ = Unrestrict(kept_, dual_->plan());
}

void Solver::Report(const char* stage) {
  if (!options_.progress) return;
  Progress progress;
  progress.stage = stage;
  progress.steps = result_.steps;
  progress.lower_bound_seconds = lower_ + compiled_.constant_seconds;
  progress.objective_seconds = upper_ + compiled_.constant_seconds;
  options_.progress(progress);
}

void Solver::StartDual() {
  kernel_ = std::make_unique<Model>(compiled_.model);
  kept_.resize(kernel_->size());
  for (int32_t k = 0; k < kernel_->size(); ++k) {
    kept_[k].resize(kernel_->states(k));
    std::iota(kept_[k].begin(), kept_[k].end(), 0);
  }
  dual_ = std::make_unique<Dual>(*kernel_);
  if (options_.start_messages != nullptr) {
    dual_->SetMessages(PackMessages(problem_, compiled_, *options_.start_messages));
    lower_ = dual_->lower();
  }
  // Without a given plan, each node's cheapest state: so there is a plan however early it ends.
  std::vector<int32_t> plan(kernel_->size(), 0);
  if (options_.start_plan != nullptr) {
    plan = compiled_.FromProblem(*options_.start_plan);
  } else {
    for (int32_t k = 0; k < kernel_->size(); ++k) {
      const double* costs = kernel_->costs(k);
      plan[k] = static_cast<int32_t>(std::min_element(costs, costs + kernel_->states(k)) - costs);
    }
  }
  dual_->Offer(plan);
  Adopt();
}

// Goes on with fewer states: some plan as good as any better than the incumbent is still there, so
// the lower of the kernel's bound and the incumbent bounds the whole.
void Solver::Cut(const KeptStates& kept) {
  LiftMessages();
  auto smaller = std::make_unique<Model>(Restrict(*kernel_, kept));
  auto dual = std::make_unique<Dual>(*smaller);
  dual->SetMessages(RestrictMessages(*kernel_, kept, dual_->messages()));
  // The incumbent's states, or where dominance took one away the next that is left.
  std::vector<int32_t> plan(kernel_->size());
  for (int32_t k = 0; k < kernel_->size(); ++k) {
    const auto it = std::lower_bound(kept[k].begin(), kept[k].end(), dual_->plan()[k]);
    plan[k] = static_cast<int32_t>(std::min(it, kept[k].end() - 1) - kept[k].begin());
  }
  dual->Offer(plan);
  for (int32_t k = 0; k < kernel_->size(); ++k) {
    std::vector<int32_t> states;
    for (int32_t s : kept[k]) states.push_back(kept_[k][s]);
    kept_[k] = std::move(states);
  }
  dual_ = std::move(dual);
  kernel_ = std::move(smaller);
}

// Writes the kernel's messages over the whole's.
void Solver::LiftMessages() {
  if (!options_.want_messages) return;
  const Model& whole = compiled_.model;
  whole_messages_.resize(whole.message_size(), 0.0);
  const double* from = dual_->messages().data();
  for (size_t l = 0; l < whole.links.size(); ++l) {
    double* at_i = whole_messages_.data() + whole.message_i(static_cast<int32_t>(l));
    double* at_j = whole_messages_.data() + whole.message_j(static_cast<int32_t>(l));
    for (int32_t s : kept_[whole.links[l].i]) at_i[s] = *from++;
    for (int32_t s : kept_[whole.links[l].j]) at_j[s] = *from++;
  }
}

void Solver::CutByBound() {
  if (!options_.cut) return;
  const KeptStates kept = FixByBound(*kernel_, *dual_, upper_);
  if (static_cast<double>(CellsAfter(*kernel_, kept)) <
      kCutWhenCellsBelow * static_cast<double>(kernel_->Cells())) {
    Cut(kept);
  }
}

Solver::Stop Solver::RunDual() {
  DualOptions dual_options;
  dual_options.cancel = options_.cancel;
  const double incumbent = options_.incumbent_seconds - compiled_.constant_seconds;
  dual_options.incumbent = incumbent;
  double last = dual_->lower();
  int32_t slow_rounds = 0;
  while (true) {
    const int32_t left = options_.max_sweeps - result_.steps.sweeps;
    if (left <= 0) return Stop::kBudget;
    const bool warm = options_.start_messages != nullptr && result_.steps.sweeps == 0;
    dual_options.max_sweeps = std::min(left, warm ? kWarmSweeps : kSweepsPerRound);
    dual_options.closed = upper_ - Room();
    const int32_t before = dual_->sweeps();
    const DualStop stop = dual_->Run(dual_options);
    const int32_t done = dual_->sweeps() - before;
    result_.steps.sweeps += done;
    result_.steps.dual_cells += done * kernel_->Cells();
    Adopt();
    lower_ = std::max(lower_, std::min(dual_->lower(), upper_));
    Report("dual");
    if (stop == DualStop::kCancelled) return Stop::kCancelled;
    if (Closed()) return Stop::kClosed;
    if (lower_ > incumbent) return Stop::kDropped;
    const double gain = dual_->lower() - last;
    last = dual_->lower();
    if (gain < kStall * std::abs(last) && !warm) return Stop::kStalled;
    slow_rounds = gain < kSlow * (upper_ - lower_) ? slow_rounds + 1 : 0;
    if (slow_rounds >= kSlowRounds) return Stop::kSlow;
    CutByBound();
  }
}

// Windows of blocks, exactly, on the kernel.
void Solver::RunWindows() {
  WindowOptions window_options;
  window_options.blocks = options_.window_blocks;
  window_options.max_cells = options_.max_window_cells;
  window_options.max_table_cells = std::min<int64_t>(options_.max_table_cells, kWindowTableCells);
  window_options.cancel = options_.cancel;
  std::vector<int32_t> plan = dual_->plan();
  const WindowWork work = ImproveByWindows(*kernel_, window_options, plan);
  result_.steps.windows += work.windows;
  result_.steps.elimination_cells += work.cells;
  dual_->Offer(plan);
  Adopt();
  Report("windows");
}

// Exact elimination of the states whose excess is at most `width`. Any plan with another state
// costs more than bound + width, so the result settles the problem when it is not dearer than that,
// and raises the bound to it otherwise. False when the budget forbids it.
bool Solver::EliminateWithin(double width, int64_t max_cells) {
  const KeptStates narrow = FixByBound(*kernel_, *dual_, dual_->lower() + width);
  if (CellsAfter(*kernel_, narrow) > kDominanceCells) return false;
  const Model wide = Restrict(*kernel_, narrow);
  const KeptStates kept = DropDominated(wide, kDominanceRounds);
  const Model model = Restrict(wide, kept);
  const double most_cells = kPruningHope * static_cast<double>(max_cells);
  const EliminationOrder order = FindBestOrder(model, most_cells);
  EliminationBudget budget;
  budget.max_table_cells = options_.max_table_cells;
  budget.max_cells = max_cells;
  budget.cancel = options_.cancel;
  const std::vector<double> messages =
      RestrictMessages(wide, kept, RestrictMessages(*kernel_, narrow, dual_->messages()));
  std::optional<EliminationResult> exact;
  if (order.cells < most_cells) exact = EliminateBelow(upper_, model, messages, order, budget);
  if (!exact.has_value()) {
    result_.detail = absl::StrCat("not eliminated exactly: largest table at least ",
                                  order.largest_table, " cells, work at least ", order.cells);
    return false;
  }
  result_.steps.elimination_cells += exact->cells;
  if (!exact->plan.empty()) dual_->Offer(Unrestrict(narrow, Unrestrict(kept, exact->plan)));
  Adopt();
  lower_ = std::max(lower_, std::min(upper_, dual_->lower() + width));
  Report("eliminate");
  return true;
}

// The whole gap if the budget allows, else the widest part of it that a smaller budget allows:
// where the dual stalls, the best plan is mostly among the states it finds almost free.
bool Solver::RunElimination() {
  const double gap = upper_ - dual_->lower();
  if (gap > kGapWorthAnother * gap_at_elimination_) return true;  // hardly news since the last one
  gap_at_elimination_ = gap;
  double width = gap;
  for (int32_t narrowing = 0; narrowing <= kNarrowings; ++narrowing) {
    if (Cancelled()) return false;
    const int64_t share = narrowing == 0 ? 1 : kNarrowShare;
    if (EliminateWithin(width, options_.max_elimination_cells / share)) return true;
    width /= 2;
  }
  return false;
}

// The last word on the bound of what could not be closed.
void Solver::RunMiniBuckets() {
  const KeptStates kept = FixByBound(*kernel_, *dual_, upper_);
  if (CellsAfter(*kernel_, kept) > kMiniBucketCells) return;
  const Model model = Restrict(*kernel_, kept);
  const std::vector<double> messages = RestrictMessages(*kernel_, kept, dual_->messages());
  const EliminationOrder order = FindBestOrder(model, kInfinity);
  MiniBucketOptions mini_options;
  mini_options.max_cells = options_.max_elimination_cells;
  mini_options.cancel = options_.cancel;
  std::optional<MiniBucketResult> mini;
  for (int64_t cells : kMiniBucketTables) {
    mini_options.max_table_cells = std::min(cells, options_.max_table_cells);
    if (!mini.has_value()) mini = MiniBucketBound(model, messages, order, mini_options);
  }
  if (!mini.has_value()) return;
  result_.steps.elimination_cells += mini->cells;
  lower_ = std::max(lower_, std::min(upper_, mini->bound));
  Report("mini-buckets");
}

SolveResult Solver::Run() {
  StartDual();
  Stop stop = Stop::kBudget;
  double windows_at = kInfinity;  // the objective after the last windows
  while (true) {
    stop = RunDual();
    if (stop == Stop::kClosed || stop == Stop::kDropped || stop == Stop::kCancelled) break;
    const bool eliminated = options_.exact && RunElimination();
    const double before = upper_;
    if (!eliminated && !Closed() && options_.window_blocks > 0 && upper_ < windows_at) {
      RunWindows();
      windows_at = upper_;
    }
    if (Closed() || Cancelled()) break;
    // Without elimination only a better plan gives a slow dual something new to work with.
    if (stop == Stop::kSlow && (options_.exact || upper_ < before)) continue;
    if (options_.exact) RunMiniBuckets();
    break;
  }
  Finish(stop);
  return std::move(result_);
}

void Solver::Finish(Stop stop) {
  result_.plan = compiled_.ToProblem(best_);
  result_.seconds = ObjectiveSeconds(problem_, result_.plan);
  result_.memory_bytes = MemoryBytes(problem_, result_.plan);
  result_.objective_seconds =
      result_.seconds + options_.price_seconds_per_byte * result_.memory_bytes;
  result_.lower_bound_seconds =
      std::min(lower_ + compiled_.constant_seconds, result_.objective_seconds);
  result_.cancelled = stop == Stop::kCancelled || Cancelled();
  if (IsForbidden(lower_)) {
    result_.status = SolveStatus::kInfeasible;
    result_.detail = DescribeStuck(problem_);
    if (result_.detail.empty()) result_.detail = "every plan has a forbidden choice";
  } else if (lower_ + compiled_.constant_seconds > options_.incumbent_seconds) {
    result_.status = SolveStatus::kDropped;
  } else if (!IsPermitted(problem_, result_.plan)) {
    result_.status = SolveStatus::kNoPlan;
  } else {
    result_.status = Closed() ? SolveStatus::kOptimal : SolveStatus::kFeasible;
  }
  if (options_.want_messages) {
    LiftMessages();
    result_.messages = UnpackMessages(problem_, compiled_, whole_messages_);
  }
}

}  // namespace

const char* SolveStatusName(SolveStatus status) {
  switch (status) {
    case SolveStatus::kOptimal:
      return "optimal";
    case SolveStatus::kFeasible:
      return "feasible";
    case SolveStatus::kDropped:
      return "dropped";
    case SolveStatus::kInfeasible:
      return "infeasible";
    case SolveStatus::kNoPlan:
      return "no plan";
  }
  return "unknown";
}

double SolveResult::gap() const {
  if (objective_seconds <= lower_bound_seconds) return 0.0;
  return (objective_seconds - lower_bound_seconds) / std::max(std::abs(objective_seconds), 1e-300);
}

absl::StatusOr<SolveResult> Solve(const Problem& problem, const SolveOptions& options) {
  absl::Status status = Validate(problem);
  if (!status.ok()) return status;
  if (options.start_plan != nullptr) {
    status = ValidatePlan(problem, *options.start_plan);
    if (!status.ok()) return status;
  }
  if (options.start_messages != nullptr) {
    status = ValidateMessages(problem, *options.start_messages);
    if (!status.ok()) return status;
  }
  if (problem.node_count() == 0) {
    SolveResult empty;
    empty.status = SolveStatus::kOptimal;
    return empty;
  }
  return Solver(problem, options).Run();
}

}  // namespace tandem::solver
