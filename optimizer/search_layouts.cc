#include "optimizer/search_layouts.h"

#include <algorithm>
#include <atomic>
#include <cmath>
#include <functional>
#include <limits>
#include <thread>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "absl/strings/str_join.h"
#include "optimizer/batch_axis.h"
#include "optimizer/bundles.h"
#include "optimizer/layout_problem.h"
#include "optimizer/mesh_shapes.h"
#include "optimizer/solver/memory.h"
#include "optimizer/solver/repeat.h"
#include "optimizer/solver/solve.h"
#include "pcg/plural.h"
#include "pcg/program/bundle.h"
#include "pcg/program/lower.h"
#include "simulator/program_cost.h"

namespace tandem {
namespace {

// Breaks ties between equally fast plans toward the smaller one; far below any time that matters.
constexpr double kTiePriceSecondsPerByte = 1e-16;

// The search's memory is a sum over tensors, the timeline's follows liveness. Where they differ,
// the sum's limit is moved and the problem solved again, this many times at most.
constexpr int kMemoryRounds = 4;
constexpr int kMaxMemorySolves = 8;
// Sweeps of a quick solve; most problems close in far fewer.
constexpr int32_t kQuickSweeps = 100;
// Of one elimination, a fraction of a second; what is still open then hardly ever closes with more.
constexpr int64_t kMostEliminationCells = 200'000'000;
// Gaps below this share of the cost are not worth exact elimination.
constexpr double kGapWorthRefining = 1e-4;
// Nor is a bound that much below the least cost, where no faster plan is in sight.
constexpr double kGapWorthClosing = 5e-3;
// Refinements without a faster plan before no more are tried.
constexpr int kFruitless = 2;
// Plans of two meshes whose costs and bytes agree to this are taken for one plan.
constexpr double kSameCost = 1e-4;
constexpr double kSameBytes = 1e-2;
constexpr unsigned kMostThreads = 8;

bool Better(const Evaluated& a, const Evaluated& b) {
  if (a.fits != b.fits) return a.fits;
  if (!a.fits) return a.timeline.memory.peak_bytes < b.timeline.memory.peak_bytes;
  return a.timeline.step_seconds < b.timeline.step_seconds;
}

// body(0), ..., body(count - 1) on several threads; what a body does may not depend on another's.
void ForEach(size_t count, const std::function<void(size_t)>& body) {
  std::atomic<size_t> next{0};
  const auto work = [&] {
    for (size_t i = next++; i < count; i = next++) body(i);
  };
  const size_t most =
      std::min<size_t>(std::max(std::thread::hardware_concurrency(), 1U), kMostThreads);
  std::vector<std::thread> threads;
  for (size_t t = 1; t < std::min(most, count); ++t) threads.emplace_back(work);
  work();
  for (std::thread& thread : threads) thread.join();
}

// The most bytes that a plan can have, permitted or not.
double MostBytes(const solver::Problem& problem) {
  double most = 0;
  for (const solver::Node& node : problem.nodes()) {
    if (node.memory < 0) continue;
    const std::vector<double>& bytes = problem.vectors()[static_cast<size_t>(node.memory)];
    most += *std::max_element(bytes.begin(), bytes.end());
  }
  return most;
}

// No plan needs less: what is stored is there all the time, and at the end of the forward pass what
// it hands on is there, of which a device may have no more than its share.
double LeastBytes(const LayoutProblem& layouts, const Graph& graph) {
  const auto devices = static_cast<double>(layouts.mesh.Devices());
  double least = 0;
  for (size_t v = 0; v < layouts.variables.size(); ++v) {
    const int memory = layouts.problem.nodes()[v].memory;
    if (memory < 0) continue;
    const std::vector<double>& bytes = layouts.problem.vectors()[static_cast<size_t>(memory)];
    const LayoutProblem::Variable& variable = layouts.variables[v];
    if (variable.kind != LayoutProblem::Variable::Kind::kNode) {
      least += *std::min_element(bytes.begin(), bytes.end());
    } else if (graph.node(variable.node).phase == Phase::kForward) {
      least += *std::max_element(bytes.begin(), bytes.end()) / devices;
    }
  }
  return least;
}

bool Near(double a, double b, double tolerance) {
  return std::abs(a - b) <= tolerance * std::abs(b);
}

class MeshSearch {
 public:
  MeshSearch(const Graph& graph, const NodeClasses& classes, const LayoutSearch& search)
      : graph_(graph), classes_(classes), search_(search) {}

