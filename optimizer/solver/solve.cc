#include "optimizer/solver/solve.h"

#include <algorithm>
#include <cmath>
#include <memory>
#include <numeric>
#include <utility>

#include "absl/strings/str_cat.h"
#include "optimizer/solver/dual.h"
#include "optimizer/solver/model.h"
#include "optimizer/solver/reduce.h"

namespace tandem::solver {
namespace {

constexpr int32_t kSweepsPerRound = 10;
// A cut copies the tables: only worth it when it removes this much of the work.
constexpr double kCutWhenCellsBelow = 0.6;

class Solver {
 public:
  Solver(const Problem& problem, const SolveOptions& options)
      : problem_(problem),
        options_(options),
        compiled_(Compile(problem, options.price_seconds_per_byte)) {}

  SolveResult Run();

 private:
  void StartDual();
  DualStop RunDual();
  void Cut(const KeptStates& kept);
  void Report(const char* stage);
  std::vector<double> MessagesOfWhole() const;
  bool Closed() const;
  void Finish(DualStop stop);

  const Problem& problem_;
  const SolveOptions& options_;
  CompiledProblem compiled_;
  // The kernel: what is left of the model after cuts, with the states it kept (of the whole).
  std::unique_ptr<Model> kernel_;
  KeptStates kept_;
  std::unique_ptr<Dual> dual_;
  std::vector<double> whole_messages_;  // as of the first cut; empty before it
  double lower_ = -kInfinity;
  SolveResult result_;
};

bool Solver::Closed() const {
  return dual_->upper() - lower_ <= options_.relative_tolerance * std::abs(dual_->upper());
}

void Solver::Report(const char* stage) {
  if (!options_.progress) return;
  Progress progress;
  progress.stage = stage;
  progress.steps = result_.steps;
  progress.lower_bound_seconds = lower_;
  progress.objective_seconds = dual_->upper();
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
    std::vector<double> messages(kernel_->message_size(), 0.0);
    for (size_t e = 0; e < problem_.edges().size(); ++e) {
      const Edge& edge = problem_.edges()[e];
      const int32_t l = compiled_.link_of_edge[e];
      const bool flipped = compiled_.place_of_node[edge.i] > compiled_.place_of_node[edge.j];
      const std::vector<double>& to_i = options_.start_messages->to[2 * e + (flipped ? 1 : 0)];
      const std::vector<double>& to_j = options_.start_messages->to[2 * e + (flipped ? 0 : 1)];
      double* at_i = messages.data() + kernel_->message_i(l);
      double* at_j = messages.data() + kernel_->message_j(l);
      for (size_t s = 0; s < to_i.size(); ++s) at_i[s] += to_i[s];
      for (size_t s = 0; s < to_j.size(); ++s) at_j[s] += to_j[s];
    }
    dual_->SetMessages(std::move(messages));
    lower_ = dual_->lower();
  }
  if (options_.start_plan != nullptr) {
    dual_->Offer(compiled_.FromProblem(*options_.start_plan));
  }
}

// Goes on with fewer states: any plan better than the incumbent is still there, so the lower of the
// kernel's bound and the incumbent bounds the whole.
void Solver::Cut(const KeptStates& kept) {
  if (whole_messages_.empty()) whole_messages_ = dual_->messages();
  auto smaller = std::make_unique<Model>(Restrict(*kernel_, kept));
  auto dual = std::make_unique<Dual>(*smaller);
  dual->SetMessages(RestrictMessages(*kernel_, kept, dual_->messages()));
  std::vector<int32_t> plan(kernel_->size());
  for (int32_t k = 0; k < kernel_->size(); ++k) {
    const auto it = std::lower_bound(kept[k].begin(), kept[k].end(), dual_->plan()[k]);
    plan[k] = static_cast<int32_t>(it - kept[k].begin());
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

DualStop Solver::RunDual() {
  DualOptions dual_options;
  dual_options.relative_tolerance = options_.relative_tolerance;
  dual_options.incumbent = options_.incumbent_seconds;
  dual_options.cancel = options_.cancel;
  dual_options.stall = 0.0;
  double last = lower_;
  while (true) {
    const int32_t left = options_.max_sweeps - result_.steps.sweeps;
    if (left <= 0) return DualStop::kBudget;
    dual_options.max_sweeps = std::min(left, kSweepsPerRound);
    const int32_t before = dual_->sweeps();
    const DualStop stop = dual_->Run(dual_options);
    const int32_t done = dual_->sweeps() - before;
    result_.steps.sweeps += done;
    result_.steps.dual_cells += done * kernel_->Cells();
    lower_ = std::max(lower_, std::min(dual_->lower(), dual_->upper()));
    Report("dual");
    if (Closed()) return DualStop::kClosed;
    if (stop == DualStop::kDropped || stop == DualStop::kCancelled) return stop;
    if (lower_ - last < 1e-7 * std::abs(lower_)) return DualStop::kStalled;
    last = lower_;
    const KeptStates kept = FixByBound(*kernel_, *dual_);
    if (static_cast<double>(CellsAfter(*kernel_, kept)) <
        kCutWhenCellsBelow * static_cast<double>(kernel_->Cells())) {
      Cut(kept);
    }
  }
}

SolveResult Solver::Run() {
  StartDual();
  const DualStop stop = RunDual();
  Finish(stop);
  return std::move(result_);
}

void Solver::Finish(DualStop stop) {
  const std::vector<int32_t> places = Unrestrict(kept_, dual_->plan());
  result_.plan = compiled_.ToProblem(places);
  result_.seconds = ObjectiveSeconds(problem_, result_.plan);
  result_.memory_bytes = MemoryBytes(problem_, result_.plan);
  result_.objective_seconds =
      result_.seconds + options_.price_seconds_per_byte * result_.memory_bytes;
  result_.lower_bound_seconds = std::min(lower_, result_.objective_seconds);
  result_.cancelled = stop == DualStop::kCancelled;
  const bool permitted = IsPermitted(problem_, result_.plan);
  if (stop == DualStop::kDropped) {
    result_.status = SolveStatus::kDropped;
  } else if (IsForbidden(lower_)) {
    result_.status = SolveStatus::kInfeasible;
    result_.detail = "every plan has a forbidden choice";
  } else if (!permitted) {
    result_.status = SolveStatus::kNoPlan;
  } else if (result_.objective_seconds - lower_ <=
             options_.relative_tolerance * std::abs(result_.objective_seconds)) {
    result_.status = SolveStatus::kOptimal;
  } else {
    result_.status = SolveStatus::kFeasible;
  }
  if (options_.want_messages) {
    const std::vector<double>& messages =
        whole_messages_.empty() ? dual_->messages() : whole_messages_;
    const Model& whole = compiled_.model;
    result_.messages.to.resize(2 * problem_.edges().size());
    std::vector<char> given(whole.links.size(), 0);
    for (size_t e = 0; e < problem_.edges().size(); ++e) {
      const Edge& edge = problem_.edges()[e];
      const int32_t l = compiled_.link_of_edge[e];
      const bool flipped = compiled_.place_of_node[edge.i] > compiled_.place_of_node[edge.j];
      std::vector<double>& to_i = result_.messages.to[2 * e + (flipped ? 1 : 0)];
      std::vector<double>& to_j = result_.messages.to[2 * e + (flipped ? 0 : 1)];
      to_i.assign(whole.states(whole.links[l].i), 0.0);
      to_j.assign(whole.states(whole.links[l].j), 0.0);
      if (std::exchange(given[l], 1)) continue;
      std::copy_n(messages.data() + whole.message_i(l), to_i.size(), to_i.data());
      std::copy_n(messages.data() + whole.message_j(l), to_j.size(), to_j.data());
    }
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
    const std::vector<std::vector<double>>& to = options.start_messages->to;
    if (to.size() != 2 * problem.edges().size()) {
      return absl::InvalidArgumentError(absl::StrCat("start messages for ", to.size() / 2,
                                                     " edges, but the problem has ",
                                                     problem.edges().size()));
    }
    for (size_t e = 0; e < problem.edges().size(); ++e) {
      const Edge& edge = problem.edges()[e];
      if (static_cast<int32_t>(to[2 * e].size()) != problem.states(edge.i) ||
          static_cast<int32_t>(to[2 * e + 1].size()) != problem.states(edge.j)) {
        return absl::InvalidArgumentError(absl::StrCat(
            "start messages of edge ", e, " have ", to[2 * e].size(), " and ", to[2 * e + 1].size(),
            " entries for ", problem.states(edge.i), " and ", problem.states(edge.j), " states"));
      }
    }
  }
  if (problem.node_count() == 0) {
    SolveResult empty;
    empty.status = SolveStatus::kOptimal;
    return empty;
  }
  return Solver(problem, options).Run();
}

}  // namespace tandem::solver
