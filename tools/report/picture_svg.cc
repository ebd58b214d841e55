#include "tools/report/picture_svg.h"

#include <algorithm>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "tools/report/markup.h"
#include "tools/report/placement.h"

namespace tandem::report {
namespace {

constexpr double kRowHeight = 18;
constexpr double kPadding = 8;
constexpr double kCharacter = 7.23;       // of a 12 px monospaced font
constexpr double kSmallCharacter = 6.05;  // 10 px
constexpr double kTagPadding = 4;
constexpr double kMargin = 4;
constexpr double kSmallestScale = 0.78;  // wider pictures than that scroll

bool IsTag(const Chip& chip) {
  return chip.kind == Chip::Kind::kAxis || chip.kind == Chip::Kind::kPartial;
}

double ChipWidth(const Chip& chip) {
  const int n = TextLength(chip.text);
  return IsTag(chip) ? n * kSmallCharacter + 2 * kTagPadding : n * kCharacter;
}

// Space before a chip: a tag belongs to what stands before it.
double GapBefore(const Chips& row, size_t i) {
  if (i == 0) return 0;
  return IsTag(row[i]) ? 2.5 : Continues(row[i]) ? 2 : 6.5;
}

double RowWidth(const Chips& row) {
  double width = 0;
  for (size_t i = 0; i < row.size(); ++i) width += GapBefore(row, i) + ChipWidth(row[i]);
  return width;
}

Point BoxSize(const Box& box) {
  double width = 24;
  for (const Chips& row : box.rows) width = std::max(width, RowWidth(row));
  const double rows = static_cast<double>(std::max<size_t>(1, box.rows.size()));
  return {width + 2 * kPadding, rows * kRowHeight + kPadding};
}

const char* BoxClass(Box::Kind kind) {
  switch (kind) {
    case Box::Kind::kNode:
      return "node";
    case Box::Kind::kHeavy:
      return "node heavy";
    case Box::Kind::kChain:
      return "node chain";
    case Box::Kind::kPort:
      return "port";
    case Box::Kind::kMove:
      return "move";
  }
  return "node";
}

void AppendRow(std::string& out, const Chips& row, double x, double baseline) {
  for (size_t i = 0; i < row.size(); ++i) {
    const Chip& chip = row[i];
    x += GapBefore(row, i);
    const double width = ChipWidth(chip);
    if (IsTag(chip)) {
      const bool partial = chip.kind == Chip::Kind::kPartial;
      absl::StrAppendFormat(
          &out,
          "<rect class=\"tag %s%s\" x=\"%.1f\" y=\"%.1f\" width=\"%.1f\" height=\"14\" rx=\"3\"/>",
          chip.axis_class, partial ? " partial" : "", x, baseline - 11, width);
      absl::StrAppendFormat(&out, "<text class=\"tagtext%s\" x=\"%.1f\" y=\"%.1f\">%s</text>",
                            partial ? " partial" : "", x + kTagPadding, baseline - 0.5,
                            Escaped(chip.text));
    } else {
      const char* name = chip.kind == Chip::Kind::kStrong  ? "strong"
                         : chip.kind == Chip::Kind::kMuted ? "muted"
                         : chip.kind == Chip::Kind::kStep  ? "step"
                                                           : "dim";
      absl::StrAppendFormat(&out, "<text class=\"%s\" x=\"%.1f\" y=\"%.1f\">%s</text>", name, x,
                            baseline, Escaped(chip.text));
    }
    x += width;
  }
}

void AppendBox(std::string& out, const Box& box, const Point& size, const Point& centre) {
  const double left = centre.x - size.x / 2, top = centre.y - size.y / 2;
  absl::StrAppendFormat(
      &out,
      "<g class=\"box %s\"><title>%s</title><rect class=\"frame\" x=\"%.1f\" y=\"%.1f\" "
      "width=\"%.1f\" height=\"%.1f\" rx=\"%d\"/>",
      BoxClass(box.kind), Escaped(box.hint), left, top, size.x, size.y,
      box.kind == Box::Kind::kNode || box.kind == Box::Kind::kHeavy ? 5 : 11);
  double baseline = top + kPadding / 2 + 13;
  for (const Chips& row : box.rows) {
    const bool centred = box.kind == Box::Kind::kPort || box.kind == Box::Kind::kMove;
    const double x = centred ? centre.x - RowWidth(row) / 2 : left + kPadding;
    AppendRow(out, row, x, baseline);
    baseline += kRowHeight;
  }
  out += "</g>\n";
}

void AppendArrow(std::string& out, const std::vector<Point>& spline, const std::string& marker) {
  if (spline.empty()) return;
  absl::StrAppendFormat(&out, "<path class=\"arrow\" marker-end=\"url(#%s)\" d=\"M%.1f %.1f",
                        marker, spline[0].x, spline[0].y);
  for (size_t p = 1; p + 2 < spline.size(); p += 3) {
    absl::StrAppendFormat(&out, "C%.1f %.1f %.1f %.1f %.1f %.1f", spline[p].x, spline[p].y,
                          spline[p + 1].x, spline[p + 1].y, spline[p + 2].x, spline[p + 2].y);
  }
  out += "\"/>\n";
}

}  // namespace

absl::StatusOr<std::string> PictureSvg(const Picture& picture, const std::string& id,
                                       const std::string& title) {
  std::vector<Point> sizes;
  for (const Box& box : picture.boxes) sizes.push_back(BoxSize(box));
  absl::StatusOr<Placement> placement = Place(sizes, picture.arrows);
  if (!placement.ok()) return placement.status();
  const double width = placement->width + 2 * kMargin, height = placement->height + 2 * kMargin;
  const std::string marker = absl::StrCat(id, "-head");
  std::string out = absl::StrFormat(
      "<svg class=\"graph\" role=\"img\" aria-label=\"%s\" width=\"%.0f\" "
      "style=\"min-width:%.0fpx\" viewBox=\"%.0f %.0f %.0f %.0f\">\n",
      Escaped(title), width, width * kSmallestScale, -kMargin, -kMargin, width, height);
  absl::StrAppend(&out, "<defs><marker id=\"", marker,
                  "\" viewBox=\"0 0 8 8\" refX=\"7\" refY=\"4\" markerWidth=\"7\" "
                  "markerHeight=\"7\" orient=\"auto\"><path class=\"head\" "
                  "d=\"M0 0.8L8 4L0 7.2z\"/></marker></defs>\n");
  for (const std::vector<Point>& spline : placement->splines) AppendArrow(out, spline, marker);
  for (size_t b = 0; b < picture.boxes.size(); ++b) {
    AppendBox(out, picture.boxes[b], sizes[b], placement->centres[b]);
  }
  return out + "</svg>\n";
}

}  // namespace tandem::report
