#include "optimizer/optimize.h"

#include <algorithm>
#include <iterator>
#include <set>
#include <utility>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "optimizer/batch_axis.h"
#include "optimizer/blocks.h"
#include "optimizer/describe.h"
#include "optimizer/mesh_shapes.h"
#include "optimizer/node_classes.h"
#include "optimizer/recompute.h"
#include "optimizer/search_layouts.h"
#include "pcg/autodiff/training.h"
#include "pcg/instance/op_analysis.h"

namespace tandem {
namespace {

// What the allocator, the libraries' workspaces and the driver keep of a device's memory.
constexpr double kUsableMemory = 0.94;
constexpr int64_t kMaxMicroBatches = 64;

// One algebraic form of the model and its training graph.
struct Form {
  Graph forward;
  Graph training;
  NodeClasses classes;
  std::vector<RuleApplication> rules;
};

// How a step is cut up to save memory.
struct Saving {
  int64_t micro_batches = 1;
  int recomputed = 0;  // the first so many recomputable blocks
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

class Search {
 public:
  Search(const Graph& forward, const ProvedRuleSet& rules, const Machine& machine,
         const OptimizeOptions& options)
      : forward_(forward), rules_(rules), machine_(machine), options_(options), proofs_(rules) {
    limit_ = options.memory_limit_bytes > 0
                 ? options.memory_limit_bytes
                 : static_cast<int64_t>(static_cast<double>(machine.device.memory_bytes) *
                                        kUsableMemory);
  }

  absl::StatusOr<OptimizeResult> Run() {
    if (absl::Status s = MakeForms(); !s.ok()) return s;
    meshes_ = options_.mesh.empty()
                  ? MeshShapes(machine_.devices, machine_.devices_per_node, options_.max_axes)
                  : std::vector<std::vector<int64_t>>{options_.mesh};
    std::vector<AxisKind> kinds;
    if (absl::Status s = Kinds(options_.force, kinds); !s.ok()) return s;
    if (absl::Status s = Main(kinds); !s.ok()) return s;
    if (options_.baselines) Baselines();
    if (!best_) return NothingFits();
    return Finish();
  }

 private:
  void Say(const std::string& line) const {
    if (options_.progress) options_.progress(line);
  }

  // --- forms -------------------------------------------------------------------------------------

  absl::Status AddForm(Graph forward, std::vector<RuleApplication> rules) {
    Form form;
    AssignBlocks(forward);
    form.forward = std::move(forward);
    form.rules = std::move(rules);
    absl::StatusOr<Graph> training = options_.serve
                                         ? WithPrecision(form.forward, options_.training.precision)
                                         : MakeTrainingGraph(form.forward, options_.training);
    if (!training.ok()) return training.status();
    form.training = *std::move(training);
    if (absl::Status s = PropagateFactors(form.training); !s.ok()) return s;
    absl::StatusOr<NodeClasses> classes = ClassifyNodes(form.training, proofs_);
    if (!classes.ok()) return classes.status();
    form.classes = *std::move(classes);
    forms_.push_back(std::move(form));
    return absl::OkStatus();
  }

