#include "tools/report/placement.h"

#include <catch2/catch.hpp>
#include <cmath>

namespace tandem::report {
namespace {

TEST_CASE("boxes do not overlap, arrows go down, and it is the same twice") {
  const std::vector<Point> sizes = {{120, 40}, {200, 60}, {80, 30}, {140, 40}};
  const std::vector<std::pair<int, int>> arrows = {{0, 1}, {0, 2}, {1, 3}, {2, 3}};
  const auto placed = Place(sizes, arrows);
  INFO(placed.status().ToString());
  REQUIRE(placed.ok());
  for (size_t a = 0; a < sizes.size(); ++a) {
    CHECK(placed->centres[a].x - sizes[a].x / 2 >= -1);
    CHECK(placed->centres[a].y + sizes[a].y / 2 <= placed->height + 1);
    for (size_t b = 0; b < a; ++b) {
      const double dx = std::fabs(placed->centres[a].x - placed->centres[b].x);
      const double dy = std::fabs(placed->centres[a].y - placed->centres[b].y);
      CHECK((dx > (sizes[a].x + sizes[b].x) / 2 || dy > (sizes[a].y + sizes[b].y) / 2));
    }
  }
  for (size_t a = 0; a < arrows.size(); ++a) {
    REQUIRE(placed->splines[a].size() % 3 == 1);
    CHECK(placed->splines[a].front().y < placed->splines[a].back().y);
  }
  const auto again = Place(sizes, arrows);
  REQUIRE(again.ok());
  CHECK(again->centres[2].x == placed->centres[2].x);
}

TEST_CASE("no boxes are no picture") {
  const auto placed = Place({}, {});
  REQUIRE(placed.ok());
  CHECK(placed->width == 0);
  CHECK(placed->centres.empty());
}

TEST_CASE("output that Graphviz would not write is refused") {
  const std::vector<std::pair<int, int>> arrows = {{0, 1}};
  const std::string head = "graph 1 2 3\nnode n0 1 1 1 1\nnode n1 1 2 1 1\n";
  CHECK(ParsePlain(head + "edge n0 n1 4 1 1 1 1 1 2 1 2 solid black\nstop\n", 2, arrows).ok());
  CHECK_FALSE(ParsePlain(head + "stop\n", 2, arrows).ok());
  CHECK_FALSE(ParsePlain(head + "edge n1 n0 4 1 1 1 1 1 2 1 2 solid black\n", 2, arrows).ok());
  CHECK_FALSE(ParsePlain(head + "edge n0 n1 4 1 1 1\n", 2, arrows).ok());
  CHECK_FALSE(ParsePlain("graph 1 2 3\nnode n7 1 1 1 1\n", 2, arrows).ok());
  CHECK_FALSE(ParsePlain("", 2, arrows).ok());
}

}  // namespace
}  // namespace tandem::report
