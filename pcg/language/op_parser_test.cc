#include "pcg/language/op_parser.h"

#include <catch2/catch.hpp>

namespace tandem {
namespace {

std::string ErrorOf(const std::string& text) {
  auto specs = ParseOperators(text, "t.ops");
  return specs.ok() ? "" : std::string(specs.status().message());
}

TEST_CASE("every built-in operator prints to a text that parses to the same operator") {
  REQUIRE(BuiltinOperators().specs().size() > 90);
  for (const auto& [name, spec] : BuiltinOperators().specs()) {
    INFO(spec.text);
    auto again = ParseOperators(spec.text, "again");
    REQUIRE(again.ok());
    REQUIRE(again->size() == 1);
    const OpSpec& other = again->front();
    CHECK(other.inputs == spec.inputs);
    CHECK(other.outputs == spec.outputs);
    CHECK(other.attributes == spec.attributes);
    CHECK(other.equations == spec.equations);
    CHECK(other.exprs == spec.exprs);
    CHECK(PrintOperator(other) == spec.text);
  }
}

TEST_CASE("a reduction takes one term, `else` binds tighter than a product") {
  auto specs = ParseOperators(
      "operator f(x[n, k], y[k]) -> o[n] { o[i] = sum(p: k) x[i, p + 1] else 0 * y[p] + 1 }", "t");
  REQUIRE(specs.ok());
  const OpSpec& spec = specs->front();
  const ExprNode& root = spec.exprs[spec.equations[0].body];
  REQUIRE(root.kind == ExprKind::kAdd);
  const ExprNode& sum = spec.exprs[root.args[0]];
  REQUIRE(sum.kind == ExprKind::kReduce);
  const ExprNode& product = spec.exprs[sum.args[0]];
  REQUIRE(product.kind == ExprKind::kMul);
  CHECK(spec.exprs[product.args[0]].has_else);
}

TEST_CASE("ranges of intermediates follow from plain use or are given") {
  auto specs = ParseOperators(
      "operator f(x[a.., n]) -> o[a.., n] { m[b] = sum(i: n) x[b, i]; w[i: n] = 2;\n"
      "  o[b, i] = x[b, i] * w[i] - m[b] }",
      "t");
  REQUIRE(specs.ok());
  CHECK(specs->front().equations[0].index[0].size_name == "a");
  CHECK(specs->front().equations[1].index[0].size_name == "n");
}

TEST_CASE("parse errors name the place and the remedy") {
  CHECK(ErrorOf("x") == "t.ops:1:1: expected 'operator', found 'x'");
  CHECK(ErrorOf("operator f(x[n]) -> y[m] { y[i] = x[i] }")
            .find("t.ops:1:23: unknown size 'm' in an output") == 0);
  CHECK(ErrorOf("operator f(x[n]) -> y[n] {\n  y[i] = x[j]\n}")
            .find("t.ops:2:12: unbound name 'j'") == 0);
  CHECK(ErrorOf("operator f(x[n]) -> y[n] {\n  y[i] = x[i, i]\n}")
            .find("t.ops:2:15: 'x' has 1 dim(s)") == 0);
  CHECK(
      ErrorOf("operator f(x[n, m]) -> y[n] { y[i] = x[i] }").find("has 2 dim(s) but 1 index(es)") !=
      std::string::npos);
  CHECK(ErrorOf("operator f(x[n]) -> y[n] { y[i] = foo(x[i]) }").find("unknown function 'foo'") !=
        std::string::npos);
  CHECK(ErrorOf("operator f(x[n]) -> y[n] { y[i] = exp(x[i], 2) }")
            .find("exp takes 1 argument(s), not 2") != std::string::npos);
  CHECK(ErrorOf("operator f(x[n]) -> y[n] { y[i] = alpha * x[i] }").find("unbound name 'alpha'") !=
        std::string::npos);
  CHECK(ErrorOf("operator f(x[n]) -> y[n] { y[i] = n * x[i] }").find("write size(n)") !=
        std::string::npos);
  CHECK(ErrorOf("operator f(x[n]) -> y[n] { y[i] = sum(j: q) x[j] }").find("unknown size 'q'") !=
        std::string::npos);
  CHECK(ErrorOf("operator f(x[n]) -> y[n] { y[i] = x[i] == 0 }").find("write select(") !=
        std::string::npos);
  CHECK(ErrorOf("operator f(x[n]) -> y[n] { y[i] = select(x[i], 1, 0) }").find("compare it") !=
        std::string::npos);
  CHECK(ErrorOf("operator f(x[n]) -> y[n] { z[i] = x[i] }").find("output 'y' has no equation") !=
        std::string::npos);
  CHECK(ErrorOf("operator f(x[n]) -> y[n] { z[k] = 1; y[i] = x[i] }")
            .find("cannot tell what index 'k'") != std::string::npos);
  CHECK(ErrorOf("operator f(x[n]) -> y[n] { x[i] = 1 }").find("is an input") != std::string::npos);
  CHECK(ErrorOf("operator f(x[n]) -> y[n] { y[i] = x[i]").find("expected '}'") !=
        std::string::npos);
  CHECK(ErrorOf("operator f(x[n]) -> y[n] { y[i] = sum(i: n) x[i] }").find("is bound already") !=
        std::string::npos);
  CHECK(
      ErrorOf("operator f(x[n..]) -> y[n..] { y[i] = x[i + 1] }").find("indexed by one variable") !=
      std::string::npos);
  CHECK(ErrorOf("operator f(x[b.., n]) -> y[b.., n] { y[b, i] = x[b, b] }")
            .find("is a single size") != std::string::npos);
  CHECK(ErrorOf("operator f(x[n], x[n]) -> y[n] { y[i] = 1 }").find("declared twice") !=
        std::string::npos);
  CHECK(ErrorOf("operator f(x[n]) -> y[n] { y[i] = \x01 }").find("byte 1") != std::string::npos);
  CHECK(ErrorOf("operator else(x[n]) -> y[n] { y[i] = 1 }").find("word of the language") !=
        std::string::npos);
  CHECK(
      ErrorOf("operator f(x[n]) -> y[n] { y[i] = " + std::string(100000, '(')).find("too deeply") !=
      std::string::npos);
}

TEST_CASE("chains of operations are as limited as nesting") {
  std::string sum = "x[i]", index = "i";
  for (int i = 0; i < 900; ++i) sum += " + x[i]";
  CHECK(ErrorOf("operator f(x[n]) -> y[n] { y[i] = " + sum + " }").empty());
  for (int i = 0; i < 100000; ++i) {
    sum += " + x[i]";
    index += " + 0";
  }
  for (const std::string& body : {sum, "x[" + index + "]", "sum(k: n) (" + sum + ")"}) {
    const std::string error = ErrorOf("operator f(x[n]) -> y[n] { y[i] = " + body + " }");
    CHECK(error.find("more than 1000 operations in a chain; use an intermediate") !=
          std::string::npos);
  }
}

TEST_CASE("random changes to built-in texts never crash the parser") {
  uint64_t state = 1;
  const auto next = [&state] {
    state = state * 6364136223846793005ULL + 1442695040888963407ULL;
    return state >> 33;
  };
  int parsed = 0, refused = 0;
  for (const auto& [name, spec] : BuiltinOperators().specs()) {
    for (int round = 0; round < 40; ++round) {
      std::string text = spec.text;
      for (uint64_t edit = next() % 3 + 1; edit > 0; --edit) {
        const size_t at = next() % text.size();
        switch (next() % 3) {
          case 0:
            text.erase(at, next() % 4 + 1);
            break;
          case 1:
            text[at] = static_cast<char>(next() % 256);
            break;
          default:
            text.insert(at, text.substr(next() % text.size(), next() % 12));
            break;
        }
        if (text.empty()) text = " ";
      }
      auto result = ParseOperators(text, "fuzz");
      (result.ok() ? parsed : refused) += 1;
      if (!result.ok()) CHECK(result.status().message().substr(0, 5) == "fuzz:");
    }
  }
  CHECK(parsed > 0);
  CHECK(refused > 100);
}

TEST_CASE("a library refuses a different operator of the same name and names near ones") {
  OperatorLibrary library;
  REQUIRE(library.AddText("operator f(x[n]) -> y[n] { y[i] = x[i] }", "a").ok());
  CHECK(library.AddText("operator f(x[n])->y[n]{y[i]=x[i]}  # the same", "b").ok());
  CHECK_FALSE(library.AddText("operator f(x[n]) -> y[n] { y[i] = 2 }", "c").ok());
  auto missing = BuiltinOperators().Get("matmull");
  REQUIRE_FALSE(missing.ok());
  CHECK(missing.status().message() == "unknown operator 'matmull'; did you mean matmul?");
}

}  // namespace
}  // namespace tandem
