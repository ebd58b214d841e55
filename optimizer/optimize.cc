#include "optimizer/optimize.h"

#include <algorithm>
#include <cmath>
#include <iterator>
#include <limits>
#include <optional>
#include <set>
#include <utility>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "optimizer/batch_axis.h"
#include "optimizer/describe.h"
#include "optimizer/forms.h"
#include "optimizer/mesh_shapes.h"
#include "optimizer/node_classes.h"
#include "optimizer/recompute.h"
#include "optimizer/search_layouts.h"
#include "pcg/autodiff/training.h"
#include "pcg/instance/op_analysis.h"
#include "pcg/plural.h"

namespace tandem {
namespace {

// What the allocator, the libraries' workspaces and the driver keep of a device's memory.
constexpr double kUsableMemory = 0.94;
constexpr int64_t kMaxMicroBatches = 64;
// Other sizes of bundles make a plan faster by no more than this.
constexpr double kMostBundleGain = 0.99;
// Numbers of micro-batches in a row that give no faster plan, before no more are tried.
constexpr int kMostFruitless = 2;
constexpr int kRecomputeRounds = 3;
constexpr double kNever = std::numeric_limits<double>::infinity();
constexpr int kMostRegionTries = 24;  // forms tried one region away from the best

// How a step is cut up to save memory.
struct Saving {
  int64_t micro_batches = 1;
  int recomputed = 0;  // the first so many recomputable blocks
  bool outputs = true;
};

// In the largest unit, up to GiB, of which there is at least one.
std::string BytesText(int64_t bytes) {
  const char* const kUnits[] = {"KiB", "MiB", "GiB"};
  size_t unit = 0;
  double value = static_cast<double>(bytes) / 1024;
  while (unit + 1 < std::size(kUnits) && value >= 1024) {
    value /= 1024;
    ++unit;
  }
  return absl::StrFormat("%.2f %s", value, kUnits[unit]);
}

std::vector<int64_t> SpatialExtents(const Mesh& mesh) {
  std::vector<int64_t> extents;
  for (const MeshAxis& axis : mesh.axes) {
    if (!axis.temporal) extents.push_back(axis.extent);
  }
  return extents;
}

// What one way to cut up a step came to.
struct Tried {
  std::optional<Evaluated> plan;  // one that fits
  bool too_large = false;         // there are plans, and none fits
  double free_bytes = 0;          // of the fastest layouts, by the search's own sum
};

Saving SavingOf(const Evaluated& e) { return {e.micro_batches, e.recomputed_blocks, e.outputs}; }

class Search {
 public:
  Search(const Graph& forward, const ProvedRuleSet& rules, const Machine& machine,
         const OptimizeOptions& options)
      : forward_(forward),
        machine_(machine),
        options_(options),
        proofs_(rules),
        forms_(forward, rules, options, proofs_) {
    limit_ = options.memory_limit_bytes > 0
                 ? options.memory_limit_bytes
                 : static_cast<int64_t>(static_cast<double>(machine.device.memory_bytes) *
                                        kUsableMemory);
  }

  absl::StatusOr<OptimizeResult> Run() {
    if (absl::Status s = forms_.Make(); !s.ok()) return s;
    meshes_ = options_.mesh.empty()
                  ? MeshShapes(machine_.devices, machine_.devices_per_node, options_.max_axes)
                  : std::vector<std::vector<int64_t>>{options_.mesh};
    std::vector<AxisKind> kinds;
    if (absl::Status s = Kinds(options_.force, kinds); !s.ok()) return s;
    if (absl::Status s = Main(kinds); !s.ok()) return s;
    if (absl::Status s = Regions(kinds); !s.ok()) return s;
    if (options_.baselines) Baselines();
    if (!best_) return NothingFits();
    return Finish();
  }

 private:
  void Say(const std::string& line) const {
    if (options_.progress) options_.progress(line);
  }

