#include "verifier/equality/rule_proof.h"

#include <catch2/catch.hpp>

#include "pcg/language/op_parser.h"

namespace tandem {
namespace {

Verdict Prove(const std::string& text) {
  auto rules = ParseRules(text, "test");
  INFO(rules.status().message());
  REQUIRE(rules.ok());
  REQUIRE(rules->size() == 1);
  return ProveRule(rules->at(0), BuiltinOperators());
}

TEST_CASE("every built-in rule is proved") {
  CHECK(BuiltinRules().size() >= 15);
  for (const Rule& rule : BuiltinRules()) {
    Verdict verdict = ProveRule(rule, BuiltinOperators());
    INFO(rule.name << ": " << ToString(verdict));
    CHECK(IsProved(verdict));
  }
}

// Every change of one operator on the target side of a built-in rule.
TEST_CASE("built-in rules with a spoiled target are not proved") {
  const std::vector<std::pair<std::string, std::string>> swaps = {
      {"gelu", "relu"},          {"gelu_tanh", "silu"}, {"silu", "sigmoid"},
      {"layer_norm", "softmax"}, {"scale", "shift"},    {"matmul", "add"}};
  int spoiled = 0;
  for (const Rule& rule : BuiltinRules()) {
    if (rule.use == RuleUse::kCommutative) continue;  // exchanged twice is the identity
    for (size_t i = 0; i < rule.target.size(); ++i) {
      for (size_t a = 0; a + 1 < rule.target[i].inputs.size(); ++a) {
        Rule bad = rule;
        if (bad.target[i].op == "add" || bad.target[i].op == "mul") continue;
        std::swap(bad.target[i].inputs[a], bad.target[i].inputs[a + 1]);
        Verdict verdict = ProveRule(bad, BuiltinOperators());
        INFO(rule.name << " with inputs of " << bad.target[i].op
                       << " swapped: " << ToString(verdict));
        CHECK_FALSE(IsProved(verdict));
        ++spoiled;
      }
      for (const auto& [from, to] : swaps) {
        if (rule.target[i].op != from || rule.target[i].inputs.size() != 1) continue;
        Rule bad = rule;
        bad.target[i].op = to;
        bad.target[i].attributes.clear();
        if (to == "shift") bad.target[i].attributes = rule.target[i].attributes;
        Verdict verdict = ProveRule(bad, BuiltinOperators());
        INFO(rule.name << " with " << to << ": " << ToString(verdict));
        CHECK_FALSE(IsProved(verdict));
        ++spoiled;
      }
    }
  }
  CHECK(spoiled >= 20);
}

TEST_CASE("not every operator is commutative") {
  for (const char* op : {"sub", "div", "pow"}) {
    const std::string text = std::string("commutative no { given x[b..], y[b..] source { z = ") +
                             op + "(x, y) } target { z = " + op + "(y, x) } }";
    CHECK(IsRefuted(Prove(text)));
  }
}

TEST_CASE("rules that are true") {
  const char* text = GENERATE(
      R"(rule t1 "distributivity" { given a[b.., m, k], x[k, n], y[k, n]
         source { s = add(x, y); out = matmul(a, s) }
         target { p = matmul(a, x); q = matmul(a, y); out = add(p, q) } })",
      R"(rule t2 "associativity" { given x[b, m, k], y[b, k, l], z[b, l, n]
         source { p = matmul(x, y); out = matmul(p, z) }
         target { q = matmul(y, z); out = matmul(x, q) } })",
      R"(rule t3 "transpose of a product" { given x[m, k], y[k, n]
         source { p = matmul(x, y); out = transpose(p; perm = [1, 0]) }
         target { s = transpose(x; perm = [1, 0]); t = transpose(y; perm = [1, 0]);
                  out = matmul(t, s) } })",
      R"(rule t4 "contraction of concatenations" { given a[m, k], c[m, l], x[k, n], y[l, n]
         source { s = concat(a, c; rank_c = 0); t = concat(x, y; rank_c = 1); out = matmul(s, t) }
         target { p = matmul(a, x); q = matmul(c, y); out = add(p, q) } })",
      R"(rule t5 "concatenation is associative" { given x[a, n], y[a, m], z[a, p]
         source { s = concat(x, y; rank_c = 0); out = concat(s, z; rank_c = 0) }
         target { t = concat(y, z; rank_c = 0); out = concat(x, t; rank_c = 0) } })",
      R"(rule t6 "concatenation of slices" { given x[a, n], y[a, m]
         source { out = concat(x, y; rank_c = 0) }
         target { s = concat(x, y; rank_c = 0);
                  l: [a, n] = slice(s; rank_c = 0, start = 0, size = n);
                  r: [a, m] = slice(s; rank_c = 0, start = n, size = m);
                  out = concat(l, r; rank_c = 0) } })",
      R"(rule t7 "variance by the mean of squares" { given x[b.., n]
         source { mu = reduce_mean_keep(x; rank_c = 0); c = sub(x, mu); s = mul(c, c);
                  out = reduce_mean_keep(s; rank_c = 0) }
         target { t = mul(x, x); e = reduce_mean_keep(t; rank_c = 0);
                  v = reduce_mean_keep(x; rank_c = 0); m = mul(v, v); out = sub(e, m) } })",
      R"(rule t8 "relu commutes with max" { given x[b, n]
         source { m = reduce_max_keep(x; rank_c = 0); out = relu(m) }
         target { r = relu(x); out = reduce_max_keep(r; rank_c = 0) } })",
      R"(rule t9 "embedding is a contraction with the one-hot matrix" { given x[b, k], y[k, n], z[n]
         source { p = matmul(x, y); out = add(p, z) }
         target { out = linear(x, y, z) } })",
      R"(rule t10 "log softmax" { given x[b.., n]
         source { out = log_softmax(x; rank_c = 0) }
         target { m = reduce_max_keep(x; rank_c = 0); d = sub(x, m); e = exp(d);
                  s = reduce_sum_keep(e; rank_c = 0); l = log(s); out = sub(d, l) } })");
  Verdict verdict = Prove(text);
  INFO(text << "\n" << ToString(verdict));
  CHECK(IsProved(verdict));
}

