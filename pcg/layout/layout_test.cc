#include "pcg/layout/layout.h"

#include <algorithm>
#include <catch2/catch.hpp>
#include <numeric>
#include <random>
#include <set>

#include "pcg/layout/test_mesh.h"

namespace tandem {
namespace {

using P = AxisPlacement;

TEST_CASE("A device's number is its row-major coordinate over the spatial axes") {
  const Mesh mesh = MeshOf({2, 3, 4}, 5);
  CHECK(mesh.Devices() == 24);
  CHECK(mesh.MicroBatches() == 5);
  CHECK(mesh.TemporalAxis() == 3);
  CHECK(MeshOf({2}).TemporalAxis() == -1);
  CHECK(mesh.Coordinates(1 * 12 + 2 * 4 + 3) == std::vector<int64_t>{1, 2, 3, 0});
  CHECK(mesh.Group(1 * 12 + 2 * 4 + 3, {1}) == std::vector<int64_t>{15, 19, 23});
  CHECK(mesh.Group(1 * 12 + 2 * 4 + 3, {0, 2}) ==
        std::vector<int64_t>{8, 9, 10, 11, 20, 21, 22, 23});
  CHECK(mesh.Group(7, {}) == std::vector<int64_t>{7});
  CHECK(mesh.Group(7, {3}) == std::vector<int64_t>{7});  // micro-batches are no other devices
}

TEST_CASE("Lower axis numbers are more significant within a factor") {
  const Mesh mesh = MeshOf({2, 3});
  const FactoredShape shape = {{12}};
  const Layout layout = {{P::Split(0, 0), P::Split(0, 0)}};
  CHECK(layout.SplitAxes(0, 0) == std::vector<int>{0, 1});
  CHECK(LocalShape(shape, layout, mesh) == FactoredShape{{2}});
  CHECK(PieceIndices(shape, layout, mesh, {1, 2}) == std::vector<int64_t>{10, 11});
  CHECK(PieceIndices(shape, layout, mesh, {0, 2}) == std::vector<int64_t>{4, 5});
}

TEST_CASE("Splitting an inner factor takes a strided piece") {
  const Mesh mesh = MeshOf({2});
  CHECK(PieceIndices({{3, 4}}, {{P::Split(0, 1)}}, mesh, {1}) ==
        std::vector<int64_t>{2, 3, 6, 7, 10, 11});
}

TEST_CASE("A scalar has one element on every device") {
  CHECK(PieceIndices({}, Layout::Replicated(MeshOf({2})), MeshOf({2}), {1}) ==
        std::vector<int64_t>{0});
}

TEST_CASE("Layouts that mean nothing are refused, with the axis and a remedy") {
  const Mesh mesh = MeshOf({2, 3});
  const FactoredShape shape = {{4}, {2, 9}};
  const auto message = [&](const Layout& layout) {
    return std::string(CheckLayout(shape, layout, mesh).message());
  };
  CHECK(CheckLayout(shape, {{P::Split(0, 0), P::Split(1, 1)}}, mesh).ok());
  CHECK(CheckLayout(shape, {{P::Partial(Combiner::kMax), P::Partial(Combiner::kMax)}}, mesh).ok());
  CHECK_THAT(message({{P::Replicated()}}), Catch::Contains("1 axes"));
  CHECK_THAT(message({{P::Replicated(), P::Split(0, 0)}}),
             Catch::Contains("x1") && Catch::Contains("degree 3") && Catch::Contains("extent 4"));
  CHECK_THAT(message({{P::Split(2, 0), P::Replicated()}}), Catch::Contains("rank 2"));
  CHECK_THAT(message({{P::Split(1, 2), P::Replicated()}}), Catch::Contains("(2,9)"));
  CHECK_THAT(message({{P::Partial(Combiner::kSum), P::Partial(Combiner::kMax)}}),
             Catch::Contains("partial(max) beside partial(sum)"));
  // Two axes may each divide a factor and still not both.
  CHECK_FALSE(CheckLayout({{2}}, {{P::Split(0, 0), P::Split(0, 0)}}, MeshOf({2, 2})).ok());
}

TEST_CASE("Layouts print one placement an axis") {
  CHECK(ToString(Layout{{P::Replicated(), P::Split(0, 0), P::Split(2, 1),
                         P::Partial(Combiner::kSum)}}) == "R,S(0),S(2.1),P(sum)");
}

TEST_CASE("A layout carries over to other factors of the same dims, or says why not") {
  const Mesh mesh = MeshOf({3, 2});
  const Layout both = {{P::Split(0, 0), P::Split(0, 0)}};
  const Layout outer = {{P::Split(0, 0), P::Replicated()}};
  CHECK(*Refactored(outer, {{12}}, {{3, 4}}, mesh) == outer);
  CHECK(*Refactored(outer, {{12}}, {{1, 12}}, mesh) == Layout{{P::Split(0, 1), P::Replicated()}});
  CHECK(*Refactored({{P::Replicated(), P::Split(0, 2)}}, {{3, 2, 2}}, {{6, 2}}, mesh) ==
        Layout{{P::Replicated(), P::Split(0, 1)}});
  CHECK(PieceIndices({{12}}, outer, mesh, {1, 0}) == PieceIndices({{3, 4}}, outer, mesh, {1, 0}));
  CHECK_FALSE(Refactored(both, {{12}}, {{3, 4}}, mesh).ok());
  CHECK_FALSE(Refactored({{P::Replicated(), P::Split(0, 1)}}, {{3, 4}}, {{12}}, mesh).ok());
}

TEST_CASE("Pieces partition the tensor, once for each combination of the other axes") {
  std::mt19937 rng(7);
  const auto pick = [&](int n) { return static_cast<int>(rng() % static_cast<unsigned>(n)); };
  for (int round = 0; round < 200; ++round) {
    const Mesh mesh = MeshOf({1 + pick(3), 1 + pick(3)}, 1 + pick(2));
    FactoredShape shape(static_cast<size_t>(1 + pick(3)));
    for (Factors& dim : shape) {
      for (int f = 0; f <= pick(2); ++f) dim.push_back(std::vector<int64_t>{1, 2, 6, 12}[pick(4)]);
    }
    Layout layout = Layout::Replicated(mesh);
    for (P& p : layout.axes) {
      const int d = pick(static_cast<int>(shape.size()));
      p = P::Split(d, pick(static_cast<int>(shape[d].size())));
      if (pick(3) == 0 || !CheckLayout(shape, layout, mesh).ok()) p = P::Replicated();
    }
    REQUIRE(CheckLayout(shape, layout, mesh).ok());
    int64_t elements = 1;
    for (const Factors& dim : shape) {
      for (int64_t f : dim) elements *= f;
    }
    int64_t local = 1;
    for (const Factors& dim : LocalShape(shape, layout, mesh)) {
      for (int64_t f : dim) local *= f;
    }
    std::vector<int64_t> times(static_cast<size_t>(elements), 0);
    int64_t copies = 1;
    for (size_t a = 0; a < mesh.axes.size(); ++a) {
      if (layout.axes[a].kind == P::Kind::kReplicated) copies *= mesh.axes[a].extent;
    }
    for (int64_t device = 0; device < mesh.Devices(); ++device) {
      for (int64_t micro = 0; micro < mesh.MicroBatches(); ++micro) {
        std::vector<int64_t> coords = mesh.Coordinates(device);
        coords.back() = micro;
        const std::vector<int64_t> piece = PieceIndices(shape, layout, mesh, coords);
        REQUIRE(static_cast<int64_t>(piece.size()) == local);
        REQUIRE(std::is_sorted(piece.begin(), piece.end()));
        for (int64_t i : piece) ++times[static_cast<size_t>(i)];
      }
    }
    REQUIRE(std::all_of(times.begin(), times.end(), [&](int64_t t) { return t == copies; }));
  }
}

}  // namespace
}  // namespace tandem
