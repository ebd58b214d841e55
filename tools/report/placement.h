// Where boxes and arrows go: Graphviz's layered layout, behind one function.
#ifndef TANDEM_TOOLS_REPORT_PLACEMENT_H_
#define TANDEM_TOOLS_REPORT_PLACEMENT_H_

#include <string>
#include <utility>
#include <vector>

#include "absl/status/statusor.h"

namespace tandem::report {

// Pixels, from the top left.
struct Point {
  double x = 0;
  double y = 0;
};

struct Placement {
  double width = 0;
  double height = 0;
  std::vector<Point> centres;               // by box
  std::vector<std::vector<Point>> splines;  // by arrow: a start, then three points a Bézier piece
};

// Sizes in pixels. Internal error: Graphviz or its layout plug-in cannot be used.
absl::StatusOr<Placement> Place(const std::vector<Point>& sizes,
                                const std::vector<std::pair<int, int>>& arrows);

// Reads Graphviz's "plain" output; boxes are named n0, n1, ...
absl::StatusOr<Placement> ParsePlain(const std::string& text, size_t boxes,
                                     const std::vector<std::pair<int, int>>& arrows);

}  // namespace tandem::report

#endif  // TANDEM_TOOLS_REPORT_PLACEMENT_H_