TEST_CASE("rules that are false are refuted with numbers") {
  const char* text = GENERATE(
      R"(rule f1 "minus" { given a[b.., m, k], x[k, n], y[k, n]
         source { s = add(x, y); out = matmul(a, s) }
         target { p = matmul(a, x); q = matmul(a, y); out = sub(p, q) } })",
      R"(rule f2 "not commutative" { given x[n, n], y[n, n]
         source { out = matmul(x, y) } target { out = matmul(y, x) } })",
      R"(rule f3 "factors not swapped" { given x[n, n], y[n, n]
         source { p = matmul(x, y); out = transpose(p; perm = [1, 0]) }
         target { s = transpose(x; perm = [1, 0]); t = transpose(y; perm = [1, 0]);
                  out = matmul(s, t) } })",
      R"(rule f4 "one side of the contraction" { given a[m, k], c[m, l], x[k, n], y[l, n]
         source { s = concat(a, c; rank_c = 0); t = concat(x, y; rank_c = 1); out = matmul(s, t) }
         target { p = matmul(a, x); q = matmul(c, y); out = sub(p, q) } })",
      R"(rule f5 "slices swapped" { given x[a, n], y[a, n]
         source { out = concat(x, y; rank_c = 0) }
         target { out = concat(y, x; rank_c = 0) } })",
      R"(rule f6 "off by one" { given x[a, n], y[a, m]
         source { s = concat(x, y; rank_c = 0);
                  out: [a, n] = slice(s; rank_c = 0, start = 0, size = n) }
         target { s = concat(x, y; rank_c = 0);
                  out: [a, n] = slice(s; rank_c = 0, start = 1, size = n) } })",
      R"(rule f7 "square of the mean left out" { given x[b.., n]
         source { mu = reduce_mean_keep(x; rank_c = 0); c = sub(x, mu); s = mul(c, c);
                  out = reduce_mean_keep(s; rank_c = 0) }
         target { s = mul(x, x); out = reduce_mean_keep(s; rank_c = 0) } })",
      R"(rule f8 "x/x is not 1 at 0" { given x[b, n], y[b, n]
         source { q = div(x, x); out = mul(q, y) } target { out = identity(y) } })",
      R"(rule f9 "nor is x*y/y" { given x[b, n], y[b, n]
         source { p = mul(x, y); out = div(p, y) } target { out = identity(x) } })",
      R"(rule f10 "min is not max" { given x[b, n]
         source { out = reduce_max(x; rank_c = 0, rank_r = 1) }
         target { out = reduce_min(x; rank_c = 0, rank_r = 1) } })",
      R"(rule f11 "sum is not mean" { given x[b, n]
         source { out = reduce_sum(x; rank_c = 0, rank_r = 1) }
         target { out = reduce_mean(x; rank_c = 0, rank_r = 1) } })",
      R"(rule f12 "relu is not linear" { given x[b, n], y[b, n]
         source { s = add(x, y); out = relu(s) }
         target { p = relu(x); q = relu(y); out = add(p, q) } })",
      R"(rule f13 "the constant differs" { given x[b, n]
         source { out = gelu_tanh(x; cubic = 0.044715) }
         target { out = gelu_tanh(x; cubic = 0.0447) } })",
      R"(rule f14 "softmax along another axis" { given x[n, n]
         source { out = softmax(x; rank_c = 0) } target { out = softmax(x; rank_c = 1) } })",
      R"(rule f15 "scale added instead" { given x[b, m, k], y[b, k, n] variables c
         source { s = scale(x; value = c); out = matmul(s, y) }
         target { z = matmul(x, y); out = shift(z; value = c) } })",
      R"(rule f16 "scale twice by the sum" { given x[b] variables p, q
         source { y = scale(x; value = p); out = scale(y; value = q) }
         target { out = scale(x; value = p + q) } })");
  Verdict verdict = Prove(text);
  INFO(text << "\n" << ToString(verdict));
  CHECK(IsRefuted(verdict));
}

