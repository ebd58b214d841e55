#include "verifier/splits/split_proof.h"

#include <catch2/catch.hpp>

#include "pcg/language/op_parser.h"
#include "verifier/sample_instances.h"

namespace tandem {
namespace {

const AxisPlacement kWhole = AxisPlacement::Replicated();

SplitRow Row(const OpInstance& op, const std::string& size, std::vector<AxisPlacement> inputs,
             std::vector<AxisPlacement> outputs, bool offset = false) {
  SplitRow row;
  for (size_t i = 0; i < op.sizes.size(); ++i) {
    if (op.sizes[i].name == size) row.size = static_cast<int>(i);
  }
  REQUIRE((size.empty() || row.size >= 0));
  row.inputs = std::move(inputs);
  row.outputs = std::move(outputs);
  row.needs_offset = offset;
  return row;
}

AxisPlacement Piece(int dim, int factor = 0) { return AxisPlacement::Split(dim, factor); }
AxisPlacement Sum() { return AxisPlacement::Partial(Combiner::kSum); }
AxisPlacement Max() { return AxisPlacement::Partial(Combiner::kMax); }

OpInstance Matmul() {
  return InstanceOfText(
      "operator matmul(lhs[b.., m, k], rhs[k, n]) -> out[b.., m, n] {"
      " out[b, i, j] = sum(p: k) lhs[b, i, p] * rhs[p, j] }",
      {{{2}, {4}, {6}}, {{6}, {8}}});
}

TEST_CASE("every row of every built-in operator's factor table is proved") {
  SplitProver prover;
  int operators = 0, rows = 0;
  for (const auto& [name, spec] : BuiltinOperators().specs()) {
    auto instance = SampleInstance(spec);
    INFO(name << ": " << instance.status().message());
    REQUIRE(instance.ok());
    ++operators;
    for (const SplitRow& row : FactorTable(*instance)) {
      const Verdict& verdict = prover.Prove(*instance, row);
      INFO(name << " [" << row.reason << "] " << ToString(verdict));
      CHECK(IsProved(verdict));
      ++rows;
    }
  }
  CHECK(operators > 70);
  CHECK(rows > 3 * operators);
}

std::vector<OpInstance> Gradients(const OpInstance& forward) {
  auto instances = GradientInstances(forward);
  INFO(instances.status().message());
  REQUIRE(instances.ok());
  return *std::move(instances);
}

TEST_CASE("every row of every derived gradient operator is proved") {
  SplitProver prover;
  int operators = 0, rows = 0;
  for (const auto& [name, spec] : BuiltinOperators().specs()) {
    auto forward = SampleInstance(spec);
    REQUIRE(forward.ok());
    for (const OpInstance& gradient : Gradients(*forward)) {
      ++operators;
      for (const SplitRow& row : FactorTable(gradient)) {
        const Verdict& verdict = prover.Prove(gradient, row);
        INFO(gradient.op << " [" << row.reason << "] " << ToString(verdict));
        CHECK(IsProved(verdict));
        ++rows;
        for (size_t k = 0; k < row.outputs.size(); ++k) {
          if (row.outputs[k] != Sum()) continue;
          SplitRow bad = row;
          bad.outputs[k] = kWhole;
          const Verdict& no = prover.Prove(gradient, bad);
          INFO("a share read as the whole: " << ToString(no));
          CHECK_FALSE(IsProved(no));
        }
      }
    }
  }
  CHECK(operators > 70);
  CHECK(rows > 3 * operators);
}

// Spoils a row in one way after the other. Nothing spoiled may be proved.
TEST_CASE("spoiled rows of built-in operators are refuted") {
  SplitProver prover;
  int spoiled = 0, refuted = 0;
  auto expect_no = [&](const std::string& name, const OpInstance& op, const SplitRow& row,
                       const char* how) {
    const Verdict& verdict = prover.Prove(op, row);
    INFO(name << " [" << row.reason << "] " << how << ": " << ToString(verdict));
    CHECK_FALSE(IsProved(verdict));
    ++spoiled;
    refuted += IsRefuted(verdict);
  };
  for (const auto& [name, spec] : BuiltinOperators().specs()) {
    auto instance = SampleInstance(spec);
    REQUIRE(instance.ok());
    for (const SplitRow& row : FactorTable(*instance)) {
      for (size_t k = 0; k < row.outputs.size(); ++k) {
        SplitRow bad = row;
        if (row.outputs[k] == Sum()) {
          bad.outputs[k] = kWhole;
          expect_no(name, *instance, bad, "a share read as the whole");
          bad.outputs[k] = Max();
          expect_no(name, *instance, bad, "the wrong combiner");
        } else if (row.outputs[k].kind == AxisPlacement::Kind::kSplit) {
          bad.outputs[k] = kWhole;
          expect_no(name, *instance, bad, "a piece read as the whole");
          bad.outputs[k] = Sum();
          expect_no(name, *instance, bad, "a piece read as a share");
        } else if (row.outputs[k] == kWhole && name != "fill") {
          bad.outputs[k] = Sum();
          expect_no(name, *instance, bad, "a whole read as a share");
        }
      }
      for (size_t t = 0; t < row.inputs.size(); ++t) {
        if (row.inputs[t].kind != AxisPlacement::Kind::kSplit) continue;
        SplitRow bad = row;
        bad.inputs[t] = kWhole;
        expect_no(name, *instance, bad, "a whole given where a piece is wanted");
      }
      if (row.needs_offset) {
        SplitRow bad = row;
        bad.needs_offset = false;
        expect_no(name, *instance, bad, "no offset");
      }
    }
  }
  CHECK(spoiled > 500);
  CHECK(refuted * 100 >= spoiled * 97);  // nearly always with numbers
}

TEST_CASE("matmul: the three splits, and what they are not") {
  OpInstance op = Matmul();
  SECTION("rows") {
    CHECK(IsProved(ProveSplit(op, Row(op, "m", {Piece(1), kWhole}, {Piece(1)}))));
    CHECK(IsRefuted(ProveSplit(op, Row(op, "m", {Piece(1), kWhole}, {Piece(0)}))));
    CHECK(IsRefuted(ProveSplit(op, Row(op, "m", {kWhole, kWhole}, {Piece(1)}))));
  }
  SECTION("columns") {
    CHECK(IsProved(ProveSplit(op, Row(op, "n", {kWhole, Piece(1)}, {Piece(2)}))));
    CHECK(IsRefuted(ProveSplit(op, Row(op, "n", {kWhole, Piece(1)}, {kWhole}))));
  }
  SECTION("contraction") {
    CHECK(IsProved(ProveSplit(op, Row(op, "k", {Piece(2), Piece(0)}, {Sum()}))));
    CHECK(IsRefuted(ProveSplit(op, Row(op, "k", {Piece(2), Piece(0)}, {Max()}))));
    CHECK(IsRefuted(ProveSplit(op, Row(op, "k", {Piece(2), Piece(0)}, {kWhole}))));
    CHECK(IsRefuted(ProveSplit(op, Row(op, "k", {Piece(2), kWhole}, {Sum()}))));
  }
  SECTION("shares pass through one operand, not two") {
    CHECK(IsProved(ProveSplit(op, Row(op, "", {Sum(), kWhole}, {Sum()}))));
    CHECK(IsProved(ProveSplit(op, Row(op, "", {kWhole, Sum()}, {Sum()}))));
    CHECK(IsRefuted(ProveSplit(op, Row(op, "", {Sum(), Sum()}, {Sum()}))));
    CHECK(IsRefuted(ProveSplit(op, Row(op, "", {Sum(), kWhole}, {kWhole}))));
    CHECK(IsRefuted(ProveSplit(op, Row(op, "", {Max(), kWhole}, {Max()}))));
  }
}

TEST_CASE("an index used as a value needs the base of the piece") {
  OpInstance op = InstanceOfText(
      "operator embedding(ids[b]: int, table[v, e]) -> out[b, e] {"
      " out[b, j] = sum(t: v) select(ids[b] == t, table[t, j], 0) }",
      {{{4}}, {{6}, {8}}});
  CHECK(IsProved(ProveSplit(op, Row(op, "v", {kWhole, Piece(0)}, {Sum()}, true))));
  Verdict no_base = ProveSplit(op, Row(op, "v", {kWhole, Piece(0)}, {Sum()}, false));
  REQUIRE(IsRefuted(no_base));
  const Counterexample& e = std::get<Refuted>(no_base).counterexample;
  CHECK(e.what == "value");
  CHECK(e.degree >= 2);
  CHECK(e.expected != e.got);
  CHECK(IsRefuted(ProveSplit(op, Row(op, "v", {kWhole, Piece(0)}, {Max()}, true))));
  CHECK(IsProved(ProveSplit(op, Row(op, "e", {kWhole, Piece(1)}, {Piece(1)}))));
}

TEST_CASE("a causal mask needs it, too") {
  OpInstance op = InstanceOfText(
      "operator masked(x[s, t]) -> y[s, t] { y[i, j] = select(j <= i, x[i, j], 0) }", {{{4}, {6}}});
  CHECK(IsProved(ProveSplit(op, Row(op, "s", {Piece(0)}, {Piece(0)}, true))));
  CHECK(IsRefuted(ProveSplit(op, Row(op, "s", {Piece(0)}, {Piece(0)}, false))));
}

TEST_CASE("softmax cannot be split along its axis by itself") {
  OpInstance op = InstanceOfText(
      "operator softmax(x[a, n]) -> y[a, n] {"
      " m[a] = max(i: n) x[a, i]; e[a, i] = exp(x[a, i] - m[a]); z[a] = sum(i: n) e[a, i];"
      " y[a, i] = e[a, i] / z[a] }",
      {{{4}, {6}}});
  CHECK(IsProved(ProveSplit(op, Row(op, "a", {Piece(0)}, {Piece(0)}))));
  CHECK(IsRefuted(ProveSplit(op, Row(op, "n", {Piece(1)}, {Piece(1)}))));
}

TEST_CASE("a mean keeps the logical count; the local one is another operator") {
  OpInstance op = InstanceOfText(
      "operator mean(x[n, m]) -> y[m] { y[j] = (sum(i: n) x[i, j]) / size(n) }", {{{4}, {6}}});
  CHECK(IsProved(ProveSplit(op, Row(op, "n", {Piece(0)}, {Sum()}))));
  OpInstance square = InstanceOfText(
      "operator ms(x[n, m]) -> y[m] {"
      " s[j] = sum(i: n) x[i, j]; y[j] = s[j] * s[j] / size(n) }",
      {{{4}, {6}}});
  CHECK(IsRefuted(ProveSplit(square, Row(square, "n", {Piece(0)}, {Sum()}))));
}

TEST_CASE("a dim of two factors is split at either") {
  OpInstance op = InstanceOfText("operator twice(x[n, s]) -> y[n, s] { y[i, j] = x[i, j] * 2 }",
                                 {{{4, 6}, {8}}});
  CHECK(IsProved(ProveSplit(op, Row(op, "n.0", {Piece(0, 0)}, {Piece(0, 0)}))));
  CHECK(IsProved(ProveSplit(op, Row(op, "n.1", {Piece(0, 1)}, {Piece(0, 1)}))));
  CHECK(IsRefuted(ProveSplit(op, Row(op, "n.1", {Piece(0, 1)}, {Piece(0, 0)}))));
}

TEST_CASE("the remainder of a real number is no integer") {
  // 4x mod 4 is 0 for integers only.
  OpInstance op = InstanceOfText(
      "operator r(x[n], y[m]) -> out[n, m] { out[i, j] = select((4 * x[i]) % 4 == 0, y[j], 0) }",
      {{{4}}, {{6}}});
  CHECK(IsProved(ProveSplit(op, Row(op, "n", {Piece(0), kWhole}, {Piece(0)}))));
  CHECK(IsRefuted(ProveSplit(op, Row(op, "m", {kWhole, Piece(0)}, {Sum()}))));
}

TEST_CASE("equal statements are proved once; extents do not matter") {
  SplitProver prover;
  OpInstance small = Matmul();
  OpInstance large = InstanceOfText(
      "operator matmul(lhs[b.., m, k], rhs[k, n]) -> out[b.., m, n] {"
      " out[b, i, j] = sum(p: k) lhs[b, i, p] * rhs[p, j] }",
      {{{64}, {512}, {1024}}, {{1024}, {4096}}});
  CHECK(IsProved(prover.Prove(small, Row(small, "k", {Piece(2), Piece(0)}, {Sum()}))));
  CHECK(IsProved(prover.Prove(large, Row(large, "k", {Piece(2), Piece(0)}, {Sum()}))));
  CHECK(prover.proofs() == 1);
  CHECK(IsRefuted(prover.Prove(large, Row(large, "k", {Piece(2), Piece(0)}, {Max()}))));
  CHECK(prover.proofs() == 2);
}

TEST_CASE("numbers of the text are part of the statement to the last digit") {
  auto scaled = [](const char* c) {
    return InstanceOfText(std::string("operator s(x[n]) -> y[n] { y[i] = ") + c + " * x[i] }",
                          {{{4}}});
  };
  SplitRow row = Row(scaled("1.5"), "n", {Piece(0)}, {Piece(0)});
  CHECK(SplitStatement(scaled("0.7978845608028654"), row) !=
        SplitStatement(scaled("0.7978845608028653"), row));
  CHECK(SplitStatement(scaled("0.5"), row) == SplitStatement(scaled("0.50"), row));
}

}  // namespace
}  // namespace tandem
