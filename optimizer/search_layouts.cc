#include "optimizer/search_layouts.h"

#include <algorithm>
#include <cmath>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "absl/strings/str_join.h"
#include "optimizer/batch_axis.h"
#include "optimizer/layout_problem.h"
#include "optimizer/mesh_shapes.h"
#include "optimizer/solver/memory.h"
#include "optimizer/solver/repeat.h"
#include "optimizer/solver/solve.h"
#include "pcg/lower.h"
#include "simulator/program_cost.h"

namespace tandem {
namespace {

// Breaks ties between equally fast plans toward the smaller one; far below any time that matters.
constexpr double kTiePriceSecondsPerByte = 1e-15;

// The search's memory is a sum over tensors, the timeline's follows liveness. Where they differ,
// the sum's limit is moved and the problem solved again, this many times at most.
constexpr int kMemoryRounds = 4;
// What overlap may gain: the timeline of a plan is not faster than its cost by more than this.
constexpr double kDropFactor = 1.25;
constexpr int kMaxMemorySolves = 8;

bool Better(const Evaluated& a, const Evaluated& b) {
  if (a.fits != b.fits) return a.fits;
  if (!a.fits) return a.timeline.memory.peak_bytes < b.timeline.memory.peak_bytes;
  return a.timeline.step_seconds < b.timeline.step_seconds;
}

class MeshSearch {
 public:
  MeshSearch(const Graph& graph, const NodeClasses& classes, const LayoutSearch& search)
      : graph_(graph), classes_(classes), search_(search) {}

  absl::StatusOr<LayoutSearchResult> Run() {
    std::optional<BatchAxis> micro;
    if (search_.micro_batches > 1) {
      absl::StatusOr<BatchAxis> split =
          SplitBatch(graph_, classes_, search_.micro_batches, /*temporal=*/true);
      if (!split.ok()) {
        result_.reason = std::string(split.status().message());
        return std::move(result_);
      }
      micro = *std::move(split);
    }
    result_.bound_seconds = -1;
    for (const std::vector<int64_t>& extents : search_.meshes) {
      if (search_.options->cancel != nullptr && *search_.options->cancel) break;
      if (absl::Status s = One(MakeMesh(extents, search_.micro_batches), micro); !s.ok()) return s;
    }
    result_.bound_seconds = std::max(result_.bound_seconds, 0.0);
    return std::move(result_);
  }

 private:
  struct Solution {
    solver::Plan plan;
    double seconds = 0;
    double memory_bytes = 0;
    double bound_seconds = 0;
    int64_t steps = 0;
    bool dropped = false;
  };

  // The fastest plan if it is small enough, else the fastest within the limit, else the smallest.
  absl::StatusOr<Solution> Solve(const solver::Problem& problem, double limit) const {
    solver::SolveOptions options;
    options.price_seconds_per_byte = kTiePriceSecondsPerByte;
    options.cancel = search_.options->cancel;
    // A mesh that cannot come near the best plan so far even by its bound is dropped at once.
    if (result_.best && result_.best->fits) {
      options.incumbent_seconds = kDropFactor * result_.best->objective_seconds;
    }
    absl::StatusOr<solver::SolveResult> free = solver::SolveRepeated(problem, options);
    if (!free.ok()) return free.status();
    Solution out{std::move(free->plan), free->seconds, free->memory_bytes,
                 free->lower_bound_seconds - kTiePriceSecondsPerByte * free->memory_bytes,
                 free->steps.sweeps};
    out.dropped = free->status == solver::SolveStatus::kDropped;
    if (out.dropped || out.memory_bytes <= limit || limit <= 0) return out;
    solver::MemoryOptions within;
    within.solve = options;
    within.max_solves = kMaxMemorySolves;
    absl::StatusOr<solver::MemoryResult> m = solver::SolveWithinMemory(problem, limit, within);
    if (!m.ok()) return m.status();
    out = {std::move(m->plan),
           m->seconds,
           m->memory_bytes,
           std::max(out.bound_seconds, m->lower_bound_seconds),
           out.steps + m->steps.sweeps,
           m->status == solver::MemoryStatus::kDropped};
    return out;
  }

