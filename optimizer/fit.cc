#include "optimizer/fit.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <utility>

#include "absl/strings/str_cat.h"
#include "optimizer/batch_axis.h"
#include "optimizer/mesh_shapes.h"
#include "optimizer/recompute.h"
#include "pcg/autodiff/training.h"
#include "pcg/plural.h"

namespace tandem {
namespace {

constexpr int64_t kMaxMicroBatches = 64;
// Other sizes of bundles make a plan faster by no more than this.
constexpr double kMostBundleGain = 0.99;
// Numbers of micro-batches in a row that give no faster plan, before no more are tried.
constexpr int kMostFruitless = 2;
constexpr int kRecomputeRounds = 3;
constexpr double kNever = std::numeric_limits<double>::infinity();

}  // namespace

absl::StatusOr<std::optional<Evaluated>> Fitter::Fit(int form, const std::vector<AxisKind>& kinds,
                                                     const Meshes& meshes, Shortfall& shortfall) {
  return Proved([&] {
    return Search({form, kinds, RecomputableBlocks(forms_.at(form).training), shortfall}, meshes);
  });
}

absl::StatusOr<std::optional<Evaluated>> Fitter::FitLike(const Evaluated& best, int form,
                                                         const std::vector<AxisKind>& kinds,
                                                         const Meshes& meshes, double drop_factor) {
  return Proved([&]() -> absl::StatusOr<std::optional<Evaluated>> {
    Shortfall unused;
    const Task task{form, kinds, RecomputableBlocks(forms_.at(form).training), unused};
    const Saving saving{best.micro_batches, best.recomputed_blocks, best.outputs};
    absl::StatusOr<Tried> t = Try(task, saving, meshes, &best, drop_factor);
    if (!t.ok()) return t.status();
    return std::move(t->plan);
  });
}

// What the search finds, with all rows that its plan uses proved.
absl::StatusOr<std::optional<Evaluated>> Fitter::Proved(
    const std::function<absl::StatusOr<std::optional<Evaluated>>()>& search) {
  while (true) {
    absl::StatusOr<std::optional<Evaluated>> e = search();
    if (!e.ok() || !*e) return e;
    absl::StatusOr<NodeClasses> classes = ClassifyNodes((*e)->pcg, proofs_);
    if (!classes.ok()) return classes.status();
    if (proofs_.Prove(*classes, (*e)->strategy)) return e;
    Say("a split that the plan uses has no proof: again, with proved ones only");
    if (absl::Status s = forms_.Reclassify(); !s.ok()) return s;
  }
}

std::vector<int64_t> Fitter::MicroBatchCounts(const Graph& training) const {
  if (options_.micro_batches > 0) return {options_.micro_batches};
  const int64_t batch = std::max<int64_t>(training.batch, 1);
  std::vector<int64_t> counts;
  for (int64_t m = 1; m <= std::min(kMaxMicroBatches, batch); m *= 2) {
    if (batch % m == 0) counts.push_back(m);
  }
  return counts;
}

// The whole step at once if that fits. Else less is kept: first no outputs, for nobody waits for
// them; then, for more and more micro-batches, as few recomputed blocks as the memory allows,
// until nothing has to be recomputed any more or more micro-batches only cost more.
absl::StatusOr<std::optional<Evaluated>> Fitter::Search(const Task& task, const Meshes& meshes) {
  const Form& form = forms_.at(task.form);
  const int all = options_.serve ? 0 : static_cast<int>(task.blocks.size());
  std::optional<Evaluated> found;
  const Attempt attempt = [&](const Saving& saving, const Meshes& on) -> absl::StatusOr<Tried> {
    absl::StatusOr<Tried> t =
        Try(task, saving, on, found ? &*found : nullptr, LayoutSearch().drop_factor);
    if (!t.ok() || !t->plan) return t;
    const double seconds = t->plan->timeline.step_seconds;
    if (!found || seconds < found->timeline.step_seconds) found = *t->plan;
    return t;
  };
  const std::vector<int64_t> counts = MicroBatchCounts(form.training);
  Saving saving{counts[0], 0, true};
  // Without a loss the outputs are all there is.
  if (options_.may_drop_outputs && form.training.loss && !form.training.outputs.empty()) {
    absl::StatusOr<Tried> kept = attempt(saving, meshes);
    if (!kept.ok()) return kept.status();
    if (found) return found;
    saving.outputs = false;
  }
  int fruitless = 0;
  for (int64_t count : counts) {
    if (Cancelled()) break;
    const double before = found ? found->timeline.step_seconds : kNever;
    saving.micro_batches = count;
    saving.recomputed = 0;
    absl::StatusOr<Tried> none = attempt(saving, meshes);
    if (!none.ok()) return none.status();
    if (none->plan) break;
    if (none->too_large && all > 0) {
      saving.recomputed = all;
      absl::StatusOr<Tried> most = attempt(saving, meshes);
      if (!most.ok()) return most.status();
      if (most->plan) {
        if (absl::Status s = RecomputeLess(saving, *none, *most, attempt); !s.ok()) return s;
      }
    }
    if (found && found->timeline.step_seconds >= before && ++fruitless >= kMostFruitless) break;
  }
  return found;
}

// Between nothing and all recomputed: by what the two differ in first, then by halves.
absl::Status Fitter::RecomputeLess(Saving saving, const Tried& none, const Tried& most,
                                   const Attempt& attempt) const {
  const Meshes mesh = {SpatialExtents(most.plan->strategy.mesh)};
  const double beside = static_cast<double>(most.plan->timeline.memory.peak_bytes) -
                        most.plan->objective_bytes;  // what the sum does not count
  const double over = none.free_bytes + beside - static_cast<double>(limit_);
  const double saved = none.free_bytes - most.free_bytes;
  int low = 0, high = saving.recomputed;
  int next = saved > 0 ? static_cast<int>(std::ceil(high * over / saved)) : high / 2;
  for (int round = 0; round < kRecomputeRounds && high - low > 1 && !Cancelled(); ++round) {
    saving.recomputed = std::clamp(next, low + 1, high - 1);
    absl::StatusOr<Tried> t = attempt(saving, mesh);
    if (!t.ok()) return t.status();
    (t->plan ? high : low) = saving.recomputed;
    // The guess is near: try its neighbourhood before halves.
    next = round == 0 ? saving.recomputed + (t->plan ? -2 : 2) : (low + high) / 2;
  }
  return absl::OkStatus();
}

absl::StatusOr<Fitter::Tried> Fitter::Try(const Task& task, const Saving& saving,
                                          const Meshes& meshes, const Evaluated* incumbent,
                                          double drop_factor) {
  const Form& f = forms_.at(task.form);
  LayoutSearch search;
  search.drop_factor = drop_factor;
  search.machine = &machine_;
  search.memory_limit_bytes = limit_;
  search.meshes = meshes;
  search.micro_batches = saving.micro_batches;
  search.kinds = task.kinds;
  search.options = &options_;
  search.costs = &costs_;
  if (incumbent != nullptr) {
    search.incumbent_seconds = incumbent->objective_seconds;
    search.incumbent_step_seconds = incumbent->timeline.step_seconds;
  }
  Say(absl::StrCat(
      "form ", task.form, ", ", Plural(saving.micro_batches, "micro-batch"),
      task.blocks.empty()
          ? ""
          : absl::StrCat(", ", saving.recomputed, " of ",
                         Plural(static_cast<int64_t>(task.blocks.size()), "block"), " recomputed"),
      saving.outputs ? "" : ", outputs not kept"));
  std::set<int> some;
  for (int b : task.blocks) {
    if (static_cast<int>(some.size()) < saving.recomputed) some.insert(b);
  }
  absl::StatusOr<Graph> graph =
      WithRecompute(saving.outputs ? f.training : WithoutOutputs(f.training), some,
                    /*weights=*/saving.micro_batches == 1);
  if (graph.ok()) graph = WithMicroBatches(*graph, saving.micro_batches);
  if (!graph.ok()) return graph.status();
  const bool changed = !some.empty() || saving.micro_batches > 1 || !saving.outputs;
  absl::StatusOr<NodeClasses> classes = changed ? ClassifyNodes(*graph, proofs_) : f.classes;
  if (!classes.ok()) return classes.status();
  absl::StatusOr<LayoutSearchResult> r = SearchLayouts(*graph, *classes, search);
  if (!r.ok()) return r.status();
  steps_ += r->steps;
  Tried tried;
  tried.free_bytes = r->free_bytes;
  tried.too_large = r->least_bytes > limit_ || (r->best && !r->best->fits);
  if (tried.too_large) {
    const int64_t needs = r->best ? r->best->timeline.memory.peak_bytes : r->least_bytes;
    int64_t& least = task.shortfall.least_bytes;
    least = least == 0 ? needs : std::min(least, needs);
    task.shortfall.reason = absl::StrCat("needs ", r->best ? "" : "at least ", BytesText(needs),
                                         " a device, the limit is ", BytesText(limit_));
    return tried;
  }
  if (!r->best) {
    if (task.shortfall.reason.empty())
      task.shortfall.reason = r->reason;  // later attempts only save more memory
    return tried;
  }
  worth_a_look_ = r->meshes;
  Evaluated e = *std::move(r->best);
  if (e.timeline.step_seconds * kMostBundleGain < search.incumbent_step_seconds) {
    absl::StatusOr<Evaluated> bundled =
        Evaluate(*graph, e.strategy, machine_, limit_,
                 std::vector<int64_t>(kBundleChoices.begin(), kBundleChoices.end()));
    if (!bundled.ok()) return bundled.status();
    e.program = std::move(bundled->program);
    e.timeline = std::move(bundled->timeline);
    e.bundle_bytes = bundled->bundle_bytes;
  }
  e.form = task.form;
  e.recomputed_blocks = saving.recomputed;
  e.outputs = saving.outputs;
  e.bound_seconds = r->bound_seconds;
  e.pcg = *std::move(graph);
  tried.plan = std::move(e);
  return tried;
}

}  // namespace tandem
