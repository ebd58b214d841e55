// What the importer writes out as operators of its own: scattered values, interpolation, loops; and
// which initialisers it takes for settings.
#include <algorithm>
#include <catch2/catch.hpp>
#include <cmath>

#include "models/onnx/import_checks.h"

namespace tandem {
namespace {

using Values = std::vector<double>;

int Parameters(const Graph& graph) {
  return static_cast<int>(
      std::count_if(graph.tensors.begin(), graph.tensors.end(),
                    [](const Tensor& t) { return t.role == TensorRole::kParameter; }));
}

// A router: the two largest of four, spread over zeros (or over the data itself).
OnnxModelBuilder Router(const std::string& over, const std::string& reduction) {
  OnnxModelBuilder m(18);
  m.Input("x", {"2", "4"});
  m.Ints("two", {1}, {2});
  m.Node("TopK", {"x", "two"}, {"values", "ids"}, {{"axis", int64_t{-1}}});
  m.Floats("zero", {1}, {0});
  m.Ints("shape", {2}, {2, 4});
  m.Node("Expand", {"zero", "shape"}, {"zeros"});
  m.Node("Mul", {"values", "ten"}, {"scaled"});
  m.Floats("ten", {}, {10});
  m.Node("ScatterElements", {over, "ids", "scaled"}, {"y"},
         {{"axis", int64_t{-1}}, {"reduction", reduction}});
  m.Output("y");
  return m;
}

OnnxModelBuilder Interpolated(const std::string& place, float scale) {
  OnnxModelBuilder m(18);
  m.Input("x", {"1", "1", "2"});
  m.Floats("val_3", {3}, {1, 1, scale});
  m.Node("Resize", {"x", "", "val_3"}, {"y"},
         {{"mode", std::string("linear")}, {"coordinate_transformation_mode", place}});
  m.Output("y");
  return m;
}

// y = x + 1 + 1 + 1 with each round's value collected. `more` names what the loop goes on by.
OnnxModelBuilder Loop(const std::string& more, int64_t rounds) {
  OnnxModelBuilder m;
  m.Input("x", {"2"});
  m.Ints("rounds", {}, {rounds});
  m.Floats("one", {}, {1});
  onnx::NodeProto* loop = m.Node("Loop", {"rounds", "", "x"}, {"last", "all"});
  OnnxModelBuilder body;
  body.Input("round", {}, onnx::TensorProto::INT64);
  body.Input("before", {}, onnx::TensorProto::BOOL);
  body.Input("state", {"2"});
  body.Node("Add", {"state", "one"}, {"next"});
  body.Node("ReduceSum", {"next"}, {"total"}, {{"keepdims", int64_t{0}}});
  body.Node("Less", {"total", "one"}, {"small"});
  body.Node("Identity", {"next"}, {"row"});
  body.Floats("zero", {}, {0});
  body.Node("Less", {"zero", "one"}, {"always"});
  for (const std::string& name : {more, std::string("next"), std::string("row")}) {
    body.Output(name);
  }
  onnx::AttributeProto* attribute = loop->add_attribute();
  attribute->set_name("body");
  attribute->set_type(onnx::AttributeProto::GRAPH);
  *attribute->mutable_g() = body.model().graph();
  m.Output("all");
  return m;
}

}  // namespace

TEST_CASE("values are scattered over zeros, over data, and added") {
  const HostTensor x{{2, 4}, {1, 4, 2, 3, 8, 5, 6, 7}};
  CHECK(Evaluate(Import(Router("zeros", "none")), x).data == Values{0, 40, 0, 30, 80, 0, 0, 70});
  CHECK(Evaluate(Import(Router("x", "none")), x).data == Values{1, 40, 2, 30, 80, 5, 6, 70});
  CHECK(Evaluate(Import(Router("x", "add")), x).data == Values{1, 44, 2, 33, 88, 5, 6, 77});
  CHECK(Has(ErrorOf(Router("x", "mul")), "joined by 'mul'"));
}

TEST_CASE("known places are written by reading from data and updates") {
  OnnxModelBuilder m(18);
  m.Input("x", {"3", "2"});
  m.Weights("w.weight", {1, 2}, 1.F);
  m.Ints("places", {1, 1}, {-2});
  m.Node("ScatterND", {"x", "places", "w.weight"}, {"y"});
  m.Output("y");
  const HostTensor x{{3, 2}, {10, 11, 12, 13, 14, 15}};
  const Graph graph = Import(m);
  CHECK(Parameters(graph) == 1);
  CHECK(Evaluate(graph, x).data == Values{10, 11, 1, -2, 14, 15});

  OnnxModelBuilder computed(18);
  computed.Input("x", {"3", "2"});
  computed.Node("Cast", {"x"}, {"rows"}, {{"to", int64_t{onnx::TensorProto::INT64}}});
  computed.Weights("w.weight", {3}, 1.F);
  computed.Node("ScatterND", {"x", "rows", "w.weight"}, {"y"});
  computed.Output("y");
  CHECK(Has(ErrorOf(computed), "the places written is computed from the data"));
}

TEST_CASE("rows are taken by several computed indices each") {
  OnnxModelBuilder m;
  m.Input("x", {"2", "3", "2"});
  m.Node("ReduceSum", {"x", "last"}, {"sums"}, {{"keepdims", int64_t{0}}});
  m.Ints("last", {1}, {-1});
  m.Node("ArgMax", {"sums"}, {"best"}, {{"axis", int64_t{1}}});  // [2, 1]
  m.Ints("samples", {2, 1}, {0, 1});
  m.Node("Concat", {"samples", "best"}, {"ids"}, {{"axis", int64_t{1}}});
  m.Node("GatherND", {"x", "ids"}, {"y"});
  m.Output("y");
  const HostTensor y = Evaluate(Import(m), {{2, 3, 2}, {1, 2, 9, 8, 3, 4, 11, 12, 13, 14, 25, 26}});
  CHECK(y.shape == Dims{2, 2});
  CHECK(y.data == Values{9, 8, 25, 26});
}

TEST_CASE("vectors of layers that are applied several times are one parameter") {
  OnnxModelBuilder m;
  m.Input("x", {"2", "4"});
  for (const char* copy : {"layer.weight0", "layer.weight1"}) {
    onnx::TensorProto* weight = m.Weights(copy, {4, 4});  // as exporters that fold transposes do
    weight->set_raw_data(weight->float_data().data(), sizeof(float) * 16);
    weight->clear_float_data();
  }
  m.Weights("layer.bias", {4});
  m.Weights("gain", {4}, 0.5F);
  std::string at = "x";
  for (const std::string round : {"0", "1"}) {
    m.Node("MatMul", {at, "layer.weight" + round}, {"h" + round});
    m.Node("Identity", {"layer.bias"}, {"bias" + round});
    m.Node("Add", {"h" + round, round == "0" ? "layer.bias" : "bias1"}, {"y" + round});
    at = "y" + round;
  }
  for (const std::string round : {"2", "3", "4"}) {
    m.Node("Mul", {at, "gain"}, {"y" + round});
    at = "y" + round;
  }
  m.Output(at);
  CHECK(Parameters(Import(m)) == 5);  // gain is read three times: merged, one a place
  ImportOptions options;
  options.untie = {"bias"};
  CHECK(Parameters(Import(m, options)) == 6);
}

TEST_CASE("interpolation is a known matrix, and its scales are no weight") {
  const HostTensor x{{1, 1, 2}, {1, 3}};
  const Graph graph = Import(Interpolated("half_pixel", 2));
  CHECK(Parameters(graph) == 0);
  CHECK(Evaluate(graph, x).data == Values{1, 1.5, 2.5, 3});
  CHECK(Evaluate(Import(Interpolated("asymmetric", 2)), x).data == Values{1, 2, 3, 3});
  const HostTensor corners = Evaluate(Import(Interpolated("align_corners", 2.5F)), x);
  REQUIRE(corners.shape == Dims{1, 1, 5});  // 5 of a length of 5
  CHECK(corners.data == Values{1, 1.5, 2, 2.5, 3});
  CHECK(Has(ErrorOf(Interpolated("tf_crop_and_resize", 2)), "tf_crop_and_resize"));
}

TEST_CASE("loops of a known length are written out") {
  const HostTensor x{{2}, {5, 7}};
  const Graph graph = Import(Loop("always", 3));
  const HostTensor all = Evaluate(graph, x);
  CHECK(all.shape == Dims{3, 2});
  CHECK(all.data == Values{6, 8, 7, 9, 8, 10});
  CHECK(Has(ErrorOf(Loop("small", 3)), "whose length the data decides"));
  CHECK(Has(ErrorOf(Loop("always", 5000)), "more than 1024 rounds"));
}

TEST_CASE("sequences grow and are stacked") {
  OnnxModelBuilder m;
  m.Input("x", {"2"});
  m.Node("SequenceEmpty", {}, {"none"});
  m.Node("SequenceInsert", {"none", "x"}, {"one"});
  m.Node("Neg", {"x"}, {"minus"});
  m.Ints("front", {}, {0});
  m.Node("SequenceInsert", {"one", "minus", "front"}, {"two"});
  m.Node("ConcatFromSequence", {"two"}, {"y"}, {{"axis", int64_t{0}}, {"new_axis", int64_t{1}}});
  m.Output("y");
  const HostTensor y = Evaluate(Import(m), {{2}, {3, 4}});
  CHECK(y.shape == Dims{2, 2});
  CHECK(y.data == Values{-3, -4, 3, 4});
}

TEST_CASE("the neutral scale of a normalisation taken apart is no parameter") {
  OnnxModelBuilder m;
  m.Input("x", {"2", "2", "4"});
  m.Floats("val_8", {2}, {1, 1});
  m.Floats("norm.bias", {2}, {0, 0});
  m.Node("InstanceNormalization", {"x", "val_8", "norm.bias"}, {"y"});
  m.Output("y");
  CHECK(Parameters(Import(m)) == 1);
  m.model().mutable_graph()->mutable_initializer(0)->set_float_data(1, 0.5F);
  CHECK(Parameters(Import(m)) == 2);
}

TEST_CASE("zeros that are written over are no parameter, zeros that are added are") {
  OnnxModelBuilder m(18);
  m.Input("x", {"2", "3"});
  m.Floats("zeros_like", {2, 3}, {0, 0, 0, 0, 0, 0});
  m.Floats("shift", {1, 3}, {0, 0, 0});
  m.Ints("places", {2, 1}, {2, 0});
  m.Node("Slice", {"x", "from", "to", "axis"}, {"first"});
  m.Ints("from", {1}, {0});
  m.Ints("to", {1}, {1});
  m.Ints("axis", {1}, {1});
  m.Node("ScatterElements", {"zeros_like", "places", "first"}, {"spread"}, {{"axis", int64_t{1}}});
  m.Node("Add", {"spread", "shift"}, {"y"});
  m.Output("y");
  const Graph graph = Import(m);
  CHECK(Parameters(graph) == 1);
  CHECK(Evaluate(graph, {{2, 3}, {5, 1, 1, 7, 1, 1}}).data == Values{0, 0, 5, 7, 0, 0});
}

TEST_CASE("what is asked for is trained, whatever its values look like") {
  OnnxModelBuilder m;
  m.Input("x", {"2", "4"});
  m.Floats("scale.weight", {4}, {1, 2, 3, 4});
  m.Node("Mul", {"x", "scale.weight"}, {"y"});
  m.Output("y");
  ImportReport report;
  CHECK(Parameters(Import(m, {}, &report)) == 0);
  CHECK(report.initializers == std::vector<std::string>{"scale.weight"});
  ImportOptions options;
  options.train = {"^scale"};
  CHECK(Parameters(Import(m, options)) == 1);
  options.train = {"other"};
  CHECK(Parameters(Import(m, options)) == 0);
}

TEST_CASE(
    "symbolic dims by default, and the batch of further inputs, are taken for granted aloud") {
  OnnxModelBuilder m;
  m.Input("x", {"b0", "seq", "4"});
  m.Input("mask", {"b1", "seq", "1"});
  m.Node("Mul", {"x", "mask"}, {"y"});
  m.Output("y");
  ImportOptions options;
  options.global_batch = 3;
  options.default_dim = 6;
  ImportReport report;
  const Graph graph = Import(m, options, &report);
  CHECK(PlainShape(graph.tensor(graph.outputs[0]).shape) == Dims{3, 6, 4});
  const auto said = [&](const std::string& part) {
    return std::any_of(report.notes.begin(), report.notes.end(), [&](const std::string& note) {
      return note.find(part) != std::string::npos;
    });
  };
  CHECK(said("dim 'seq' taken for 6; --dim seq=N"));
  CHECK(said("leading dim 'b1' of input 'mask' taken for the batch"));
  CHECK_FALSE(said("'b0' of input"));
}

namespace {

// Reads x of 4 x 3 at places computed from the data: 2 - the place of the largest of each row, so
// one of 2, 1, 0; "low" more below that.
OnnxModelBuilder AtComputed(const std::string& op, int64_t low) {
  OnnxModelBuilder m;
  m.Input("x", {"4", "3"});
  m.Node("ArgMax", {"x"}, {"largest"},
         {{"axis", int64_t{1}}, {"keepdims", int64_t{op == "GatherElements" ? 1 : 0}}});
  m.Ints("two", {}, {2 - low});
  m.Node("Sub", {"two", "largest"}, {"ids"});
  m.Ints("depth", {}, {4});
  m.Floats("values", {2}, {0, 1});
  m.Ints("last", {1}, {-1});
  if (op == "OneHot") {
    m.Node("OneHot", {"ids", "depth", "values"}, {"y"});
  } else if (op == "GatherND") {
    m.Node("Unsqueeze", {"ids", "last"}, {"each"});
    m.Node("GatherND", {"x", "each"}, {"y"});
  } else {
    m.Node(op, {"x", "ids"}, {"y"}, {{"axis", int64_t{op == "GatherElements" ? 1 : 0}}});
  }
  m.Output("y");
  return m;
}

int Counting(const Graph& graph) {
  return static_cast<int>(std::count_if(graph.nodes.begin(), graph.nodes.end(), [](const Node& n) {
    return n.op.rfind("from_front", 0) == 0;
  }));
}

}  // namespace

TEST_CASE("computed indices that may be negative count from the end") {
  // Largest at 0, 1, 2, 1: 2 - that is 2, 1, 0, 1; three less is -1, -2, -3, -2.
  const HostTensor x{{4, 3}, {9, 1, 2, 3, 8, 4, 5, 6, 7, 10, 12, 11}};
  const Graph rows = Import(AtComputed("Gather", 3));
  CHECK(Counting(rows) == 1);
  CHECK(Evaluate(rows, x).data == Values{10, 12, 11, 5, 6, 7, 3, 8, 4, 5, 6, 7});
  CHECK(Evaluate(Import(AtComputed("GatherND", 3)), x).data ==
        Values{10, 12, 11, 5, 6, 7, 3, 8, 4, 5, 6, 7});
  CHECK(Evaluate(Import(AtComputed("GatherElements", 3)), x).data == Values{2, 8, 5, 12});
  CHECK(Evaluate(Import(AtComputed("OneHot", 3)), x).data ==
        Values{0, 0, 0, 1, 0, 0, 1, 0, 0, 1, 0, 0, 0, 0, 1, 0});
  // A difference may be negative for all that is known; from the front it stays what it is.
  const Graph front = Import(AtComputed("Gather", 0));
  CHECK(Counting(front) == 1);
  CHECK(Evaluate(front, x).data == Values{5, 6, 7, 3, 8, 4, 9, 1, 2, 3, 8, 4});
}

TEST_CASE("indices that cannot be negative are read as they are") {
  OnnxModelBuilder m;
  m.Input("ids", {"2", "3"}, onnx::TensorProto::INT64);
  m.Weights("emb.weight", {7, 4});
  m.Ints("one", {}, {1});
  m.Ints("flat", {1}, {6});
  m.Node("Add", {"ids", "one"}, {"next"});  // an input counts from the front
  m.Node("Reshape", {"next", "flat"}, {"places"});
  m.Node("Gather", {"emb.weight", "places"}, {"y"});
  m.Output("y");
  const Graph graph = Import(m);
  CHECK(Counting(graph) == 0);
  CHECK(std::count_if(graph.nodes.begin(), graph.nodes.end(),
                      [](const Node& n) { return n.op == "embedding"; }) == 1);
  // Positions of what is no padding, as RoBERTa counts them.
  OnnxModelBuilder counted;
  counted.Input("ids", {"2", "3"}, onnx::TensorProto::INT64);
  counted.Weights("pos.weight", {7, 4});
  counted.Ints("one", {}, {1});
  counted.Node("Equal", {"ids", "one"}, {"padding"});
  counted.Node("Not", {"padding"}, {"mask"});
  counted.Node("Cast", {"mask"}, {"ones"}, {{"to", int64_t{onnx::TensorProto::INT64}}});
  counted.Node("CumSum", {"ones", "one"}, {"sum"});
  counted.Node("Mul", {"sum", "ones"}, {"within"});
  counted.Node("Add", {"within", "one"}, {"places"});
  counted.Node("Gather", {"pos.weight", "places"}, {"y"});
  counted.Output("y");
  CHECK(Counting(Import(counted)) == 0);
  // A float that is cut down to an integer may be anything.
  OnnxModelBuilder cut;
  cut.Input("x", {"2"});
  cut.Weights("emb.weight", {7, 4});
  cut.Node("Cast", {"x"}, {"ids"}, {{"to", int64_t{onnx::TensorProto::INT64}}});
  cut.Node("Gather", {"emb.weight", "ids"}, {"y"});
  cut.Output("y");
  CHECK(Counting(Import(cut)) == 1);
  const std::vector<double> out = Evaluate(Import(cut), {{2}, {-1.5, 6}}).data;
  for (size_t j = 0; j < 4; ++j) CHECK(out[j] == out[4 + j]);
}

}  // namespace tandem
