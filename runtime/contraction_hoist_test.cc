#include "runtime/contraction_hoist.h"

#include <catch2/catch.hpp>
#include <string>

#include "pcg/language/op_parser.h"
#include "runtime/contraction_equation.h"

namespace tandem {
namespace {

OpInstance Make(const std::string& text, const std::vector<FactoredShape>& inputs,
                const Attributes& attributes = {}) {
  const auto specs = ParseOperators(text, "test.ops");
  INFO(specs.status());
  REQUIRE(specs.ok());
  const auto op = Instantiate((*specs)[0], attributes, inputs);
  INFO(op.status());
  REQUIRE(op.ok());
  return *op;
}
OpInstance Builtin(const std::string& name, const std::vector<FactoredShape>& inputs,
                   const Attributes& attributes = {}) {
  const auto op = Instantiate(*BuiltinOperators().Find(name), attributes, inputs);
  INFO(op.status());
  REQUIRE(op.ok());
  return *op;
}

// One letter an equation of the result: g a GEMM, c a convolution, l loops.
std::string Shape(const OpInstance& op, bool convolutions = false) {
  const OpInstance hoisted = HoistContractions(op, convolutions);
  CHECK(hoisted.num_inputs == op.num_inputs);
  CHECK(hoisted.num_outputs == op.num_outputs);
  std::string shape;
  for (const InstanceEquation& equation : hoisted.equations) {
    shape += AsGemm(hoisted, equation) ? 'g' : AsConvolution(hoisted, equation) ? 'c' : 'l';
  }
  return shape;
}

TEST_CASE("A contraction that is the whole operator stays one equation") {
  CHECK(Shape(Builtin("matmul", {{{2}, {3}, {4}}, {{2}, {4}, {5}}})) == "g");
  CHECK(Shape(Make("operator f(a[k, m], b[n, k]) -> out[n, m] {"
                   "out[j, i] = sum(p: k) a[p, i] * b[j, p] }",
                   {{{3}, {4}}, {{5}, {3}}})) == "g");
}

TEST_CASE("What surrounds a contraction comes before and after it") {
  // The bias after, nothing before.
  CHECK(Shape(Builtin("linear", {{{2}, {4}}, {{4}, {5}}, {{5}}})) == "gl");
  // A function of an operand before; scales by numbers after.
  CHECK(Shape(Make("operator f(a[m, k], b[k, n]) -> out[m, n] {"
                   "out[i, j] = -2 * (sum(p: k) exp(a[i, p]) * b[p, j]) }",
                   {{{3}, {4}}, {{4}, {5}}})) == "lgl");
  // A third factor over variables of one operand goes into it.
  CHECK(Shape(Make("operator f(a[m, k], b[k, n], s[k]) -> out[m, n] {"
                   "out[i, j] = sum(p: k) a[i, p] * s[p] * b[p, j] }",
                   {{{3}, {4}}, {{4}, {5}}, {{4}}})) == "lg");
  // Attention: scores; mask, maximum, exponentials, sums; weighted values; quotient.
  const FactoredShape q = {{2}, {3}, {8}};
  CHECK(Shape(Builtin("attention", {q, q, q, {{3}, {3}}}, {{"scale", 0.5}})) == "gllllgl");
}

TEST_CASE(
    "No contraction: sums of one operand, row-wise products, tests of values, other combiners") {
  CHECK(Shape(Builtin("softmax", {{{4}, {5}}}, {{"rank_c", int64_t{0}}})) == "llll");
  CHECK(Shape(Builtin("layer_norm", {{{4}, {5}}, {{5}}, {{5}}})) == "llll");
  CHECK(Shape(Builtin("embedding", {{{4}}, {{7}, {5}}})) == "l");
  CHECK(Shape(Make("operator f(a[m, k], b[k, n]) -> out[m, n] {"
                   "out[i, j] = max(p: k) a[i, p] * b[p, j] }",
                   {{{3}, {4}}, {{4}, {5}}})) == "l");
  CHECK(Shape(Make("operator f(a[m, k], b[k, n]) -> out[m, n] {"
                   "out[i, j] = sum(p: k) (a[i, p] + b[p, j]) }",
                   {{{3}, {4}}, {{4}, {5}}})) == "l");
  // A guard that is no equality, three operands in a triangle.
  CHECK(Shape(Make("operator f(a[m, k], b[k, n]) -> out[m, n] {"
                   "out[i, j] = sum(p: k) select(p <= i, a[i, p] * b[p, j], 0) }",
                   {{{3}, {4}}, {{4}, {5}}})) == "l");
  CHECK(Shape(Make("operator f(a[m, k], b[k, n], c[m, n, k]) -> out[m, n] {"
                   "out[i, j] = sum(p: k) a[i, p] * b[p, j] * c[i, j, p] }",
                   {{{3}, {4}}, {{4}, {5}}, {{3}, {5}, {4}}})) == "l");
}

const std::vector<FactoredShape> kConvInputs = {{{2}, {6}, {9}, {8}}, {{4}, {3}, {3}, {2}}};
const Attributes kConvAttributes = {{"stride_h", int64_t{2}},
                                    {"pad_top", int64_t{1}},
                                    {"dilation_w", int64_t{2}},
                                    {"absent", std::vector<int64_t>{2}}};

TEST_CASE("A convolution is kept for the library, or becomes a contraction of windows") {
  const OpInstance conv = Builtin("conv2d", kConvInputs, kConvAttributes);
  const OpInstance kept = HoistContractions(conv, true);
  std::optional<ConvolutionEquation> found;
  for (const InstanceEquation& equation : kept.equations) {
    if (!found) found = AsConvolution(kept, equation);
  }
  REQUIRE(found.has_value());
  CHECK(found->target == ConvolutionEquation::Target::kY);
  CHECK(found->group.size() == 1);
  CHECK(found->out.size() == 1);
  CHECK(found->in.size() == 1);
  REQUIRE(found->windows.size() == 2);
  CHECK(found->windows[0].stride == 2);
  CHECK(found->windows[0].pad == 1);
  CHECK(found->windows[1].dilation == 2);
  CHECK(found->windows[1].pad == 0);
  CHECK(Shape(conv, false).find("lg") == 0);
  CHECK(Shape(conv, false).find('c') == std::string::npos);
}

constexpr char kDataGradient[] =
    "operator f(dy[n, (g, k), y], w[(g, k), c, r]; g, length) -> dx[n, (g, c), h = length] {"
    "dx[b, (u, i), z] = sum(o: k, p: y, t: r) "
    "select(p * 2 + t - 1 == z, dy[b, (u, o), p] * w[(u, o), i, t], 0) }";
constexpr char kFilterGradient[] =
    "operator f(x[n, (g, c), h], dy[n, (g, k), y]; g, taps) -> dw[(g, k), c, r = taps] {"
    "dw[(u, o), i, t] = sum(b: n, p: y) "
    "(x[b, (u, i), p * 2 + t - 1] else 0) * dy[b, (u, o), p] }";

TEST_CASE("Both gradients of a convolution are recognised by their structure") {
  const OpInstance data = Make(kDataGradient, {{{2}, {2, 4}, {5}}, {{2, 4}, {3}, {3}}},
                               {{"g", int64_t{2}}, {"length", int64_t{9}}});
  const auto dx = AsConvolution(data, data.equations[0]);
  REQUIRE(dx.has_value());
  CHECK(dx->target == ConvolutionEquation::Target::kX);
  CHECK(dx->windows[0].stride == 2);
  CHECK(dx->windows[0].pad == 1);
  CHECK(dx->x == data.num_inputs);
  CHECK(Shape(data, true) == "c");
  CHECK(Shape(data, false) == "gl");

  const OpInstance filter = Make(kFilterGradient, {{{2}, {2, 3}, {9}}, {{2}, {2, 4}, {5}}},
                                 {{"g", int64_t{2}}, {"taps", int64_t{3}}});
  const auto dw = AsConvolution(filter, filter.equations[0]);
  REQUIRE(dw.has_value());
  CHECK(dw->target == ConvolutionEquation::Target::kF);
  CHECK(dw->windows[0].stride == 2);
  CHECK(dw->windows[0].dilation == 1);
  CHECK(dw->f == filter.num_inputs);
  CHECK(Shape(filter, false) == "lg");
}

TEST_CASE(
    "Windows that are no convolution: another value outside, the same variable twice, pooling") {
  const auto conv = [](const std::string& body) {
    const OpInstance op = Make(
        "operator f(x[n, c, h], w[k, c, r]; length) -> out[n, k, y = length] {"
        "out[b, o, p] = " +
            body + " }",
        {{{2}, {3}, {9}}, {{4}, {3}, {3}}}, {{"length", int64_t{9}}});
    return AsConvolution(op, op.equations[0]).has_value();
  };
  CHECK(conv("sum(i: c, t: r) (x[b, i, p + t - 1] else 0) * w[o, i, t]"));
  CHECK_FALSE(conv("sum(i: c, t: r) (x[b, i, p + t - 1] else 1) * w[o, i, t]"));
  CHECK_FALSE(conv("sum(i: c, t: r) (x[b, i, p - t + 1] else 0) * w[o, i, t]"));
  CHECK_FALSE(conv("sum(i: c, t: r) (x[b, i, p * t] else 0) * w[o, i, t]"));
  CHECK_FALSE(conv("max(i: c, t: r) (x[b, i, p + t - 1] else 0) * w[o, i, t]"));
  CHECK_FALSE(conv("sum(i: c, t: r) x[b, i, t] * w[o, i, t]"));
}

}  // namespace
}  // namespace tandem
