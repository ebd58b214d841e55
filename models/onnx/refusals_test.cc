// Models that the importer refuses, and how it says so.
#include <catch2/catch.hpp>
#include <functional>
#include <random>

#include "models/onnx/import_checks.h"

namespace tandem {
namespace {

TEST_CASE("all operators that are not imported are named at once") {
  OnnxModelBuilder m;
  m.Input("x", {"2", "3"});
  m.Node("Hardmax", {"x"}, {"a"});
  m.Node("Hardmax", {"a"}, {"b"});
  m.Node("Foo", {"b"}, {"c"})->set_domain("my.domain");
  m.Node("Relu", {"c"}, {"d"});
  m.Node("Det", {"d"}, {"y"});
  m.Output("y");
  ImportReport report;
  const std::string message = ErrorOf(m, {}, &report);
  CHECK(Has(message, "Hardmax (2, first at node 'node_a')"));
  CHECK(Has(message, "my.domain"));
  CHECK(Has(message, "Det (1"));
  CHECK(report.unsupported.size() == 3);
  CHECK(report.nodes == 5);
  // An operator given as text takes the place of one.
  ImportOptions options;
  options.operators =
      *ParseOperators("operator Foo(x[d..]) -> out[d..] { out[i] = 2 * x[i] }", "f.ops");
  CHECK(Has(ErrorOf(m, options, &report), "Hardmax"));
  CHECK(report.unsupported.size() == 2);
}

TEST_CASE("a declared shape that the operators contradict is refused") {
  OnnxModelBuilder m;
  m.Input("x", {"2", "3"});
  m.Node("Relu", {"x"}, {"h"});
  m.Node("Neg", {"h"}, {"y"});
  m.Output("y");
  auto* info = m.model().mutable_graph()->add_value_info();
  info->set_name("h");
  auto* tensor = info->mutable_type()->mutable_tensor_type();
  tensor->set_elem_type(1);
  tensor->mutable_shape()->add_dim()->set_dim_value(2);
  tensor->mutable_shape()->add_dim()->set_dim_value(4);
  const std::string message = ErrorOf(m);
  CHECK(Has(message, "'h' is declared as [2, 4]"));
  CHECK(Has(message, "node_h"));
}

TEST_CASE("wrong models are located") {
  const auto with = [](const std::function<void(OnnxModelBuilder&)>& change) {
    OnnxModelBuilder m;
    m.Input("x", {"2", "3"});
    m.Weights("w", {3, 4});
    m.Node("MatMul", {"x", "w"}, {"y"});
    m.Output("y");
    change(m);
    return ErrorOf(m);
  };
  using M = OnnxModelBuilder;
  CHECK(Has(with([](M& m) { m.Node("Relu", {"q"}, {"z"}); }), "reads 'q'"));
  CHECK(Has(with([](M& m) { m.Node("Relu", {"x"}, {"y"}); }), "'y' is made by node 'node_y'"));
  CHECK(Has(with([](M& m) { m.Weights("w", {3, 4}); }), "two initialisers are named 'w'"));
  CHECK(Has(with([](M& m) { m.Input("x", {"2"}); }), "two inputs are named 'x'"));
  CHECK(Has(with([](M& m) {
              m.Node("Relu", {"b"}, {"a"});
              m.Node("Relu", {"a"}, {"b"});
            }),
            "cycle through 'node_a'"));
  CHECK(Has(with([](M& m) { m.Output("nothing"); }), "output 'nothing'"));
  CHECK(Has(with([](M& m) { m.Node("Add", {"x", "w"}, {"z"}); }), "node 'node_z' (Add)"));
  CHECK(Has(with([](M& m) { m.Node("MatMul", {"w", "x"}, {"z"}); }), "inner dims differ"));
  CHECK(Has(with([](M& m) { m.Node("Softmax", {"x"}, {"z"}, {{"axis", int64_t{7}}}); }), "axis 7"));
  CHECK(Has(with([](M& m) { m.Node("Relu", {}, {"z"}); }), "operand 0 is missing"));
  CHECK(Has(with([](M& m) {  // constants, computed at import
              m.Ints("t", {2}, {4, 4});
              m.Node("Neg", {"t", ""}, {"z"});
            }),
            "input 1 is missing"));
  CHECK(Has(with([](M& m) {
              m.Node("SequenceConstruct", {"x"}, {"z"});
              m.Output("z");
            }),
            "'z'"));
  CHECK(Has(with([](M& m) {
              m.Ints("t", {2}, {4, 4});
              m.Node("Reshape", {"x", "t"}, {"z"});
            }),
            "[2, 3] to [4, 4]"));
  CHECK(Has(with([](M& m) {
              m.Ints("t", {2}, {int64_t{1} << 40, int64_t{1} << 40});
              m.Node("Expand", {"x", "t"}, {"z"});
            }),
            "node_z"));
  CHECK(Has(with([](M& m) {
              m.Ints("t", {3}, {int64_t{1} << 40, int64_t{1} << 40, 8});
              m.Node("ConstantOfShape", {"t"}, {"z"});
            }),
            "node_z"));
  CHECK(Has(with([](M& m) { m.model().mutable_graph()->mutable_initializer(0)->set_dims(0, 9); }),
            "12 values for 36 elements"));
  CHECK(Has(with([](M& m) { m.model().mutable_graph()->mutable_initializer(0)->set_dims(0, -3); }),
            "dim of -3"));
  CHECK(Has(with([](M& m) { m.model().mutable_graph()->mutable_initializer(0)->set_data_type(8); }),
            "element type 8"));
  CHECK(Has(with([](M& m) { m.model().mutable_opset_import(0)->set_version(5); }), "opset 5"));
  for (const char* extent : {"0", "-1"}) {
    OnnxModelBuilder m;
    m.Input("x", {extent, "3"});
    m.Node("Relu", {"x"}, {"y"});
    m.Output("y");
    CHECK(Has(ErrorOf(m), "input 'x'"));
  }
}

TEST_CASE("damaged bytes are errors, never crashes") {
  const std::string bytes = Attention().Bytes();
  std::mt19937 random(5);
  int refused = 0;
  for (int round = 0; round < 400; ++round) {
    std::string damaged = bytes;
    if (round % 2 == 0) damaged.resize(random() % damaged.size());
    for (int k = 0; k < 3 && !damaged.empty(); ++k) {
      damaged[random() % damaged.size()] = static_cast<char>(random());
    }
    refused += ImportOnnxBytes(damaged, "damaged.onnx", {}, nullptr).ok() ? 0 : 1;
  }
  CHECK(refused > 200);
  CHECK_FALSE(ImportOnnxBytes("", "empty.onnx", {}, nullptr).ok());
  CHECK_FALSE(ImportOnnxBytes("not a model at all", "words.onnx", {}, nullptr).ok());
}

}  // namespace
}  // namespace tandem
