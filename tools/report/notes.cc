#include <algorithm>
#include <map>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "absl/strings/str_join.h"
#include "tools/report/markup.h"
#include "tools/report/sections.h"

namespace tandem::report {
namespace {

constexpr size_t kMostTensorNotes = 30;

std::string Pair(const std::string& what, const std::string& value) {
  return absl::StrCat("<div><dt>", Escaped(what), "</dt><dd>", Escaped(value), "</dd></div>\n");
}

// What tensors were taken for, equal notes together.
std::string TensorNotes(const Graph& forward) {
  std::map<std::string, std::pair<int, std::string>> notes;  // count, example
  for (const Tensor& tensor : forward.tensors) {
    if (tensor.note.empty()) continue;
    auto& [count, example] = notes[tensor.note];
    if (count++ == 0) example = tensor.name;
  }
  if (notes.empty()) return "";
  std::vector<std::pair<std::string, std::pair<int, std::string>>> rows(notes.begin(), notes.end());
  std::stable_sort(rows.begin(), rows.end(),
                   [](const auto& a, const auto& b) { return a.second.first > b.second.first; });
  std::string out =
      "<details><summary>What tensors were taken for</summary>\n"
      "<div class=\"scroll\"><table><thead><tr><th>Taken for</th>"
      "<th class=\"num\">Tensors</th><th>For example</th></tr></thead><tbody>\n";
  for (size_t i = 0; i < rows.size() && i < kMostTensorNotes; ++i) {
    absl::StrAppend(&out, "<tr><td>", Escaped(rows[i].first), "</td><td class=\"num\">",
                    rows[i].second.first, "</td><td><code>", Escaped(rows[i].second.second),
                    "</code></td></tr>\n");
  }
  return out + "</tbody></table></div></details>\n";
}

std::string Assumptions(const ReportData& data) {
  const TrainingOptions& t = data.plan->training;
  const Mesh& mesh = data.program().mesh;
  std::string out = "<dl class=\"facts\">\n";
  if (t.loss == "none") {
    out += Pair("Mode", "forward pass only, nothing is trained");
  } else {
    out += Pair("Loss", t.loss);
    out += Pair("Optimizer", t.optimizer);
    out += Pair("Learning rate", absl::StrFormat("%g", t.lr));
  }
  const bool narrow = t.precision == DType::kBF16 || t.precision == DType::kF16;
  out += Pair("Precision", absl::StrCat(DTypeName(t.precision),
                                        narrow && t.loss != "none" ? ", fp32 master weights" : ""));
  if (data.plan->pcg.batch > 0) out += Pair("Global batch", absl::StrCat(data.plan->pcg.batch));
  out += Pair("Micro-batches", absl::StrCat(mesh.MicroBatches()));
  const double recomputed = NumberOr(data.summary, "recomputed_blocks", 0);
  out += Pair("Recomputed blocks", recomputed > 0 ? Count(recomputed) : "none");
  if (!t.freeze.empty()) out += Pair("Frozen", absl::StrJoin(t.freeze, ", "));
  if (!t.train.empty()) out += Pair("Trained", absl::StrJoin(t.train, ", "));
  return out + "</dl>\n";
}

std::string Lines(const nlohmann::ordered_json& lines) {
  std::string out;
  for (const auto& line : lines) {
    if (line.is_string())
      absl::StrAppend(&out, "<li>", Escaped(line.get<std::string>()), "</li>\n");
  }
  return out;
}

}  // namespace

std::string NotesSection(const ReportData& data) {
  std::string out = Assumptions(data) + TensorNotes(data.plan->forward);
  const auto notes = data.summary.find("notes");
  std::string limits;
  if (notes != data.summary.end() && notes->is_array()) limits = Lines(*notes);
  const double objective = NumberOr(data.summary, "objective_seconds", -1);
  const double bound = NumberOr(data.summary, "objective_bound_seconds", -1);
  if (objective >= 0 && bound >= 0) {
    absl::StrAppend(&limits, "<li>The search’s own cost, without overlap, is ", Seconds(objective),
                    "; no layout on this mesh can be below ", Seconds(bound), ".</li>\n");
  }
  absl::StrAppend(&limits,
                  "<li>Times are the simulator’s, from the machine description; nothing here was "
                  "measured on ",
                  Escaped(data.machine->name), ".</li>\n");
  return Section("notes", "Taken for granted, and limits",
                 absl::StrCat(out, "<h3>Limits</h3>\n<ul class=\"notes\">\n", limits, "</ul>\n"));
}

}  // namespace tandem::report