  absl::Status Kinds(const std::string& force, std::vector<AxisKind>& kinds) {
    if (force == "none") return absl::OkStatus();
    auto one_axis = [&] {
      if (options_.mesh.empty()) meshes_ = {{machine_.devices}};
    };
    if (force == "data") {
      kinds = std::vector<AxisKind>(3, AxisKind::kData);
      one_axis();
    } else if (force == "fsdp") {
      kinds = std::vector<AxisKind>(3, AxisKind::kSharded);
      one_axis();
    } else if (force == "tensor") {
      kinds = std::vector<AxisKind>(3, AxisKind::kTensor);
      one_axis();
    } else if (force == "sequence") {
      kinds = std::vector<AxisKind>(3, AxisKind::kSequence);
      one_axis();
    } else if (force == "mixed") {
      kinds = {AxisKind::kData, AxisKind::kTensor, AxisKind::kTensor};
      if (options_.mesh.empty()) {
        std::vector<std::vector<int64_t>> two;
        for (const auto& m : MeshShapes(machine_.devices, machine_.devices_per_node, 2)) {
          if (m.size() == 2) two.push_back(m);
        }
        meshes_ = two.empty() ? std::vector<std::vector<int64_t>>{{machine_.devices}} : two;
      }
    } else {
      return absl::InvalidArgumentError(
          absl::StrCat("unknown kind of parallelism '", force,
                       "'; one of none, data, fsdp, tensor, sequence, mixed"));
    }
    return absl::OkStatus();
  }

  // --- search ------------------------------------------------------------------------------------

  using Attempt = std::function<absl::StatusOr<std::optional<Evaluated>>()>;

  // What the attempt finds, with all rows that its plan uses proved.
  absl::StatusOr<std::optional<Evaluated>> Proved(const Attempt& attempt) {
    while (true) {
      absl::StatusOr<std::optional<Evaluated>> e = attempt();
      if (!e.ok() || !*e) return e;
      absl::StatusOr<NodeClasses> classes = ClassifyNodes((*e)->pcg, proofs_);
      if (!classes.ok()) return classes.status();
      if (proofs_.Prove(*classes, (*e)->strategy)) return e;
      Say("a split that the plan uses has no proof: again, with proved ones only");
      if (absl::Status s = forms_.Reclassify(); !s.ok()) return s;
    }
  }

  absl::StatusOr<std::optional<Evaluated>> FitProved(
      int form, const std::vector<AxisKind>& kinds, const std::vector<std::vector<int64_t>>& meshes,
      const Evaluated* incumbent, std::string& reason, int64_t& least_bytes) {
    return Proved([&] { return Fit(form, kinds, meshes, incumbent, reason, least_bytes); });
  }

  // Another form of what `best` is the best plan of, cut up in the same way.
  absl::StatusOr<std::optional<Evaluated>> TryProved(
      int form, const Saving& saving, const std::vector<AxisKind>& kinds,
      const std::vector<std::vector<int64_t>>& meshes, const Evaluated& best,
      double drop_factor = LayoutSearch().drop_factor) {
    const std::set<int> blocks = RecomputableBlocks(forms_.at(form).training);
    std::string reason;
    int64_t least_bytes = 0;
    return Proved([&]() -> absl::StatusOr<std::optional<Evaluated>> {
      absl::StatusOr<Tried> t =
          Try(form, saving, blocks, kinds, meshes, &best, reason, least_bytes, drop_factor);
      if (!t.ok()) return t.status();
      return std::move(t->plan);
    });
  }