TEST_CASE("a certificate says what was proved and reads back") {
  Verdict verdict = Prove(R"(rule r "identity" { given x[b..] source { out = neg(x) }
                             target { out = scale(x; value = -1) } })");
  REQUIRE(IsProved(verdict));
  const Certificate& c = std::get<Proved>(verdict).certificate;
  CHECK(c.facts.empty());
  CHECK(c.subject.find("operator neg") != std::string::npos);
  std::string text = ToText(c);
  CHECK(text.find("floats are reals") != std::string::npos);
  CHECK(text.find("1/0 = 0") != std::string::npos);
  auto back = CertificateFromText(text);
  REQUIRE(back.ok());
  CHECK(*back == c);
  SECTION("tampering shows") {
    std::string bad = text;
    REQUIRE(bad.rfind("operator scale") != std::string::npos);
    bad.replace(bad.rfind("operator scale"), 14, "operator shift");
    CHECK_FALSE(CertificateFromText(bad).ok());
  }
  SECTION("another prover's word does not count") {
    std::string bad = text;
    bad.replace(bad.find("tandem-prover"), 13, "other--prover");
    CHECK_FALSE(CertificateFromText(bad).ok());
  }
  SECTION("a file without a subject") {
    CHECK_FALSE(CertificateFromText("tandem certificate\nhash: 0\n").ok());
    CHECK_FALSE(CertificateFromText("").ok());
  }
}

}  // namespace
}  // namespace tandem
