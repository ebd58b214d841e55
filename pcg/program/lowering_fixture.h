// Training graphs, hand-made strategies and the check of their Programs, for the tests of lowering.
#ifndef TANDEM_PCG_PROGRAM_LOWERING_FIXTURE_H_
#define TANDEM_PCG_PROGRAM_LOWERING_FIXTURE_H_

#include <catch2/catch.hpp>
#include <cmath>
#include <map>
#include <random>
#include <string>
#include <utility>
#include <vector>

#include "pcg/graph/interpreter.h"
#include "pcg/layout/factor_table.h"
#include "pcg/layout/test_mesh.h"
#include "pcg/program/bundle.h"
#include "pcg/program/lower.h"
#include "pcg/program/program_interpreter.h"

namespace tandem {

// Backward operators, written out so that lowering is tested on its own.
inline constexpr char kBackward[] = R"(
operator matmul_tn(a[k, m], b[k, n]) -> out[m, n] { out[i, j] = sum(p: k) a[p, i] * b[p, j] }
operator matmul_nt(a[m, k], b[n, k]) -> out[m, n] { out[i, j] = sum(p: k) a[i, p] * b[j, p] }
operator relu_grad(x[d..], dy[d..]) -> dx[d..] { dx[i] = select(x[i] > 0, dy[i], 0) }
operator mse_grad(p[d..], t[d..]) -> dp[d..] { dp[i] = 2 * (p[i] - t[i]) / size(d) }
)";

// A graph made node by node, of the built-in operators and those above.
class TestGraph {
 public:
  Graph graph;
  TestGraph() {
    for (const auto& [name, spec] : BuiltinOperators().specs()) {
      REQUIRE(graph.operators.Add(spec).ok());
    }
    REQUIRE(graph.operators.AddText(kBackward, "backward.ops").ok());
  }
  TensorId Source(const std::string& name, FactoredShape shape, TensorRole role,
                  DType dtype = DType::kF32) {
    Tensor tensor;
    tensor.name = name;
    tensor.shape = std::move(shape);
    tensor.role = role;
    tensor.dtype = dtype;
    const TensorId id = graph.AddSource(std::move(tensor));
    if (role == TensorRole::kInput || role == TensorRole::kStepInput) graph.inputs.push_back(id);
    return id;
  }
  TensorId Input(const std::string& name, FactoredShape shape, DType dtype = DType::kF32) {
    return Source(name, std::move(shape), TensorRole::kInput, dtype);
  }
  TensorId Weight(const std::string& name, FactoredShape shape) {
    return Source(name, std::move(shape), TensorRole::kParameter);
  }
  TensorId Node(const std::string& name, const std::string& op, std::vector<TensorId> inputs,
                Phase phase = Phase::kForward, Attributes attributes = {}) {
    tandem::Node node;
    node.name = name;
    node.op = op;
    node.inputs = std::move(inputs);
    node.phase = phase;
    node.attributes = std::move(attributes);
    absl::StatusOr<NodeId> id = graph.AddNode(std::move(node));
    INFO(id.status());
    REQUIRE(id.ok());
    return graph.node(*id).outputs[0];
  }
};

// A training step of two layers.
struct MlpStep : TestGraph {
  TensorId x = Input("x", {{8}, {6}}), t = Input("t", {{8}, {4}});
  TensorId w1 = Weight("w1", {{6}, {12}}), w2 = Weight("w2", {{12}, {4}});
  TensorId lr = Source("lr", {}, TensorRole::kStepInput);
  TensorId h = Node("h", "matmul", {x, w1});
  TensorId a = Node("a", "relu", {h});
  TensorId y = Node("y", "matmul", {a, w2});
  TensorId loss = Node("loss", "mse", {y, t});
  TensorId dy = Node("dy", "mse_grad", {y, t}, Phase::kBackward);
  TensorId dw2 = Node("dw2", "matmul_tn", {a, dy}, Phase::kBackward);
  TensorId da = Node("da", "matmul_nt", {dy, w2}, Phase::kBackward);
  TensorId dh = Node("dh", "relu_grad", {h, da}, Phase::kBackward);
  TensorId dw1 = Node("dw1", "matmul_tn", {x, dh}, Phase::kBackward);
  TensorId w2n = Node("w2n", "sgd", {w2, dw2, lr}, Phase::kUpdate);
  TensorId w1n = Node("w1n", "sgd", {w1, dw1, lr}, Phase::kUpdate);
  MlpStep() {
    graph.name = "mlp";
    graph.outputs = {y};
    graph.loss = loss;
    graph.updates = {{w1, w1n}, {w2, w2n}};
  }
};

