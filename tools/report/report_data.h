// What the sections of a report read: the plan, its summary, and the simulated step of each of its
// Programs.
#ifndef TANDEM_TOOLS_REPORT_REPORT_DATA_H_
#define TANDEM_TOOLS_REPORT_REPORT_DATA_H_

#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "pcg/program/plan.h"
#include "simulator/machine.h"
#include "simulator/timeline.h"

namespace tandem::report {

// `plan` and `machine` must outlive it.
struct ReportData {
  const Plan* plan = nullptr;
  const Machine* machine = nullptr;
  nlohmann::ordered_json summary;   // an object
  std::vector<Timeline> timelines;  // one a Program, with records
  size_t slowest = 0;               // Program whose step is the longest: the plan's step
  const Program& program() const { return plan->programs[slowest]; }
  const Timeline& timeline() const { return timelines[slowest]; }
};

// Errors: a plan without Programs, a summary that is not a JSON object, a Program that does not fit
// the graph or the machine.
absl::StatusOr<ReportData> Collect(const Plan& plan, const Machine& machine,
                                   const std::string& summary);

// The spans of all Programs, for trace.json.
Record WholeRecord(const ReportData& data);

// "mlp" of "models/mlp.onnx".
std::string ModelName(const Plan& plan);

}  // namespace tandem::report

#endif  // TANDEM_TOOLS_REPORT_REPORT_DATA_H_
