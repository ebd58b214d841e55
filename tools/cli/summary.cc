#include "tools/cli/summary.h"

#include <map>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "pcg/plural.h"
#include "simulator/program_cost.h"

namespace tandem::cli {
namespace {

struct RuleSum {
  int64_t count = 0;
  double gain = 0;
};

std::map<std::string, RuleSum> Sums(const std::vector<RuleApplication>& rules) {
  std::map<std::string, RuleSum> out;
  for (const RuleApplication& r : rules) {
    ++out[r.rule].count;
    out[r.rule].gain += r.gain_seconds;
  }
  return out;
}

}  // namespace

std::string SpeedText(double seconds, double than_seconds) {
  const std::string slower = absl::StrFormat("%.2f", seconds / than_seconds);
  if (slower == "1.00") return "as fast";
  if (seconds > than_seconds) return slower + "x slower";
  return absl::StrFormat("%.2fx faster", than_seconds / seconds);
}

double Mfu(const OptimizeResult& result, const Machine& machine, DType precision,
           double step_seconds) {
  const auto& rate = machine.device.contraction[static_cast<size_t>(PrecisionOf(precision))];
  const double peak = rate.peak_flops > 0 ? rate.peak_flops : rate.flops_per_second;
  if (step_seconds <= 0 || peak <= 0) return 0;
  return result.model_flops / (step_seconds * peak * machine.devices);
}

nlohmann::ordered_json BreakdownJson(const Breakdown& b) {
  return {{"compute", b.compute},
          {"communication_exposed", b.communication_exposed},
          {"communication_hidden", b.communication_hidden},
          {"idle", b.idle},
          {"host", b.host}};
}

nlohmann::ordered_json SummaryJson(const OptimizeResult& r, const Machine& machine,
                                   const TrainingOptions& training) {
  nlohmann::ordered_json j;
  j["devices"] = machine.devices;
  j["machine"] = machine.name;
  j["step_seconds"] = r.best.timeline.step_seconds;
  j["mfu"] = Mfu(r, machine, training.precision, r.best.timeline.step_seconds);
  j["peak_bytes"] = r.best.timeline.memory.peak_bytes;
  j["search_steps"] = r.search_steps;
  j["objective_seconds"] = r.best.objective_seconds;
  j["objective_bound_seconds"] = r.best.bound_seconds;
  j["gap"] = r.gap;
  j["plan"] = r.best.name;
  j["mesh"] = nlohmann::ordered_json::array();
  for (const MeshAxis& a : r.best.strategy.mesh.axes) {
    if (!a.temporal) j["mesh"].push_back(a.extent);
  }
  j["micro_batches"] = r.best.micro_batches;
  j["recomputed_blocks"] = r.best.recomputed_blocks;
  j["precision"] = std::string(DTypeName(training.precision));
  j["optimizer"] = training.optimizer;
  j["loss"] = training.loss;
  nlohmann::ordered_json baselines = nlohmann::ordered_json::object();
  for (const auto& [name, b] : r.baselines) {
    nlohmann::ordered_json one;
    one["applicable"] = b.applicable;
    one["reason"] = b.reason;
    one["fits"] = b.fits;
    one["step_seconds"] = b.fits ? nlohmann::ordered_json(b.step_seconds) : nullptr;
    one["peak_bytes"] = b.applicable ? nlohmann::ordered_json(b.peak_bytes) : nullptr;
    baselines[name] = one;
  }
  j["baselines"] = baselines;
  j["strategy"] = r.strategy_lines;
  j["notes"] = r.notes;
  j["rules"] = nlohmann::ordered_json::array();
  for (const auto& [name, sum] : Sums(r.rules)) {
    nlohmann::ordered_json one;
    one["name"] = name;
    one["count"] = sum.count;
    one["gain_seconds"] = sum.gain;
    j["rules"].push_back(one);
  }
  j["breakdown"] = BreakdownJson(r.best.timeline.breakdown);
  nlohmann::ordered_json memory = nlohmann::ordered_json::object();
  for (const auto& [kind, bytes] : r.best.timeline.memory.at_peak) memory[kind] = bytes;
  j["memory_at_peak"] = memory;
  return j;
}

std::string SummaryTable(const OptimizeResult& r, const Machine& machine,
                         const TrainingOptions& training) {
  std::string out =
      absl::StrFormat("%-22s %12s %8s %14s\n", "plan", "step (ms)", "MFU", "peak a device");
  auto row = [&](const std::string& name, double step, int64_t bytes, const std::string& note) {
    absl::StrAppendFormat(&out, "%-22s %12.3f %7.1f%% %14s  %s\n", name, step * 1e3,
                          100 * Mfu(r, machine, training.precision, step), BytesText(bytes), note);
  };
  std::string mesh;
  for (const MeshAxis& a : r.best.strategy.mesh.axes) {
    if (!a.temporal) absl::StrAppend(&mesh, mesh.empty() ? "" : " x ", a.extent);
  }
  row("Tandem", r.best.timeline.step_seconds, r.best.timeline.memory.peak_bytes,
      absl::StrCat(
          "mesh ", mesh, ", ", Plural(r.best.micro_batches, "micro-batch"),
          r.best.recomputed_blocks == 0
              ? ""
              : absl::StrCat(", ", Plural(r.best.recomputed_blocks, "block"), " recomputed")));
  for (const auto& [name, b] : r.baselines) {
    if (b.fits) {
      row(name, b.step_seconds, b.peak_bytes,
          absl::StrCat(SpeedText(b.step_seconds, r.best.timeline.step_seconds), "; ", b.reason));
    } else {
      absl::StrAppendFormat(&out, "%-22s %12s %8s %14s  %s\n", name, "-", "-", "-", b.reason);
    }
  }
  absl::StrAppendFormat(&out, "\nsearch: %.3f ms by its own cost, bound %.3f ms, gap %.2f%%\n",
                        r.best.objective_seconds * 1e3, r.best.bound_seconds * 1e3, 100 * r.gap);
  for (const std::string& line : r.strategy_lines) absl::StrAppend(&out, "  ", line, "\n");
  for (const std::string& line : r.notes) absl::StrAppend(&out, "note: ", line, "\n");
  if (!r.rules.empty()) {
    absl::StrAppend(&out, "rules:");
    for (const auto& [name, sum] : Sums(r.rules)) {
      absl::StrAppend(&out, " ", name, " x", sum.count);
    }
    absl::StrAppend(&out, "\n");
  }
  return out;
}

}  // namespace tandem::cli
