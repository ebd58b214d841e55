// What the importer makes of models: folding, masks, the batch, weights, names.
#include "models/onnx/importer.h"

#include <catch2/catch.hpp>
#include <cmath>

#include "models/onnx/block_tags.h"
#include "models/onnx/import_checks.h"

namespace tandem {
namespace {

int Count(const Graph& graph, const std::string& op) {
  int count = 0;
  for (const Node& node : graph.nodes) count += node.op == op ? 1 : 0;
  return count;
}

const Tensor& Named(const Graph& graph, const std::string& name) {
  for (const Tensor& tensor : graph.tensors) {
    if (tensor.name == name) return tensor;
  }
  FAIL("no tensor " << name);
  return graph.tensors[0];
}

int Sources(const Graph& graph, TensorRole role) {
  int count = 0;
  for (const Tensor& tensor : graph.tensors) count += tensor.role == role ? 1 : 0;
  return count;
}

HostTensor Ramp(const Dims& shape) {
  HostTensor tensor{shape, {}};
  int64_t elements = 1;
  for (int64_t extent : shape) elements *= extent;
  for (int64_t i = 0; i < elements; ++i) {
    tensor.data.push_back(std::sin(0.7 * static_cast<double>(i)) + 0.1);
  }
  return tensor;
}

}  // namespace

TEST_CASE("mask arithmetic becomes a causal mask, and the NaN guard of the softmax disappears") {
  const Graph graph = Import(Attention());
  CHECK(Count(graph, "causal_mask") == 1);
  CHECK(Count(graph, "isnan") == 0);
  CHECK(Count(graph, "where") == 0);
  CHECK(Count(graph, "less_equal") == 0);
  CHECK(Count(graph, "linear_t") == 1);
  CHECK(Sources(graph, TensorRole::kParameter) == 5);
  CHECK(Sources(graph, TensorRole::kConstant) == 0);
  CHECK(Named(graph, "scores").producer.valid());
  CHECK(graph.batch == 2);
}

TEST_CASE("the guard stays where a row may be fully masked") {
  OnnxModelBuilder m;
  m.Input("x", {"2", "4"});
  std::vector<float> mask(16, 0);
  for (size_t j = 0; j < 4; ++j) mask[8 + j] = -INFINITY;  // row 2
  m.Floats("mask", {4, 4}, mask);
  m.Weights("w.weight", {4, 4});
  m.Floats("zero", {}, {0});
  m.Node("Unsqueeze", {"x", "one"}, {"u"});
  m.Ints("one", {1}, {1});
  m.Node("Add", {"u", "mask"}, {"s"});
  m.Node("Softmax", {"s"}, {"p"}, {{"axis", int64_t{-1}}});
  m.Node("IsNaN", {"p"}, {"bad"});
  m.Node("Where", {"bad", "zero", "p"}, {"y"});
  m.Output("y");
  const Graph graph = Import(m);
  CHECK(Count(graph, "isnan") == 1);
  CHECK(Sources(graph, TensorRole::kParameter) == 0);  // a mask is no weight
}

TEST_CASE("the batch is replaced wherever it flows") {
  const OnnxModelBuilder m = Attention();
  const HostTensor two = Evaluate(Import(m), Ramp({2, 4, 6}));
  for (int64_t batch : {1, 4, 6}) {
    ImportOptions options;
    options.global_batch = batch;
    const Graph graph = Import(m, options);
    CHECK(graph.batch == batch);
    const HostTensor out = Evaluate(graph, Ramp({batch, 4, 6}));
    REQUIRE(out.shape == Dims{4 * batch, 5});
    for (size_t i = 0; i < std::min(out.data.size(), two.data.size()); ++i) {
      CHECK(std::fabs(out.data[i] - two.data[i]) < 1e-12);
    }
  }
}

TEST_CASE("where the batch cannot be replaced the node is named") {
  OnnxModelBuilder m;
  m.Input("x", {"4", "6"});
  m.Ints("mixed", {2}, {3, 8});
  m.Node("Reshape", {"x", "mixed"}, {"y"});
  m.Output("y");
  CHECK(Import(m).batch == 4);
  ImportOptions options;
  options.global_batch = 8;
  const std::string message = ErrorOf(m, options);
  CHECK(Has(message, "node_y"));
  CHECK(Has(message, "from the 4 of the export to 8"));

  OnnxModelBuilder differs;
  differs.Input("x", {"2", "3"});
  differs.Ints("per_sample", {2, 3}, {1, 2, 4, 7, 5, 3});
  differs.Node("Cast", {"per_sample"}, {"f"}, {{"to", int64_t{1}}});
  differs.Node("Add", {"x", "f"}, {"y"});
  differs.Output("y");
  CHECK(Import(differs).batch == 2);
  CHECK(Has(ErrorOf(differs, options), "differs along the batch"));
}

TEST_CASE("symbolic dims are bound, or all named") {
  OnnxModelBuilder m;
  m.Input("x", {"batch", "seq", "4"});
  m.Node("Shape", {"x"}, {"shape"});
  m.Ints("zero", {}, {0});
  m.Node("Gather", {"shape", "zero"}, {"b"});
  m.Ints("zero1", {1}, {0});
  m.Node("Unsqueeze", {"b", "zero1"}, {"b1"});
  m.Ints("rest", {1}, {-1});
  m.Node("Concat", {"b1", "rest"}, {"target"}, {{"axis", int64_t{0}}});
  m.Node("Reshape", {"x", "target"}, {"y"});
  m.Output("y");
  ImportOptions options;
  options.global_batch = 3;
  CHECK(Has(ErrorOf(m, options), "--dim seq=128"));
  options.dims["seq"] = 5;
  const Graph graph = Import(m, options);
  CHECK(PlainShape(graph.tensor(graph.outputs[0]).shape) == Dims{3, 20});
  CHECK(graph.nodes.size() == 1);
  options.dims["batch"] = 3;  // the same said twice
  CHECK(Import(m, options).batch == 3);
  options.dims["batch"] = 4;
  CHECK(Has(ErrorOf(m, options), "--dim batch=4 says another one than --global-batch 3"));
  options.dims.erase("batch");
  options.dims["width"] = 5;
  CHECK(Has(ErrorOf(m, options), "no symbolic dim 'width'"));
  options.dims = {{"seq", -5}};
  CHECK(Has(ErrorOf(m, options), "is -5"));
}

TEST_CASE("weights: merged vectors are taken apart, equal and transposed matrices are tied") {
  OnnxModelBuilder m;
  m.Input("ids", {"2", "3"}, onnx::TensorProto::INT64);
  onnx::TensorProto* table = m.Weights("emb.weight", {7, 4});
  std::vector<float> turned(28);
  for (int i = 0; i < 7; ++i) {
    for (int j = 0; j < 4; ++j)
      turned[static_cast<size_t>(j * 7 + i)] = table->float_data(i * 4 + j);
  }
  m.Floats("val_9", {4, 7}, turned);
  m.Weights("gamma.weight", {4});
  m.Node("Gather", {"emb.weight", "ids"}, {"e"});
  m.Node("Mul", {"e", "gamma.weight"}, {"a"});
  m.Node("Mul", {"a", "gamma.weight"}, {"b"});
  m.Node("MatMul", {"b", "val_9"}, {"y"});
  m.Output("y");
  const Graph graph = Import(m);
  CHECK(Sources(graph, TensorRole::kParameter) == 3);  // the table, gamma twice
  CHECK(Count(graph, "linear_t") == 1);
  CHECK(Has(Named(graph, "emb.weight").note, "trained"));
  ImportOptions options;
  options.untie = {"val_9"};
  CHECK(Sources(Import(m, options), TensorRole::kParameter) == 4);
  options = {};
  options.tie = {"gamma"};
  CHECK(Sources(Import(m, options), TensorRole::kParameter) == 2);
  options.tie = {"("};
  CHECK_FALSE(ImportOnnxBytes(m.Bytes(), "test.onnx", options, nullptr).ok());
}

TEST_CASE("what is no parameter is not trained") {
  OnnxModelBuilder m;
  m.Input("x", {"2", "8", "4"});
  m.Floats("inv_freq", {4}, {1, 0.1F, 0.013F, 0.001F});  // leads to a cosine only
  m.Floats("positions", {8, 1}, {0, 1, 2, 3, 4, 5, 6, 7});
  m.Node("Mul", {"positions", "inv_freq"}, {"angles"});
  m.Node("Cos", {"angles"}, {"cos"});
  m.Node("Mul", {"x", "cos"}, {"r"});
  m.Floats("val_3", {1}, {0.5F});  // a number
  m.Node("Mul", {"r", "val_3"}, {"h"});
  std::vector<float> token;
  for (int b = 0; b < 2; ++b) {
    for (int i = 0; i < 4; ++i) token.push_back(0.5F + static_cast<float>(i * i));
  }
  m.Floats("factors", {2, 1, 4}, token);  // repeated over the batch
  m.Node("Mul", {"factors", "h"}, {"y"});
  m.Output("y");
  for (int64_t batch : {0, 6}) {
    ImportOptions options;
    options.global_batch = batch;
    ImportReport report;
    const Graph graph = Import(m, options, &report);
    CHECK(Sources(graph, TensorRole::kParameter) == 0);
    CHECK(Sources(graph, TensorRole::kState) == 1);
    CHECK(PlainShape(Named(graph, "factors").shape) == Dims{1, 1, 4});
    CHECK(PlainShape(graph.tensor(graph.outputs[0]).shape) == Dims{batch ? batch : 2, 8, 4});
    CHECK(Count(graph, "scale") == 1);
    CHECK_FALSE(report.notes.empty());
  }
}

TEST_CASE("missing weights are planned for; missing positions and masks are guessed and said") {
  OnnxModelBuilder m;
  m.Input("ids", {"2", "5"}, onnx::TensorProto::INT64);
  m.Missing("wte.weight", {11, 4});
  m.Missing("wpe.weight", {5, 4});
  m.Missing("types.weight", {2, 4});
  m.Missing("index", {1, 5}, onnx::TensorProto::INT64);
  m.Node("Gather", {"wte.weight", "ids"}, {"a"});
  m.Node("Gather", {"wpe.weight", "index"}, {"b"});
  m.Node("Gather", {"types.weight", "index"}, {"c"});
  m.Node("Add", {"a", "b"}, {"d"});
  m.Node("Add", {"d", "c"}, {"y"});
  m.Output("y");
  ImportReport report;
  const Graph graph = Import(m, {}, &report);
  CHECK(Sources(graph, TensorRole::kParameter) == 3);
  CHECK(Named(graph, "wte.weight").values.empty());
  CHECK(Named(graph, "wte.weight").external == "weights.bin:4096:176");
  std::string notes;
  for (const auto& note : report.notes) notes += note + "\n";
  CHECK(Has(notes, "'index': taken for positions 0 to 4"));
  CHECK(Has(notes, "would not fit 2 rows"));
}

TEST_CASE("external data outside the model's folder is refused") {
  for (const char* location : {"/etc/passwd", "../secret.bin", "a/../../b", ""}) {
    OnnxModelBuilder m;
    m.Input("x", {"2", "2"});
    m.Missing("w", {2, 2});
    m.model().mutable_graph()->mutable_initializer(0)->mutable_external_data(0)->set_value(
        location);
    m.Node("MatMul", {"x", "w"}, {"y"});
    m.Output("y");
    CHECK(Has(ErrorOf(m), "'w'"));
  }
}

TEST_CASE("batch norm in training mode updates its running statistics") {
  OnnxModelBuilder m;
  m.Input("x", {"batch", "3", "4", "4"});
  m.Weights("bn.weight", {3});
  m.Weights("bn.bias", {3});
  m.Weights("bn.mean", {3});
  m.Floats("bn.var", {3}, {1, 2, 3});
  m.Node("BatchNormalization", {"x", "bn.weight", "bn.bias", "bn.mean", "bn.var"},
         {"y", "mean_out", "var_out"}, {{"training_mode", int64_t{1}}, {"momentum", 0.75F}});
  m.Output("y");
  ImportOptions options;
  options.global_batch = 4;
  const Graph graph = Import(m, options);
  REQUIRE(graph.updates.size() == 2);
  CHECK(graph.tensor(graph.updates[0].state).name == "bn.mean");
  CHECK(graph.tensor(graph.updates[1].next).name == "var_out");
  CHECK(Count(graph, "batch_mean") == 1);
  CHECK(Sources(graph, TensorRole::kParameter) == 2);
  CHECK(Sources(graph, TensorRole::kState) == 2);
  // Evaluation mode reads them.
  m.model().mutable_graph()->mutable_node(0)->mutable_attribute(1)->set_i(0);
  const Graph eval = Import(m, options);
  CHECK(eval.updates.empty());
  CHECK(Count(eval, "batch_mean") == 0);
  CHECK(Sources(eval, TensorRole::kState) == 2);
}

TEST_CASE("constant fills in a weight's place are parameters, one a place") {
  OnnxModelBuilder m(9);
  m.Input("x", {"2", "3"});
  m.Ints("shape", {2}, {3, 3});
  m.Ints("bias_shape", {1}, {3});
  m.Node("ConstantOfShape", {"shape"}, {"w"});
  m.Node("ConstantOfShape", {"bias_shape"}, {"b"});
  m.Node("Gemm", {"x", "w", "b"}, {"h"});
  m.Node("Gemm", {"h", "w", "b"}, {"y"});
  m.Output("y");
  const Graph graph = Import(m);
  CHECK(Sources(graph, TensorRole::kParameter) == 4);
  CHECK(Named(graph, "w").initializer.rfind("normal(", 0) == 0);
}

TEST_CASE("old softmax flattens, new softmax does not") {
  for (int opset : {11, 13}) {
    OnnxModelBuilder m(opset);
    m.Input("x", {"2", "3", "4"});
    m.Node("Softmax", {"x"}, {"y"});
    m.Output("y");
    const HostTensor out = Evaluate(Import(m), Ramp({2, 3, 4}));
    double sum = 0;
    for (size_t i = 0; i < (opset < 13 ? 12u : 4u); ++i) sum += out.data[i];
    CHECK(std::fabs(sum - 1) < 1e-12);
  }
}

TEST_CASE("initialisers repeated as inputs are weights") {
  OnnxModelBuilder m(7);
  m.Input("x", {"2", "3"});
  m.Input("w", {"3", "3"});
  m.Weights("w", {3, 3});
  m.Node("MatMul", {"x", "w"}, {"y"});
  m.Output("y");
  const Graph graph = Import(m);
  CHECK(graph.inputs.size() == 1);
  CHECK(Sources(graph, TensorRole::kParameter) == 1);
}

TEST_CASE("an equation becomes an operator of its own") {
  OnnxModelBuilder m;
  m.Input("x", {"2", "3", "4"});
  m.Weights("w.weight", {4, 5});
  m.Node("Einsum", {"x", "w.weight"}, {"y"}, {{"equation", std::string("bij, jk -> bki")}});
  m.Output("y");
  const Graph graph = Import(m);
  CHECK(graph.nodes[0].op.rfind("einsum_", 0) == 0);
  CHECK(PlainShape(graph.tensor(graph.outputs[0]).shape) == Dims{2, 5, 3});
}

TEST_CASE("layers are read off the names of the weights") {
  CHECK(LayerOfName("m.h.5.attn.weight") == std::make_pair(std::string("m.h"), 5));
  CHECK(LayerOfName("encoder/layers_12/kernel")->second == 12);
  CHECK_FALSE(LayerOfName("head.weight").has_value());
  CHECK_FALSE(LayerOfName("0.weight").has_value());
  const Graph graph = Import(Attention());
  CHECK(graph.nodes.front().block == 0);
  CHECK(graph.nodes.back().block == 1);
}

TEST_CASE("functions of the model and branches on constants are taken in") {
  OnnxModelBuilder m;
  m.Input("x", {"2", "3"});
  onnx::FunctionProto* function = m.model().add_functions();
  function->set_name("Twice");
  function->set_domain("local");
  function->add_input("a");
  function->add_output("b");
  onnx::NodeProto* inside = function->add_node();
  inside->set_op_type("LeakyRelu");
  inside->add_input("a");
  inside->add_output("b");
  auto* alpha = inside->add_attribute();
  alpha->set_name("alpha");
  alpha->set_type(onnx::AttributeProto::FLOAT);
  alpha->set_ref_attr_name("slope");
  m.Node("Twice", {"x"}, {"h"}, {{"slope", 0.25F}})->set_domain("local");
  m.Floats("yes", {}, {1});
  m.Node("Cast", {"yes"}, {"condition"}, {{"to", int64_t{9}}});
  onnx::NodeProto* branch = m.Node("If", {"condition"}, {"y"});
  for (const char* name : {"then_branch", "else_branch"}) {
    auto* attribute = branch->add_attribute();
    attribute->set_name(name);
    attribute->set_type(onnx::AttributeProto::GRAPH);
    onnx::NodeProto* node = attribute->mutable_g()->add_node();
    node->set_op_type(std::string(name) == "then_branch" ? "Neg" : "Det");
    node->add_input("h");
    node->add_output(std::string(name) + "_out");
    attribute->mutable_g()->add_output()->set_name(std::string(name) + "_out");
  }
  m.Output("y");
  const Graph graph = Import(m);
  REQUIRE(graph.nodes.size() == 2);
  CHECK(graph.nodes[0].op == "leaky_relu");
  CHECK(std::get<double>(graph.nodes[0].attributes.at("alpha")) == 0.25);
  CHECK(graph.nodes[1].op == "neg");
}

TEST_CASE("attention of recent opsets is one operator, keys shared by heads") {
  OnnxModelBuilder m(23);
  m.Input("q", {"2", "3", "8"});
  m.Input("k", {"2", "5", "4"});
  m.Input("v", {"2", "5", "4"});
  m.Node("Attention", {"q", "k", "v"}, {"y"},
         {{"q_num_heads", int64_t{4}}, {"kv_num_heads", int64_t{2}}, {"is_causal", int64_t{1}}});
  m.Output("y");
  const Graph graph = Import(m);
  CHECK(Count(graph, "causal_attention") == 1);
  CHECK(Count(graph, "expand") == 2);
  CHECK(PlainShape(graph.tensor(graph.outputs[0]).shape) == Dims{2, 3, 8});
  m.model().mutable_graph()->mutable_node(0)->mutable_attribute(2)->set_i(3);
  CHECK(Has(ErrorOf(m), "3 heads do not divide"));
}

TEST_CASE("rotary embedding turns pairs") {
  for (int64_t interleaved : {0, 1}) {
    OnnxModelBuilder m(23);
    m.Input("x", {"1", "1", "2", "4"});
    m.Floats("cos_table", {1, 2, 2}, {1, 0.5F, 0.25F, 0.75F});
    m.Floats("sin_table", {1, 2, 2}, {0, 0.5F, 1, -0.25F});
    m.Node("RotaryEmbedding", {"x", "cos_table", "sin_table"}, {"y"},
           {{"interleaved", interleaved}});
    m.Output("y");
    const HostTensor in = Ramp({1, 1, 2, 4});
    const HostTensor out = Evaluate(Import(m), in);
    const double c[] = {1, 0.5, 0.25, 0.75}, s[] = {0, 0.5, 1, -0.25};
    for (size_t t = 0; t < 2; ++t) {
      for (size_t p = 0; p < 2; ++p) {
        const size_t a = 4 * t + (interleaved ? 2 * p : p),
                     b = 4 * t + (interleaved ? 2 * p + 1 : p + 2);
        CHECK(std::fabs(out.data[a] - (in.data[a] * c[2 * t + p] - in.data[b] * s[2 * t + p])) <
              1e-6);
        CHECK(std::fabs(out.data[b] - (in.data[a] * s[2 * t + p] + in.data[b] * c[2 * t + p])) <
              1e-6);
      }
    }
  }
}

}  // namespace tandem
