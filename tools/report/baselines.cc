#include <algorithm>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "tools/report/markup.h"
#include "tools/report/sections.h"

namespace tandem::report {
namespace {

using Json = nlohmann::ordered_json;

struct Row {
  std::string name;
  double step = 0;  // 0: it cannot run
  double peak = -1;
  std::string note;
  bool ours = false;
};

std::string BaselineName(const std::string& key) {
  if (key == "data_parallel") return "Data parallel";
  if (key == "fsdp") return "FSDP (ZeRO-3)";
  if (key == "best_uniform") return "Best uniform grid";
  return key;
}

bool Flag(const Json& json, const char* key) {
  const auto it = json.find(key);
  return it != json.end() && it->is_boolean() && it->get<bool>();
}

Row RowOf(const std::string& key, const Json& baseline) {
  Row row;
  row.name = BaselineName(key);
  row.peak = NumberOr(baseline, "peak_bytes", -1);
  row.note = TextOr(baseline, "reason", "");
  if (!Flag(baseline, "applicable")) {
    row.note = absl::StrCat("not applicable", row.note.empty() ? "" : ": ", row.note);
  } else if (!Flag(baseline, "fits")) {
    row.note = absl::StrCat("does not fit the memory", row.note.empty() ? "" : "; ", row.note);
  } else {
    row.step = NumberOr(baseline, "step_seconds", 0);
  }
  return row;
}

std::string RowHtml(const Row& row, double slowest, double ours, double mfu) {
  std::string out = absl::StrCat("<tr", row.ours ? " class=\"ours\"" : "", "><th scope=\"row\">",
                                 Escaped(row.name), "</th><td class=\"wide\">");
  if (row.step > 0) {
    absl::StrAppend(&out, "<div class=\"bar\"><span class=\"", row.ours ? "fill own" : "fill",
                    "\" style=\"width:", Width(row.step, slowest), "\"></span></div>");
  }
  absl::StrAppend(
      &out, "</td><td class=\"num\">", row.step > 0 ? Seconds(row.step) : "–",
      "</td><td class=\"num\">",
      row.step > 0 && !row.ours && ours > 0 ? absl::StrFormat("%.2f×", row.step / ours) : "–",
      "</td><td class=\"num\">", row.step > 0 && mfu >= 0 ? Percent(mfu * ours / row.step) : "–",
      "</td><td class=\"num\">", row.peak >= 0 ? Bytes(row.peak) : "–", "</td><td class=\"note\">",
      Escaped(row.note), "</td></tr>\n");
  return out;
}

std::string Verdict(const std::vector<Row>& rows, double ours) {
  const Row* best = nullptr;
  for (const Row& row : rows) {
    if (row.ours || row.step <= 0) continue;
    if (best == nullptr || row.step < best->step) best = &row;
  }
  if (best == nullptr || ours <= 0) {
    return "<p>No baseline can run here: none applies and fits the memory.</p>\n";
  }
  const double factor = best->step / ours;
  const std::string name = Escaped(best->name);
  if (factor > 1.005) {
    return absl::StrFormat(
        "<p class=\"lead\"><strong>%.2f×</strong> as fast as %s, the best plan "
        "one would make by hand that fits.</p>\n",
        factor, name);
  }
  if (factor >= 0.995) {
    return absl::StrCat("<p class=\"lead\">As fast as ", name,
                        ", the best plan one would make by hand that fits.</p>\n");
  }
  return absl::StrFormat(
      "<p class=\"lead\"><strong>Slower</strong> than %s by a factor of "
      "%.2f.</p>\n",
      name, 1 / factor);
}

}  // namespace

std::string BaselinesSection(const ReportData& data) {
  const auto it = data.summary.find("baselines");
  if (it == data.summary.end() || !it->is_object() || it->empty()) {
    return Section("baselines", "Against the baselines",
                   "<p class=\"none\">This plan was made without baselines.</p>\n");
  }
  const double ours = StepSeconds(data);
  std::vector<Row> rows;
  Row own;
  own.name = "Tandem";
  own.step = ours;
  own.peak =
      NumberOr(data.summary, "peak_bytes", static_cast<double>(data.timeline().memory.peak_bytes));
  own.ours = true;
  std::vector<std::string> parts;
  std::string mesh;
  for (const MeshAxis& axis : data.program().mesh.axes) {
    if (!axis.temporal) absl::StrAppend(&mesh, mesh.empty() ? "" : " × ", axis.extent);
  }
  own.note = absl::StrCat("mesh ", mesh.empty() ? "1" : mesh, ", ",
                          Plural(data.program().mesh.MicroBatches(), "micro-batch"));
  const double recomputed = NumberOr(data.summary, "recomputed_blocks", 0);
  if (recomputed > 0) {
    absl::StrAppend(&own.note, ", ", Plural(static_cast<int64_t>(recomputed), "block"),
                    " recomputed");
  }
  rows.push_back(own);
  for (const auto& [key, baseline] : it->items()) {
    if (baseline.is_object()) rows.push_back(RowOf(key, baseline));
  }
  double slowest = 0;
  for (const Row& row : rows) slowest = std::max(slowest, row.step);
  const double mfu = NumberOr(data.summary, "mfu", -1);
  std::string out = Verdict(rows, ours);
  out +=
      "<div class=\"scroll\"><table class=\"baselines\"><thead><tr><th>Plan</th>"
      "<th class=\"wide\"><span class=\"sr\">Bar</span></th><th class=\"num\">Step</th>"
      "<th class=\"num\">Slower</th><th class=\"num\">MFU</th><th class=\"num\">Peak a "
      "device</th><th>What it is</th></tr></thead>\n<tbody>\n";
  for (const Row& row : rows) out += RowHtml(row, slowest, ours, mfu);
  out +=
      "</tbody></table></div>\n<p class=\"hint\">All through the same lowering, simulator and "
      "memory accounting.</p>\n";
  return Section("baselines", "Against the baselines", out);
}

}  // namespace tandem::report