  absl::Status One(const Mesh& mesh, const std::optional<BatchAxis>& micro) {
    LayoutRestrictions restrictions;
    if (!search_.kinds.empty()) {
      absl::StatusOr<LayoutRestrictions> r = Restrict(graph_, classes_, mesh, search_.kinds);
      if (!r.ok()) {
        result_.reason = std::string(r.status().message());
        return absl::OkStatus();
      }
      restrictions = *std::move(r);
    }
    absl::StatusOr<LayoutProblem> problem =
        BuildLayoutProblem(graph_, classes_, *search_.machine, mesh, micro, restrictions);
    if (!problem.ok()) {
      result_.reason = std::string(problem.status().message());
      return absl::OkStatus();
    }
    double limit = static_cast<double>(search_.memory_limit_bytes);
    for (int round = 0; round < kMemoryRounds; ++round) {
      absl::StatusOr<Solution> solved = Solve(problem->problem, limit);
      if (!solved.ok()) return solved.status();
      result_.steps += solved->steps;
      if (solved->dropped) return absl::OkStatus();
      if (!solver::IsPermitted(problem->problem, solved->plan)) {
        result_.reason = absl::StrCat("no layout of mesh ", MeshName(mesh), " is permitted");
        return absl::OkStatus();
      }
      absl::StatusOr<Evaluated> e = Evaluate(graph_, problem->ToStrategy(graph_, solved->plan),
                                             *search_.machine, search_.memory_limit_bytes);
      if (!e.ok()) {
        result_.reason = std::string(e.status().message());
        return absl::OkStatus();
      }
      e->objective_seconds = solved->seconds;
      e->bound_seconds = solved->bound_seconds;
      if (round == 0) {
        result_.bound_seconds = result_.bound_seconds < 0
                                    ? solved->bound_seconds
                                    : std::min(result_.bound_seconds, solved->bound_seconds);
      }
      const int64_t over = e->timeline.memory.peak_bytes - search_.memory_limit_bytes;
      Report(mesh, *e);
      const bool fits = e->fits;
      const bool reachable = solved->memory_bytes <= limit;
      Keep(*std::move(e));
      if (fits || !reachable) break;
      limit = std::min(limit, solved->memory_bytes) - 1.02 * static_cast<double>(over);
      if (limit <= 0) break;
    }
    return absl::OkStatus();
  }

  static std::string MeshName(const Mesh& mesh) {
    std::vector<int64_t> extents;
    for (const MeshAxis& a : mesh.axes) extents.push_back(a.extent);
    return absl::StrJoin(extents, "x");
  }

  void Report(const Mesh& mesh, const Evaluated& e) const {
    if (!search_.options->progress) return;
    search_.options->progress(absl::StrFormat(
        "mesh %-10s step %8.2f ms  cost %8.2f ms  bound %8.2f ms  memory %6.2f GiB%s",
        MeshName(mesh), e.timeline.step_seconds * 1e3, e.objective_seconds * 1e3,
        e.bound_seconds * 1e3,
        static_cast<double>(e.timeline.memory.peak_bytes) / (1024.0 * 1024 * 1024),
        e.fits ? "" : " (over the limit)"));
  }

  void Keep(Evaluated e) {
    if (!result_.best || Better(e, *result_.best)) {
      if (result_.best) result_.others.push_back(*std::move(result_.best));
      result_.best = std::move(e);
    }
  }

  const Graph& graph_;
  const NodeClasses& classes_;
  const LayoutSearch& search_;
  LayoutSearchResult result_;
};

}  // namespace

absl::StatusOr<Evaluated> Evaluate(const Graph& graph, Strategy strategy, const Machine& machine,
                                   int64_t memory_limit_bytes) {
  Evaluated out;
  const StepPricer pricer(machine, strategy.mesh);
  absl::StatusOr<Program> program = Lower(graph, strategy, pricer.AsStepCost());
  if (!program.ok()) return program.status();
  absl::StatusOr<Timeline> timeline = SimulateProgram(graph, *program, machine);
  if (!timeline.ok()) return timeline.status();
  out.micro_batches = strategy.mesh.MicroBatches();
  out.strategy = std::move(strategy);
  out.program = *std::move(program);
  out.timeline = *std::move(timeline);
  out.fits = out.timeline.memory.peak_bytes <= memory_limit_bytes;
  return out;
}

absl::StatusOr<LayoutSearchResult> SearchLayouts(const Graph& graph, const NodeClasses& classes,
                                                 const LayoutSearch& search) {
  return MeshSearch(graph, classes, search).Run();
}

}  // namespace tandem
