#include <catch2/catch.hpp>
#include <fstream>
#include <sstream>

#include "pcg/language/op_parser.h"
#include "substitutions/rule.h"
#include "verifier/builtin_proofs.h"
#include "verifier/certificates/certificate_book.h"
#include "verifier/equality/rule_proof.h"
#include "verifier/sample_instances.h"
#include "verifier/splits/split_proof.h"

namespace tandem {
namespace {

constexpr char kFile[] = "verifier/certificates/builtin.textproto";

std::string Stored() {
  std::ifstream in(kFile);
  REQUIRE(in);
  std::stringstream text;
  text << in.rdbuf();
  return text.str();
}

std::string Replaced(std::string text, const std::string& from, const std::string& to) {
  const size_t at = text.find(from);
  REQUIRE(at != std::string::npos);
  return text.replace(at, from.size(), to);
}

Rule RuleNamed(const std::string& name) {
  for (const Rule& rule : BuiltinRules()) {
    if (rule.name == name) return rule;
  }
  FAIL("no rule " << name);
  return {};
}

CertificateBook Read(const std::string& text) {
  auto book = CertificateBook::FromText(text, "test");
  INFO(book.status().message());
  REQUIRE(book.ok());
  return *std::move(book);
}

// A book as somebody without a proof would write it: certificates made up, all hashes right.
CertificateBook Forged(const Rule& rule) {
  Certificate made_up;
  made_up.subject = RuleSubject(rule, BuiltinOperators());
  Seal(made_up);
  CertificateBook book;
  book.Add(CertificateKind::kRule, rule.name, made_up);
  return book;
}

TEST_CASE("what is stored is what is proved, byte for byte") {
  const auto proved = ProveAll(BuiltinRules(), BuiltinOperators());
  INFO(proved.status().message());
  REQUIRE(proved.ok());
  CHECK(proved->not_proved.empty());
  const std::vector<std::string> differences = Differences(BuiltinCertificates(), proved->book);
  INFO("run: bazel-bin/tools/tandem rules certify --out " << kFile);
  if (!differences.empty()) INFO(differences[0]);
  CHECK(differences.empty());
  CHECK(proved->book.ToText(false) == Stored());
  CHECK(BuiltinCertificates().ToText(false) == Stored());
  size_t rules = 0, rows = 0;
  for (const CertificateEntry& e : proved->book.entries()) {
    rules += e.kind == CertificateKind::kRule;
    rows += e.kind == CertificateKind::kRow;
  }
  CHECK(rules == BuiltinRules().size());
  CHECK(rows > 500);
}

TEST_CASE("a stored certificate is found by the texts it is about, and by no others") {
  const CertificateBook book = Read(Stored());
  for (const Rule& rule : BuiltinRules()) {
    const auto found = book.Find(RuleSubject(rule, BuiltinOperators()));
    INFO(rule.name);
    REQUIRE(found.has_value());
    const Verdict verdict = ProveRule(rule, BuiltinOperators());
    REQUIRE(IsProved(verdict));
    CHECK(*found == std::get<Proved>(verdict).certificate);
  }
  SECTION("the rule says something else") {
    Rule rule = RuleNamed("scale_twice");
    rule.target[0].attributes["value"].expression = "p + q";
    CHECK_FALSE(book.Find(RuleSubject(rule, BuiltinOperators())).has_value());
  }
  SECTION("an operator means something else") {
    OperatorLibrary operators;
    for (const auto& [name, spec] : BuiltinOperators().specs()) {
      OpSpec changed = spec;
      if (name == "silu") {
        changed.text = Replaced(spec.text, "x[i]", "2 * x[i]");
      }
      REQUIRE(operators.Add(changed).ok());
    }
    CHECK_FALSE(book.Find(RuleSubject(RuleNamed("silu_spelt_out"), operators)).has_value());
    CHECK(book.Find(RuleSubject(RuleNamed("scale_twice"), operators)).has_value());
  }
}

TEST_CASE("a row's certificate stands in for its proof only where the statement is the same") {
  const CertificateBook book = Read(Stored());
  const auto matmul = SampleInstance(*BuiltinOperators().Find("matmul"));
  REQUIRE(matmul.ok());
  SplitProver prover(&book);
  for (const SplitRow& row : FactorTable(*matmul)) CHECK(IsProved(prover.Prove(*matmul, row)));
  CHECK(prover.proofs() == 0);
  SplitRow wrong = FactorTable(*matmul).back();
  for (AxisPlacement& out : wrong.outputs) out = AxisPlacement::Replicated();
  CHECK_FALSE(IsProved(prover.Prove(*matmul, wrong)));
  CHECK(prover.proofs() == 1);
}

TEST_CASE("a changed file is refused") {
  const std::string text = Stored();
  CHECK(CertificateBook::FromText(text, "test").ok());
  for (const auto& [from, to] : std::vector<std::pair<std::string, std::string>>{
           {"name: \"scale_twice\"", "name: \"scale_thrice\""},
           {"kind: RULE", "kind: ROW"},
           {"queries: ", "queries: 1"},
           {"seal: \"", "seal: \"0"},
           {"prover: \"tandem", "prover: \"another"},
           {"floats are reals", "floats are floats"},
           {"certificate {", "verdict {"}}) {
    INFO(from << " -> " << to);
    CHECK_FALSE(CertificateBook::FromText(Replaced(text, from, to), "test").ok());
  }
  CHECK_FALSE(CertificateBook::FromText("", "test").ok());
  CHECK_FALSE(CertificateBook::FromText(text.substr(0, text.size() / 2), "test").ok());
}

TEST_CASE("statements kept in the file have to fit their hashes") {
  CertificateBook book;
  const Verdict verdict = ProveRule(RuleNamed("silu_spelt_out"), BuiltinOperators());
  REQUIRE(IsProved(verdict));
  book.Add(CertificateKind::kRule, "silu_spelt_out", std::get<Proved>(verdict).certificate);
  const std::string text = book.ToText(true);
  const CertificateBook back = Read(text);
  REQUIRE(back.entries().size() == 1);
  CHECK(back.entries()[0].certificate == book.entries()[0].certificate);
  CHECK(back.FindHash(book.entries()[0].certificate.hash) != nullptr);
  // Changed, and sealed again as the format asks.
  const std::string bad = Replaced(text, "sigmoid", "tanh");
  const size_t lines = bad.find("certificate {");
  const std::string sealed = Replaced(bad, "seal: \"" + StableHash(text.substr(lines)),
                                      "seal: \"" + StableHash(bad.substr(lines)));
  const auto read = CertificateBook::FromText(sealed, "test");
  REQUIRE_FALSE(read.ok());
  CHECK_THAT(std::string(read.status().message()), Catch::Contains("do not fit its statement"));
}

TEST_CASE("a certificate that nobody proved is found out by proving") {
  Rule lie = RuleNamed("scale_twice");
  lie.target[0].attributes["value"].expression = "p + q";
  const CertificateBook forged = Read(Forged(lie).ToText(false));  // every hash fits
  OperatorLibrary scale;
  REQUIRE(scale.Add(*BuiltinOperators().Find("scale")).ok());
  const auto proved = ProveAll({lie}, scale);
  REQUIRE(proved.ok());
  CHECK(proved->not_proved.size() == 1);
  const std::vector<std::string> differences = Differences(forged, proved->book);
  REQUIRE_FALSE(differences.empty());
  CHECK_THAT(differences[0], Catch::Contains("scale_twice") && Catch::Contains("nobody proved it"));
}

TEST_CASE("what holds for some sizes only is not found for all") {
  Certificate c;
  c.subject = "statement";
  c.assumptions = {"sizes n=4"};
  Seal(c);
  CertificateBook book;
  book.Add(CertificateKind::kRow, "some", c);
  CHECK_FALSE(book.Find("statement").has_value());
  c.assumptions.clear();
  Seal(c);
  book.Add(CertificateKind::kRow, "all", c);
  CHECK(book.Find("statement").has_value());
}

}  // namespace
}  // namespace tandem