  absl::StatusOr<LayoutSearchResult> Run() {
    if (search_.micro_batches > 1) {
      absl::StatusOr<BatchAxis> split =
          SplitBatch(graph_, classes_, search_.micro_batches, /*temporal=*/true);
      if (!split.ok()) {
        result_.reason = std::string(split.status().message());
        if (search_.options->progress) search_.options->progress(result_.reason);
        return std::move(result_);
      }
      micro_ = *std::move(split);
    }
    for (const std::vector<int64_t>& extents : search_.meshes) {
      Option option;
      option.mesh = MakeMesh(extents, search_.micro_batches);
      option.costs = &search_.costs->Of(*search_.machine, option.mesh);
      options_.push_back(std::move(option));
    }
    ForEach(options_.size(), [this](size_t i) { Prepare(options_[i]); });
    std::vector<Option*> order;
    for (Option& option : options_) {
      if (!option.status.ok()) return option.status;
      result_.steps += option.steps;
      if (option.reason.empty()) {
        order.push_back(&option);
      } else {
        result_.reason = option.reason;
        SayNone(option.mesh, option.reason);
      }
    }
    std::stable_sort(order.begin(), order.end(), [](const Option* a, const Option* b) {
      return a->free.seconds < b->free.seconds;
    });
    double least = kNever;  // meshes that cannot be used for another reason say nothing of it
    for (const Option& o : options_) {
      if (o.reason.empty() || o.least_bytes > 0) least = std::min(least, o.least_bytes);
    }
    result_.least_bytes = least < kNever ? static_cast<int64_t>(least) : 0;
    result_.free_bytes =
        order.empty() ? static_cast<double>(result_.least_bytes) : order.front()->free.memory_bytes;
    for (Option* option : order) {
      if (Cancelled()) break;
      if (absl::Status s = Judge(*option); !s.ok()) return s;
    }
    if (absl::Status s = Refine(order); !s.ok()) return s;
    for (const Option* option : order) {
      result_.bound_seconds = option == order.front()
                                  ? option->bound_seconds
                                  : std::min(result_.bound_seconds, option->bound_seconds);
    }
    result_.bound_seconds = std::max(result_.bound_seconds, 0.0);
    for (size_t i = 0; i < options_.size(); ++i) {
      const Option& option = options_[i];
      if (option.reason.empty() && option.worth_a_look) result_.meshes.push_back(search_.meshes[i]);
    }
    return std::move(result_);
  }

 private:
  // One mesh.
  struct Option {
    Mesh mesh;
    ReshardCosts* costs = nullptr;
    LayoutProblem problem;
    double most_bytes = 0;
    double least_bytes = 0;
    solver::SolveResult free;  // without a limit on memory
    absl::Status status;
    std::string reason;  // why the mesh cannot be used; empty: it can
    int64_t steps = 0;
    double bound_seconds = 0;
    // Of the best plan simulated; infinite when none was.
    double seconds = kNever;
    double step_seconds = kNever;
    bool refined = false;
    bool worth_a_look = true;
  };

  struct Solution {
    solver::Plan plan;
    double seconds = 0;
    double memory_bytes = 0;
    double bound_seconds = 0;
    bool dropped = false;
  };

  bool Cancelled() const { return search_.options->cancel != nullptr && *search_.options->cancel; }

  static solver::SolveOptions Effort(const LayoutSearch& search, bool exact) {
    solver::SolveOptions options;
    options.price_seconds_per_byte = kTiePriceSecondsPerByte;
    options.cancel = search.options->cancel;
    options.exact = exact;
    options.max_elimination_cells = kMostEliminationCells;
    if (!exact) {
      options.max_sweeps = kQuickSweeps;
      options.window_blocks = 0;
    }
    return options;
  }

  // The bound on seconds alone: no plan pays more for its bytes than the one with the most.
  static double BoundSeconds(const Option& option, const solver::SolveResult& solved) {
    return solved.lower_bound_seconds - kTiePriceSecondsPerByte * option.most_bytes;
  }

