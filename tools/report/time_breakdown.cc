#include <algorithm>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "tools/report/markup.h"
#include "tools/report/sections.h"

namespace tandem::report {
namespace {

struct Part {
  std::string name;
  std::string css;
  double seconds = 0;
  std::string what;
};

std::string Stacked(const std::vector<Part>& parts, double whole) {
  std::string out = "<div class=\"stack\" role=\"img\" aria-label=\"";
  for (const Part& p : parts) {
    absl::StrAppend(&out, Escaped(p.name), " ", Seconds(p.seconds), "; ");
  }
  out += "\">";
  for (const Part& p : parts) {
    if (p.seconds <= 0) continue;
    absl::StrAppend(&out, "<span class=\"", p.css, "\" style=\"width:", Width(p.seconds, whole),
                    "\" title=\"", Escaped(p.name), " ", Seconds(p.seconds), "\"></span>");
  }
  return out + "</div>\n";
}

std::string Table(const std::vector<Part>& parts, double whole, const char* heading) {
  std::string out = absl::StrCat("<table class=\"legend\"><thead class=\"sr\"><tr><th>", heading,
                                 "</th><th>Time</th><th>Share</th></tr></thead><tbody>\n");
  for (const Part& p : parts) {
    absl::StrAppend(&out, "<tr><th scope=\"row\"><i class=\"key ", p.css, "\"></i>",
                    Escaped(p.name));
    if (!p.what.empty()) absl::StrAppend(&out, " <small>", Escaped(p.what), "</small>");
    absl::StrAppend(&out, "</th><td class=\"num\">", Seconds(p.seconds), "</td><td class=\"num\">",
                    whole > 0 ? Percent(p.seconds / whole) : "–", "</td></tr>\n");
  }
  return out + "</tbody></table>\n";
}

std::string Bars(const std::map<std::string, double>& by_kind, double step) {
  std::vector<Part> parts;
  for (const auto& [kind, seconds] : by_kind) {
    if (kind == "view" || seconds <= 0) continue;
    parts.push_back({kind, CategoryClass(kind), seconds, ""});
  }
  std::stable_sort(parts.begin(), parts.end(),
                   [](const Part& a, const Part& b) { return a.seconds > b.seconds; });
  if (parts.empty()) return "<p class=\"none\">None.</p>\n";
  const double longest = parts[0].seconds;
  std::string out = "<table class=\"bars\"><tbody>\n";
  for (const Part& p : parts) {
    absl::StrAppend(&out, "<tr><th scope=\"row\">", Escaped(p.name),
                    "</th><td class=\"wide\"><div class=\"bar\"><span class=\"", p.css,
                    "\" style=\"width:", Width(p.seconds, longest),
                    "\"></span></div></td><td class=\"num\">", Seconds(p.seconds),
                    "</td><td class=\"num\">", step > 0 ? Percent(p.seconds / step) : "–",
                    "</td></tr>\n");
  }
  return out + "</tbody></table>\n";
}

}  // namespace

std::string CategoryClass(const std::string& category) {
  static const char* const kKnown[] = {
      "gemm",       "conv",           "attention",   "norm",  "softmax",   "reduction",
      "pool",       "embedding",      "elementwise", "copy",  "optimizer", "all-gather",
      "all-reduce", "reduce-scatter", "all-to-all",  "slice", "unstack",   "accumulate",
      "stack",      "loop",           "launch"};
  for (const char* known : kKnown) {
    if (category == known) return absl::StrCat("c-", known);
  }
  return "c-other";
}

std::string TimeSection(const ReportData& data) {
  const Timeline& t = data.timeline();
  const Breakdown& b = t.breakdown;
  const std::vector<Part> parts = {
      {"compute", "t-compute", b.compute, "kernels run, no collective beside them"},
      {"communication, hidden", "t-hidden", b.communication_hidden, "kernels run beside it"},
      {"communication, exposed", "t-exposed", b.communication_exposed,
       "kernels wait for collectives"},
      {"launches", "t-host", b.host, "everything waits for the host"},
      {"idle", "t-idle", b.idle, ""}};
  std::string out = "<p>One step of ";
  absl::StrAppend(&out, data.timelines.size() > 1 ? "the slowest class of devices" : "each device",
                  ", by the event timeline. The five parts sum to the step.</p>\n",
                  Stacked(parts, t.step_seconds), Table(parts, t.step_seconds, "Part"));
  const double communication = b.communication_exposed + b.communication_hidden;
  out += "<div class=\"columns\"><div><h3>Kernels</h3>\n";
  out += Bars(b.compute_by_kind, t.step_seconds);
  out += "</div><div><h3>Collectives</h3>\n";
  out += Bars(b.communication_by_collective, t.step_seconds);
  if (communication > 0) {
    const std::vector<Part> split = {
        {"hidden behind compute", "t-hidden", b.communication_hidden, ""},
        {"exposed", "t-exposed", b.communication_exposed, ""}};
    absl::StrAppend(&out, "<h3>Hidden or exposed</h3>\n", Stacked(split, communication),
                    Table(split, communication, "Communication"));
  }
  out +=
      "</div></div>\n<p class=\"hint\">Kernels and collectives are listed with the time each "
      "takes alone, over all micro-batches; what overlaps slows each other, so the lists need "
      "not sum to the bar above. Shares are of the step.</p>\n";
  return Section("time", "Where the time goes", out);
}

}  // namespace tandem::report
