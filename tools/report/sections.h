// The sections of a report, each as HTML that needs the page's style sheet and nothing else.
#ifndef TANDEM_TOOLS_REPORT_SECTIONS_H_
#define TANDEM_TOOLS_REPORT_SECTIONS_H_

#include <string>

#include "absl/strings/string_view.h"
#include "tools/report/report_data.h"

namespace tandem::report {

std::string Headline(const ReportData& data);          // title and the figures that matter
std::string BaselinesSection(const ReportData& data);  // against the plans one would make by hand
std::string StrategySection(const ReportData& data);   // mesh axes, strategy, stored layouts
std::string TimeSection(const ReportData& data);       // by kind of kernel and collective
std::string MemorySection(const ReportData& data);     // by kind at the peak, over the step
std::string TimelineSection(const ReportData& data);   // data for timeline.js, and its controls
std::string GraphSection(const ReportData& data);      // pictures of the classes of blocks
std::string RulesSection(const ReportData& data);      // rewrites, gains, certificates, rule texts
std::string NotesSection(const ReportData& data);      // assumptions, limits

// <section id="id"><h2>title</h2>body</section>
std::string Section(absl::string_view id, absl::string_view title, absl::string_view body);

// The class of a kernel's or collective's colour: "c-gemm"; "c-other" for one without a colour.
std::string CategoryClass(const std::string& category);

// Step time of the plan as its summary says, which is what was compared with the baselines.
double StepSeconds(const ReportData& data);

}  // namespace tandem::report

#endif  // TANDEM_TOOLS_REPORT_SECTIONS_H_
