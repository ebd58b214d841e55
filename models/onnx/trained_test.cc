// Which initialisers are parameters, where the exporter says so and where it has to be guessed.
#include <catch2/catch.hpp>
#include <cmath>

#include "models/onnx/import_checks.h"

namespace tandem {
namespace {

const Tensor* Find(const Graph& graph, const std::string& name) {
  for (const Tensor& tensor : graph.tensors) {
    if (tensor.name == name && !tensor.producer.valid()) return &tensor;
  }
  return nullptr;
}

bool Trained(const Graph& graph, const std::string& name) {
  const Tensor* tensor = Find(graph, name);
  return tensor != nullptr && tensor->role == TensorRole::kParameter;
}

int Parameters(const Graph& graph) {
  int count = 0;
  for (const Tensor& tensor : graph.tensors) count += tensor.role == TensorRole::kParameter ? 1 : 0;
  return count;
}

bool Noted(const ImportReport& report, const std::string& part) {
  for (const std::string& note : report.notes) {
    if (note.find(part) != std::string::npos) return true;
  }
  return false;
}

std::vector<float> Sinusoids(int rows, int columns) {
  std::vector<float> values;
  for (int p = 0; p < rows; ++p) {
    for (int j = 0; j < columns; ++j) {
      values.push_back(static_cast<float>(std::sin(p * std::pow(0.1, j) + j % 2)));
    }
  }
  return values;
}

// x of 2 x 8 x 4 plus "extra".
OnnxModelBuilder Plus(const std::string& extra) {
  OnnxModelBuilder m;
  m.Input("x", {"2", "8", "4"});
  m.Weights("first.weight", {4, 4});
  m.Node("MatMul", {"x", "first.weight"}, {"h"});
  m.Node("Add", {"h", extra}, {"y"});
  m.Output("y");
  return m;
}

// One matrix and one bias, each read in two layers.
OnnxModelBuilder TwoLayers(const std::string& second, const std::string& matrix,
                           const std::string& bias) {
  OnnxModelBuilder m;
  m.Input("x", {"2", "4"});
  m.Weights("onnx::MatMul_1", {4, 4});
  m.Weights("layers.0.bias", {4});
  if (matrix != "onnx::MatMul_1") m.Node("Identity", {"onnx::MatMul_1"}, {matrix});
  if (bias != "layers.0.bias") m.Node("Identity", {"layers.0.bias"}, {bias});
  m.Node("MatMul", {"x", "onnx::MatMul_1"}, {"a"})->set_name("/layers.0/MatMul");
  m.Node("Add", {"a", "layers.0.bias"}, {"b"})->set_name("/layers.0/Add");
  m.Node("Relu", {"b"}, {"c"})->set_name("/Relu");
  m.Node("MatMul", {"c", matrix}, {"d"})->set_name("/" + second + "/MatMul");
  m.Node("Add", {"d", bias}, {"y"})->set_name("/" + second + "/Add");
  m.Output("y");
  m.OlderTorch();
  return m;
}

}  // namespace

TEST_CASE("what the file lists as a parameter is trained, whatever its values look like") {
  OnnxModelBuilder m = Plus("positions");
  m.Floats("positions", {8, 4}, Sinusoids(8, 4));
  CHECK_FALSE(Trained(Import(m), "positions"));  // without the list: a formula
  m.Signature("p_positions: PARAMETER target='positions'");
  CHECK(Trained(Import(m), "positions"));

  OnnxModelBuilder scale = Plus("gain");
  scale.Floats("gain", {}, {0.5F});
  CHECK_FALSE(Trained(Import(scale), "gain"));
  OnnxModelBuilder old = scale;
  // As an earlier version writes the list.
  old.Signature(
      "ExportGraphSignature(input_specs=[InputSpec(kind=<InputKind.PARAMETER: 2>, "
      "arg=TensorArgument(name='p_gain'), target='gain', persistent=None)], output_specs=[])");
  CHECK(Trained(Import(old), "gain"));
  scale.Signature("b_gain: BUFFER target='gain' persistent=True");
  CHECK_FALSE(Trained(Import(scale), "gain"));
}

TEST_CASE("what the file lists as a buffer is not trained, unless asked") {
  OnnxModelBuilder m = Plus("offset");
  m.Weights("offset", {8, 4});
  CHECK(Trained(Import(m), "offset"));
  m.Signature("b_offset: BUFFER target='offset' persistent=False");
  const Graph graph = Import(m);
  CHECK_FALSE(Trained(graph, "offset"));
  REQUIRE(Find(graph, "offset") != nullptr);
  CHECK(Has(Find(graph, "offset")->note, "buffer"));
  ImportOptions options;
  options.train = {"offset"};
  CHECK(Trained(Import(m, options), "offset"));
}

TEST_CASE(
    "equal matrices that the file lists are two, and a listed vector is one wherever it is read") {
  OnnxModelBuilder m;
  m.Input("x", {"2", "4"});
  m.Weights("a.weight", {4, 4});
  m.Weights("b.weight", {4, 4});
  m.Weights("norm.weight", {4});
  m.Node("MatMul", {"x", "a.weight"}, {"p"});
  m.Node("Mul", {"p", "norm.weight"}, {"q"});
  m.Node("MatMul", {"q", "b.weight"}, {"r"});
  m.Node("Mul", {"r", "norm.weight"}, {"s"});
  m.Node("Mul", {"s", "norm.weight"}, {"y"});
  m.Output("y");
  CHECK(Parameters(Import(m)) == 4);  // one matrix, a vector for each place
  OnnxModelBuilder listed = m;
  listed.Signature(
      "p_a: PARAMETER target='a.weight'\np_b: PARAMETER target='b.weight'\n"
      "p_n: PARAMETER target='norm.weight'");
  CHECK(Parameters(Import(listed)) == 3);
  // A name that lacks may have been merged: the exporter optimised, and says nothing of the rest.
  OnnxModelBuilder lacking = m;
  lacking.Signature(
      "p_a: PARAMETER target='a.weight'\np_b: PARAMETER target='b.weight'\n"
      "p_n: PARAMETER target='norm.weight'\np_m: PARAMETER target='other.weight'");
  ImportReport report;
  CHECK(Parameters(Import(lacking, {}, &report)) == 5);
  CHECK(Noted(report, "--tie norm.weight"));
  ImportOptions options;
  options.tie = {"norm"};
  CHECK(Parameters(Import(lacking, options)) == 3);
}

TEST_CASE("copied layers that an exporter merged have their own weights") {
  // A name of its own behind the Identity: a bias of its own, and so a layer of its own.
  const Graph two = Import(TwoLayers("layers.1", "onnx::MatMul_2", "layers.1.bias"));
  CHECK(Parameters(two) == 4);
  CHECK(Trained(two, "layers.1.bias"));
  CHECK(Trained(two, "onnx::MatMul_2"));
  // The same layer again: its modules have other names, but no parameters of their own.
  CHECK(Parameters(Import(TwoLayers("layers.0_1", "onnx::MatMul_2", "layers.0.bias"))) == 2);
  CHECK(Parameters(Import(TwoLayers("layers.0_1", "onnx::MatMul_1", "layers.0.bias"))) == 2);
}

TEST_CASE("a number under a name of the model's own is trained, and that is said") {
  OnnxModelBuilder m = Plus("gain");
  m.Floats("gain", {}, {0.5F});
  m.OlderTorch();
  ImportReport report;
  CHECK(Trained(Import(m, {}, &report), "gain"));
  CHECK(Noted(report, "--freeze gain"));
  OnnxModelBuilder made = Plus("onnx::Add_7");
  made.Floats("onnx::Add_7", {}, {0.5F});
  made.OlderTorch();
  CHECK_FALSE(Trained(Import(made), "onnx::Add_7"));
  OnnxModelBuilder low = Plus("masked_bias");
  low.Floats("masked_bias", {}, {-1e4F});
  low.OlderTorch();
  CHECK_FALSE(Trained(Import(low), "masked_bias"));
}

TEST_CASE("a number that was computed from a parameter is noted") {
  OnnxModelBuilder m = Plus("exp");
  m.Floats("exp", {}, {15.429013F});
  m.Signature("p_s: PARAMETER target='logit_scale'\np_f: PARAMETER target='first.weight'");
  ImportReport report;
  CHECK_FALSE(Trained(Import(m, {}, &report), "exp"));
  CHECK(Noted(report, "optimize=False"));
  // Nothing lacks: it is a constant of the program.
  OnnxModelBuilder constant = Plus("exp");
  constant.Floats("exp", {}, {15.429013F});
  constant.Signature("p_f: PARAMETER target='first.weight'");
  report = {};
  CHECK_FALSE(Trained(Import(constant, {}, &report), "exp"));
  CHECK_FALSE(Noted(report, "optimize=False"));
}

TEST_CASE("rows that an exporter looked up are trained as their table") {
  // Two different rows, six times; and the same for every sample.
  std::vector<float> rows;
  for (int b = 0; b < 2; ++b) {
    for (int s = 0; s < 8; ++s) {
      for (int j = 0; j < 4; ++j) {
        rows.push_back(0.25F * static_cast<float>((s % 3 == 0 ? 1 : -3) * (j + 1) + j * j * j));
      }
    }
  }
  for (int64_t batch : {2, 6}) {
    OnnxModelBuilder m = Plus("embedding_1");
    m.Floats("embedding_1", {2, 8, 4}, rows);
    ImportOptions options;
    options.global_batch = batch;
    ImportReport report;
    const Graph graph = Import(m, options, &report);
    REQUIRE(Trained(graph, "embedding_1"));
    CHECK(PlainShape(Find(graph, "embedding_1")->shape) == Dims{2, 1, 4});
    CHECK(Noted(report, "--freeze embedding_1"));
    CHECK(Noted(report, "rows of a table of 2"));
    HostTensor x{{batch, 8, 4}, std::vector<double>(static_cast<size_t>(batch * 32), 0)};
    const HostTensor out = Evaluate(graph, x);
    REQUIRE(out.shape == Dims{batch, 8, 4});
    for (size_t i = 0; i < out.data.size(); ++i) CHECK(out.data[i] == rows[i % 32]);
  }
  // A person's name: as it is. All different: no table.
  OnnxModelBuilder named = Plus("pos.table");
  named.Floats("pos.table", {8, 4}, std::vector<float>(rows.begin(), rows.begin() + 32));
  CHECK(PlainShape(Find(Import(named), "pos.table")->shape) == Dims{8, 4});
  OnnxModelBuilder different = Plus("embedding_1");
  different.Weights("embedding_1", {8, 4});
  CHECK(PlainShape(Find(Import(different), "embedding_1")->shape) == Dims{8, 4});
}

TEST_CASE("a table of relative distances is found along the last dims") {
  std::vector<float> bias;  // heads x rows x columns, by the distance
  for (int h = 0; h < 2; ++h) {
    for (int i = 0; i < 4; ++i) {
      for (int j = 0; j < 4; ++j) bias.push_back(static_cast<float>((h + 1) * (i - j) + h * 7) / 9);
    }
  }
  OnnxModelBuilder m;
  m.Input("x", {"2", "2", "4", "4"});
  m.Floats("unsqueeze_1", {1, 2, 4, 4}, bias);
  m.Node("Add", {"x", "unsqueeze_1"}, {"y"});
  m.Output("y");
  const Graph graph = Import(m);
  REQUIRE(Trained(graph, "unsqueeze_1"));
  CHECK(PlainShape(Find(graph, "unsqueeze_1")->shape) == Dims{7, 1, 2});
  const HostTensor out = Evaluate(graph, {{2, 2, 4, 4}, std::vector<double>(64, 0)});
  for (size_t i = 0; i < out.data.size(); ++i) CHECK(out.data[i] == bias[i % 32]);
}

TEST_CASE("the beginning of a computed parameter is that parameter") {
  OnnxModelBuilder m;
  m.Input("x", {"2", "8", "4"});
  m.Input("z", {"2", "6", "4"});
  const onnx::TensorProto* whole = m.Weights("onnx::Add_9", {1, 8, 4});
  const std::vector<float> values(whole->float_data().begin(), whole->float_data().end());
  m.Floats("onnx::Add_3", {1, 6, 4}, std::vector<float>(values.begin(), values.begin() + 24));
  m.Node("Add", {"x", "onnx::Add_9"}, {"a"});
  m.Node("Add", {"z", "onnx::Add_3"}, {"b"});
  m.Node("Concat", {"a", "b"}, {"y"}, {{"axis", int64_t{1}}});
  m.Output("y");
  ImportReport report;
  CHECK(Parameters(Import(m, {}, &report)) == 1);
  CHECK(Noted(report, "--untie onnx::Add_3"));
  ImportOptions options;
  options.untie = {"Add_3"};
  CHECK(Parameters(Import(m, options)) == 2);
}

TEST_CASE("masks that mask nothing and weights of samples are not trained") {
  OnnxModelBuilder m;
  m.Input("x", {"2", "3", "4", "4"});
  m.Floats("where", {2, 1, 4, 4}, std::vector<float>(32, 0));
  m.Node("Add", {"x", "where"}, {"s"});
  m.Node("Softmax", {"s"}, {"y"}, {{"axis", int64_t{-1}}});
  m.Output("y");
  CHECK(Parameters(Import(m)) == 0);

  OnnxModelBuilder bag;
  bag.Input("ids", {"5"}, onnx::TensorProto::INT64);
  bag.Weights("emb.weight", {7, 4});
  bag.Floats("tmp", {5, 1}, std::vector<float>(5, 1));
  bag.Node("Gather", {"emb.weight", "ids"}, {"rows"});
  bag.Node("Mul", {"rows", "tmp"}, {"y"});
  bag.Output("y");
  CHECK(Parameters(Import(bag)) == 1);

  // The scale of a normalisation that was taken apart begins with ones too, and is trained; zeros
  // that are added elsewhere are, and that is said.
  OnnxModelBuilder scale = Plus("val_4");
  scale.Floats("val_4", {8, 1}, std::vector<float>(8, 0));
  ImportReport report;
  CHECK(Trained(Import(scale, {}, &report), "val_4"));
  CHECK(Noted(report, "--freeze val_4"));
  OnnxModelBuilder ones;
  ones.Input("x", {"2", "8", "4"});
  ones.Floats("val_4", {8, 1}, std::vector<float>(8, 1));
  ones.Node("Mul", {"x", "val_4"}, {"y"});
  ones.Output("y");
  CHECK(Trained(Import(ones), "val_4"));
}

}  // namespace tandem
