#include "verifier/equality/graph_proof.h"

#include <catch2/catch.hpp>

#include "verifier/equality/graph_maker.h"
#include "verifier/program/value_numbers.h"

namespace tandem {
namespace {

TEST_CASE("cuts are proved once where they are equal, and each has a certificate") {
  auto two = [](bool merged, double second) {
    GraphMaker c;
    TensorId x = c.Source("x", {{4}, {6}});
    for (const char* name : {"first", "second"}) {
      const double by = name[0] == 'f' ? 6.0 : second;
      if (merged) {
        x = c.Named(name, "scale", {x}, {{"value", by}});
      } else {
        TensorId half = c.Named(std::string(name) + ".half", "scale", {x}, {{"value", 2.0}});
        x = c.Named(name, "scale", {half}, {{"value", 3.0}});
      }
    }
    c.g.outputs = {x};
    return c.g;
  };
  const GraphProof same = ProveRewrite(two(false, 6), two(true, 6));
  CHECK(same.failures.empty());
  CHECK(same.proofs == 1);
  REQUIRE(same.certificates.entries().size() == 1);
  CHECK(same.certificates.entries()[0].kind == CertificateKind::kCut);
  const GraphProof other = ProveRewrite(two(false, 6), two(true, 5));
  REQUIRE(other.failures.size() == 1);
  CHECK(other.failures[0].tensor == "second");
  CHECK(other.failures[0].refuted);
}

TEST_CASE("constants that differ in the last digits are not one proof") {
  auto sum = [](bool rewritten) {
    GraphMaker c;
    const TensorId x = c.Source("x", {{4}});
    const double nearly = 0.125 + 1e-9;
    for (const char* name : {"a", "b"}) {
      const double value = rewritten || name[0] == 'a' ? 0.125 : nearly;
      if (rewritten) {
        c.Named(name, "scale", {x}, {{"value", value}});
      } else {
        c.Named(name, "mul", {x, c.Constant(std::string("c.") + name, value)});
      }
    }
    c.g.outputs = {c.g.nodes[0].outputs[0], c.g.nodes[1].outputs[0]};
    return c.g;
  };
  const GraphProof proof = ProveRewrite(sum(false), sum(true));
  REQUIRE(proof.failures.size() == 1);
  CHECK(proof.failures[0].tensor == "b");
}

TEST_CASE("a cast that rounds is not one that keeps reals") {
  auto cast = [](DType dtype, bool twice) {
    GraphMaker c;
    TensorId t = c.Named("cast", "cast", {c.Source("x", {{4}})}, {}, {dtype});
    if (twice) t = c.Named("again", "identity", {t}, {}, {dtype});
    c.g.tensors[t.index()].name = "out";
    c.g.outputs = {t};
    return c.g;
  };
  CHECK(ProveRewrite(cast(DType::kI64, false), cast(DType::kI64, false)).failures.empty());
  CHECK(ProveRewrite(cast(DType::kF64, false), cast(DType::kBF16, false)).failures.empty());
  CHECK(ProveRewrite(cast(DType::kI64, false), cast(DType::kI64, true)).failures.empty());
  CHECK_FALSE(ProveRewrite(cast(DType::kI64, false), cast(DType::kF32, false)).failures.empty());
  CHECK_FALSE(ProveRewrite(cast(DType::kI64, false), cast(DType::kF32, true)).failures.empty());
  ValueNumbers numbers;
  const Graph rounds = cast(DType::kI64, false), keeps = cast(DType::kF32, false);
  CHECK(numbers.Of(rounds)[rounds.outputs[0].index()] !=
        numbers.Of(keeps)[keeps.outputs[0].index()]);
  CHECK(numbers.Of(rounds) == numbers.Of(cast(DType::kI32, false)));
}

}  // namespace
}  // namespace tandem
