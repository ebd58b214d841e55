#include <algorithm>
#include <map>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "tools/report/block_classes.h"
#include "tools/report/chips.h"
#include "tools/report/flow.h"
#include "tools/report/markup.h"
#include "tools/report/picture.h"
#include "tools/report/picture_svg.h"
#include "tools/report/sections.h"

namespace tandem::report {
namespace {

constexpr size_t kMostPictures = 12;  // a phase
constexpr size_t kMostBoxes = 130;    // a picture; what is larger becomes a table

std::string ClassTitle(const BlockClass& c) {
  if (c.blocks.size() == 1 && c.blocks[0] < 0) return "outside the blocks";
  std::string title =
      absl::StrCat(c.blocks.size() == 1 ? "block " : "blocks ", BlockRanges(c.blocks));
  if (c.rest) title = absl::StrCat("rest of ", title);
  return title;
}

std::string Legend(const Program& program) {
  std::string out = "<p class=\"hint\">";
  for (size_t a = 0; a < program.mesh.axes.size(); ++a) {
    absl::StrAppend(&out, Html({AxisChip(program.mesh, static_cast<int>(a))}), " ",
                    program.mesh.axes[a].temporal ? "micro-batches" : "mesh axis", " of ",
                    program.mesh.axes[a].extent, " &nbsp; ");
  }
  return out +
         "A tag after an extent: that axis splits it. A dashed tag: the value is partial over that "
         "axis. Rounded boxes on arrows are collectives, with the bytes a device holds.</p>\n";
}

// Operators of a class too large for a picture, by operator, shape and layout.
std::string OperatorTable(const Graph& pcg, const Program& program, const Flow& flow,
                          const BlockClass& c) {
  std::map<std::pair<std::string, std::string>, int> rows;
  for (NodeId id : c.nodes) {
    std::string layout;
    for (BufferId output : flow.nodes[id.index()].outputs) {
      const Buffer& buffer = program.buffer(output);
      layout += Html(ShapeChips(pcg.tensor(buffer.tensor).shape, buffer.layout, program.mesh));
    }
    ++rows[{pcg.node(id).op, layout}];
  }
  std::string out =
      "<div class=\"scroll tall\"><table><thead><tr><th>Operator</th>"
      "<th>Shape and layout</th><th class=\"num\">Nodes</th></tr></thead><tbody>\n";
  for (const auto& [row, count] : rows) {
    absl::StrAppend(&out, "<tr><th scope=\"row\">", Escaped(row.first), "</th><td>", row.second,
                    "</td><td class=\"num\">", count, "</td></tr>\n");
  }
  return out + "</tbody></table></div>\n";
}

std::string Drawing(const Graph& pcg, const Program& program, const Flow& flow,
                    const std::vector<bool>& prepared, const BlockClass& c, const std::string& id) {
  const Picture picture = PictureOf(pcg, program, flow, prepared, c);
  std::string out = absl::StrCat("<figure id=\"", id, "\">\n<figcaption><strong>",
                                 Escaped(ClassTitle(c)), "</strong>");
  if (c.blocks.size() > 1) absl::StrAppend(&out, " ×", c.blocks.size());
  absl::StrAppend(&out, " · ", Plural(static_cast<int64_t>(picture.nodes), "node"));
  if (!picture.prefix.empty()) {
    absl::StrAppend(&out, " of <code>", Escaped(picture.prefix), "</code>");
  }
  if (c.sizes_differ) out += " · the others differ in sizes only";
  out += "</figcaption>\n";
  if (picture.boxes.size() > kMostBoxes) {
    absl::StrAppend(&out, "<p class=\"hint\">Too large for a picture; its operators:</p>\n",
                    OperatorTable(pcg, program, flow, c));
    return out + "</figure>\n";
  }
  absl::StatusOr<std::string> svg = PictureSvg(picture, id, ClassTitle(c));
  if (svg.ok()) {
    absl::StrAppend(&out, "<div class=\"scroll\">", *svg, "</div>\n");
  } else {
    absl::StrAppend(&out, "<p class=\"hint\">", Escaped(std::string(svg.status().message())),
                    "</p>\n", OperatorTable(pcg, program, flow, c));
  }
  return out + "</figure>\n";
}

std::string Strip(const std::vector<BlockClass>& classes, const std::string& id) {
  std::string out = "<ol class=\"strip\">\n";
  for (size_t c = 0; c < classes.size(); ++c) {
    const bool drawn = c < kMostPictures;
    absl::StrAppend(&out, "<li>", drawn ? absl::StrCat("<a href=\"#", id, c, "\">") : "<span>",
                    Escaped(ClassTitle(classes[c])));
    if (classes[c].blocks.size() > 1) {
      absl::StrAppend(&out, " <b>×", classes[c].blocks.size(), "</b>");
    }
    absl::StrAppend(&out, " <small>", Plural(static_cast<int64_t>(classes[c].nodes.size()), "node"),
                    "</small>", drawn ? "</a>" : "</span>", "</li>\n");
  }
  return out + "</ol>\n";
}

std::string PhaseHtml(const ReportData& data, const Flow& flow, const std::vector<bool>& prepared,
                      Phase phase, const std::string& id) {
  const Graph& pcg = data.plan->pcg;
  const std::vector<BlockClass> classes = BlockClasses(pcg, data.program(), flow, prepared, phase);
  if (classes.empty()) return "<p class=\"none\">No nodes.</p>\n";
  std::string out = classes.size() > 1 ? Strip(classes, id) : "";
  out += "<div class=\"figures\">\n";
  for (size_t c = 0; c < classes.size() && c < kMostPictures; ++c) {
    out += Drawing(pcg, data.program(), flow, prepared, classes[c], absl::StrCat(id, c));
  }
  return out + "</div>\n";
}

}  // namespace

std::string GraphSection(const ReportData& data) {
  const Graph& pcg = data.plan->pcg;
  const Flow flow = FlowOf(pcg, data.program());
  const std::vector<bool> prepared = PreparedNodes(pcg);
  const auto of_phase = [&](Phase phase) {
    return std::count_if(pcg.nodes.begin(), pcg.nodes.end(),
                         [&](const Node& node) { return node.phase == phase; });
  };
  std::string out = absl::StrCat(
      "<p>", Plural(static_cast<int64_t>(pcg.nodes.size()), "node"), ": ",
      of_phase(Phase::kForward), " forward, ", of_phase(Phase::kBackward), " backward, ",
      of_phase(Phase::kUpdate),
      " update. Blocks that do the same are drawn once; update nodes are summed up in the table "
      "above.</p>\n",
      Legend(data.program()));
  out += "<h3>Forward</h3>\n" + PhaseHtml(data, flow, prepared, Phase::kForward, "fwd");
  if (of_phase(Phase::kBackward) > 0) {
    out += "<details><summary>Backward</summary>\n" +
           PhaseHtml(data, flow, prepared, Phase::kBackward, "bwd") + "</details>\n";
  }
  return Section("graph", "The graph and its layouts", out);
}

}  // namespace tandem::report
