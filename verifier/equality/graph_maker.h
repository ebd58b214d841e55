// Graphs for the tests of this folder, node by node; what the operators refuse fails the test.
#ifndef TANDEM_VERIFIER_EQUALITY_GRAPH_MAKER_H_
#define TANDEM_VERIFIER_EQUALITY_GRAPH_MAKER_H_

#include <catch2/catch.hpp>
#include <string>
#include <utility>
#include <vector>

#include "pcg/graph/graph.h"
#include "pcg/language/op_parser.h"

namespace tandem {

struct GraphMaker {
  Graph g;
  GraphMaker() { g.operators = BuiltinOperators(); }

  TensorId Source(const std::string& name, FactoredShape shape) {
    Tensor t;
    t.name = name;
    t.role = TensorRole::kInput;
    t.shape = std::move(shape);
    const TensorId id = g.AddSource(std::move(t));
    g.inputs.push_back(id);
    return id;
  }
  TensorId Constant(const std::string& name, double value) {
    Tensor t;
    t.name = name;
    t.role = TensorRole::kConstant;
    t.shape = {{1}};
    t.values = {value};
    return g.AddSource(std::move(t));
  }
  TensorId Named(const std::string& name, const std::string& op, std::vector<TensorId> inputs,
                 Attributes attributes = {}, const std::vector<DType>& dtypes = {}) {
    Node node;
    node.name = name;
    node.op = op;
    node.inputs = std::move(inputs);
    node.attributes = std::move(attributes);
    const auto id = g.AddNode(std::move(node), dtypes);
    INFO(id.status().message());
    REQUIRE(id.ok());
    return g.node(*id).outputs[0];
  }
  TensorId Op(const std::string& op, std::vector<TensorId> inputs, Attributes attributes = {}) {
    return Named(op + std::to_string(g.nodes.size()), op, std::move(inputs), std::move(attributes));
  }
};

}  // namespace tandem

#endif  // TANDEM_VERIFIER_EQUALITY_GRAPH_MAKER_H_