  // The mesh's problem and its quick solution. Touches nothing but `option`.
  void Prepare(Option& option) const {
    LayoutRestrictions restrictions;
    if (!search_.kinds.empty()) {
      absl::StatusOr<LayoutRestrictions> r = Restrict(graph_, classes_, option.mesh, search_.kinds);
      if (!r.ok()) {
        option.reason = std::string(r.status().message());
        return;
      }
      restrictions = *std::move(r);
    }
    absl::StatusOr<LayoutProblem> problem = BuildLayoutProblem(
        graph_, classes_, *search_.machine, option.mesh, *option.costs, micro_, restrictions);
    if (!problem.ok()) {
      option.reason = std::string(problem.status().message());
      return;
    }
    option.problem = *std::move(problem);
    option.most_bytes = MostBytes(option.problem.problem);
    option.least_bytes = LeastBytes(option.problem, graph_);
    if (option.least_bytes > static_cast<double>(search_.memory_limit_bytes)) {
      option.reason = absl::StrCat("every layout needs at least ",
                                   BytesText(static_cast<int64_t>(option.least_bytes)));
      return;
    }
    solver::SolveOptions effort = Effort(search_, /*exact=*/false);
    effort.incumbent_seconds = search_.drop_factor * search_.incumbent_seconds;
    effort.want_messages = !solver::Repeats(option.problem.problem);
    // With elimination only where message passing finds no plan at all.
    for (bool exact : {false, true}) {
      effort.exact = exact;
      absl::StatusOr<solver::SolveResult> free =
          solver::SolveRepeated(option.problem.problem, effort);
      if (!free.ok()) {
        option.status = free.status();
        return;
      }
      option.free = *std::move(free);
      option.steps += option.free.steps.sweeps;
      if (option.free.status != solver::SolveStatus::kNoPlan) break;
    }
    option.bound_seconds = BoundSeconds(option, option.free);
    if (option.free.status != solver::SolveStatus::kDropped &&
        !solver::IsPermitted(option.problem.problem, option.free.plan)) {
      option.reason = absl::StrCat("no layout of mesh ", MeshName(option.mesh), " is permitted");
    }
  }

  // What a mesh must beat to be worth a look.
  double Incumbent() const {
    double incumbent = search_.incumbent_seconds;
    if (result_.best && result_.best->fits) {
      incumbent = std::min(incumbent, result_.best->objective_seconds);
    }
    return search_.drop_factor * incumbent;
  }

  // The free plan if it is small enough, else the fastest within the limit, else the smallest.
  absl::StatusOr<Solution> Solve(Option& option, double limit, bool exact) {
    if (!exact && (option.free.memory_bytes <= limit || limit <= 0)) {
      return Solution{option.free.plan, option.free.seconds, option.free.memory_bytes,
                      option.bound_seconds};
    }
    const solver::Problem& problem = option.problem.problem;
    solver::MemoryOptions within;
    within.solve = Effort(search_, exact);
    within.solve.incumbent_seconds = Incumbent();
    within.max_solves = kMaxMemorySolves;
    within.free_price_seconds_per_byte = kTiePriceSecondsPerByte;
    solver::SolveResult free;
    if (exact) {
      absl::StatusOr<solver::SolveResult> solved =
          solver::SolveRepeated(problem, Effort(search_, true));
      if (!solved.ok()) return solved.status();
      free = *std::move(solved);
      result_.steps += free.steps.sweeps;
      option.bound_seconds = std::max(option.bound_seconds, BoundSeconds(option, free));
      if (free.memory_bytes <= limit || limit <= 0) {
        return Solution{free.plan, free.seconds, free.memory_bytes, option.bound_seconds};
      }
    }
    within.free = exact ? &free : &option.free;
    absl::StatusOr<solver::MemoryResult> m = solver::SolveWithinMemory(problem, limit, within);
    if (!m.ok()) return m.status();
    result_.steps += m->steps.sweeps - within.free->steps.sweeps;
    return Solution{std::move(m->plan), m->seconds, m->memory_bytes,
                    std::max(option.bound_seconds, m->lower_bound_seconds),
                    m->status == solver::MemoryStatus::kDropped};
  }

