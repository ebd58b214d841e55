#include <catch2/catch.hpp>
#include <string>

#include "pcg/program/lower.h"
#include "pcg/program/lowering_fixture.h"

namespace tandem {
namespace {

TEST_CASE("What cannot be lowered is refused, with the node and a remedy") {
  MlpStep mlp;
  const auto message = [](const RowPlan& plan) {
    return std::string(plan.Lowered().status().message());
  };
  SECTION("a value of the whole batch wanted in the loop") {
    TestGraph b;
    const TensorId x = b.Input("x", {{8}, {4}});
    const TensorId mean = b.Node("mean", "batch_mean", {x});
    b.graph.outputs = {b.Node("var", "batch_var", {x, mean})};
    RowPlan plan(b.graph, MeshOf({2}, 2));
    plan.Row("mean", 1, "split n");
    plan.Row("var", 1, "split n");
    CHECK_THAT(message(plan), Catch::Contains("\"var\"") && Catch::Contains("\"mean\"") &&
                                  Catch::Contains("micro-batch"));
    plan.strategy.nodes[0].rows[1] = 0;  // the mean of the whole batch before the loop
    const auto program = plan.Lowered();
    REQUIRE(program.ok());
    CheckRuns(b.graph, *program);
  }
  SECTION("degree that does not divide") {
    RowPlan plan(mlp.graph, MeshOf({5}));
    plan.Row("h", 0, "split m");
    CHECK_THAT(message(plan), Catch::Contains("\"h\"") && Catch::Contains("degree 5"));
  }
  SECTION("row out of range") {
    RowPlan plan(mlp.graph, MeshOf({2}));
    plan.strategy.nodes[1].rows[0] = 99;
    CHECK_THAT(message(plan), Catch::Contains("\"a\"") && Catch::Contains("row 99"));
  }
  SECTION("a partial input that nobody can make") {
    RowPlan plan(mlp.graph, MeshOf({2}, 2));
    plan.Row("h", 1, "partial lhs");
    CHECK_THAT(message(plan), Catch::Contains("\"x\"") && Catch::Contains("partial"));
  }
  SECTION("a source stored by micro-batch") {
    RowPlan plan(mlp.graph, MeshOf({2}, 2));
    plan.Store(mlp.x, 1, 0);
    CHECK_THAT(message(plan), Catch::Contains("\"x\"") && Catch::Contains("source"));
  }
  SECTION("a stored layout that does not divide") {
    RowPlan plan(mlp.graph, MeshOf({5}));
    plan.Store(mlp.w1, 0, 1);
    CHECK_THAT(message(plan), Catch::Contains("\"w1\"") && Catch::Contains("degree 5"));
  }
  SECTION("two relays of one tensor in one phase") {
    RowPlan plan(mlp.graph, MeshOf({2}));
    plan.strategy.relays.assign(2,
                                {mlp.h, Phase::kForward, Layout::Replicated(plan.strategy.mesh)});
    CHECK_THAT(message(plan), Catch::Contains("second relay"));
  }
  SECTION("a strategy of another graph") {
    RowPlan plan(mlp.graph, MeshOf({2}));
    plan.strategy.nodes.pop_back();
    CHECK_THAT(message(plan), Catch::Contains("the strategy is for"));
  }
}

}  // namespace
}  // namespace tandem
