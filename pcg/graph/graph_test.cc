#include "pcg/graph/graph.h"

#include <catch2/catch.hpp>
#include <string>

#include "absl/strings/str_cat.h"

namespace tandem {
namespace {

TensorId Source(Graph& graph, const std::string& name, FactoredShape shape,
                TensorRole role = TensorRole::kParameter) {
  Tensor tensor;
  tensor.name = name;
  tensor.shape = std::move(shape);
  tensor.role = role;
  return graph.AddSource(std::move(tensor));
}

TensorId Op(Graph& graph, const std::string& name, const std::string& op,
            std::vector<TensorId> inputs, Attributes attributes = {}) {
  Node node;
  node.name = name;
  node.op = op;
  node.inputs = std::move(inputs);
  node.attributes = std::move(attributes);
  auto id = graph.AddNode(std::move(node));
  INFO(id.status().ToString());
  REQUIRE(id.ok());
  return graph.node(*id).outputs[0];
}

// Fused QKV projection, split into heads, attention, merged again; `layers` times.
Graph Transformer(int layers) {
  Graph graph;
  graph.operators = BuiltinOperators();
  TensorId x = Source(graph, "x", {{8}, {32}, {96}}, TensorRole::kInput);
  for (int l = 0; l < layers; ++l) {
    const auto name = [l](const char* part) { return absl::StrCat("l", l, ".", part); };
    const TensorId w = Source(graph, name("w_qkv"), {{96}, {288}});
    const TensorId qkv = Op(graph, name("qkv"), "linear", {x, w});
    std::vector<TensorId> heads;
    for (int64_t part = 0; part < 3; ++part) {
      const TensorId slice = Op(graph, name("slice") + std::to_string(part), "slice", {qkv},
                                {{"start", part * 96}, {"size", 96}, {"rank_c", 0}});
      const TensorId split = Op(graph, name("split") + std::to_string(part), "reshape", {slice},
                                {{"shape", std::vector<int64_t>{8, 32, 4, 24}}});
      heads.push_back(Op(graph, name("heads") + std::to_string(part), "transpose", {split},
                         {{"perm", std::vector<int64_t>{0, 2, 1, 3}}}));
    }
    const TensorId a = Op(graph, name("attention"), "causal_attention", heads, {{"scale", 0.2}});
    const TensorId back =
        Op(graph, name("back"), "transpose", {a}, {{"perm", std::vector<int64_t>{0, 2, 1, 3}}});
    const TensorId merged =
        Op(graph, name("merged"), "reshape", {back}, {{"shape", std::vector<int64_t>{8, 32, 96}}});
    const TensorId w_out = Source(graph, name("w_out"), {{96}, {96}});
    const TensorId out = Op(graph, name("out"), "linear", {merged, w_out});
    x = Op(graph, name("residual"), "add", {x, out});
  }
  graph.outputs = {x};
  return graph;
}

TEST_CASE("factors of heads reach the fused weight through slice, reshape and transpose") {
  Graph graph = Transformer(2);
  REQUIRE(CheckGraph(graph).ok());
  REQUIRE(PropagateFactors(graph).ok());
  for (const Tensor& tensor : graph.tensors) {
    if (tensor.name == "l0.w_qkv") CHECK(tensor.shape == FactoredShape{{96}, {3, 4, 24}});
    if (tensor.name == "l1.w_out") CHECK(tensor.shape == FactoredShape{{4, 24}, {96}});
  }
  for (size_t n = 0; n < graph.nodes.size(); ++n) {  // an instance has exactly the tensors' factors
    auto instance = InstanceOf(graph, NodeId(static_cast<int64_t>(n)));
    REQUIRE(instance.ok());
    for (size_t i = 0; i < graph.nodes[n].inputs.size(); ++i) {
      CHECK(instance->ShapeOf(static_cast<int>(i)) == graph.tensor(graph.nodes[n].inputs[i]).shape);
    }
    CHECK(instance->ShapeOf(instance->num_inputs) == graph.tensor(graph.nodes[n].outputs[0]).shape);
  }
  REQUIRE(CheckGraph(graph).ok());
}

TEST_CASE("factors are the same in every one of many layers") {
  Graph graph = Transformer(250);
  CHECK(graph.nodes.size() == 3750);
  REQUIRE(PropagateFactors(graph).ok());
  int weights = 0;
  for (const Tensor& tensor : graph.tensors) {
    if (tensor.name.find(".w_out") == std::string::npos) continue;
    CHECK(tensor.shape == FactoredShape{{4, 24}, {96}});
    ++weights;
  }
  CHECK(weights == 250);
}

TEST_CASE("CheckGraph names what is wrong") {
  const Graph good = Transformer(1);
  REQUIRE(CheckGraph(good).ok());
  Graph twice = good;
  twice.tensors[1].name = twice.tensors[0].name;
  CHECK(CheckGraph(twice).message().find("two tensors are named 'x'") != absl::string_view::npos);
  Graph order = good;
  std::swap(order.nodes[0].inputs[0], order.nodes[1].outputs[0]);
  CHECK_FALSE(CheckGraph(order).ok());
  Graph zero = good;
  zero.tensors[0].shape[1] = {0};
  CHECK(CheckGraph(zero).message().find("dim 1 of tensor 'x'") != absl::string_view::npos);
  Graph unknown = good;
  unknown.nodes[0].op = "lineer";
  CHECK(CheckGraph(unknown).message().find("did you mean linear") != absl::string_view::npos);
  Graph shape = good;
  shape.tensors[1].shape = {{96}, {287}};
  CHECK(CheckGraph(shape).message().find("node 'l0.qkv'") != absl::string_view::npos);
  Graph late = good;
  late.nodes[0].inputs[0] = late.nodes[3].outputs[0];
  CHECK(CheckGraph(late).message().find("before node") != absl::string_view::npos);
}

TEST_CASE("pruning keeps what outputs need, and names") {
  Graph graph = Transformer(1);
  const size_t nodes = graph.nodes.size();
  const TensorId unused = Source(graph, "unused", {{4}});
  Op(graph, "dead", "relu", {unused});
  const Graph pruned = Pruned(graph);
  CHECK(pruned.nodes.size() == nodes);
  CHECK(CheckGraph(pruned).ok());
  CHECK(pruned.tensors.size() == graph.tensors.size() - 2);
  CHECK(pruned.tensor(pruned.outputs[0]).name == "l0.residual");
}

TEST_CASE("AddNode refuses what does not fit") {
  Graph graph;
  graph.operators = BuiltinOperators();
  const TensorId x = Source(graph, "x", {{4}, {3}});
  Node node;
  node.name = "m";
  node.op = "matmul";
  node.inputs = {x, x};
  auto bad = graph.AddNode(node);
  REQUIRE_FALSE(bad.ok());
  CHECK(bad.status().message().find("node 'm': operator 'matmul': dim 0 of 'rhs'") !=
        absl::string_view::npos);
  CHECK(graph.nodes.empty());
  node.inputs = {TensorId(7)};
  CHECK_FALSE(graph.AddNode(node).ok());
}

}  // namespace
}  // namespace tandem