  std::vector<int64_t> MicroBatchCounts(const Graph& training) const {
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
  absl::StatusOr<std::optional<Evaluated>> Fit(int form, const std::vector<AxisKind>& kinds,
                                               const std::vector<std::vector<int64_t>>& meshes,
                                               const Evaluated* incumbent, std::string& reason,
                                               int64_t& least_bytes) {
    const Form& f = forms_.at(form);
    const std::set<int> blocks = RecomputableBlocks(f.training);
    const int all = options_.serve ? 0 : static_cast<int>(blocks.size());
    std::optional<Evaluated> found;
    const auto attempt = [&](const Saving& saving,
                             const std::vector<std::vector<int64_t>>& on) -> absl::StatusOr<Tried> {
      absl::StatusOr<Tried> t =
          Try(form, saving, blocks, kinds, on, found ? &*found : incumbent, reason, least_bytes);
      if (!t.ok() || !t->plan) return t;
      const double seconds = t->plan->timeline.step_seconds;
      if (!found || seconds < found->timeline.step_seconds) found = *t->plan;
      return t;
    };
    const std::vector<int64_t> counts = MicroBatchCounts(f.training);
    Saving saving{counts[0], 0, true};
    if (options_.may_drop_outputs && !options_.serve && !f.training.outputs.empty()) {
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
  template <typename Attempt>
  absl::Status RecomputeLess(Saving saving, const Tried& none, const Tried& most,
                             const Attempt& attempt) {
    const std::vector<std::vector<int64_t>> mesh = {SpatialExtents(most.plan->strategy.mesh)};
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

  absl::StatusOr<Tried> Try(int form, const Saving& saving, const std::set<int>& blocks,
                            const std::vector<AxisKind>& kinds,
                            const std::vector<std::vector<int64_t>>& meshes,
                            const Evaluated* incumbent, std::string& reason, int64_t& least_bytes,
                            double drop_factor = LayoutSearch().drop_factor) {
    const Form& f = forms_.at(form);
    LayoutSearch search;
    search.drop_factor = drop_factor;
    search.machine = &machine_;
    search.memory_limit_bytes = limit_;
    search.meshes = meshes;
    search.micro_batches = saving.micro_batches;
    search.kinds = kinds;
    search.options = &options_;
    search.costs = &costs_;
    if (incumbent != nullptr) {
      search.incumbent_seconds = incumbent->objective_seconds;
      search.incumbent_step_seconds = incumbent->timeline.step_seconds;
    }
    Say(absl::StrFormat("form %d, %d micro-batches, %d of %d blocks recomputed", form,
                        static_cast<int>(saving.micro_batches), saving.recomputed,
                        static_cast<int>(blocks.size())) +
        (saving.outputs ? "" : ", outputs not kept"));
    std::set<int> some;
    for (int b : blocks) {
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
      least_bytes = least_bytes == 0 ? needs : std::min(least_bytes, needs);
      reason = absl::StrCat("needs ", r->best ? "" : "at least ", BytesText(needs),
                            " a device, the limit is ", BytesText(limit_));
      return tried;
    }
    if (!r->best) {
      if (reason.empty()) reason = r->reason;  // later attempts only save more memory
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
    e.form = form;
    e.recomputed_blocks = saving.recomputed;
    e.outputs = saving.outputs;
    e.bound_seconds = r->bound_seconds;
    e.pcg = *std::move(graph);
    tried.plan = std::move(e);
    return tried;
  }

  absl::Status Main(const std::vector<AxisKind>& kinds) {
    std::vector<std::vector<int64_t>> meshes = meshes_;
    for (int form = 0; form < forms_.size(); ++form) {
      if (Cancelled() && best_) break;
      const Evaluated* incumbent = best_ ? &*best_ : nullptr;
      // Other forms are cut up like the first.
      absl::StatusOr<std::optional<Evaluated>> e =
          incumbent == nullptr ? FitProved(form, kinds, meshes, incumbent, reason_, least_bytes_)
                               : TryProved(form, SavingOf(*incumbent), kinds, meshes, *incumbent);
      if (!e.ok()) return e.status();
      if (!*e) continue;
      (*e)->name = kinds.empty() ? "searched" : options_.force;
      if (form == 0) {
        normal_seconds_ = (*e)->timeline.step_seconds;
        if (!worth_a_look_.empty()) meshes = worth_a_look_;
      }
      Offer(*std::move(*e));
    }
    return absl::OkStatus();
  }

  // Regions of the best form, one after the other, are rewritten or left as they were, on its mesh
  // and with its micro-batches, while that makes the plan faster.
  absl::Status Regions(const std::vector<AxisKind>& kinds) {
    if (!best_) return absl::OkStatus();
    int unchanged = 0;
    for (int tries = 0; unchanged < forms_.regions() && tries < kMostRegionTries; ++tries) {
      if (Cancelled()) break;
      const int region = tries % forms_.regions();
      ++unchanged;
      absl::StatusOr<std::optional<int>> form = forms_.With(best_->form, region);
      if (!form.ok()) return form.status();
      if (!*form) continue;
      Say(absl::StrCat("form ", **form, ": ", forms_.Describe(region),
                       forms_.at(**form).regions.count(region) > 0 ? " as well" : " no longer"));
      // What is not cheaper by the search's own cost is not looked at.
      absl::StatusOr<std::optional<Evaluated>> e =
          TryProved(**form, SavingOf(*best_), kinds, {SpatialExtents(best_->strategy.mesh)}, *best_,
                    /*drop_factor=*/1.0);
      if (!e.ok()) return e.status();
      if (!*e || (*e)->timeline.step_seconds >= best_->timeline.step_seconds) continue;
      (*e)->name = best_->name;
      best_ = *std::move(*e);
      unchanged = 0;
    }
    return absl::OkStatus();
  }

  void Offer(Evaluated e) {
    if (!best_ || e.timeline.step_seconds < best_->timeline.step_seconds) best_ = std::move(e);
  }

  void Baselines() {
    const int64_t n = machine_.devices;
    auto run = [&](const std::string& name, const std::vector<AxisKind>& kinds,
                   const std::vector<std::vector<int64_t>>& meshes) {
      Baseline& b = baselines_[name];
      if (Cancelled()) {
        b.reason = "the search was interrupted";
        return;
      }
      std::string reason;
      int64_t least = 0;
      Say(absl::StrCat("baseline ", name));
      absl::StatusOr<std::optional<Evaluated>> e =
          FitProved(0, kinds, meshes, /*incumbent=*/nullptr, reason, least);
      if (!e.ok() || (!*e && least == 0)) {
        b.reason = e.ok() ? reason : std::string(e.status().message());
        return;
      }
      b.applicable = true;
      if (!*e) {
        b.peak_bytes = least;
        b.reason = reason;
        return;
      }
      b.fits = true;
      b.step_seconds = (*e)->timeline.step_seconds;
      b.peak_bytes = (*e)->timeline.memory.peak_bytes;
      const Mesh& mesh = (*e)->strategy.mesh;
      b.reason = absl::StrCat(
          "mesh ", mesh.axes[0].extent,
          mesh.axes.size() > 1 && !mesh.axes[1].temporal ? absl::StrCat(" x ", mesh.axes[1].extent)
                                                         : "",
          ", ", Plural((*e)->micro_batches, "micro-batch"),
          (*e)->recomputed_blocks == 0
              ? ""
              : absl::StrCat(", ", Plural((*e)->recomputed_blocks, "block"), " recomputed"));
      if (options_.force == "none") {
        (*e)->name = name;
        Offer(*std::move(*e));  // never worse than any baseline
      }
    };
    run("data_parallel", {AxisKind::kData}, {{n}});
    run("fsdp", {AxisKind::kSharded}, {{n}});
    std::vector<std::vector<int64_t>> grid;
    for (const auto& m : MeshShapes(n, machine_.devices_per_node, 2)) {
      if (m.size() == 2) grid.push_back(m);
    }
    grid.push_back({1, n});
    run("best_uniform", {AxisKind::kData, AxisKind::kTensor}, grid);
  }

  bool Cancelled() const { return options_.cancel != nullptr && *options_.cancel; }

  absl::Status NothingFits() const {
    if (Cancelled()) {
      return absl::CancelledError(absl::StrCat("interrupted before a plan for ", forward_.name,
                                               " was found; give the search more time"));
    }
    if (least_bytes_ == 0) {
      return absl::InvalidArgumentError(absl::StrCat("no plan for ", forward_.name, ": ", reason_));
    }
    return absl::ResourceExhaustedError(absl::StrCat(
        "no plan for ", forward_.name, " on ", machine_.name, " fits: the smallest found needs ",
        BytesText(least_bytes_), " a device, the limit is ", BytesText(limit_), ", short by ",
        BytesText(least_bytes_ - limit_),
        ". What helps: more devices (--nodes), a smaller --global-batch, a lower --precision, an "
        "optimizer with less state (--optimizer sgd), or a higher --memory-limit"));
  }

  absl::StatusOr<OptimizeResult> Finish() {
    OptimizeResult out;
    const Form& form = forms_.at(best_->form);
    out.forward = form.forward;
    out.rules = form.rules;
    if (best_->form > 0 && normal_seconds_ > 0) {
      const size_t normal = forms_.at(0).rules.size();
      const double gain = normal_seconds_ - best_->timeline.step_seconds;
      const size_t count = out.rules.size() - normal;
      for (size_t i = normal; i < out.rules.size(); ++i) {
        out.rules[i].gain_seconds = gain / static_cast<double>(count);
      }
    }
    for (const NodeClass& c : form.classes.classes) class_flops_.push_back(Flops(c));
    for (int c : form.classes.of_node) out.model_flops += class_flops_[static_cast<size_t>(c)];
    out.best = *std::move(best_);
    out.baselines = std::move(baselines_);
    out.search_steps = steps_;
    out.gap = out.best.objective_seconds > 0
                  ? std::max(0.0, (out.best.objective_seconds - out.best.bound_seconds) /
                                      out.best.objective_seconds)
                  : 0;
    out.strategy_lines = DescribeStrategy(out.best.pcg, out.best.strategy);
    const std::string collectives = DescribeCollectives(out.best.program);
    if (!collectives.empty()) out.strategy_lines.push_back(collectives);
    out.notes = Limits(out.best.pcg, out.best.strategy);
    if (!out.best.outputs) {
      out.notes.push_back(
          "the step does not give the model's outputs, which would take memory that the device has "
          "not; --outputs keep keeps them");
    }
    const int64_t batch = forward_.batch, n = machine_.devices;
    if (batch > 0 && batch % n != 0) {
      out.notes.push_back(absl::StrCat("batch ", batch, " does not divide over ", n, " devices; ",
                                       NearestThatDivide(batch, n)));
    }
    return out;
  }

  static double Flops(const NodeClass& c) {
    return AnalyzeOp(c.instance, {}, std::vector<int64_t>(c.inputs.size(), 4),
                     std::vector<int64_t>(c.outputs.size(), 4))
        .contraction_flops;
  }

  const Graph& forward_;
  const Machine& machine_;
  const OptimizeOptions& options_;
  RowProofs proofs_;
  ReshardCache costs_;
  int64_t limit_ = 0;
  Forms forms_;
  std::vector<std::vector<int64_t>> worth_a_look_;  // of the last Try that found a plan
  std::vector<std::vector<int64_t>> meshes_;
  std::optional<Evaluated> best_;
  std::map<std::string, Baseline> baselines_;
  std::string reason_;
  int64_t least_bytes_ = 0;
  int64_t steps_ = 0;
  double normal_seconds_ = 0;
  std::vector<double> class_flops_;
};

}  // namespace

absl::StatusOr<OptimizeResult> Optimize(const Graph& forward, const ProvedRuleSet& rules,
                                        const Machine& machine, const OptimizeOptions& options) {
  return Search(forward, rules, machine, options).Run();
}

}  // namespace tandem
