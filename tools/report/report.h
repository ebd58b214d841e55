// plan/report.html, one self-contained file, and plan/trace.json, which Perfetto opens.
#ifndef TANDEM_TOOLS_REPORT_REPORT_H_
#define TANDEM_TOOLS_REPORT_REPORT_H_

#include <string>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "pcg/program/plan.h"
#include "simulator/machine.h"

namespace tandem {

// `summary` is summary.json's text, with search_seconds. Same plan and summary, same page.
absl::StatusOr<std::string> ReportHtml(const Plan& plan, const Machine& machine,
                                       const std::string& summary);

// Simulates the plan's Program and writes report.html and trace.json into `directory`.
absl::Status WriteReport(const Plan& plan, const Machine& machine, const std::string& summary,
                         const std::string& directory);

}  // namespace tandem

#endif  // TANDEM_TOOLS_REPORT_REPORT_H_