// A strategy made by hand: replicated, but for the nodes that are given a row, by the row's reason,
// and the sources that are stored split.
struct RowPlan {
  const Graph& graph;
  Strategy strategy;
  RowPlan(const Graph& g, const Mesh& mesh) : graph(g), strategy(ReplicatedStrategy(g, mesh)) {}
  void Row(const std::string& node, size_t axis, const std::string& reason) {
    for (size_t n = 0; n < graph.nodes.size(); ++n) {
      if (graph.nodes[n].name != node) continue;
      const auto table = FactorTable(*InstanceOf(graph, NodeId(static_cast<int64_t>(n))));
      for (size_t r = 0; r < table.size(); ++r) {
        if (table[r].reason == reason) {
          strategy.nodes[n].rows[axis] = static_cast<int>(r);
          return;
        }
      }
    }
    FAIL("node " << node << " has no row " << reason);
  }
  void Store(TensorId tensor, size_t axis, int dim) {
    strategy.sources[tensor.index()].axes[axis] = AxisPlacement::Split(dim, 0);
  }
  absl::StatusOr<Program> Lowered() const {
    return Lower(graph, strategy, BytesStepCost(strategy.mesh));
  }
};

// Splits the batch of an MlpStep over a mesh axis.
inline void DataParallel(RowPlan& plan, size_t axis) {
  for (const char* node : {"h", "y"}) plan.Row(node, axis, "split m");
  for (const char* node : {"a", "loss", "dy", "dh"}) plan.Row(node, axis, "split d.0");
  plan.Row("da", axis, "split m");
  for (const char* node : {"dw1", "dw2"}) plan.Row(node, axis, "split k");
}

inline bool IsStep(const Instruction& code) {
  return code.kind == InstructionKind::kCollective || code.kind == InstructionKind::kLocal ||
         code.kind == InstructionKind::kLoop;
}

// Names of collectives, local steps and loop steps in order; "|" at the loop's bounds.
inline std::string Steps(const Program& program) {
  std::string text;
  for (size_t i = 0; i < program.instructions.size(); ++i) {
    const bool bound =
        static_cast<int>(i) == program.loop_begin || static_cast<int>(i) == program.loop_end;
    if (bound && program.mesh.TemporalAxis() >= 0) text += "| ";
    if (IsStep(program.instructions[i])) text += program.instructions[i].name + "; ";
  }
  return text;
}

inline HostTensor Values(const Tensor& tensor, std::mt19937& rng) {
  // Second moments and step numbers are positive.
  const bool positive = tensor.role == TensorRole::kState || tensor.role == TensorRole::kStepInput;
  HostTensor value;
  value.shape = PlainShape(tensor.shape);
  for (int64_t i = 0; i < ElementCount(tensor.shape); ++i) {
    const double x = static_cast<double>(rng() % 2001) / 500;
    value.data.push_back(!IsFloat(tensor.dtype) ? static_cast<double>(rng() % 4)
                         : positive             ? x + 0.5
                                                : x - 2);
  }
  return value;
}

// The Program's outputs, loss and new states are the serial graph's; bundled, too.
inline void CheckRunsAsItIs(const Graph& graph, const Program& program, unsigned seed) {
  std::mt19937 rng(seed);
  std::map<TensorId, HostTensor> sources;
  for (size_t t = 0; t < graph.tensors.size(); ++t) {
    if (graph.tensors[t].producer.valid()) continue;
    sources[TensorId(static_cast<int64_t>(t))] = Values(graph.tensors[t], rng);
  }
  std::vector<std::pair<TensorId, TensorId>> wanted;  // result, serial tensor
  for (TensorId output : graph.outputs) wanted.emplace_back(output, output);
  if (graph.loss) wanted.emplace_back(*graph.loss, *graph.loss);
  for (const StateUpdate& u : graph.updates) wanted.emplace_back(u.state, u.next);
  std::vector<TensorId> serial;
  for (const auto& [result, tensor] : wanted) serial.push_back(tensor);
  const auto expected = EvaluateGraph(graph, sources, serial);
  INFO(expected.status());
  REQUIRE(expected.ok());
  const auto actual = ExecuteProgram(graph, program, sources);
  INFO(actual.status());
  REQUIRE(actual.ok());
  REQUIRE(actual->size() == wanted.size());
  for (const auto& [result, tensor] : wanted) {
    CAPTURE(graph.tensor(tensor).name);
    const HostTensor& a = actual->at(result);
    const HostTensor& e = expected->at(tensor);
    REQUIRE(a.shape == e.shape);
    for (size_t i = 0; i < a.data.size(); ++i) {
      if (a.data[i] == e.data[i]) continue;
      REQUIRE(std::abs(a.data[i] - e.data[i]) <= 1e-9 * (1 + std::abs(e.data[i])));
    }
  }
}

inline void CheckRuns(const Graph& graph, const Program& program, unsigned seed = 1) {
  CheckRunsAsItIs(graph, program, seed);
  CheckRunsAsItIs(graph, Bundled(program, 1 << 20), seed);
}

}  // namespace tandem

#endif  // TANDEM_PCG_PROGRAM_LOWERING_FIXTURE_H_
