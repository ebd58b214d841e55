#include "tools/report/placement.h"

#include <graphviz/cgraph.h>
#include <graphviz/gvc.h>

#include <map>
#include <sstream>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"

namespace tandem::report {
namespace {

constexpr double kPixelsPerInch = 72;

absl::Status Broken(const std::string& what) {
  return absl::InternalError(
      absl::StrCat("Graphviz: ", what, "; check that its layout plug-ins are installed (dot -c)"));
}

std::string DotOf(const std::vector<Point>& sizes, const std::vector<std::pair<int, int>>& arrows) {
  std::string dot =
      "digraph g { graph [rankdir=TB, nodesep=0.3, ranksep=0.32, splines=true];\n"
      "node [shape=box, fixedsize=true, label=\"\"]; edge [arrowhead=none];\n";
  for (size_t i = 0; i < sizes.size(); ++i) {
    absl::StrAppendFormat(&dot, "n%d [width=%.4f, height=%.4f];\n", i, sizes[i].x / kPixelsPerInch,
                          sizes[i].y / kPixelsPerInch);
  }
  for (const auto& [from, to] : arrows) absl::StrAppendFormat(&dot, "n%d -> n%d;\n", from, to);
  return dot + "}\n";
}

}  // namespace

absl::StatusOr<Placement> ParsePlain(const std::string& text, size_t boxes,
                                     const std::vector<std::pair<int, int>>& arrows) {
  Placement placement;
  placement.centres.resize(boxes);
  placement.splines.resize(arrows.size());
  std::map<std::pair<std::string, std::string>, size_t> arrow_of;
  for (size_t a = 0; a < arrows.size(); ++a) {
    arrow_of[{absl::StrCat("n", arrows[a].first), absl::StrCat("n", arrows[a].second)}] = a;
  }
  std::istringstream lines(text);
  std::string line;
  size_t placed = 0, drawn = 0;
  while (std::getline(lines, line)) {
    std::istringstream in(line);
    std::string kind;
    in >> kind;
    const auto point = [&] {
      Point p;
      in >> p.x >> p.y;
      return Point{p.x * kPixelsPerInch, placement.height - p.y * kPixelsPerInch};
    };
    if (kind == "graph") {
      double scale = 0;
      in >> scale >> placement.width >> placement.height;
      placement.width *= kPixelsPerInch;
      placement.height *= kPixelsPerInch;
    } else if (kind == "node") {
      char n = 0;
      size_t box = boxes;
      in >> n >> box;
      if (box >= boxes) return Broken("its output names box '" + line + "'");
      placement.centres[box] = point();
      ++placed;
    } else if (kind == "edge") {
      std::string from, to;
      size_t points = 0;
      in >> from >> to >> points;
      const auto arrow = arrow_of.find({from, to});
      if (arrow == arrow_of.end()) return Broken("its output has the arrow '" + line + "'");
      std::vector<Point>& spline = placement.splines[arrow->second];
      for (size_t p = 0; p < points && in; ++p) spline.push_back(point());
      ++drawn;
    }
    if (!in) return Broken("its output is cut short at '" + line + "'");
  }
  if (placed != boxes || drawn != arrows.size()) {
    return Broken(absl::StrCat("it placed ", placed, " of ", boxes, " boxes and ", drawn, " of ",
                               arrows.size(), " arrows"));
  }
  return placement;
}

absl::StatusOr<Placement> Place(const std::vector<Point>& sizes,
                                const std::vector<std::pair<int, int>>& arrows) {
  if (sizes.empty()) return Placement{};
  GVC_t* context = gvContext();
  if (context == nullptr) return Broken("no context");
  absl::StatusOr<Placement> result = Broken("it reads its own input as no graph");
  const std::string dot = DotOf(sizes, arrows);
  if (Agraph_t* graph = agmemread(dot.c_str()); graph != nullptr) {
    if (gvLayout(context, graph, "dot") != 0) {
      result = Broken("the layout failed");
    } else {
      char* plain = nullptr;
      unsigned int length = 0;
      if (gvRenderData(context, graph, "plain", &plain, &length) != 0 || plain == nullptr) {
        result = Broken("it cannot write its plain format");
      } else {
        result = ParsePlain(std::string(plain, length), sizes.size(), arrows);
        gvFreeRenderData(plain);
      }
      gvFreeLayout(context, graph);
    }
    agclose(graph);
  }
  gvFreeContext(context);
  return result;
}

}  // namespace tandem::report