  absl::Status Judge(Option& option) {
    const double limit = static_cast<double>(search_.memory_limit_bytes);
    if (option.bound_seconds > Incumbent()) {
      option.worth_a_look = false;
      return absl::OkStatus();
    }
    const bool free = option.free.memory_bytes <= limit;
    for (const Option& other : options_) {
      // Where the limit matters, the plan within it must be known to be good.
      const bool settled =
          free ? other.seconds == other.free.seconds : Gap(other) < kGapWorthClosing;
      if (other.step_seconds < kNever && settled &&
          Near(option.free.seconds, other.free.seconds, kSameCost) &&
          (!free || Near(option.free.memory_bytes, other.free.memory_bytes, kSameBytes))) {
        option.seconds = free ? option.free.seconds : other.seconds;
        option.step_seconds = other.step_seconds;
        option.worth_a_look = false;
        return absl::OkStatus();
      }
    }
    return SolveAndSimulate(option, /*exact=*/false);
  }

  absl::Status SolveAndSimulate(Option& option, bool exact) {
    double limit = static_cast<double>(search_.memory_limit_bytes);
    for (int round = 0; round < kMemoryRounds; ++round) {
      absl::StatusOr<Solution> solved = Solve(option, limit, exact);
      if (!solved.ok()) return solved.status();
      if (round == 0) option.bound_seconds = solved->bound_seconds;
      if (solved->dropped) return absl::OkStatus();
      if (!solver::IsPermitted(option.problem.problem, solved->plan)) {
        result_.reason = absl::StrCat("no layout of mesh ", MeshName(option.mesh), " is permitted");
        return absl::OkStatus();
      }
      if (exact && !(solved->seconds < option.seconds)) return absl::OkStatus();
      // Of plans over the limit only the one that needs least is of interest.
      if (solved->memory_bytes > limit && solved->memory_bytes >= least_over_bytes_) {
        return absl::OkStatus();
      }
      absl::StatusOr<Evaluated> e =
          Evaluate(graph_, option.problem.ToStrategy(graph_, solved->plan), *search_.machine,
                   search_.memory_limit_bytes);
      if (!e.ok()) {
        result_.reason = std::string(e.status().message());
        SayNone(option.mesh, result_.reason);
        return absl::OkStatus();
      }
      e->objective_seconds = solved->seconds;
      e->bound_seconds = solved->bound_seconds;
      e->objective_bytes = solved->memory_bytes;
      const int64_t over = e->timeline.memory.peak_bytes - search_.memory_limit_bytes;
      Report(option.mesh, *e);
      const bool fits = e->fits;
      const bool reachable = solved->memory_bytes <= limit;
      if (fits) {
        option.seconds = solved->seconds;
        option.step_seconds = std::min(option.step_seconds, e->timeline.step_seconds);
      }
      if (!reachable) least_over_bytes_ = std::min(least_over_bytes_, solved->memory_bytes);
      Keep(*std::move(e));
      if (fits || !reachable) break;
      limit = std::min(limit, solved->memory_bytes) - 1.02 * static_cast<double>(over);
      if (limit <= 0) break;
    }
    return absl::OkStatus();
  }

  // Exact elimination for meshes where it could give a faster plan than the best, and then for
  // those that keep the bound below the least cost.
  absl::Status Refine(const std::vector<Option*>& order) {
    int fruitless = 0;
    while (!Cancelled() && result_.best && result_.best->fits) {
      const double before = result_.best->timeline.step_seconds;
      Option* chosen = nullptr;
      double least = std::min(before, search_.incumbent_step_seconds);
      for (Option* option : order) {
        if (fruitless >= kFruitless || !Refinable(*option) || Gap(*option) < kGapWorthRefining)
          continue;
        const double hope = option->step_seconds * (1 - Gap(*option));
        if (hope < least) {
          least = hope;
          chosen = option;
        }
      }
      const bool wins = before < search_.incumbent_step_seconds;
      if (chosen == nullptr && wins) chosen = LowestBound(order);
      if (chosen == nullptr) break;
      chosen->refined = true;
      if (absl::Status s = SolveAndSimulate(*chosen, /*exact=*/true); !s.ok()) return s;
      if (result_.best->timeline.step_seconds >= before) ++fruitless;
    }
    return absl::OkStatus();
  }

