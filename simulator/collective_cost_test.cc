#include "simulator/collective_cost.h"

#include <catch2/catch.hpp>
#include <cmath>
#include <string>
#include <vector>

#include "absl/strings/str_join.h"

namespace tandem {
namespace {

using Catch::Matchers::Contains;

GroupShape Shape(const Machine& machine, std::vector<int64_t> mesh, std::vector<int> axes) {
  const auto shape = MeshGroupShape(machine, mesh, axes);
  REQUIRE(shape.ok());
  return *shape;
}

TEST_CASE("group shapes of mesh axes") {
  const Machine machine = *LoadMachine("dgx-a100", {.nodes = 4});
  // (data 8, tensor 4): tensor groups lie in a node; data groups have two ranks in each of four
  // nodes, four of them at once.
  const GroupShape tensor = Shape(machine, {8, 4}, {1});
  CHECK(tensor.ranks == 4);
  CHECK(tensor.at[0] == GroupShape::Level{4, 1, 1});
  CHECK(tensor.at[1] == GroupShape::Level{});
  CHECK(OutermostLevel(machine, tensor) == 0);
  const GroupShape data = Shape(machine, {8, 4}, {0});
  CHECK(data.ranks == 8);
  CHECK(data.at[1] == GroupShape::Level{4, 2, 4});
  CHECK(data.uniform);
  CHECK(OutermostLevel(machine, data) == 1);
  const GroupShape all = Shape(machine, {8, 4}, {0, 1});
  CHECK(all.ranks == 32);
  CHECK(all.at[1] == GroupShape::Level{4, 8, 1});
  // How the axes are cut does not matter, only which devices meet.
  CHECK(all == Shape(machine, {32}, {0}));
  CHECK(data == Shape(machine, {4, 2, 2, 2}, {0, 1}));
  CHECK(Shape(machine, {8, 4}, {}).ranks == 1);
  CHECK(Shape(machine, {1, 4}, {0}).ranks == 1);
}

TEST_CASE("groups that lie askew are priced by the worst") {
  const Machine machine = *LoadMachine("summit-v100", {.nodes = 4});
  const GroupShape eights =
      Shape(machine, {3, 8}, {1});  // Six devices a node: 6 + 2, 4 + 4, 2 + 6.
  CHECK(eights.ranks == 8);
  CHECK_FALSE(eights.uniform);
  CHECK(eights.at[2].units == 2);
  CHECK(eights.at[2].ranks_per_unit == 2);
  CHECK(eights.at[2].concurrent == 2);
  const GroupShape node = Shape(machine, {4, 6}, {1});
  CHECK(node.uniform);
  CHECK(node.at[0].units == 3);
  CHECK(node.at[1].units == 2);
  CHECK(OutermostLevel(machine, node) == 1);
}

TEST_CASE("groups given by their devices") {
  const Machine machine = *LoadMachine("dgx-a100", {.nodes = 2});
  const std::vector<std::vector<int64_t>> pairs = {{0, 8}, {1, 9}};
  const auto shape = ExplicitGroupShape(machine, pairs);
  REQUIRE(shape.ok());
  CHECK(shape->ranks == 2);
  CHECK(shape->at[1] == GroupShape::Level{2, 1, 2});
  const std::vector<std::vector<int64_t>> outside = {{0, 16}};
  CHECK_THAT(std::string(ExplicitGroupShape(machine, outside).status().message()),
             Contains("device 16"));
  const std::vector<std::vector<int64_t>> twice = {{3, 3}};
  CHECK_THAT(std::string(ExplicitGroupShape(machine, twice).status().message()), Contains("twice"));
}

TEST_CASE("meshes and axes that are refused") {
  const Machine machine = *LoadMachine("dgx-a100");
  const auto refusal = [&](std::vector<int64_t> mesh, std::vector<int> axes, int64_t first = 0) {
    const auto shape = MeshGroupShape(machine, mesh, axes, first);
    REQUIRE_FALSE(shape.ok());
    return std::string(shape.status().message());
  };
  CHECK_THAT(refusal({4, 4}, {0}), Contains("8 devices"));
  CHECK_THAT(refusal({4, 0}, {0}), Contains("below one"));
  CHECK_THAT(refusal({4, 2}, {2}), Contains("no axis 2"));
  CHECK_THAT(refusal({4, 2}, {-1}), Contains("no axis -1"));
  CHECK_THAT(refusal({4, 2}, {1, 1}), Contains("twice"));
  CHECK_THAT(refusal({4, 2}, {1}, 1), Contains("from device 1"));
  CHECK_THAT(refusal({int64_t{1} << 40, int64_t{1} << 40}, {0}), Contains("does not fit"));
}

TEST_CASE("nothing to do costs nothing") {
  const Machine machine = *LoadMachine("dgx-a100");
  for (int kind = 0; kind < kCollectiveKinds; ++kind) {
    CHECK(CollectiveSeconds(machine, static_cast<CollectiveKind>(kind), 1e6, GroupShape{}) == 0);
    CHECK(CollectiveSeconds(machine, static_cast<CollectiveKind>(kind), 0,
                            Shape(machine, {8}, {0})) == 0);
  }
}

// All meshes of up to three axes over the machine.
std::vector<std::vector<int64_t>> Meshes(int64_t devices) {
  std::vector<std::vector<int64_t>> meshes;
  for (int64_t a = 1; a <= devices; ++a) {
    if (devices % a != 0) continue;
    for (int64_t b = 1; b <= devices / a; ++b) {
      if (devices / a % b == 0) meshes.push_back({a, b, devices / a / b});
    }
  }
  return meshes;
}

TEST_CASE("bytes: monotone, and in two parts never cheaper") {
  for (const MachineSummary& summary : ListMachines()) {
    for (int nodes : {1, 4}) {
      const bool one_node = summary.name == "cpu";
      const Machine machine = *LoadMachine(
          summary.name, one_node ? MachineSize{.devices = 4 * nodes} : MachineSize{.nodes = nodes});
      for (const auto& mesh : Meshes(machine.devices)) {
        for (const std::vector<int>& axes :
             {std::vector<int>{0}, {1}, {2}, {0, 1}, {1, 2}, {0, 2}, {0, 1, 2}}) {
          const GroupShape group = Shape(machine, mesh, axes);
          for (int k = 0; k < kCollectiveKinds; ++k) {
            const auto kind = static_cast<CollectiveKind>(k);
            INFO(summary.name << " " << absl::StrJoin(mesh, "x") << " axes "
                              << absl::StrJoin(axes, ",") << " "
                              << std::string(CollectiveKindName(kind)));
            double last = 0;
            for (double bytes = 1; bytes < 1e11; bytes *= 7) {
              const double whole = CollectiveSeconds(machine, kind, bytes, group);
              REQUIRE(std::isfinite(whole));
              REQUIRE(whole >= last);
              const double parts = CollectiveSeconds(machine, kind, bytes * 0.3, group) +
                                   CollectiveSeconds(machine, kind, bytes * 0.7, group);
              REQUIRE(whole <= parts * (1 + 1e-9));
              last = whole;
            }
          }
        }
      }
    }
  }
}

TEST_CASE("axes: one collective over two is never dearer than one after the other") {
  for (const MachineSummary& summary : ListMachines()) {
    const bool one_node = summary.name == "cpu";
    const Machine machine =
        *LoadMachine(summary.name, one_node ? MachineSize{.devices = 24} : MachineSize{.nodes = 4});
    for (const auto& mesh : Meshes(machine.devices)) {
      for (const auto& [first, second] :
           {std::pair{0, 1}, {1, 0}, {1, 2}, {2, 1}, {0, 2}, {2, 0}}) {
        const GroupShape both = Shape(machine, mesh, {first, second});
        const GroupShape one = Shape(machine, mesh, {first});
        const GroupShape other = Shape(machine, mesh, {second});
        if (!both.uniform) continue;
        for (double bytes = 64; bytes < 1e11; bytes *= 8) {
          INFO(summary.name << " " << absl::StrJoin(mesh, "x") << " axes " << first << "," << second
                            << " " << bytes);
          REQUIRE(CollectiveSeconds(machine, CollectiveKind::kAllReduce, bytes, both) <=
                  (1 + 1e-9) *
                      (CollectiveSeconds(machine, CollectiveKind::kAllReduce, bytes, one) +
                       CollectiveSeconds(machine, CollectiveKind::kAllReduce, bytes, other)));
          for (CollectiveKind kind : {CollectiveKind::kAllGather, CollectiveKind::kReduceScatter}) {
            REQUIRE(CollectiveSeconds(machine, kind, bytes, both) <=
                    (1 + 1e-9) * (CollectiveSeconds(machine, kind, bytes / one.ranks, other) +
                                  CollectiveSeconds(machine, kind, bytes, one)));
          }
          REQUIRE(CollectiveSeconds(machine, CollectiveKind::kAllReduce, bytes, both) <=
                  (1 + 1e-9) *
                      (CollectiveSeconds(machine, CollectiveKind::kReduceScatter, bytes, both) +
                       CollectiveSeconds(machine, CollectiveKind::kAllGather, bytes, both)));
        }
      }
    }
  }
}

TEST_CASE("across nodes the ranks of a node share its ports") {
  const Machine machine = *LoadMachine("dgx-a100", {.nodes = 4});
  const double bytes = 1e9;
  const auto seconds = [&](std::vector<int64_t> mesh, std::vector<int> axes) {
    return CollectiveSeconds(machine, CollectiveKind::kAllReduce, bytes,
                             Shape(machine, mesh, axes));
  };
  // All 32: 2 * 31/32 GB through 0.85 * 200 GB/s.
  CHECK(seconds({32}, {0}) == Approx(2 * 31.0 / 32 / (0.85 * 200)).epsilon(0.02));
  // Eight groups of one rank a node have an eighth of the ports each.
  CHECK(seconds({4, 8}, {0}) == Approx(2 * 0.75 / (0.85 * 25)).epsilon(0.02));
  // In a node NVLink is faster.
  CHECK(seconds({4, 8}, {1}) < seconds({32}, {0}));
}

TEST_CASE("in-switch reduction and pairwise links") {
  const Machine h100 = *LoadMachine("dgx-h100");
  const double bytes = 536870912;
  const auto bus = [&](CollectiveKind kind, std::vector<int64_t> mesh, std::vector<int> axes) {
    const GroupShape group = Shape(h100, mesh, axes);
    const double n = group.ranks, factor = kind == CollectiveKind::kAllReduce ? 2 : 1;
    return factor * (n - 1) / n * bytes / CollectiveSeconds(h100, kind, bytes, group);
  };
  // 445 GB/s measured for the all-reduce of eight, 336 for the all-gather.
  CHECK(bus(CollectiveKind::kAllReduce, {8}, {0}) == Approx(445e9).epsilon(0.1));
  CHECK(bus(CollectiveKind::kAllGather, {8}, {0}) == Approx(336e9).epsilon(0.15));
  const Machine v100 = *LoadMachine("summit-v100");
  const auto pair =
      CollectiveSeconds(v100, CollectiveKind::kAllReduce, bytes, Shape(v100, {3, 2}, {1}));
  const auto socket =
      CollectiveSeconds(v100, CollectiveKind::kAllReduce, bytes, Shape(v100, {2, 3}, {1}));
  const auto node =
      CollectiveSeconds(v100, CollectiveKind::kAllReduce, bytes, Shape(v100, {6}, {0}));
  CHECK(socket < pair);  // Three have two links each.
  CHECK(socket < node);  // The X-bus is narrower.
}

}  // namespace
}  // namespace tandem
