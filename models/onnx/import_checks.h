// What the importer's tests share: importing a model built in code, its refusal, and its value.
#ifndef TANDEM_MODELS_ONNX_IMPORT_CHECKS_H_
#define TANDEM_MODELS_ONNX_IMPORT_CHECKS_H_

#include <catch2/catch.hpp>
#include <map>
#include <string>
#include <vector>

#include "models/onnx/importer.h"
#include "models/onnx/model_builder.h"
#include "pcg/graph/interpreter.h"

namespace tandem {

using Dims = std::vector<int64_t>;

inline Graph Import(const OnnxModelBuilder& model, const ImportOptions& options = {},
                    ImportReport* report = nullptr) {
  auto graph = ImportOnnxBytes(model.Bytes(), "test.onnx", options, report);
  INFO(graph.status());
  REQUIRE(graph.ok());
  return *graph;
}

inline std::string ErrorOf(const OnnxModelBuilder& model, const ImportOptions& options = {},
                           ImportReport* report = nullptr) {
  const auto graph = ImportOnnxBytes(model.Bytes(), "test.onnx", options, report);
  REQUIRE_FALSE(graph.ok());
  const std::string message(graph.status().message());
  CHECK(message.find("test.onnx") != std::string::npos);
  return message;
}

inline bool Has(const std::string& text, const std::string& part) {
  INFO(text);
  return text.find(part) != std::string::npos;
}

// First output for one input; weights have values.
inline HostTensor Evaluate(const Graph& graph, const HostTensor& input) {
  std::map<TensorId, HostTensor> sources;
  for (size_t t = 0; t < graph.tensors.size(); ++t) {
    const Tensor& tensor = graph.tensors[t];
    if (tensor.producer.valid()) continue;
    sources[TensorId(static_cast<int64_t>(t))] = {PlainShape(tensor.shape), tensor.values};
  }
  sources[graph.inputs[0]] = input;
  const auto values = EvaluateGraph(graph, sources, {graph.outputs[0]});
  INFO(values.status());
  REQUIRE(values.ok());
  return values->at(graph.outputs[0]);
}

// Multi-head attention as exporters write it, flattening batch and heads around the transpose; the
// causal mask comes from positions. Batch 2, 4 tokens, 2 heads of 3.
inline OnnxModelBuilder Attention() {
  OnnxModelBuilder m;
  m.Input("x", {"2", "4", "6"});
  for (const char* part : {"q", "k", "v"}) {
    const std::string p = part;
    m.Weights("h.0." + p + ".weight", {6, 6}, p == "q" ? 0.02F : p == "k" ? 0.03F : 0.05F);
    m.Node("MatMul", {"x", "h.0." + p + ".weight"}, {p + "0"});
    m.Node("Reshape", {p + "0", "split"}, {p + "1"});
    m.Node("Transpose", {p + "1"}, {p + "2"}, {{"perm", Dims{0, 2, 1, 3}}});
  }
  m.Ints("split", {4}, {2, 4, -1, 3});
  m.Ints("flat", {3}, {-1, 4, 3});
  m.Ints("apart", {4}, {2, 2, 3, 4});
  m.Node("Reshape", {"k2", "flat"}, {"k3"});
  m.Node("Transpose", {"k3"}, {"k4"}, {{"perm", Dims{0, 2, 1}}});
  m.Node("Reshape", {"k4", "apart"}, {"k5"});
  m.Ints("rows", {2, 1, 4, 1}, {0, 1, 2, 3, 0, 1, 2, 3});
  m.Ints("columns", {2, 1, 1, 4}, {0, 1, 2, 3, 0, 1, 2, 3});
  m.Node("LessOrEqual", {"columns", "rows"}, {"allowed"});
  m.Floats("zero", {}, {0});
  m.Floats("low", {}, {-INFINITY});
  m.Node("Where", {"allowed", "zero", "low"}, {"mask"});
  m.Node("MatMul", {"q2", "k5"}, {"scores"});
  m.Node("Add", {"scores", "mask"}, {"masked"});
  m.Node("Softmax", {"masked"}, {"p"}, {{"axis", int64_t{-1}}});
  m.Node("IsNaN", {"p"}, {"bad"});
  m.Node("Where", {"bad", "zero", "p"}, {"guarded"});
  m.Node("MatMul", {"guarded", "v2"}, {"o"});
  m.Node("Transpose", {"o"}, {"o2"}, {{"perm", Dims{0, 2, 1, 3}}});
  m.Ints("merge", {2}, {8, 6});
  m.Node("Reshape", {"o2", "merge"}, {"o3"});
  m.Weights("h.1.out.weight", {5, 6});
  m.Weights("h.1.out.bias", {5});
  m.Node("Gemm", {"o3", "h.1.out.weight", "h.1.out.bias"}, {"y"}, {{"transB", int64_t{1}}});
  m.Output("y");
  return m;
}

}  // namespace tandem

#endif  // TANDEM_MODELS_ONNX_IMPORT_CHECKS_H_
