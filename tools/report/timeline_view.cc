#include <algorithm>
#include <cmath>
#include <map>
#include <set>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "tools/report/flow.h"
#include "tools/report/markup.h"
#include "tools/report/sections.h"

namespace tandem::report {
namespace {

using Json = nlohmann::ordered_json;

int64_t Nanoseconds(double seconds) { return std::llround(seconds * 1e9); }

// Position of a value in a list of distinct values, in order of appearance.
class Dictionary {
 public:
  int64_t At(const std::string& value) {
    const auto [it, added] = places_.emplace(value, static_cast<int64_t>(values_.size()));
    if (added) values_.push_back(value);
    return it->second;
  }
  const std::vector<std::string>& values() const { return values_; }

 private:
  std::map<std::string, int64_t> places_;
  std::vector<std::string> values_;
};

// Rows of a device: compute, communication by level, host.
int RowOf(const Span& span) {
  if (span.stream == Stream::kCompute) return 0;
  if (span.stream == Stream::kCommunication) return 1 + std::max(0, span.level);
  return 1000;
}

std::string RowName(int row, const Machine& machine) {
  if (row == 0) return "compute";
  if (row == 1000) return "host";
  const size_t level = static_cast<size_t>(row - 1);
  return level < machine.levels.size() && !machine.levels[level].name.empty()
             ? machine.levels[level].name
             : absl::StrCat("links, level ", level);
}

const char* PhaseText(const Graph& pcg, const Program& program, int instruction) {
  if (instruction < 0 || static_cast<size_t>(instruction) >= program.instructions.size()) return "";
  const NodeId node = program.instructions[static_cast<size_t>(instruction)].node;
  if (!node.valid() || node.index() >= pcg.nodes.size()) return "";
  return PhaseName(pcg.node(node).phase);
}

// Where the micro-batches lie: from the first to the last kernel of each.
Json Bands(const Program& program, const Record& record) {
  std::map<int, std::pair<int64_t, int64_t>> bands;
  for (const Span& span : record.spans) {
    const bool in_loop =
        span.instruction >= program.loop_begin && span.instruction < program.loop_end;
    if (!in_loop || span.stream != Stream::kCompute) continue;
    const int64_t start = Nanoseconds(span.start_seconds), end = Nanoseconds(span.end_seconds);
    const auto [it, added] = bands.emplace(span.micro_batch, std::make_pair(start, end));
    if (added) continue;
    it->second.first = std::min(it->second.first, start);
    it->second.second = std::max(it->second.second, end);
  }
  Json out = Json::array();
  const int64_t count = program.mesh.MicroBatches();
  for (const auto& [m, band] : bands) {
    out.push_back({{"label", absl::StrCat("micro-batch ", m + 1, " of ", count)},
                   {"start", band.first},
                   {"end", band.second}});
  }
  return out;
}

Json TimelineJson(const ReportData& data) {
  Dictionary names, categories, phases;
  Json lanes = Json::array();
  std::map<std::pair<size_t, int>, std::vector<const Span*>> rows;
  for (size_t p = 0; p < data.timelines.size(); ++p) {
    for (const Span& span : data.timelines[p].record.spans) {
      rows[{p, RowOf(span)}].push_back(&span);
    }
  }
  Json of_programs = Json::array();
  for (size_t p = 0; p < data.timelines.size(); ++p) {
    of_programs.push_back(Bands(data.plan->programs[p], data.timelines[p].record));
  }
  for (const auto& [row, spans] : rows) {
    Json lane;
    std::string name = RowName(row.second, *data.machine);
    if (data.timelines.size() > 1) name = absl::StrCat("class ", row.first, " ", name);
    lane["name"] = name;
    lane["program"] = row.first;
    lane["host"] = row.second == 1000;
    // By column; starts as differences, nanoseconds.
    Json start = Json::array(), length = Json::array(), name_of = Json::array(),
         category = Json::array(), micro = Json::array(), phase = Json::array();
    int64_t before = 0;
    for (const Span* span : spans) {
      const int64_t begin = Nanoseconds(span->start_seconds);
      start.push_back(begin - before);
      before = begin;
      length.push_back(std::max<int64_t>(0, Nanoseconds(span->end_seconds) - begin));
      name_of.push_back(names.At(span->name));
      category.push_back(categories.At(span->category));
      micro.push_back(span->micro_batch);
      phase.push_back(
          phases.At(PhaseText(data.plan->pcg, data.plan->programs[row.first], span->instruction)));
    }
    lane["start"] = std::move(start);
    lane["length"] = std::move(length);
    lane["names"] = std::move(name_of);
    lane["categories"] = std::move(category);
    lane["micro"] = std::move(micro);
    lane["phase"] = std::move(phase);
    lanes.push_back(std::move(lane));
  }
  Json out;
  out["step"] = Nanoseconds(data.timeline().step_seconds);
  out["micro_batches"] = data.program().mesh.MicroBatches();
  out["names"] = names.values();
  out["categories"] = categories.values();
  out["phases"] = phases.values();
  out["bands"] = std::move(of_programs);
  out["lanes"] = std::move(lanes);
  return out;
}

std::string Legend(const ReportData& data) {
  std::set<std::string> kernels, collectives;
  for (const Timeline& timeline : data.timelines) {
    for (const Span& span : timeline.record.spans) {
      if (span.stream == Stream::kHost) continue;
      (span.stream == Stream::kCompute ? kernels : collectives).insert(span.category);
    }
  }
  std::string out = "<p class=\"legendline\">";
  for (const auto* categories : {&kernels, &collectives}) {
    for (const std::string& category : *categories) {
      absl::StrAppend(&out, "<span><i class=\"key ", CategoryClass(category), "\"></i>",
                      Escaped(category), "</span> ");
    }
  }
  return out + "</p>\n";
}

}  // namespace

std::string TimelineSection(const ReportData& data) {
  size_t spans = 0;
  for (const Timeline& t : data.timelines) spans += t.record.spans.size();
  if (spans == 0) {
    return Section("timeline", "Timeline", "<p class=\"none\">Nothing runs in a step.</p>\n");
  }
  std::string out = absl::StrCat(
      "<p>One step, on the streams of a device. ", Count(static_cast<double>(spans)),
      " spans; the same as <code>trace.json</code>, which Perfetto opens.</p>\n"
      "<div class=\"controls\"><button type=\"button\" data-do=\"in\">Zoom in</button>"
      "<button type=\"button\" data-do=\"out\">Zoom out</button>"
      "<button type=\"button\" data-do=\"fit\">Whole step</button>"
      "<label>Find <input type=\"search\" id=\"find\" placeholder=\"name or kind\"></label>"
      "<label>Colour by <select id=\"colour\"><option value=\"kind\">kind</option>"
      "<option value=\"phase\">phase</option><option value=\"micro\">micro-batch</option></select>"
      "</label></div>\n"
      "<div class=\"timeline\"><canvas id=\"overview\" aria-hidden=\"true\"></canvas>"
      "<canvas id=\"spans\" tabindex=\"0\" role=\"img\" aria-label=\"timeline of one step; arrow "
      "keys move, plus and minus zoom; the tables above have the sums\"></canvas>"
      "<div id=\"tip\" hidden></div></div>\n"
      "<p id=\"picked\" class=\"hint\" aria-live=\"polite\">Drag to move, pinch or Ctrl + wheel to "
      "zoom, double-click to zoom in; arrow keys and + − 0 work too. Click a span to keep it "
      "here.</p>\n",
      Legend(data),
      "<noscript><p>The timeline needs JavaScript; everything else on this page does "
      "not.</p></noscript>\n<script type=\"application/json\" id=\"timeline-data\">",
      ScriptJson(TimelineJson(data)), "</script>\n");
  return Section("timeline", "Timeline", out);
}

}  // namespace tandem::report
