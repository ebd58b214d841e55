#include "tools/report/report_test_plan.h"

#include <catch2/catch.hpp>

#include "absl/strings/str_cat.h"
#include "pcg/autodiff/training.h"
#include "pcg/layout/factor_table.h"
#include "pcg/program/lower.h"
#include "simulator/program_cost.h"

namespace tandem {
namespace {

constexpr int64_t kBatch = 64, kWidth = 32, kInner = 128;

TensorId Source(Graph& graph, const std::string& name, FactoredShape shape, TensorRole role) {
  Tensor tensor;
  tensor.name = name;
  tensor.shape = std::move(shape);
  tensor.role = role;
  tensor.note = role == TensorRole::kParameter ? "trained: on the way to the loss" : "";
  return graph.AddSource(std::move(tensor));
}

TensorId Op(Graph& graph, int block, const std::string& name, const std::string& op,
            std::vector<TensorId> inputs) {
  Node node;
  node.name = name;
  node.op = op;
  node.block = block;
  node.inputs = std::move(inputs);
  const absl::StatusOr<NodeId> id = graph.AddNode(std::move(node));
  INFO(id.status().ToString());
  REQUIRE(id.ok());
  return graph.node(*id).outputs[0];
}

Graph Forward(const TestPlanOptions& options) {
  Graph graph;
  graph.name = options.name;
  graph.operators = BuiltinOperators();
  graph.batch = kBatch;
  const int64_t m = options.micro_batches;
  const Factors batch = m > 1 ? Factors{m, kBatch / m} : Factors{kBatch};
  TensorId x = Source(graph, "x", {batch, {kWidth}}, TensorRole::kInput);
  graph.inputs = {x};
  for (int b = 0; b < options.blocks; ++b) {
    const std::string p = absl::StrCat(options.name, ".", b, ".");
    const TensorId up =
        Source(graph, p + "up.weight", {{kWidth}, {kInner}}, TensorRole::kParameter);
    const TensorId down =
        Source(graph, p + "down.weight", {{kInner}, {kWidth}}, TensorRole::kParameter);
    x = Op(graph, b + 1, p + "up", "linear", {x, up});
    x = Op(graph, b + 1, p + "act", "gelu", {x});
    x = Op(graph, b + 1, p + "down", "linear", {x, down});
  }
  const TensorId head = Source(graph, "head.weight", {{kWidth}, {10}}, TensorRole::kParameter);
  x = Op(graph, options.blocks, "head", "linear", {x, head});
  graph.outputs = {x};
  return graph;
}

// The batch on every axis that is there; with `tensor`, the inner dimension of the blocks on x0.
Strategy StrategyOf(const Graph& graph, const Mesh& mesh, bool tensor, bool sharded) {
  Strategy strategy = ReplicatedStrategy(graph, mesh);
  for (size_t t = 0; t < graph.tensors.size() && sharded; ++t) {
    if (graph.tensors[t].role != TensorRole::kParameter) continue;
    strategy.sources[t].axes[0] = AxisPlacement::Split(0, 0);
  }
  for (TensorId id : graph.inputs) {
    if (tensor || graph.tensor(id).role != TensorRole::kInput || mesh.axes.size() > 1) continue;
    strategy.sources[id.index()].axes[0] = AxisPlacement::Split(0, 0);
  }
  for (size_t n = 0; n < graph.nodes.size(); ++n) {
    const absl::StatusOr<OpInstance> instance = InstanceOf(graph, NodeId(static_cast<int64_t>(n)));
    REQUIRE(instance.ok());
    const std::vector<SplitRow> table = FactorTable(*instance);
    for (size_t a = 0; a < mesh.axes.size(); ++a) {
      for (size_t r = table.size(); r-- > 0;) {
        const SplitRow& row = table[r];
        if (row.size < 0) continue;
        const SizeVar& size = instance->sizes[static_cast<size_t>(row.size)];
        const bool temporal = mesh.axes[a].temporal;
        const int64_t wanted = tensor && !temporal        ? kInner
                               : mesh.MicroBatches() == 1 ? kBatch
                               : temporal                 ? mesh.MicroBatches()
                                                          : kBatch / mesh.MicroBatches();
        if (size.extent == wanted && size.extent % mesh.axes[a].extent == 0) {
          strategy.nodes[n].rows[a] = static_cast<int>(r);
        }
      }
    }
  }
  return strategy;
}

}  // namespace

Machine TestMachine(int64_t devices) {
  const absl::StatusOr<Machine> machine =
      LoadMachine("dgx-a100", {.nodes = std::nullopt, .devices = devices});
  REQUIRE(machine.ok());
  return *machine;
}

Plan TestPlan(const TestPlanOptions& options) {
  Plan plan;
  plan.model = absl::StrCat("models/", options.name, ".onnx");
  plan.forward = plan.rewritten_forward = Forward(options);
  plan.training.loss = options.train ? "output" : "none";
  if (options.train) {
    plan.training.loss = "mse";
    plan.training.optimizer = "sgd";
    const absl::StatusOr<Graph> training = MakeTrainingGraph(plan.forward, plan.training);
    INFO(training.status().ToString());
    REQUIRE(training.ok());
    plan.pcg = *training;
  } else {
    plan.pcg = plan.forward;
  }
  plan.serial = plan.pcg;
  Mesh mesh;
  mesh.axes = {{"x0", options.devices, false}};
  if (options.micro_batches > 1) mesh.axes.push_back({"micro", options.micro_batches, true});
  plan.strategy = StrategyOf(plan.pcg, mesh, options.tensor_parallel, options.sharded);
  const StepPricer pricer(TestMachine(options.devices), mesh);
  const absl::StatusOr<Program> program = Lower(plan.pcg, plan.strategy, pricer.AsStepCost());
  INFO(program.status().ToString());
  REQUIRE(program.ok());
  plan.programs = {*program};
  plan.rules = {{"merge_matmul_2", "3f5c0e", {"a", "b"}, {"c"}, 0.002},
                {"merge_matmul_2", "3f5c0e", {"d", "e"}, {"f"}, 0.001}};
  return plan;
}

std::string TestSummary() {
  return R"({"devices": 4, "machine": "dgx-a100", "step_seconds": 0.02, "mfu": 0.4,
    "peak_bytes": 1000000, "search_seconds": 1.5, "objective_seconds": 0.021,
    "objective_bound_seconds": 0.02, "gap": 0.05, "strategy": ["blocks 1-3: linear: x0 split b.0"],
    "notes": ["axis x0 is idle in 2 nodes"], "baselines": {
      "data_parallel": {"applicable": true, "reason": "mesh 4", "fits": true,
                        "step_seconds": 0.03, "peak_bytes": 2000000},
      "fsdp": {"applicable": true, "reason": "too large", "fits": false, "step_seconds": null,
               "peak_bytes": 99000000000},
      "best_uniform": {"applicable": false, "reason": "no grid divides the heads", "fits": false,
                       "step_seconds": null, "peak_bytes": null}}})";
}

}  // namespace tandem
