#include "verifier/equality/equality_proof.h"

#include <algorithm>
#include <catch2/catch.hpp>

#include "verifier/equality/graph_maker.h"

namespace tandem {
namespace {

TEST_CASE("a constant tensor that holds one number is that number") {
  GraphMaker a, b;
  TensorId x = a.Source("x", {{4}, {6}});
  a.g.outputs = {a.Op("mul", {x, a.Constant("c", 0.125)})};
  TensorId y = b.Source("x", {{4}, {6}});
  SECTION("the same number") {
    b.g.outputs = {b.Op("scale", {y}, {{"value", 0.125}})};
    CHECK(IsProved(ProveEqual(a.g, b.g)));
  }
  SECTION("another number") {
    b.g.outputs = {b.Op("scale", {y}, {{"value", 0.25}})};
    CHECK(IsRefuted(ProveEqual(a.g, b.g)));
  }
}

TEST_CASE("a counterexample says what both sides were given, on one line") {
  const auto product = [](const char* op, int64_t inner) {
    GraphMaker m;
    const TensorId x = m.Source("x", {{2}, {inner}}), y = m.Source("y", {{inner}, {2}});
    const TensorId sum = m.Op(op, {x, x});
    m.g.outputs = {m.Op("matmul", {sum, y})};
    return m.g;
  };
  for (int64_t inner : {1, 40}) {
    const Verdict v = ProveEqual(product("add", inner), product("mul", inner));
    REQUIRE(IsRefuted(v));
    const Counterexample& example = std::get<Refuted>(v).counterexample;
    const std::string text = ToString(example);
    INFO(text);
    CHECK(text.size() < 210);
    CHECK(text.find('\n') == std::string::npos);
    // The first element of each that the output needs, by the rules of the product.
    REQUIRE(example.index.size() == 2);
    CHECK(text.find(" for x[" + std::to_string(example.index[0]) + ",0]=") != std::string::npos);
    CHECK(text.find("y[0," + std::to_string(example.index[1]) + "]=") != std::string::npos);
    CHECK((text.substr(text.size() - 3) == "...") == (inner == 40));
    CHECK(text.find("degree") == std::string::npos);
  }
}

TEST_CASE("heads are split and merged by factors") {
  auto make = [](bool right) {
    GraphMaker m;
    TensorId x = m.Source("x", {{2}, {3}, {4, 5}});
    TensorId r = m.Op("reshape", {x}, {{"shape", std::vector<int64_t>{2, 3, 4, 5}}});
    TensorId e = m.Op("exp", {r});
    TensorId t = right ? e : m.Op("transpose", {e}, {{"perm", std::vector<int64_t>{0, 1, 3, 2}}});
    m.g.outputs = {m.Op("reshape", {t}, {{"shape", std::vector<int64_t>{2, 3, 20}}})};
    REQUIRE(PropagateFactors(m.g).ok());
    return m.g;
  };
  GraphMaker plain;
  TensorId x = plain.Source("x", {{2}, {3}, {4, 5}});
  plain.g.outputs = {plain.Op("exp", {x})};
  CHECK(IsProved(ProveEqual(make(true), plain.g)));
  CHECK_FALSE(IsProved(ProveEqual(make(false), plain.g)));
}

TEST_CASE("numbers are tried only at sizes where the reshapes exist") {
  using List = std::vector<int64_t>;
  auto reshaped = [](const FactoredShape& from, const std::vector<List>& shapes, bool negated) {
    GraphMaker m;
    TensorId t = m.Source("x", from);
    for (const List& shape : shapes) t = m.Op("reshape", {t}, {{"shape", shape}});
    if (negated) t = m.Op("neg", {t});
    m.g.tensors[t.index()].name = "out";
    m.g.outputs = {t};
    REQUIRE(PropagateFactors(m.g).ok());
    return m.g;
  };
  SECTION("a dim of 1 is put in") {
    const Graph two = reshaped({{7}, {3, 5}}, {{7, 3, 5}, {1, 7, 3, 5}}, false);
    CHECK(IsProved(ProveEqual(two, reshaped({{7}, {3, 5}}, {{1, 7, 3, 5}}, false))));
    CHECK(IsRefuted(ProveEqual(two, reshaped({{7}, {3, 5}}, {{1, 7, 3, 5}}, true))));
    CHECK(IsRefuted(ProveEqual(two, reshaped({{7}, {3, 5}}, {{7, 1, 3, 5}}, false))));
  }
  SECTION("sizes that share no factors") {
    const Graph two = reshaped({{4}, {6}}, {{24}, {6, 4}}, false);
    CHECK(IsProved(ProveEqual(two, reshaped({{4}, {6}}, {{6, 4}}, false))));
    CHECK(IsRefuted(ProveEqual(two, reshaped({{4}, {6}}, {{6, 4}}, true))));
    // By way of other sizes: not proved, but at no sizes at which all reshapes exist refuted.
    CHECK_FALSE(IsRefuted(ProveEqual(two, reshaped({{4}, {6}}, {{8, 3}, {6, 4}}, false))));
  }
}

TEST_CASE("a number that a shape gives is not another size") {
  auto times = [](double factor) {
    GraphMaker m;
    m.g.outputs = {m.Op("scale", {m.Source("x", {{3}})}, {{"value", factor}})};
    return m.g;
  };
  GraphMaker sum;
  TensorId ones = sum.Op("fill", {}, {{"shape", std::vector<int64_t>{4}}, {"value", 1.0}});
  TensorId four = sum.Op("reduce_sum_keep", {ones}, {{"rank_c", int64_t{0}}});
  sum.g.outputs = {sum.Op("mul", {sum.Source("x", {{3}}), four})};
  CHECK(IsProved(ProveEqual(sum.g, times(4))));
  CHECK(IsRefuted(ProveEqual(sum.g, times(3))));
}

TEST_CASE("tensors of one name and two shapes are not one") {
  auto sum = [](int64_t n) {
    GraphMaker m;
    TensorId ones = m.Op("fill", {}, {{"shape", std::vector<int64_t>{n}}, {"value", 1.0}});
    m.g.tensors[ones.index()].name = "ones";
    m.g.outputs = {m.Op("reduce_sum_keep", {ones}, {{"rank_c", int64_t{0}}})};
    return m.g;
  };
  CHECK(IsProved(ProveEqual(sum(4), sum(4))));
  CHECK(IsRefuted(ProveEqual(sum(4), sum(5))));
}

TEST_CASE("shapes are part of the claim") {
  GraphMaker a, b;
  a.g.outputs = {a.Op("reduce_sum", {a.Source("x", {{4}, {6}})},
                      {{"rank_c", int64_t{0}}, {"rank_r", int64_t{1}}})};
  b.g.outputs = {b.Op("reduce_sum", {b.Source("x", {{4}, {6}})},
                      {{"rank_c", int64_t{1}}, {"rank_r", int64_t{1}}})};
  CHECK(IsRefuted(ProveEqual(a.g, b.g)));
}

TEST_CASE("a source of two shapes is not proved") {
  GraphMaker a, b;
  a.g.outputs = {a.Op("exp", {a.Source("x", {{4}})})};
  b.g.outputs = {b.Op("exp", {b.Source("x", {{6}})})};
  CHECK(IsUnknown(ProveEqual(a.g, b.g)));
}

TEST_CASE("a cast to integers is not the identity") {
  auto make = [](bool rounds) {
    GraphMaker m;
    TensorId x = m.Source("x", {{4}});
    Node node;
    node.name = "cast";
    node.op = "cast";
    node.inputs = {x};
    auto id = m.g.AddNode(node, {rounds ? DType::kI64 : DType::kF32});
    REQUIRE(id.ok());
    m.g.outputs = {m.Op("neg", {m.g.node(*id).outputs[0]})};
    return m.g;
  };
  GraphMaker plain;
  plain.g.outputs = {plain.Op("neg", {plain.Source("x", {{4}})})};
  CHECK(IsProved(ProveEqual(make(false), plain.g)));
  CHECK_FALSE(IsProved(ProveEqual(make(true), plain.g)));
  CHECK(IsProved(ProveEqual(make(true), make(true))));
}

TEST_CASE("facts are off unless asked for, and named") {
  GraphMaker a, b;
  TensorId x = a.Source("x", {{4}, {6}});
  TensorId e = a.Op("exp", {x});
  TensorId z = a.Op("reduce_sum_keep", {e}, {{"rank_c", int64_t{0}}});
  a.g.outputs = {a.Op("div", {e, z})};
  b.g.outputs = {b.Op("softmax", {b.Source("x", {{4}, {6}})}, {{"rank_c", int64_t{0}}})};
  CHECK(IsUnknown(ProveEqual(a.g, b.g)));
  EqualityOptions options;
  options.allow_exp_fact = true;
  Verdict verdict = ProveEqual(a.g, b.g, options);
  REQUIRE(IsProved(verdict));
  const auto& facts = std::get<Proved>(verdict).certificate.facts;
  CHECK(std::find(facts.begin(), facts.end(), "exp(a+b) = exp(a) exp(b)") != facts.end());
}

}  // namespace
}  // namespace tandem
