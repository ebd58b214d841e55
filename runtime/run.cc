#include "runtime/run.h"

#include <algorithm>
#include <cmath>
#include <memory>
#include <utility>

#include "absl/strings/str_cat.h"
#include "runtime/backend.h"
#include "runtime/check.h"
#include "runtime/data.h"
#include "runtime/execution.h"
#include "runtime/sources.h"

namespace tandem {
namespace {

double MedianOfSteady(std::vector<double> seconds) {
  if (seconds.size() > 1) seconds.erase(seconds.begin());
  std::sort(seconds.begin(), seconds.end());
  return seconds.empty() ? 0 : seconds[seconds.size() / 2];
}

// What a CPU computes in for a plan of this precision.
absl::StatusOr<DType> ExecutedType(const Plan& plan, const RunOptions& options, bool compares,
                                   std::vector<std::string>& notes) {
  if (compares) {
    if (options.dtype && *options.dtype != DType::kF64) {
      notes.push_back(absl::StrCat("compared in fp64, not ", DTypeName(*options.dtype),
                                   ": differences are then the plan's, not rounding"));
    }
    return DType::kF64;
  }
  const DType wanted = options.dtype.value_or(plan.training.precision);
  switch (wanted) {
    case DType::kF64:
    case DType::kF32:
      return wanted;
    case DType::kTF32:
    case DType::kBF16:
    case DType::kF16:
      notes.push_back(absl::StrCat("the plan is for ", DTypeName(wanted),
                                   "; the cpu back end computes it in fp32"));
      return DType::kF32;
    default:
      return absl::InvalidArgumentError(absl::StrCat(
          "--dtype ", DTypeName(wanted), " is no type to compute in; give fp32 or fp64"));
  }
}

absl::Status CheckBackend(const std::string& name) {
  if (name == "cpu") return absl::OkStatus();
  if (name != "cuda") {
    return absl::InvalidArgumentError(
        absl::StrCat("unknown back end '", name, "'; there are cpu and cuda"));
  }
  const absl::StatusOr<std::unique_ptr<Backend>> backend = CreateCudaBackend();
  if (!backend.ok()) return backend.status();
  return absl::FailedPreconditionError(absl::StrCat(
      "the cuda back end has ", (*backend)->devices(), " devices here (", (*backend)->versions(),
      "), but this version executes Programs on the CPU only; use --backend cpu"));
}

// float32 holds whole numbers up to 2^24.
absl::Status CheckIndices(const Plan& plan, const Sources& sources, DType dtype) {
  if (dtype == DType::kF64) return absl::OkStatus();
  for (const Tensor& tensor : plan.pcg.tensors) {
    if (tensor.producer.valid() || IsFloat(tensor.dtype)) continue;
    const SourceRule& rule = sources.rule(tensor.name);
    double most = rule.kind == SourceRule::Kind::kInteger ? rule.a : 0;
    if (rule.given != nullptr) {
      for (double value : *rule.given) most = std::max(most, std::abs(value));
    }
    if (most <= 1 << 24) continue;
    return absl::InvalidArgumentError(
        absl::StrCat("'", tensor.name, "' holds numbers up to ", most,
                     ", which fp32 does not hold exactly; run with --dtype fp64"));
  }
  return absl::OkStatus();
}

absl::Status CheckRanks(const Plan& plan, int64_t ranks) {
  if (plan.programs.empty()) {
    return absl::InvalidArgumentError(
        "the plan has no Programs; make it again with `tandem optimize ... --out DIR`");
  }
  const int64_t devices = plan.programs[0].mesh.Devices();
  if (ranks == 0 || ranks == devices) return absl::OkStatus();
  return absl::InvalidArgumentError(
      absl::StrCat("the plan is for ", devices, " devices, --ranks is ", ranks, "; give --ranks ",
                   devices, " or plan again for ", ranks, " devices"));
}

}  // namespace

absl::StatusOr<RunResult> RunPlan(const Plan& plan, const RunOptions& options) {
  if (absl::Status s = CheckBackend(options.backend); !s.ok()) return s;
  if (absl::Status s = CheckRanks(plan, options.ranks); !s.ok()) return s;
  RunResult result;
  RunData data;
  if (!options.data_folder.empty()) {
    absl::StatusOr<RunData> read = ReadRunData(options.data_folder, plan.forward, plan.serial);
    if (!read.ok()) return read.status();
    data = *std::move(read);
    const bool wants_labels =
        std::any_of(plan.serial.inputs.begin(), plan.serial.inputs.end(),
                    [&](TensorId id) { return plan.serial.tensor(id).name == "labels"; });
    if (wants_labels && data.inputs.count("labels") == 0) {
      result.notes.push_back(
          absl::StrCat(options.data_folder, " has no labels.pb: labels are seeded"));
    }
  }
  absl::StatusOr<Sources> sources = Sources::Create(
      {&plan.serial, &plan.pcg}, options.seed, options.lr.value_or(plan.training.lr), data.inputs);
  if (!sources.ok()) return sources.status();
  if (sources->seeded_parameters() > 0) {
    result.notes.push_back(absl::StrCat(sources->seeded_parameters(),
                                        " parameters have no values in the plan: seeded (--seed ",
                                        options.seed, ")"));
  }
  absl::StatusOr<DType> dtype =
      ExecutedType(plan, options, options.check || !data.outputs.empty(), result.notes);
  if (!dtype.ok()) return dtype.status();
  if (absl::Status s = CheckIndices(plan, *sources, *dtype); !s.ok()) return s;
  ExecutionOptions execution;
  execution.steps = options.steps;
  execution.dtype = *dtype;
  execution.timeout_seconds = options.timeout_seconds;
  execution.keep_results = options.check || !data.outputs.empty();
  execution.record = true;
  absl::StatusOr<ExecutionResult> run = Execute(plan.pcg, plan.programs, *sources, execution);
  if (!run.ok()) return run.status();
  if (options.check) {
    absl::StatusOr<SerialRun> serial = RunSerially(plan.serial, *sources, options.steps);
    if (!serial.ok()) return serial.status();
    absl::StatusOr<Comparison> comparison = CompareWithSerial(plan.pcg, *run, *serial);
    if (!comparison.ok()) return comparison.status();
    result.max_abs_difference_from_serial = comparison->max_abs_difference;
    result.equal = comparison->equal;
    result.worst = comparison->worst;
  }
  if (!data.outputs.empty()) {
    absl::StatusOr<Comparison> comparison = CompareOutputs(plan.pcg, *run, data.outputs);
    if (!comparison.ok()) return comparison.status();
    result.outputs_max_abs_difference = comparison->max_abs_difference;
  }
  result.ranks = plan.programs[0].mesh.Devices();
  result.steps = options.steps;
  result.dtype = *dtype;
  result.losses = std::move(run->losses);
  result.step_seconds = MedianOfSteady(run->step_seconds);
  result.prepare_seconds = run->prepare_seconds;
  result.peak_bytes = *std::max_element(run->peak_bytes.begin(), run->peak_bytes.end());
  result.record = std::move(run->record);
  return result;
}

}  // namespace tandem
