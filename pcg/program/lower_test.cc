#include "pcg/program/lower.h"

#include <algorithm>
#include <catch2/catch.hpp>
#include <string>

#include "pcg/program/lowering_fixture.h"

namespace tandem {
namespace {

TEST_CASE("One device: kernels and frees, no communication") {
  MlpStep mlp;
  const RowPlan plan(mlp.graph, MeshOf({1}));
  const auto program = plan.Lowered();
  REQUIRE(program.ok());
  CHECK(Steps(*program).empty());
  CHECK(program->loop_begin == program->loop_end);
  CHECK(program->states.size() == 2);
  CheckRuns(mlp.graph, *program);
}

TEST_CASE("Data parallelism: one all-reduce a gradient, as soon as it is there, and the loss") {
  MlpStep mlp;
  RowPlan plan(mlp.graph, MeshOf({2}));
  DataParallel(plan, 0);
  plan.Store(mlp.x, 0, 0);
  plan.Store(mlp.t, 0, 0);
  const auto program = plan.Lowered();
  REQUIRE(program.ok());
  CHECK(Steps(*program) == "all-reduce loss; all-reduce dw2; all-reduce dw1; ");
  // dw2's comes before da's kernel.
  const auto named = [&](const std::string& name) {
    return std::find_if(program->instructions.begin(), program->instructions.end(),
                        [&](const Instruction& code) { return code.name == name; });
  };
  CHECK(named("all-reduce dw2") < named("da"));
  CheckRuns(mlp.graph, *program);
}

TEST_CASE("Column then row split: one all-reduce of the activation") {
  MlpStep mlp;
  RowPlan plan(mlp.graph, MeshOf({2}));
  plan.Row("h", 0, "split n");
  plan.Row("a", 0, "split d.1");
  plan.Row("y", 0, "split k");
  plan.Row("da", 0, "split n");
  plan.Row("dh", 0, "split d.1");
  plan.Row("dw1", 0, "split n");
  plan.Row("dw2", 0, "split m");
  plan.Row("w1n", 0, "split d.1");
  plan.Row("w2n", 0, "split d.0");
  plan.Store(mlp.w1, 0, 1);
  plan.Store(mlp.w2, 0, 0);
  const auto program = plan.Lowered();
  REQUIRE(program.ok());
  // Once for the loss, once in the backward phase: each phase makes its own copy,
  CHECK(Steps(*program) == "all-reduce y; all-reduce y; ");
  CheckRuns(mlp.graph, *program);
}

TEST_CASE("ZeRO: stored slices are gathered once a phase, gradients reduce-scattered") {
  MlpStep mlp;
  RowPlan plan(mlp.graph, MeshOf({2}));
  DataParallel(plan, 0);
  for (const char* node : {"w1n", "w2n"}) plan.Row(node, 0, "split d.0");
  for (TensorId t : {mlp.x, mlp.t, mlp.w1, mlp.w2}) plan.Store(t, 0, 0);
  const auto program = plan.Lowered();
  REQUIRE(program.ok());
  CHECK(Steps(*program) ==
        "all-gather w1; all-gather w2; all-reduce loss; reduce-scatter dw2; all-gather w2; "
        "reduce-scatter dw1; ");
  // The gathered copy of the forward is freed before the backward makes its own.
  int held = 0;
  int most = 0;
  for (const Instruction& code : program->instructions) {
    if (code.name == "all-gather w2" || code.name == "all-gather w1") most = std::max(most, ++held);
    if (code.kind != InstructionKind::kFree) continue;
    for (BufferId b : code.inputs) {
      const TensorId t = program->buffer(b).tensor;
      held -= t == mlp.w1 || t == mlp.w2;
    }
  }
  CHECK(most == 1);
  CHECK(held == 0);
  CheckRuns(mlp.graph, *program);
}

TEST_CASE("Gradient accumulation is the reduce over the temporal axis") {
  MlpStep mlp;
  RowPlan plan(mlp.graph, MeshOf({2}, 2));
  DataParallel(plan, 0);
  DataParallel(plan, 1);
  plan.Store(mlp.x, 0, 0);
  plan.Store(mlp.t, 0, 0);
  SECTION("whole weights: reduced once, after the last micro-batch") {
    const auto program = plan.Lowered();
    REQUIRE(program.ok());
    CHECK(Steps(*program) ==
          "| unstack x; stack y; unstack t; accumulate loss; unstack t; accumulate dw2; "
          "unstack x; accumulate dw1; | all-reduce loss; all-reduce dw2; all-reduce dw1; ");
    CheckRuns(mlp.graph, *program);
  }
  SECTION("stored slices: gathered in every micro-batch, or once where a relay says so") {
    for (const char* node : {"w1n", "w2n"}) plan.Row(node, 0, "split d.0");
    for (TensorId t : {mlp.w1, mlp.w2}) plan.Store(t, 0, 0);
    const Layout whole = Layout::Replicated(plan.strategy.mesh);
    plan.strategy.relays = {{mlp.w2, Phase::kForward, whole, true},
                            {mlp.w2, Phase::kBackward, whole, false}};
    const auto program = plan.Lowered();
    REQUIRE(program.ok());
    CHECK(Steps(*program) ==
          "all-gather w2; | unstack x; all-gather w1; stack y; unstack t; accumulate loss; "
          "unstack t; accumulate dw2; all-gather w2; unstack x; accumulate dw1; | "
          "all-reduce loss; reduce-scatter dw2; reduce-scatter dw1; ");
    CheckRuns(mlp.graph, *program);
  }
}

TEST_CASE("A relay is made once for the readers of its phase") {
  TestGraph b;
  const TensorId x = b.Input("x", {{8}, {4}});
  const TensorId w = b.Weight("w", {{4}, {4}});
  b.graph.outputs = {b.Node("p", "matmul", {x, w}), b.Node("q", "matmul", {x, w})};
  RowPlan plan(b.graph, MeshOf({2, 2}));
  plan.Store(w, 0, 0);
  plan.Store(w, 1, 1);
  plan.Row("p", 0, "split n");
  plan.strategy.relays = {{w, Phase::kForward, Layout::Replicated(plan.strategy.mesh)}};
  const auto program = plan.Lowered();
  REQUIRE(program.ok());
  CHECK(Steps(*program) == "all-gather w; all-gather w; slice w; ");
  CheckRuns(b.graph, *program);
}

TEST_CASE("A piece of a constant is an activation: only the constant itself is known everywhere") {
  TestGraph b;
  const TensorId x = b.Input("x", {{8}}), c = b.Source("c", {{8}}, TensorRole::kConstant);
  b.graph.tensors[c.index()].values.assign(8, 0.5);
  b.graph.outputs = {b.Node("y", "relu", {b.Node("sum", "sub", {x, c})})};
  RowPlan plan(b.graph, MeshOf({2}));
  plan.Row("sum", 0, "split d.0");
  plan.Row("y", 0, "split d.0");
  const auto program = plan.Lowered();
  REQUIRE(program.ok());
  CHECK(Steps(*program) == "slice x; slice c; ");
  int known = 0;
  for (const Buffer& buffer : program->buffers) known += buffer.role == BufferRole::kConstant;
  CHECK(known == 1);
}

}  // namespace
}  // namespace tandem