  // The normal form, and one more form for each alternative rule that fires in it.
  absl::Status MakeForms() {
    absl::StatusOr<RewriteResult> normal = Normalize(forward_, rules_);
    if (!normal.ok()) return normal.status();
    Say(absl::StrFormat("%d nodes, %d after rules", static_cast<int>(forward_.nodes.size()),
                        static_cast<int>(normal->graph.nodes.size())));
    if (absl::Status s = AddForm(normal->graph, normal->applications); !s.ok()) return s;
    for (const ProvedRuleSet::Entry& entry : rules_.entries()) {
      if (entry.rule.use != RuleUse::kAlternative) continue;
      absl::StatusOr<RewriteResult> other =
          ApplyEverywhere(normal->graph, entry, rules_.commutative());
      if (!other.ok()) return other.status();
      if (other->applications.empty()) continue;
      std::vector<RuleApplication> rules = normal->applications;
      rules.insert(rules.end(), other->applications.begin(), other->applications.end());
      if (absl::Status s = AddForm(std::move(other->graph), std::move(rules)); !s.ok()) return s;
    }
    return absl::OkStatus();
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

  // Fit, and all rows that its plan uses proved.
  absl::StatusOr<std::optional<Evaluated>> FitProved(
      int form, const std::vector<AxisKind>& kinds, const std::vector<std::vector<int64_t>>& meshes,
      const Evaluated* incumbent, std::string& reason, int64_t& least_bytes) {
    while (true) {
      absl::StatusOr<std::optional<Evaluated>> e =
          Fit(form, kinds, meshes, incumbent, reason, least_bytes);
      if (!e.ok() || !*e) return e;
      absl::StatusOr<NodeClasses> classes = ClassifyNodes((*e)->pcg, proofs_);
      if (!classes.ok()) return classes.status();
      if (proofs_.Prove(*classes, (*e)->strategy)) return e;
      Say("a split that the plan uses has no proof: again, with proved ones only");
      for (Form& f : forms_) {
        absl::StatusOr<NodeClasses> again = ClassifyNodes(f.training, proofs_);
        if (!again.ok()) return again.status();
        f.classes = *std::move(again);
      }
    }
  }

  // Micro-batches and recomputation cost time, so they are tried in order of what they cost, until
  // something fits; then the next cheaper mixtures of recomputed and saved blocks.
  absl::StatusOr<std::optional<Evaluated>> Fit(int form, const std::vector<AxisKind>& kinds,
                                               const std::vector<std::vector<int64_t>>& meshes,
                                               const Evaluated* incumbent, std::string& reason,
                                               int64_t& least_bytes) {
    const Form& f = forms_[static_cast<size_t>(form)];
    const std::set<int> blocks = RecomputableBlocks(f.training);
    const int all = static_cast<int>(blocks.size());
    std::vector<Saving> savings;
    if (options_.micro_batches > 0) {
      savings = {{options_.micro_batches, 0}, {options_.micro_batches, all}};
    } else {
      const int64_t batch = std::max<int64_t>(f.training.batch, 1);
      std::vector<int64_t> counts;
      for (int64_t m = 1; m <= std::min(kMaxMicroBatches, batch); m *= 2) {
        if (batch % m == 0) counts.push_back(m);
      }
      for (size_t i = 0; i < counts.size(); ++i) {
        savings.push_back({counts[i], 0});
        if (i == 1 || (counts.size() == 1 && i == 0)) savings.push_back({1, all});
        if (i >= 1) savings.push_back({counts[i], all});
      }
    }
    std::optional<Evaluated> found;
    for (const Saving& saving : savings) {
      if (Cancelled()) break;
      if (saving.recomputed > 0 && options_.serve) continue;
      absl::StatusOr<std::optional<Evaluated>> e =
          Try(form, saving, blocks, kinds, meshes, incumbent, reason, least_bytes);
      if (!e.ok()) return e.status();
      if (!*e) continue;
      found = std::move(*e);
      // Recompute no more blocks than needed.
      if (found->recomputed_blocks > 1) {
        int low = 0, high = found->recomputed_blocks;
        std::vector<int64_t> winner;
        for (const MeshAxis& a : found->strategy.mesh.axes) {
          if (!a.temporal) winner.push_back(a.extent);
        }
        for (int round = 0; round < 3 && high - low > 1 && !Cancelled(); ++round) {
          const int mid = (low + high) / 2;
          absl::StatusOr<std::optional<Evaluated>> fewer =
              Try(form, {saving.micro_batches, mid}, blocks, kinds, {winner}, incumbent, reason,
                  least_bytes);
          if (!fewer.ok()) return fewer.status();
          if (*fewer) {
            if ((*fewer)->timeline.step_seconds < found->timeline.step_seconds) {
              found = std::move(*fewer);
            }
            high = mid;
          } else {
            low = mid;
          }
        }
      }
      break;
    }
    return found;
  }

  absl::StatusOr<std::optional<Evaluated>> Try(int form, const Saving& saving,
                                               const std::set<int>& blocks,
                                               const std::vector<AxisKind>& kinds,
                                               const std::vector<std::vector<int64_t>>& meshes,
                                               const Evaluated* incumbent, std::string& reason,
                                               int64_t& least_bytes) {
    const Form& f = forms_[static_cast<size_t>(form)];
    LayoutSearch search;
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
                        static_cast<int>(blocks.size())));
    Graph graph = f.training;
    NodeClasses classes = f.classes;
    if (saving.recomputed > 0) {
      std::set<int> some;
      for (int b : blocks) {
        if (static_cast<int>(some.size()) < saving.recomputed) some.insert(b);
      }
      absl::StatusOr<Graph> again = WithRecompute(f.training, some);
      if (!again.ok()) return again.status();
      graph = *std::move(again);
      absl::StatusOr<NodeClasses> c = ClassifyNodes(graph, proofs_);
      if (!c.ok()) return c.status();
      classes = *std::move(c);
    }
    absl::StatusOr<LayoutSearchResult> r = SearchLayouts(graph, classes, search);
    if (!r.ok()) return r.status();
    steps_ += r->steps;
    if (!r->best) {
      if (reason.empty()) reason = r->reason;  // later attempts only save more memory
      return std::optional<Evaluated>();
    }
    least_bytes = least_bytes == 0 ? r->best->timeline.memory.peak_bytes
                                   : std::min(least_bytes, r->best->timeline.memory.peak_bytes);
    if (!r->best->fits) {
      reason = absl::StrCat("needs ", BytesText(r->best->timeline.memory.peak_bytes),
                            " a device, the limit is ", BytesText(limit_));
      return std::optional<Evaluated>();
    }
    Evaluated e = *std::move(r->best);
    absl::StatusOr<Evaluated> bundled =
        Evaluate(graph, e.strategy, machine_, limit_,
                 std::vector<int64_t>(kBundleChoices.begin(), kBundleChoices.end()));
    if (!bundled.ok()) return bundled.status();
    e.program = std::move(bundled->program);
    e.timeline = std::move(bundled->timeline);
    e.bundle_bytes = bundled->bundle_bytes;
    e.form = form;
    e.recomputed_blocks = saving.recomputed;
    e.bound_seconds = r->bound_seconds;
    e.pcg = std::move(graph);
    return std::optional<Evaluated>(std::move(e));
  }

