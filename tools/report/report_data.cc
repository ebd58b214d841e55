#include "tools/report/report_data.h"

#include <algorithm>
#include <tuple>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"

namespace tandem::report {

absl::StatusOr<ReportData> Collect(const Plan& plan, const Machine& machine,
                                   const std::string& summary) {
  if (plan.programs.empty()) {
    return absl::InvalidArgumentError(absl::StrCat(
        "the plan of model '", plan.model,
        "' has no Program, so there is nothing to report: make it again with tandem optimize"));
  }
  ReportData data;
  data.plan = &plan;
  data.machine = &machine;
  data.summary = nlohmann::ordered_json::parse(summary, nullptr, /*allow_exceptions=*/false);
  if (!data.summary.is_object()) {
    return absl::InvalidArgumentError(absl::StrCat("summary of the plan of model '", plan.model,
                                                   "': not a JSON object; make the plan again "
                                                   "with tandem optimize"));
  }
  TimelineOptions options;
  options.record = true;
  for (size_t p = 0; p < plan.programs.size(); ++p) {
    absl::StatusOr<Timeline> timeline =
        SimulateProgram(plan.pcg, plan.programs[p], machine, options);
    if (!timeline.ok()) {
      return absl::Status(timeline.status().code(),
                          absl::StrCat("plan of model '", plan.model, "', program ", p, ": ",
                                       timeline.status().message()));
    }
    data.timelines.push_back(*std::move(timeline));
    if (data.timelines[p].step_seconds > data.timelines[data.slowest].step_seconds) {
      data.slowest = p;
    }
  }
  return data;
}

Record WholeRecord(const ReportData& data) {
  Record whole;
  for (const Timeline& timeline : data.timelines) {
    const Record& record = timeline.record;
    whole.step_seconds = std::max(whole.step_seconds, record.step_seconds);
    whole.spans.insert(whole.spans.end(), record.spans.begin(), record.spans.end());
  }
  std::stable_sort(whole.spans.begin(), whole.spans.end(), [](const Span& a, const Span& b) {
    return std::tie(a.start_seconds, a.stream) < std::tie(b.start_seconds, b.stream);
  });
  return whole;
}

std::string ModelName(const Plan& plan) {
  std::string name = plan.model.substr(plan.model.find_last_of('/') + 1);
  if (name.empty()) name = plan.model.empty() ? plan.pcg.name : plan.model;
  for (const char* suffix : {".onnx", ".textproto", ".pb"}) {
    const size_t n = std::string(suffix).size();
    if (name.size() > n && name.compare(name.size() - n, n, suffix) == 0) {
      name.resize(name.size() - n);
      break;
    }
  }
  return name.empty() ? "unnamed model" : name;
}

}  // namespace tandem::report