  // The mesh with the least bound, if refining it can raise the bound of all.
  static Option* LowestBound(const std::vector<Option*>& order) {
    Option* lowest = nullptr;
    double least_cost = kNever;
    for (Option* option : order) {
      if (lowest == nullptr || option->bound_seconds < lowest->bound_seconds) lowest = option;
      least_cost = std::min(least_cost, option->seconds);
    }
    if (lowest == nullptr || !Refinable(*lowest)) return nullptr;
    return lowest->bound_seconds < least_cost * (1 - kGapWorthClosing) ? lowest : nullptr;
  }

  // What a limit on memory leaves open is not closed by elimination.
  static bool Refinable(const Option& option) {
    return !option.refined && option.step_seconds < kNever && option.free.gap() > kGapWorthRefining;
  }

  static double Gap(const Option& option) {
    return (option.seconds - option.bound_seconds) / option.seconds;
  }

  static std::string MeshName(const Mesh& mesh) {
    std::vector<int64_t> extents;
    for (const MeshAxis& a : mesh.axes) extents.push_back(a.extent);
    return absl::StrJoin(extents, "x");
  }

  void SayNone(const Mesh& mesh, const std::string& reason) const {
    if (!search_.options->progress) return;
    search_.options->progress(absl::StrFormat("mesh %-10s none: %s", MeshName(mesh), reason));
  }

  void Report(const Mesh& mesh, const Evaluated& e) const {
    if (!search_.options->progress) return;
    search_.options->progress(absl::StrFormat(
        "mesh %-10s step %8.2f ms  cost %8.2f ms  bound %8.2f ms  memory %10s%s", MeshName(mesh),
        e.timeline.step_seconds * 1e3, e.objective_seconds * 1e3, e.bound_seconds * 1e3,
        BytesText(e.timeline.memory.peak_bytes), e.fits ? "" : " (over the limit)"));
  }

  void Keep(Evaluated e) {
    if (!result_.best || Better(e, *result_.best)) result_.best = std::move(e);
  }

  static constexpr double kNever = std::numeric_limits<double>::infinity();

  const Graph& graph_;
  const NodeClasses& classes_;
  const LayoutSearch& search_;
  std::optional<BatchAxis> micro_;
  std::vector<Option> options_;
  double least_over_bytes_ = kNever;  // by the sum, of the plans over the limit
  LayoutSearchResult result_;
};

}  // namespace

absl::StatusOr<Evaluated> Evaluate(const Graph& graph, Strategy strategy, const Machine& machine,
                                   int64_t memory_limit_bytes,
                                   const std::vector<int64_t>& bundles) {
  Evaluated out;
  const StepPricer pricer(machine, strategy.mesh);
  absl::StatusOr<Program> program = Lower(graph, strategy, pricer.AsStepCost());
  if (!program.ok()) return program.status();
  out.micro_batches = strategy.mesh.MicroBatches();
  out.strategy = std::move(strategy);
  out.bundle_bytes = -1;
  const auto consider = [&](int64_t bundle_bytes) -> absl::Status {
    Evaluated next;
    next.program = Bundled(*program, bundle_bytes);
    if (out.bundle_bytes >= 0 && next.program == out.program) return absl::OkStatus();
    absl::StatusOr<Timeline> timeline = SimulateProgram(graph, next.program, machine);
    if (!timeline.ok()) return timeline.status();
    next.timeline = *std::move(timeline);
    next.fits = next.timeline.memory.peak_bytes <= memory_limit_bytes;
    if (out.bundle_bytes >= 0 && !Better(next, out)) return absl::OkStatus();
    out.program = std::move(next.program);
    out.timeline = std::move(next.timeline);
    out.fits = next.fits;
    out.bundle_bytes = bundle_bytes;
    return absl::OkStatus();
  };
  for (int64_t bundle_bytes : bundles) {
    if (absl::Status s = consider(bundle_bytes); !s.ok()) return s;
  }
  if (!out.fits) {  // a bundle is held until it is whole
    if (absl::Status s = consider(0); !s.ok()) return s;
  }
  return out;
}

absl::StatusOr<LayoutSearchResult> SearchLayouts(const Graph& graph, const NodeClasses& classes,
                                                 const LayoutSearch& search) {
  return MeshSearch(graph, classes, search).Run();
}

}  // namespace tandem
