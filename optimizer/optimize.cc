#include "optimizer/optimize.h"

#include <algorithm>
#include <optional>
#include <set>
#include <utility>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "optimizer/batch_axis.h"
#include "optimizer/describe.h"
#include "optimizer/fit.h"
#include "optimizer/forms.h"
#include "optimizer/mesh_shapes.h"
#include "optimizer/node_classes.h"
#include "pcg/instance/op_analysis.h"
#include "pcg/plural.h"

namespace tandem {
namespace {

// What the allocator, the libraries' workspaces and the driver keep of a device's memory.
constexpr double kUsableMemory = 0.94;
constexpr int kMostRegionTries = 24;  // forms tried one region away from the best

class Search {
 public:
  Search(const Graph& forward, const ProvedRuleSet& rules, const Machine& machine,
         const OptimizeOptions& options)
      : forward_(forward),
        machine_(machine),
        options_(options),
        limit_(options.memory_limit_bytes > 0
                   ? options.memory_limit_bytes
                   : static_cast<int64_t>(static_cast<double>(machine.device.memory_bytes) *
                                          kUsableMemory)),
        proofs_(rules),
        forms_(forward, rules, options, proofs_),
        fitter_(machine, options, limit_, proofs_, forms_) {}

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

  absl::Status Main(const std::vector<AxisKind>& kinds) {
    std::vector<std::vector<int64_t>> meshes = meshes_;
    for (int form = 0; form < forms_.size(); ++form) {
      if (Cancelled() && best_) break;
      // Other forms are cut up like the first.
      absl::StatusOr<std::optional<Evaluated>> e =
          best_ ? fitter_.FitLike(*best_, form, kinds, meshes)
                : fitter_.Fit(form, kinds, meshes, shortfall_);
      if (!e.ok()) return e.status();
      if (!*e) continue;
      (*e)->name = kinds.empty() ? "searched" : options_.force;
      if (form == 0) {
        normal_seconds_ = (*e)->timeline.step_seconds;
        if (!fitter_.worth_a_look().empty()) meshes = fitter_.worth_a_look();
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
          fitter_.FitLike(*best_, **form, kinds, {SpatialExtents(best_->strategy.mesh)},
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
      Shortfall shortfall;
      Say(absl::StrCat("baseline ", name));
      absl::StatusOr<std::optional<Evaluated>> e = fitter_.Fit(0, kinds, meshes, shortfall);
      if (!e.ok() || (!*e && shortfall.least_bytes == 0)) {
        b.reason = e.ok() ? shortfall.reason : std::string(e.status().message());
        return;
      }
      b.applicable = true;
      if (!*e) {
        b.peak_bytes = shortfall.least_bytes;
        b.reason = shortfall.reason;
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
        // What a baseline may choose from is a part of what the search may: its bound alone would
        // say nothing of the plans that it may not choose.
        if (best_ && best_->form == (*e)->form && best_->micro_batches == (*e)->micro_batches &&
            best_->recomputed_blocks == (*e)->recomputed_blocks &&
            best_->outputs == (*e)->outputs) {
          (*e)->bound_seconds = std::min((*e)->bound_seconds, best_->bound_seconds);
        }
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
    if (shortfall_.least_bytes == 0) {
      return absl::InvalidArgumentError(
          absl::StrCat("no plan for ", forward_.name, ": ", shortfall_.reason));
    }
    return absl::ResourceExhaustedError(absl::StrCat(
        "no plan for ", forward_.name, " on ", machine_.name, " fits: the smallest found needs ",
        BytesText(shortfall_.least_bytes), " a device, the limit is ", BytesText(limit_),
        ", short by ", BytesText(shortfall_.least_bytes - limit_),
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
    out.search_steps = fitter_.steps();
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
  const int64_t limit_;
  RowProofs proofs_;
  Forms forms_;
  Fitter fitter_;
  std::vector<std::vector<int64_t>> meshes_;
  std::optional<Evaluated> best_;
  std::map<std::string, Baseline> baselines_;
  Shortfall shortfall_;  // of the main search
  double normal_seconds_ = 0;
  std::vector<double> class_flops_;
};

}  // namespace

absl::StatusOr<OptimizeResult> Optimize(const Graph& forward, const ProvedRuleSet& rules,
                                        const Machine& machine, const OptimizeOptions& options) {
  return Search(forward, rules, machine, options).Run();
}

}  // namespace tandem
