#include "tools/report/block_classes.h"

#include <catch2/catch.hpp>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "tools/report/chips.h"
#include "tools/report/flow.h"
#include "tools/report/picture.h"
#include "tools/report/report_test_plan.h"

namespace tandem::report {
namespace {

std::vector<BlockClass> ClassesOf(const Plan& plan, Phase phase) {
  const Flow flow = FlowOf(plan.pcg, plan.programs[0]);
  return BlockClasses(plan.pcg, plan.programs[0], flow, PreparedNodes(plan.pcg), phase);
}

Picture PictureOfClass(const Plan& plan, size_t which) {
  const Flow flow = FlowOf(plan.pcg, plan.programs[0]);
  const std::vector<bool> prepared = PreparedNodes(plan.pcg);
  return PictureOf(
      plan.pcg, plan.programs[0], flow, prepared,
      BlockClasses(plan.pcg, plan.programs[0], flow, prepared, Phase::kForward)[which]);
}

int CountBoxes(const Picture& picture, Box::Kind kind) {
  int count = 0;
  for (const Box& box : picture.boxes) count += box.kind == kind ? 1 : 0;
  return count;
}

TEST_CASE("equal blocks are one class, and a head after the last is its own") {
  const Plan plan = TestPlan();
  const std::vector<BlockClass> classes = ClassesOf(plan, Phase::kForward);
  REQUIRE(classes.size() >= 2);
  CHECK(classes[0].blocks == std::vector<int>{1, 2, 3});
  CHECK(classes[0].nodes.size() == 3);
  CHECK_FALSE(classes[0].sizes_differ);
  CHECK(classes[1].rest);
  CHECK(classes[1].blocks == std::vector<int>{3});
  CHECK(plan.pcg.node(classes[1].nodes[0]).name == "head");
}

TEST_CASE("blocks under different layouts are not the same") {
  Plan plan = TestPlan({.blocks = 4, .train = false});
  for (Instruction& instruction : plan.programs[0].instructions) {
    if (!instruction.node.valid() || plan.pcg.node(instruction.node).name != "mlp.1.act") continue;
    for (BufferId id : instruction.outputs) {
      plan.programs[0].buffers[id.index()].layout = Layout::Replicated(plan.programs[0].mesh);
    }
  }
  const std::vector<BlockClass> classes = ClassesOf(plan, Phase::kForward);
  REQUIRE(classes.size() >= 2);
  CHECK(classes[0].blocks == std::vector<int>{1, 3, 4});
  CHECK(classes[1].blocks == std::vector<int>{2});
}

TEST_CASE("a phase without nodes has no classes, and nodes that are not executed none either") {
  Plan plan = TestPlan({.train = false});
  CHECK(ClassesOf(plan, Phase::kBackward).empty());
  plan.programs[0].instructions.clear();
  CHECK(ClassesOf(plan, Phase::kForward).empty());
}

TEST_CASE("weights are rows of the nodes that read them, collectives boxes on arrows") {
  const Picture data = PictureOfClass(TestPlan(), 0);
  CHECK(CountBoxes(data, Box::Kind::kHeavy) == 2);
  CHECK(CountBoxes(data, Box::Kind::kMove) == 0);
  CHECK(data.prefix == "mlp.0.");
  CHECK(PlainText(data.boxes[0].rows[1]) == "64[x0] × 128");
  CHECK(PlainText(data.boxes[0].rows[2]) == "weight up.weight: 32 × 128");

  // Names that are numbered operators do not hide the path of the others; half of the names do.
  Plan named = TestPlan();
  BlockClass block;
  for (int n = 0; n < 8; ++n) {
    block.nodes.push_back(NodeId(n));
    named.pcg.nodes[static_cast<size_t>(n)].name = absl::StrCat(n < 4 ? "gelu_" : "layer.0.a.", n);
  }
  block.blocks = {1};
  const auto prefix = [&] {
    return PictureOf(named.pcg, named.programs[0], FlowOf(named.pcg, named.programs[0]),
                     PreparedNodes(named.pcg), block)
        .prefix;
  };
  CHECK(prefix() == "layer.0.a.");
  for (size_t n : {4, 5}) named.pcg.nodes[n].name = absl::StrCat("layer.0.b.", n);
  CHECK(prefix() == "layer.0.");
  for (size_t n : {0, 1}) named.pcg.nodes[n].name = absl::StrCat("stem", n);
  CHECK(prefix().empty());

  // The steps on its way are a row of their own, which keeps boxes narrow.
  const Picture sharded = PictureOfClass(TestPlan({.train = false, .sharded = true}), 0);
  CHECK(PlainText(sharded.boxes[0].rows[2]) == "weight up.weight: 32[x0] × 128");
  CHECK(absl::StrContains(PlainText(sharded.boxes[0].rows[3]), "then all-gather[x0]"));

  const Picture tensor = PictureOfClass(TestPlan({.tensor_parallel = true}), 1);
  CHECK(CountBoxes(tensor, Box::Kind::kMove) == 1);
  bool reduced = false;
  for (const Box& box : tensor.boxes) {
    reduced |= box.kind == Box::Kind::kMove && box.rows[0][0].text == "all-reduce";
  }
  CHECK(reduced);
}

TEST_CASE("in large pictures light operators in a row share a box, contractions do not") {
  BlockClass all;
  const Plan plan = TestPlan({.blocks = 30, .train = false});
  for (size_t n = 0; n < plan.pcg.nodes.size(); ++n) {
    all.nodes.push_back(NodeId(static_cast<int64_t>(n)));
  }
  all.blocks = {-1};
  const Flow flow = FlowOf(plan.pcg, plan.programs[0]);
  const Picture picture = PictureOf(plan.pcg, plan.programs[0], flow, PreparedNodes(plan.pcg), all);
  CHECK(CountBoxes(picture, Box::Kind::kHeavy) == 61);
  CHECK(CountBoxes(picture, Box::Kind::kChain) == 0);  // each gelu stands between contractions
}

TEST_CASE("ranges of blocks are short") {
  CHECK(BlockRanges({1, 2, 3, 5, 7, 8}) == "1–3, 5, 7–8");
  CHECK(BlockRanges({}).empty());
}

TEST_CASE("layouts name the axis that splits each factor, and partial values") {
  Mesh mesh;
  mesh.axes = {{"x0", 2, false}, {"micro", 4, true}};
  Layout layout = Layout::Replicated(mesh);
  layout.axes[0] = AxisPlacement::Split(0, 1);
  CHECK(PlainText(ShapeChips({{4, 8}, {3}}, layout, mesh)) == "(4·8[x0]) × 3");
  layout.axes[0] = AxisPlacement::Partial(Combiner::kMax);
  layout.axes[1] = AxisPlacement::Split(0, 0);
  CHECK(PlainText(ShapeChips({{8}}, layout, mesh)) == "8[micro][partial max x0]");
  CHECK(PlainText(ShapeChips({}, Layout::Replicated(mesh), mesh)) == "scalar");
  CHECK(AxisClass(mesh, 1) == "axm");
  CHECK(AxisClass(mesh, 9) == "axm");
}

}  // namespace
}  // namespace tandem::report
