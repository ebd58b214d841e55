#include "pcg/program/issue_order.h"

#include <algorithm>
#include <catch2/catch.hpp>
#include <string>

#include "pcg/autodiff/training.h"
#include "pcg/graph/graph_builder.h"

namespace tandem {
namespace {

Graph TwoLayers(DType precision) {
  GraphBuilder b("two", 4);
  const TensorId x = b.Input("x", {4, 6});
  const TensorId w1 = b.Parameter("w1", {6, 8}), w2 = b.Parameter("w2", {8, 3});
  const TensorId h = b.Named("first", "matmul", {x, w1});
  const TensorId a = b.Named("act", "relu", {h});
  const TensorId y = b.Named("second", "matmul", {a, w2});
  absl::StatusOr<Graph> forward = b.Finish({y});
  REQUIRE(forward.ok());
  TrainingOptions options;
  options.precision = precision;
  options.optimizer = "sgd";
  absl::StatusOr<Graph> training = MakeTrainingGraph(*forward, options);
  INFO(training.status());
  REQUIRE(training.ok());
  return *std::move(training);
}

int At(const Graph& graph, const std::vector<NodeId>& order, const std::string& name) {
  for (size_t i = 0; i < order.size(); ++i) {
    if (graph.node(order[i]).name == name) return static_cast<int>(i);
  }
  FAIL("no node " << name);
  return -1;
}

void CheckTopological(const Graph& graph, const std::vector<NodeId>& order) {
  REQUIRE(order.size() == graph.nodes.size());
  std::vector<int> position(graph.nodes.size(), -1);
  for (size_t i = 0; i < order.size(); ++i) position[order[i].index()] = static_cast<int>(i);
  for (size_t n = 0; n < graph.nodes.size(); ++n) {
    REQUIRE(position[n] >= 0);
    for (TensorId t : graph.nodes[n].inputs) {
      const NodeId producer = graph.tensor(t).producer;
      if (producer.valid()) CHECK(position[producer.index()] < position[n]);
    }
  }
}

TEST_CASE("Working copies come when they are read, or early where they are sent") {
  const Graph graph = TwoLayers(DType::kBF16);
  const std::vector<bool> late = LateNodes(graph);
  std::vector<bool> sent(graph.nodes.size(), false);
  const std::vector<NodeId> held = IssueOrder(graph, sent, late);
  CheckTopological(graph, held);
  CHECK(At(graph, held, "w2.bf16") > At(graph, held, "first"));
  CHECK(At(graph, held, "w2.bf16") < At(graph, held, "second"));
  for (size_t n = 0; n < graph.nodes.size(); ++n) sent[n] = graph.nodes[n].op == "cast";
  const std::vector<NodeId> early = IssueOrder(graph, sent, late);
  CheckTopological(graph, early);
  CHECK(At(graph, early, "w2.bf16") < At(graph, early, "first"));
}

TEST_CASE("Updates and the casts of their gradients are late, gradients are not") {
  const Graph graph = TwoLayers(DType::kBF16);
  const std::vector<bool> late = LateNodes(graph);
  int casts = 0;
  for (size_t n = 0; n < graph.nodes.size(); ++n) {
    const Node& node = graph.nodes[n];
    CAPTURE(node.name);
    if (node.phase == Phase::kForward) CHECK_FALSE(late[n]);
    if (node.phase == Phase::kUpdate) CHECK(late[n]);
    if (node.phase != Phase::kBackward) continue;
    const bool cast = node.op == "cast" && node.name.find("w") == 0;
    CHECK(late[n] == cast);
    casts += cast ? 1 : 0;
  }
  CHECK(casts == 2);
  const std::vector<NodeId> order = IssueOrder(graph, std::vector<bool>(graph.nodes.size()), late);
  const auto first_late =
      std::find_if(order.begin(), order.end(), [&](NodeId n) { return bool{late[n.index()]}; });
  CHECK(std::all_of(first_late, order.end(), [&](NodeId n) { return bool{late[n.index()]}; }));
  // Each update right after its own cast.
  CHECK(At(graph, order, "w2.update") == At(graph, order, "w2.bf16.grad") + 1);
  CHECK(At(graph, order, "w1.update") == At(graph, order, "w1.bf16.grad") + 1);
}

TEST_CASE("A gradient that is handed on before its reduction is handed on at once") {
  const Graph graph = TwoLayers(DType::kBF16);
  std::vector<bool> late = LateNodes(graph);
  for (size_t n = 0; n < graph.nodes.size(); ++n) {
    late[n] = late[n] && graph.nodes[n].phase == Phase::kUpdate;  // partial: the casts are not late
  }
  const std::vector<NodeId> order = IssueOrder(graph, std::vector<bool>(graph.nodes.size()), late);
  CheckTopological(graph, order);
  for (const char* cast : {"w1.bf16.grad", "w2.bf16.grad"}) {
    const int at = At(graph, order, cast);
    const TensorId gradient = graph.node(order[static_cast<size_t>(at)]).inputs[0];
    const NodeId before = order[static_cast<size_t>(at) - 1];
    CAPTURE(cast, graph.node(before).name);
    // Another that is handed on may stand between; nothing else does.
    const bool next = graph.tensor(gradient).producer == before ||
                      graph.node(before).name.find(".grad") != std::string::npos;
    CHECK(next);
  }
  CHECK(At(graph, order, "w2.bf16.grad") < At(graph, order, "w1.bf16.grad"));
}

TEST_CASE("A gradient that is an output is not late") {
  Graph graph = TwoLayers(DType::kBF16);
  size_t cast = 0;
  while (graph.nodes[cast].name != "w1.bf16.grad") ++cast;
  REQUIRE(LateNodes(graph)[cast]);
  graph.outputs.push_back(graph.nodes[cast].outputs[0]);
  CHECK_FALSE(LateNodes(graph)[cast]);
}

TEST_CASE("Without masters there is nothing to sink") {
  const Graph graph = TwoLayers(DType::kF32);
  const auto stored = NodesOfStoredValues(graph);
  CHECK(std::none_of(stored.begin(), stored.end(), [](bool s) { return s; }));
}

}  // namespace
}  // namespace tandem
