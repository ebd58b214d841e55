// Index formulas: simplification, recognition of dense data, text.
#include "models/onnx/formula.h"

#include <catch2/catch.hpp>
#include <cmath>

#include "pcg/language/op_parser.h"

namespace tandem {
namespace {

using Dims = std::vector<int64_t>;

std::vector<double> Filled(const Dims& shape, double (*f)(int64_t, int64_t)) {
  std::vector<double> values;
  for (int64_t i = 0; i < shape[0]; ++i) {
    for (int64_t j = 0; j < shape[1]; ++j) values.push_back(f(i, j));
  }
  return values;
}

}  // namespace

TEST_CASE("affine arithmetic has one form") {
  FormulaArena f;
  const int i = f.Index(0), j = f.Index(1);
  const int a = f.Call("sub", {f.Call("add", {i, j}), j});
  CHECK(a == i);
  CHECK(f.Call("add", {i, j}) == f.Call("add", {j, i}));
  CHECK(f.AsNumber(f.Call("sub", {f.Call("add", {i, f.Number(1)}), i})) == 1.0);
  CHECK(f.Call("mul", {f.Number(2), i}) == f.Call("add", {i, i}));
  CHECK(f.AsNumber(f.Call("eq", {i, i})) == 1.0);
  CHECK_FALSE(f.AsAffine(f.Call("mul", {i, j})).has_value());
  CHECK(f.Call("lt", {i, j}) == f.Call("le", {i, f.Call("sub", {j, f.Number(1)})}));
}

TEST_CASE("index ranges decide comparisons, and only where they do") {
  FormulaArena f;
  const int i = f.Index(0);
  const int positive = f.Call("le", {f.Number(0), i});
  CHECK(f.AsNumber(f.Simplify(positive, {5})) == 1.0);
  const int below = f.Call("lt", {i, f.Number(3)});
  CHECK_FALSE(f.AsNumber(f.Simplify(below, {5})).has_value());
  CHECK(f.AsNumber(f.Simplify(below, {3})) == 1.0);
  CHECK(f.Simplify(f.Call("mod", {i, f.Number(7)}), {7}) == i);
  CHECK_FALSE(f.Simplify(f.Call("mod", {i, f.Number(7)}), {8}) == i);
}

TEST_CASE("dense data is recognised") {
  FormulaArena f;
  CHECK(f.AsNumber(f.Dense({3, 2}, {4, 4, 4, 4, 4, 4})) == 4.0);
  const auto form = f.AsAffine(f.Dense({2, 3}, {1, 3, 5, 11, 13, 15}));
  REQUIRE(form.has_value());
  CHECK(form->coefficients.at(0) == 10);
  CHECK(form->coefficients.at(1) == 2);
  const Dims square = {6, 6};
  const int mask = f.Dense(
      square, Filled(square, [](int64_t i, int64_t j) { return j <= i ? 0.0 : -HUGE_VAL; }));
  CHECK(f.node(mask).function == "select");
  CHECK(f.EvaluateAt(mask, {2, 2}) == 0);
  CHECK(f.EvaluateAt(mask, {2, 3}) == -HUGE_VAL);
  const int diagonals = f.Dense(square, Filled(square, [](int64_t i, int64_t j) {
                                  return static_cast<double>((j - i) * (j - i));
                                }));
  REQUIRE(f.node(diagonals).kind == FormulaNode::Kind::kTable);
  CHECK(f.table(f.node(diagonals).ref).values.size() == 11);
  // One element off the law: plain data again, with the same values.
  std::vector<double> odd = Filled(square, [](int64_t i, int64_t j) { return j <= i ? 0.0 : 1.0; });
  odd[1] = 0;
  const int plain = f.Dense(square, odd);
  CHECK(f.node(plain).kind == FormulaNode::Kind::kTable);
  CHECK(f.Evaluate(plain, square) == odd);
}

TEST_CASE("rounding to float32 is the exporter's") {
  FormulaArena f;
  const int third = f.Call("div", {f.Index(0), f.Number(3)});
  CHECK(f.Evaluate(third, {2}, true)[1] == static_cast<double>(1.0F / 3.0F));
  CHECK(f.Evaluate(third, {2}, false)[1] == 1.0 / 3.0);
}

TEST_CASE("formulas print as operators that parse") {
  FormulaArena f;
  const int i = f.Index(0), j = f.Index(1);
  const int table = f.Dense({4}, {5, 1, 7, 2});
  const int condition =
      f.Call("and", {f.Call("le", {j, i}), f.Call("not", {f.Call("eq", {i, f.Number(2)})})});
  const int formula = f.Call(
      "select", {condition, f.Call("cos", {f.Call("mul", {j, table})}), f.Number(-HUGE_VAL)});
  const auto text = f.ToOperator(formula, {4, 3}, "");
  CHECK(text.tables.size() == 1);
  const auto specs = ParseOperators("operator t" + text.body, "t.ops");
  INFO(text.body << "\n" << specs.status());
  REQUIRE(specs.ok());
  CHECK((*specs)[0].inputs.size() == 1);
}

}  // namespace tandem
