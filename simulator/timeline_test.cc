#include "simulator/timeline.h"

#include <catch2/catch.hpp>

#include "absl/strings/str_cat.h"
#include "pcg/layout/factor_table.h"
#include "pcg/program/lower.h"
#include "simulator/collective_cost.h"
#include "simulator/kernel_cost.h"
#include "simulator/program_cost.h"

namespace tandem {
namespace {

constexpr int64_t kTokens = 4096, kHidden = 2048, kInner = 8192;

TensorId Source(Graph& graph, const std::string& name, FactoredShape shape, TensorRole role) {
  Tensor tensor;
  tensor.name = name;
  tensor.shape = std::move(shape);
  tensor.role = role;
  tensor.dtype = DType::kBF16;
  return graph.AddSource(std::move(tensor));
}

TensorId Op(Graph& graph, const std::string& name, const std::string& op,
            std::vector<TensorId> inputs) {
  Node node;
  node.name = name;
  node.op = op;
  node.inputs = std::move(inputs);
  const auto id = graph.AddNode(std::move(node));
  INFO(id.status().ToString());
  REQUIRE(id.ok());
  return graph.node(*id).outputs[0];
}

// x -> linear -> relu -> linear, `layers` times.
Graph Mlp(int layers) {
  Graph graph;
  graph.operators = BuiltinOperators();
  TensorId x = Source(graph, "x", {{kTokens}, {kHidden}}, TensorRole::kInput);
  graph.inputs = {x};
  for (int l = 0; l < layers; ++l) {
    const TensorId up =
        Source(graph, absl::StrCat("up", l), {{kHidden}, {kInner}}, TensorRole::kParameter);
    const TensorId down =
        Source(graph, absl::StrCat("down", l), {{kInner}, {kHidden}}, TensorRole::kParameter);
    const TensorId h = Op(graph, absl::StrCat("l", l, ".up"), "matmul", {x, up});
    const TensorId a = Op(graph, absl::StrCat("l", l, ".relu"), "relu", {h});
    x = Op(graph, absl::StrCat("l", l, ".down"), "matmul", {a, down});
  }
  graph.outputs = {x};
  return graph;
}

// Splits each node on axis 0: by tokens, or the inner dimension as Megatron-LM does.
Strategy Split(const Graph& graph, const Mesh& mesh, bool tensor_parallel) {
  Strategy strategy = ReplicatedStrategy(graph, mesh);
  for (size_t n = 0; n < graph.nodes.size(); ++n) {
    const Node& node = graph.nodes[n];
    const auto instance = InstanceOf(graph, NodeId(static_cast<int64_t>(n)));
    REQUIRE(instance.ok());
    const std::vector<SplitRow> table = FactorTable(*instance);
    const bool up = absl::string_view(node.name).substr(node.name.size() - 2) == "up";
    const bool relu = node.op == "relu";
    // Which dim of the first input (data) or of the weight is split.
    const auto wanted = [&](const SplitRow& row) {
      if (row.size < 0) return false;
      if (!tensor_parallel) return row.inputs[0] == AxisPlacement::Split(0, 0);
      if (relu) return row.inputs[0] == AxisPlacement::Split(1, 0);
      return row.inputs[1] == AxisPlacement::Split(up ? 1 : 0, 0);
    };
    for (size_t r = 0; r < table.size(); ++r) {
      if (wanted(table[r])) strategy.nodes[n].rows[0] = static_cast<int>(r);
    }
    REQUIRE(strategy.nodes[n].rows[0] > 0);
    if (tensor_parallel && !relu) {
      strategy.sources[node.inputs[1].index()].axes[0] = AxisPlacement::Split(up ? 1 : 0, 0);
    }
  }
  if (!tensor_parallel) strategy.sources[0].axes[0] = AxisPlacement::Split(0, 0);
  return strategy;
}

Mesh Devices(int64_t n) {
  Mesh mesh;
  mesh.axes = {{"x0", n, false}};
  return mesh;
}

Program LowerOn(const Graph& graph, const Machine& machine, const Strategy& strategy) {
  const StepPricer pricer(machine, strategy.mesh);
  auto program = Lower(graph, strategy, pricer.AsStepCost());
  INFO(program.status().ToString());
  REQUIRE(program.ok());
  return *program;
}

TEST_CASE("a serial step is the sum of its kernels, and holds what it must") {
  const Machine machine = *LoadMachine("dgx-a100", {.devices = 1});
  const Graph graph = Mlp(1);
  const Program program = LowerOn(graph, machine, ReplicatedStrategy(graph, Devices(1)));
  TimelineOptions options;
  options.record = true;
  const auto timeline = SimulateProgram(graph, program, machine, options);
  REQUIRE(timeline.ok());
  const double kernels =
      KernelSeconds(machine, GemmShape(Precision::kBf16, kTokens, kInner, kHidden)) +
      KernelSeconds(machine, GemmShape(Precision::kBf16, kTokens, kHidden, kInner)) +
      KernelSeconds(machine, MemoryShape(KernelKind::kElementwise, 2.0 * kTokens * kInner,
                                         2.0 * kTokens * kInner, 1.0 * kTokens * kInner));
  CHECK(timeline->breakdown.compute == Approx(kernels).epsilon(0.01));
  CHECK(timeline->step_seconds == Approx(timeline->breakdown.compute + timeline->breakdown.host));
  CHECK(timeline->flops_per_device == 2.0 * 2 * kTokens * kInner * kHidden);
  // Weights, and at the relu its input, its output and x.
  CHECK(timeline->memory.resident_bytes == 2 * 2 * kHidden * kInner);
  CHECK(timeline->memory.at_peak.at("activations") == 2 * 2 * kTokens * kInner);
  CHECK(timeline->record.spans.size() == 6);
}

TEST_CASE("tensor parallelism pays with an all-reduce, data parallelism with memory") {
  const Machine machine = *LoadMachine("dgx-a100");
  const Graph graph = Mlp(2);
  const auto simulate = [&](bool tensor) {
    const Program program = LowerOn(graph, machine, Split(graph, Devices(8), tensor));
    const auto timeline = SimulateProgram(graph, program, machine);
    INFO(timeline.status().ToString());
    REQUIRE(timeline.ok());
    const Breakdown& b = timeline->breakdown;
    CHECK(b.compute + b.communication_hidden + b.communication_exposed + b.host + b.idle ==
          Approx(timeline->step_seconds));
    return *timeline;
  };
  const Timeline data = simulate(false), tensor = simulate(true);
  CHECK(data.breakdown.communication_by_collective.empty());
  CHECK(data.flops_per_device == tensor.flops_per_device);
  const double all_reduce =
      CollectiveSeconds(machine, CollectiveKind::kAllReduce, 2.0 * kTokens * kHidden,
                        *MeshGroupShape(machine, {8}, {0}));
  double communication = 0;
  for (const auto& [kind, seconds] : tensor.breakdown.communication_by_collective) {
    communication += seconds;
  }
  CHECK(communication == Approx(2 * all_reduce).epsilon(0.3));  // Or in two halves.
  CHECK(tensor.step_seconds > data.step_seconds);
  CHECK(tensor.memory.resident_bytes * 8 == data.memory.resident_bytes);
}

TEST_CASE("what does not fit is refused") {
  const Machine machine = *LoadMachine("dgx-a100");
  const Graph graph = Mlp(1);
  const Program good = LowerOn(graph, machine, Split(graph, Devices(8), true));
  REQUIRE(SimulateProgram(graph, good, machine).ok());
  const auto refusal = [&](const Program& program, const Machine& on) {
    const auto timeline = SimulateProgram(graph, program, on);
    REQUIRE_FALSE(timeline.ok());
    return std::string(timeline.status().message());
  };
  using Catch::Matchers::Contains;
  CHECK_THAT(refusal(good, *LoadMachine("dgx-a100", {.devices = 4})), Contains("8 devices"));
  Program bad = good;
  bad.instructions[0].node = NodeId(77);
  CHECK_THAT(refusal(bad, machine), Contains("node 77"));
  bad = good;
  bad.instructions[0].inputs.clear();
  CHECK_THAT(refusal(bad, machine), Contains("operands"));
  bad = good;
  for (Instruction& instruction : bad.instructions) {
    if (instruction.kind == InstructionKind::kCollective) instruction.axes = {3};
  }
  CHECK_THAT(refusal(bad, machine), Contains("axis 3"));
}

TEST_CASE("a bundle pays its latency once, and its bytes") {
  const Machine machine = *LoadMachine("dgx-a100");
  const Graph graph = Mlp(1);
  const Program program = LowerOn(graph, machine, Split(graph, Devices(8), true));
  size_t at = 0;
  while (program.instructions[at].kind != InstructionKind::kCollective) ++at;
  const auto seconds_of = [&](const Program& p) {
    const auto costs = CostsOf(graph, p, machine);
    REQUIRE(costs.ok());
    return (*costs)[at].seconds;
  };
  Program two = program;
  Instruction& bundle = two.instructions[at];
  bundle.inputs.push_back(bundle.inputs[0]);
  bundle.outputs.push_back(bundle.outputs[0]);
  const double one = seconds_of(program), both = seconds_of(two);
  CHECK(both > one);
  CHECK(both < 2 * one);
  const StepPricer pricer(machine, program.mesh);
  const double bytes = 2 * static_cast<double>(program.buffer(bundle.inputs[0]).bytes);
  CHECK(both == Approx(pricer.Seconds(StepKind::kAllReduce, {0}, bytes, bytes)));
}

}  // namespace
}  // namespace tandem