  absl::Status Main(const std::vector<AxisKind>& kinds) {
    std::vector<std::vector<int64_t>> meshes = meshes_;
    for (size_t form = 0; form < forms_.size(); ++form) {
      if (Cancelled() && best_) break;
      const Evaluated* incumbent = best_ ? &*best_ : nullptr;
      absl::StatusOr<std::optional<Evaluated>> e =
          FitProved(static_cast<int>(form), kinds, meshes, incumbent, reason_, least_bytes_);
      if (!e.ok()) return e.status();
      if (!*e) continue;
      (*e)->name = kinds.empty() ? "searched" : options_.force;
      if (form == 0) normal_seconds_ = (*e)->timeline.step_seconds;
      Offer(*std::move(*e));
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
      b.reason = absl::StrCat("mesh ", mesh.axes[0].extent,
                              mesh.axes.size() > 1 && !mesh.axes[1].temporal
                                  ? absl::StrCat(" x ", mesh.axes[1].extent)
                                  : "",
                              ", ", (*e)->micro_batches, " micro-batches, ",
                              (*e)->recomputed_blocks, " blocks recomputed");
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
    const Form& form = forms_[static_cast<size_t>(best_->form)];
    out.forward = form.forward;
    out.rules = form.rules;
    if (best_->form > 0 && normal_seconds_ > 0) {
      const size_t normal = forms_[0].rules.size();
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
  const ProvedRuleSet& rules_;
  const Machine& machine_;
  const OptimizeOptions& options_;
  RowProofs proofs_;
  ReshardCache costs_;
  int64_t limit_ = 0;
  std::vector<Form> forms_;
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
