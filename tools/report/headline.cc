#include <algorithm>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "tools/report/markup.h"
#include "tools/report/sections.h"

namespace tandem::report {
namespace {

std::string Tile(const std::string& label, const std::string& value, const std::string& detail,
                 const char* state = "") {
  return absl::StrCat("<div class=\"tile ", state, "\"><dt>", Escaped(label), "</dt><dd>",
                      Escaped(value), "<small>", Escaped(detail), "</small></dd></div>\n");
}

std::string VerdictTile(const ReportData& data) {
  const auto it = data.summary.find("verification");
  const nlohmann::ordered_json none = nlohmann::ordered_json::object();
  const nlohmann::ordered_json& verification =
      it != data.summary.end() && it->is_object() ? *it : none;
  const std::string verdict =
      TextOr(verification, "verdict", TextOr(data.summary, "verdict", "not known"));
  const double obligations = NumberOr(verification, "obligations", -1);
  if (verdict == "proved") {
    return Tile("Verified", "proved",
                obligations >= 0 ? absl::StrCat(Count(obligations), " obligations")
                                 : "the Programs compute the training graph",
                "good");
  }
  if (verdict == "refuted") return Tile("Verified", "refuted", "do not run this plan", "bad");
  if (verdict == "unknown") return Tile("Verified", "unknown", "not every obligation was decided");
  return Tile("Verified", "not known", "tandem verify proves it");
}

}  // namespace

double StepSeconds(const ReportData& data) {
  return NumberOr(data.summary, "step_seconds", data.timeline().step_seconds);
}

std::string Section(absl::string_view id, absl::string_view title, absl::string_view body) {
  return absl::StrCat("<section id=\"", id, "\">\n<h2>", title, "</h2>\n", body, "</section>\n");
}

std::string Headline(const ReportData& data) {
  const Machine& machine = *data.machine;
  const double step = StepSeconds(data);
  const int64_t devices = data.program().mesh.Devices();
  const std::string name = Escaped(ModelName(*data.plan));
  std::string where = absl::StrCat(devices, " × ", Escaped(machine.device.name));
  if (machine.nodes > 1) absl::StrAppend(&where, " in ", Plural(machine.nodes, "node"));
  std::string out = absl::StrCat(
      "<header>\n<p class=\"eyebrow\">Tandem plan</p>\n<h1>", name, "</h1>\n<p class=\"sub\">",
      Escaped(machine.name), " · ", where, " · global batch ", data.plan->pcg.batch, " · ",
      DTypeName(data.plan->training.precision), "</p>\n<dl class=\"tiles\">\n");

  const std::string rate =
      step > 0 && data.plan->pcg.batch > 0
          ? Count(static_cast<double>(data.plan->pcg.batch) / step) + " examples/s"
          : "";
  out += Tile("Step time", Seconds(step), rate);
  const double mfu = NumberOr(data.summary, "mfu", -1);
  out += Tile("MFU", mfu >= 0 ? Percent(mfu) : "not known", "of the devices’ peak");

  int64_t peak = 0;
  for (const Timeline& t : data.timelines) peak = std::max(peak, t.memory.peak_bytes);
  const int64_t limit = machine.device.memory_bytes;
  const bool fits = limit <= 0 || peak <= limit;
  std::string of =
      limit > 0 ? absl::StrCat(Percent(static_cast<double>(peak) / static_cast<double>(limit)),
                               " of ", Bytes(static_cast<double>(limit)))
                : "per device";
  if (!fits) of += ": does not fit";
  out += Tile("Peak memory", Bytes(static_cast<double>(peak)), of, fits ? "" : "bad");

  const double search = NumberOr(data.summary, "search_seconds", -1);
  const double gap = NumberOr(data.summary, "gap", -1);
  out += Tile("Search", search >= 0 ? Seconds(search) : "not known",
              gap < 0         ? ""
              : gap < 0.00005 ? "at its lower bound"
                              : absl::StrCat("within ", Percent(gap), " of its bound"));
  return out + VerdictTile(data) + "</dl>\n</header>\n";
}

}  // namespace tandem::report
