#include <algorithm>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "tools/report/markup.h"
#include "tools/report/sections.h"

namespace tandem::report {
namespace {

constexpr size_t kMostPoints = 400;
constexpr double kChartWidth = 800, kChartHeight = 160;

// Kinds in the order in which they are stacked: what stays first.
std::vector<std::pair<std::string, int64_t>> Kinds(const MemoryReport& memory) {
  std::vector<std::pair<std::string, int64_t>> kinds;
  for (const char* kind : {"parameters", "optimizer_state", "gradients", "activations",
                           "communication", "inputs", "constants"}) {
    const auto it = memory.at_peak.find(kind);
    if (it != memory.at_peak.end() && it->second > 0) kinds.emplace_back(kind, it->second);
  }
  for (const auto& [kind, bytes] : memory.at_peak) {
    const bool known = std::any_of(kinds.begin(), kinds.end(),
                                   [&k = kind](const auto& have) { return have.first == k; });
    if (!known && bytes > 0) kinds.emplace_back(kind, bytes);
  }
  return kinds;
}

std::string KindName(std::string kind) {
  std::replace(kind.begin(), kind.end(), '_', ' ');
  return kind;
}

std::string KindClass(const std::string& kind) {
  for (const char* known : {"parameters", "optimizer_state", "gradients", "activations",
                            "communication", "inputs", "constants"}) {
    if (kind == known) return absl::StrCat("m-", known);
  }
  return "m-other";
}

std::string Bar(const MemoryReport& memory, double limit) {
  const double whole = std::max(static_cast<double>(memory.peak_bytes), limit);
  std::string out =
      "<div class=\"stack memory\" role=\"img\" aria-label=\"memory at the peak by "
      "kind; the table below has the numbers\">";
  for (const auto& [kind, bytes] : Kinds(memory)) {
    absl::StrAppend(&out, "<span class=\"", KindClass(kind),
                    "\" style=\"width:", Width(static_cast<double>(bytes), whole), "\" title=\"",
                    Escaped(KindName(kind)), " ", Bytes(static_cast<double>(bytes)), "\"></span>");
  }
  if (limit > 0) {
    absl::StrAppend(&out, "<b class=\"limit\" style=\"left:", Width(limit, whole), "\"></b>");
  }
  return out + "</div>\n";
}

std::string Table(const MemoryReport& memory) {
  std::string out =
      "<table class=\"legend\"><thead class=\"sr\"><tr><th>Kind</th><th>Bytes</th>"
      "<th>Share</th></tr></thead><tbody>\n";
  for (const auto& [kind, bytes] : Kinds(memory)) {
    absl::StrAppend(&out, "<tr><th scope=\"row\"><i class=\"key ", KindClass(kind), "\"></i>",
                    Escaped(KindName(kind)), "</th><td class=\"num\">",
                    Bytes(static_cast<double>(bytes)), "</td><td class=\"num\">",
                    Percent(static_cast<double>(bytes) /
                            static_cast<double>(std::max<int64_t>(1, memory.peak_bytes))),
                    "</td></tr>\n");
  }
  return out + "</tbody></table>\n";
}

// Live bytes over the Program, in issue order, with the device's limit where it is near.
std::string Chart(const Program& program, const MemoryReport& memory, double limit) {
  const std::vector<int64_t>& live = memory.live_bytes;
  if (live.size() < 2 || memory.peak_bytes <= 0) return "";
  const bool near_limit = limit > 0 && limit < 2.5 * static_cast<double>(memory.peak_bytes);
  const double top =
      1.04 * std::max(static_cast<double>(memory.peak_bytes), near_limit ? limit : 0);
  const size_t buckets = std::min(kMostPoints, live.size());
  const double count = static_cast<double>(live.size());
  const auto x_of = [&](double i) { return kChartWidth * i / count; };
  const auto y_of = [&](double bytes) { return kChartHeight * (1 - bytes / top); };
  std::string line;
  for (size_t k = 0; k < buckets; ++k) {
    const size_t begin = k * live.size() / buckets, end = (k + 1) * live.size() / buckets;
    int64_t most = 0;
    for (size_t i = begin; i < end; ++i) most = std::max(most, live[i]);
    const double y = y_of(static_cast<double>(most));
    absl::StrAppendFormat(&line, "L%.1f %.1fL%.1f %.1f", x_of(static_cast<double>(begin)), y,
                          x_of(static_cast<double>(end)), y);
  }
  std::string out = absl::StrFormat(
      "<svg class=\"chart\" role=\"img\" aria-label=\"bytes live over the step\" viewBox=\"0 0 "
      "%.0f "
      "%.0f\" preserveAspectRatio=\"none\">\n",
      kChartWidth, kChartHeight);
  if (program.loop_end > program.loop_begin) {
    absl::StrAppendFormat(&out,
                          "<rect class=\"loop\" x=\"%.1f\" y=\"0\" width=\"%.1f\" "
                          "height=\"%.0f\"><title>once a micro-batch</title></rect>\n",
                          x_of(program.loop_begin), x_of(program.loop_end - program.loop_begin),
                          kChartHeight);
  }
  absl::StrAppendFormat(&out, "<path class=\"area\" d=\"M0 %.0f%sL%.0f %.0fz\"/>\n", kChartHeight,
                        line, kChartWidth, kChartHeight);
  const double resident = y_of(static_cast<double>(memory.resident_bytes));
  absl::StrAppendFormat(&out, "<path class=\"resident\" d=\"M0 %.1fH%.0f\"/>\n", resident,
                        kChartWidth);
  if (near_limit) {
    absl::StrAppendFormat(&out, "<path class=\"limitline\" d=\"M0 %.1fH%.0f\"/>\n", y_of(limit),
                          kChartWidth);
  }
  absl::StrAppend(&out, "</svg>\n<p class=\"hint\">Live bytes in issue order",
                  program.loop_end > program.loop_begin
                      ? "; shaded: the part that runs once a micro-batch"
                      : "",
                  ". Dotted: parameters and states, which stay (",
                  Bytes(static_cast<double>(memory.resident_bytes)), ").",
                  near_limit ? " Red: what the device has." : "", "</p>\n");
  return out;
}

std::string PeakAt(const Program& program, const MemoryReport& memory) {
  const int at = memory.peak_instruction;
  if (at < 0 || static_cast<size_t>(at) >= program.instructions.size()) return "";
  return absl::StrCat(" It is reached at <code>",
                      Escaped(program.instructions[static_cast<size_t>(at)].name), "</code>.");
}

}  // namespace

std::string MemorySection(const ReportData& data) {
  const double limit = static_cast<double>(data.machine->device.memory_bytes);
  std::string out;
  for (size_t p = 0; p < data.timelines.size(); ++p) {
    const MemoryReport& memory = data.timelines[p].memory;
    const Program& program = data.plan->programs[p];
    if (data.timelines.size() > 1) {
      absl::StrAppend(&out, "<h3>Device class ", p, ", ",
                      Plural(static_cast<int64_t>(program.devices.size()), "device"), "</h3>\n");
    }
    const double peak = static_cast<double>(memory.peak_bytes);
    absl::StrAppend(&out, "<p>", Bytes(peak), " on each device at the peak");
    if (limit > 0 && peak <= limit) {
      absl::StrAppend(&out, ", of ", Bytes(limit), " (", Percent(peak / limit), ")");
    } else if (limit > 0) {
      absl::StrAppend(&out, ", <strong>", Bytes(peak - limit), " more than the ", Bytes(limit),
                      " it has</strong>");
    }
    absl::StrAppend(&out, ".", PeakAt(program, memory), "</p>\n", Bar(memory, limit),
                    "<div class=\"columns\"><div>", Table(memory), "</div><div>",
                    Chart(program, memory, limit), "</div></div>\n");
  }
  return Section("memory", "Memory", out);
}

}  // namespace tandem::report
