#include "tools/report/report.h"

#include <nlohmann/json.hpp>

#include "absl/strings/str_cat.h"
#include "pcg/io/file_io.h"
#include "pcg/io/record.h"
#include "tools/report/assets.h"
#include "tools/report/markup.h"
#include "tools/report/report_data.h"
#include "tools/report/sections.h"

namespace tandem {
namespace {

std::string Page(const report::ReportData& data) {
  const std::string title = report::Escaped(report::ModelName(*data.plan));
  std::string page = absl::StrCat(
      "<!doctype html>\n<html lang=\"en\">\n<head>\n<meta charset=\"utf-8\">\n"
      "<meta name=\"viewport\" content=\"width=device-width, initial-scale=1\">\n"
      "<meta name=\"color-scheme\" content=\"light dark\">\n<title>",
      title, " on ", report::Escaped(data.machine->name), " – Tandem</title>\n<style>\n",
      report::kReportCss, "</style>\n</head>\n<body>\n", report::Headline(data));
  page +=
      "<nav aria-label=\"Sections\"><a href=\"#baselines\">Baselines</a><a href=\"#strategy\">"
      "Distribution</a><a href=\"#time\">Time</a><a href=\"#memory\">Memory</a>"
      "<a href=\"#timeline\">Timeline</a><a href=\"#graph\">Graph</a><a href=\"#rules\">Rules</a>"
      "<a href=\"#notes\">Notes</a></nav>\n<main>\n";
  page += report::BaselinesSection(data);
  page += report::StrategySection(data);
  page += report::TimeSection(data);
  page += report::MemorySection(data);
  page += report::TimelineSection(data);
  page += report::GraphSection(data);
  page += report::RulesSection(data);
  page += report::NotesSection(data);
  absl::StrAppend(&page, "</main>\n<script>\n", report::kPageJs, report::kTimelineJs,
                  "</script>\n</body>\n</html>\n");
  return page;
}

}  // namespace

absl::StatusOr<std::string> ReportHtml(const Plan& plan, const Machine& machine,
                                       const std::string& summary) {
  absl::StatusOr<report::ReportData> data = report::Collect(plan, machine, summary);
  if (!data.ok()) return data.status();
  return Page(*data);
}

absl::Status WriteReport(const Plan& plan, const Machine& machine, const std::string& summary,
                         const std::string& directory) {
  absl::StatusOr<report::ReportData> data = report::Collect(plan, machine, summary);
  if (!data.ok()) return data.status();
  if (absl::Status s = CreateDirectory(directory); !s.ok()) return s;
  if (absl::Status s = WriteFileAtomically(directory + "/report.html", Page(*data)); !s.ok())
    return s;
  const std::string title =
      absl::StrCat(report::ModelName(plan), " on ", machine.name, ", one step");
  return WriteFileAtomically(directory + "/trace.json",
                             TraceJson(report::WholeRecord(*data), title));
}

}  // namespace tandem
