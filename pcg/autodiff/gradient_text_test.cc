// What gradient operators look like: contractions stay contractions, operands and reductions are
// few, sizes stay names. That they are right is autodiff_test.cc's business.
#include <catch2/catch.hpp>
#include <stdexcept>

#include "pcg/autodiff/autodiff.h"
#include "pcg/instance/op_analysis.h"
#include "pcg/language/op_parser.h"

namespace tandem {
namespace {

OpInstance Make(const std::string& op, std::vector<std::vector<int64_t>> shapes,
                Attributes attributes = {}) {
  std::vector<FactoredShape> factored;
  for (const auto& shape : shapes) {
    FactoredShape f;
    for (int64_t extent : shape) f.push_back({extent});
    factored.push_back(std::move(f));
  }
  auto instance = InstantiateForGradients(*BuiltinOperators().Find(op), attributes, factored);
  if (!instance.ok()) throw std::runtime_error(std::string(instance.status().message()));
  return *std::move(instance);
}

std::vector<GradientOp> Gradients(const OpInstance& op, std::vector<int> wanted,
                                  std::vector<GradientSeed> seeds = {}) {
  auto gradients = GradientsOf(op, wanted, seeds);
  if (!gradients.ok()) throw std::runtime_error(std::string(gradients.status().message()));
  return *std::move(gradients);
}

// Text without its first line's name: "(operands) -> outputs { equations }".
std::string Body(const GradientOp& g) { return g.spec.text.substr(g.spec.text.find('(')); }

size_t Count(const std::string& text, const std::string& what) {
  size_t count = 0;
  for (size_t at = text.find(what); at != std::string::npos; at = text.find(what, at + 1)) ++count;
  return count;
}

OpInstance InstanceOfGradient(const OpInstance& op, const GradientOp& g) {
  std::vector<FactoredShape> shapes;
  for (const GradientOp::Operand& operand : g.inputs) {
    const bool input = operand.source == GradientOp::Source::kInput;
    shapes.push_back(op.ShapeOf(operand.position + (input ? 0 : op.num_inputs)));
  }
  auto instance = Instantiate(g.spec, g.attributes, shapes);
  if (!instance.ok()) throw std::runtime_error(std::string(instance.status().message()));
  return *std::move(instance);
}

TEST_CASE("A product's gradients are products of two reads") {
  const OpInstance op = Make("matmul", {{2, 3, 4}, {2, 4, 5}});
  const auto gradients = Gradients(op, {0, 1});
  REQUIRE(gradients.size() == 2);
  CHECK(Body(gradients[0]) ==
        "(rhs[b_0, k, n], d_out[b_0, m, n]) -> d_lhs[b_0, m, k] {\n"
        "  d_lhs[ib_0, im, ik] = sum(j: n) d_out[ib_0, im, j] * rhs[ib_0, ik, j]\n}\n");
  CHECK(Body(gradients[1]) ==
        "(lhs[b_0, m, k], d_out[b_0, m, n]) -> d_rhs[b_0, k, n] {\n"
        "  d_rhs[ib_0, ik, in] = sum(i: m) d_out[ib_0, i, in] * lhs[ib_0, i, ik]\n}\n");
  for (const GradientOp& g : gradients) CHECK(AsContraction(InstanceOfGradient(op, g)).has_value());
}

TEST_CASE("A broadcast operand sums over the batch in the same contraction") {
  const OpInstance op = Make("matmul", {{2, 3, 4}, {4, 5}});
  const auto gradients = Gradients(op, {1});
  REQUIRE(gradients.size() == 1);
  CHECK(Count(Body(gradients[0]), "sum(") == 1);
  CHECK(AsContraction(InstanceOfGradient(op, gradients[0])).has_value());
}

TEST_CASE("Equal instances share one operator, whatever their extents") {
  const auto a = Gradients(Make("linear", {{2, 3, 4}, {4, 5}, {5}}), {0, 1, 2});
  const auto b = Gradients(Make("linear", {{7, 8, 9}, {9, 6}, {6}}), {0, 1, 2});
  const auto c = Gradients(Make("linear", {{7, 9}, {9, 6}, {6}}), {0});
  REQUIRE(a.size() == 3);
  REQUIRE(b.size() == 3);
  for (size_t i = 0; i < 3; ++i) CHECK(a[i].spec.text == b[i].spec.text);
  CHECK(a[0].spec.name != a[1].spec.name);
  CHECK(a[0].spec.name != c[0].spec.name);  // another rank is another text
  CHECK(a[2].spec.name == "reduce_sum");    // the bias is alone
  CHECK(a[2].attributes == Attributes{{"rank_c", int64_t{1}}, {"rank_r", int64_t{2}}});
}

TEST_CASE("Attributes stay attributes") {
  const auto text = [](Attributes attributes) {
    return Gradients(Make("conv2d", {{2, 4, 9, 8}, {6, 4, 3, 2}}, attributes), {0})[0];
  };
  const GradientOp a = text({{"stride_h", int64_t{2}}}), b = text({{"pad_left", int64_t{1}}});
  CHECK(a.spec.text == b.spec.text);
  CHECK(a.attributes.at("stride_h") == AttrValue(int64_t{2}));
  CHECK(b.attributes.at("stride_h") == AttrValue(int64_t{1}));
  CHECK(b.attributes.at("h") == AttrValue(int64_t{9}));
  const GradientOp scale = Gradients(Make("scale", {{4}}, {{"value", 0.25}}), {0})[0];
  CHECK(Body(scale) == "(d_out[d_0]; value) -> d_x[d_0] {\n  d_x[id_0] = d_out[id_0] * value\n}\n");
  CHECK(scale.attributes == Attributes{{"value", 0.25}});
  // An exponent is a number.
  CHECK(Body(Gradients(Make("power", {{4}}, {{"exponent", int64_t{2}}}), {0})[0])
            .find("2 * d_out[id_0] * x[id_0]") != std::string::npos);
  // A word of the language is not taken for an attribute's name.
  CHECK(Gradients(Make("lrn", {{1, 3, 2}},
                       {{"alpha", 0.1}, {"beta", 0.75}, {"bias", 1.0}, {"size", int64_t{3}}}),
                  {0})[0]
            .attributes.count("with_size") == 1);
}

TEST_CASE("Convolutions' gradients are windowed contractions") {
  const Attributes stride = {{"stride_h", int64_t{2}}, {"pad_top", int64_t{1}}};
  const OpInstance op = Make("conv2d", {{2, 4, 9, 8}, {6, 4, 3, 2}, {6}}, stride);
  const auto gradients = Gradients(op, {0, 1, 2});
  REQUIRE(gradients.size() == 3);
  CHECK(Body(gradients[0]) ==
        "(f[k, c, r, s], d_out[n, k, oh, ow]; dilation_h, dilation_w, h, pad_left, pad_top, "
        "stride_h, stride_w, w) -> d_x[n, c, h, w] {\n"
        "  d_x[in, ic, ih, iw] = sum(o: k, y: oh, z: ow, dy: r, dz: s) "
        "select(y * stride_h + dy * dilation_h - pad_top == ih and "
        "z * stride_w + dz * dilation_w - pad_left == iw, d_out[in, o, y, z] * f[o, ic, dy, dz], "
        "0)\n}\n");
  CHECK(AnalyzeOp(InstanceOfGradient(op, gradients[0]), {}, {4, 4}, {4}).kind == OpClass::kConv);
  CHECK(AnalyzeOp(InstanceOfGradient(op, gradients[1]), {}, {4, 4}, {4}).kind == OpClass::kConv);
  const OpInstance grouped = Make("conv2d", {{2, 4, 9, 8}, {6, 2, 3, 2}, {6}}, stride);
  const auto with_groups = Gradients(grouped, {0});
  CHECK(Body(with_groups[0]).find("(g, c)") != std::string::npos);
  CHECK(with_groups[0].attributes.at("g") == AttrValue(int64_t{2}));
}

TEST_CASE("Gradients use the output where that spares an operand or a reduction") {
  const auto operands = [](const std::string& op, std::vector<std::vector<int64_t>> shapes,
                           Attributes attributes = {}) {
    const std::string body = Body(Gradients(Make(op, shapes, attributes), {0})[0]);
    return body.substr(0, body.find(" -> "));
  };
  CHECK(operands("tanh", {{4}}) == "(out[d_0], d_out[d_0])");
  CHECK(operands("exp", {{4}}) == "(out[d_0], d_out[d_0])");
  CHECK(operands("sigmoid", {{4}}) == "(out[d_0], d_out[d_0])");
  CHECK(operands("relu", {{4}}) == "(out[d_0], d_out[d_0])");
  CHECK(operands("rsqrt", {{4}}) == "(out[d_0], d_out[d_0])");
  CHECK(operands("silu", {{4}}) == "(x[d_0], d_out[d_0])");
  CHECK(operands("scale", {{4}}, {{"value", 2.0}}) == "(d_out[d_0]; value)");
  CHECK(operands("softmax", {{4, 5}}, {{"rank_c", int64_t{0}}}) == "(out[a_0, n], d_out[a_0, n])");
}

TEST_CASE("Softmax, attention and norms have their usual forms") {
  CHECK(Body(Gradients(Make("softmax", {{4, 5}}, {{"rank_c", int64_t{0}}}), {0})[0]) ==
        "(out[a_0, n], d_out[a_0, n]) -> d_x[a_0, n] {\n"
        "  t0[ia_0: a_0] = sum(i: n) d_out[ia_0, i] * out[ia_0, i];\n"
        "  d_x[ia_0, in] = out[ia_0, in] * (d_out[ia_0, in] - t0[ia_0])\n}\n");
  const OpInstance op = Make("attention", {{2, 3, 4}, {2, 5, 4}, {2, 5, 6}},
                             {{"scale", 0.5}, {"absent", std::vector<int64_t>{3}}});
  const auto attention = Gradients(op, {0, 1, 2});
  REQUIRE(attention.size() == 1);
  CHECK(attention[0].gradient_of == std::vector<int>{0, 1, 2});
  // Recomputed: scores, maximum, denominator. Then <d_out, out>, and one for each of the scores'
  // and the three operands' gradients.
  CHECK(Count(Body(attention[0]), "sum(") == 7);
  CHECK(Count(Body(attention[0]), "max(") == 1);
  const OpInstance norm = Make("layer_norm", {{3, 4}, {4}, {4}});
  const std::string text = Body(Gradients(norm, {0, 1, 2})[0]);
  CHECK(Count(text, "sum(") == 6);  // mean, variance, two of d_out for x, d_gamma, d_beta
}

TEST_CASE("Movement operators' gradients are movement operators") {
  const auto one = [](const std::string& op, std::vector<std::vector<int64_t>> shapes,
                      Attributes attributes, int input = 0) {
    const auto gradients = Gradients(Make(op, shapes, attributes), {input});
    REQUIRE(gradients.size() == 1);
    return gradients[0];
  };
  const GradientOp reshape = one("reshape", {{4, 6}}, {{"shape", std::vector<int64_t>{2, 12}}});
  CHECK(reshape.spec.name == "reshape");
  CHECK(reshape.attributes.at("shape") == AttrValue(std::vector<int64_t>{4, 6}));
  const GradientOp transpose =
      one("transpose", {{2, 3, 4}}, {{"perm", std::vector<int64_t>{1, 2, 0}}});
  CHECK(transpose.spec.name == "transpose");
  CHECK(transpose.attributes.at("perm") == AttrValue(std::vector<int64_t>{2, 0, 1}));
  const GradientOp slice =
      one("slice", {{5, 7}}, {{"rank_c", int64_t{1}}, {"start", int64_t{1}}, {"size", int64_t{2}}});
  CHECK(slice.spec.name == "pad");
  CHECK(slice.attributes.at("high") == AttrValue(int64_t{2}));
  CHECK(one("concat", {{2, 3}, {4, 3}}, {{"rank_c", int64_t{1}}}, 1).attributes.at("start") ==
        AttrValue(int64_t{2}));
  CHECK(one("add", {{2, 3}, {3}}, {}, 1).spec.name == "reduce_sum");
  CHECK(one("add", {{2, 3}, {2, 1}}, {}, 1).spec.name == "reduce_sum_keep");
  CHECK(one("add", {{2, 3}, {3}}, {}, 0).spec.name == "identity");
  // No operator of the library undoes these.
  CHECK(one("slice", {{5, 7}},
            {{"rank_c", int64_t{1}},
             {"start", int64_t{1}},
             {"size", int64_t{2}},
             {"step", int64_t{2}}})
            .spec.name.find("slice_grad0_") == 0);
  CHECK(one("add", {{2, 3, 4}, {1, 3, 1}}, {}, 1).spec.name.find("add_grad1_") == 0);
}

TEST_CASE("A loss's adjoint of 1 is folded into its gradient") {
  const OpInstance op = Make("cross_entropy", {{3, 5}, {3}});
  const auto folded = Gradients(op, {0}, {GradientSeed::kOne});
  REQUIRE(folded.size() == 1);
  CHECK(Body(folded[0]).find("d_loss") == std::string::npos);
  CHECK(folded[0].inputs.size() == 2);
  CHECK(Gradients(op, {0}, {GradientSeed::kZero}).empty());
}

TEST_CASE("What does not depend differentiably on an input gives no gradient") {
  CHECK(Gradients(Make("floor", {{4}}), {0}).empty());
  CHECK(Gradients(Make("less", {{4}, {4}}), {0, 1}).empty());
  CHECK(Gradients(Make("argmax", {{4, 3}}, {{"rank_c", int64_t{0}}}), {0}).empty());
}

TEST_CASE("Requests that make no sense are refused by name") {
  const OpInstance op = Make("embedding", {{3}, {5, 4}});
  auto ids = GradientsOf(op, {0});
  REQUIRE_FALSE(ids.ok());
  CHECK(ids.status().message().find("embedding: input 'ids'") != std::string::npos);
  CHECK_FALSE(GradientsOf(op, {2}).ok());
  CHECK_FALSE(GradientsOf(op, {1}, {GradientSeed::kGiven, GradientSeed::kGiven}).ok());
  OperatorLibrary library;
  REQUIRE(library.AddText("operator odd(x[n]) -> y[n] { y[i] = x[i] % 2 }", "t").ok());
  auto odd = GradientsOf(*Instantiate(*library.Find("odd"), {}, {{{4}}}), {0});
  REQUIRE_FALSE(odd.ok());
  CHECK(odd.status().message().find("operator odd") != std::string::npos);
}

TEST_CASE("Names of an operator's tensors and sizes never collide with the language's words") {
  OperatorLibrary library;
  REQUIRE(library
              .AddText("operator f(t0[d_x, i], d_y[i]) -> y[d_x] {"
                       " y[j] = sum(p: i) t0[j, p] * tanh(d_y[p]) }",
                       "t")
              .ok());
  auto instance = Instantiate(*library.Find("f"), {}, {{{2}, {3}}, {{3}}});
  REQUIRE(instance.ok());
  auto gradients = GradientsOf(*instance, {0, 1});
  REQUIRE(gradients.ok());  // the text parsed
  CHECK(gradients->size() == 2);
}

}  // namespace
}  // namespace tandem
