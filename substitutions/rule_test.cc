#include "substitutions/rule.h"

#include <algorithm>
#include <catch2/catch.hpp>
#include <cctype>
#include <iterator>
#include <random>

#include "substitutions/attr_expression.h"

namespace tandem {
namespace {

std::string Failure(const std::string& text) {
  const auto rules = ParseRules(text, "t.rules");
  return rules.ok() ? "parsed" : std::string(rules.status().message());
}

TEST_CASE("built-in rules print and parse to themselves") {
  REQUIRE(BuiltinRules().size() >= 15);
  for (const Rule& rule : BuiltinRules()) {
    const std::string text = PrintRule(rule);
    const auto again = ParseRules(text, "again");
    INFO(text);
    REQUIRE(again.ok());
    REQUIRE(again->size() == 1);
    CHECK(PrintRule((*again)[0]) == text);
    CHECK((*again)[0].inputs == rule.inputs);
    CHECK((*again)[0].use == rule.use);
  }
}

TEST_CASE("a reshape without an input is refused") {
  const auto rules = ParseRules(
      "rule r { given x[b..]\n source { y: [m..] = reshape(); out: [n..] = reshape(y) }\n"
      " target { out: [n..] = reshape(x) } }",
      "t.rules");
  if (!rules.ok()) return;  // refused earlier is as good
  const auto graphs = GraphsOf(rules->front(), BuiltinOperators());
  REQUIRE_FALSE(graphs.ok());
  CHECK(std::string(graphs.status().message()).find("reshape needs an input") != std::string::npos);
}

// Words and signs of a text, with the space between them.
std::vector<std::string> Pieces(const std::string& text) {
  std::vector<std::string> pieces;
  for (char c : text) {
    const bool word = std::isalnum(static_cast<unsigned char>(c)) != 0 || c == '_';
    const bool joined = word && !pieces.empty() &&
                        (std::isalnum(static_cast<unsigned char>(pieces.back()[0])) != 0 ||
                         pieces.back()[0] == '_');
    if (joined) {
      pieces.back() += c;
    } else {
      pieces.emplace_back(1, c);
    }
  }
  return pieces;
}

TEST_CASE("random changes to built-in rules never crash the parser or the instantiation") {
  const char* kStrange[] = {"(",     ")",  "{",    "}",       "[",
                            "]",     "..", "?",    "-1",      "0",
                            "x",     ";",  ":",    "=",       "99999999999999999999",
                            "1e999", "\"", "swap", "reshape", "\xff"};
  std::mt19937 random(5);
  int refused = 0, instantiated = 0;
  for (int round = 0; round < 1500; ++round) {
    const Rule& rule = BuiltinRules()[random() % BuiltinRules().size()];
    std::vector<std::string> pieces = Pieces(PrintRule(rule));
    for (uint32_t changes = 1 + random() % 3; changes > 0; --changes) {
      const size_t at = random() % pieces.size();
      const size_t from = random() % pieces.size();
      switch (random() % 4) {
        case 0:
          pieces[at].clear();
          break;
        case 1:
          pieces[at] = pieces[from];
          break;
        case 2:
          pieces[at] = kStrange[random() % std::size(kStrange)];
          break;
        default:
          pieces[at] += pieces[from];
      }
      pieces.erase(std::remove(pieces.begin(), pieces.end(), ""), pieces.end());
    }
    std::string text;
    for (const std::string& piece : pieces) text += piece;
    const auto rules = ParseRules(text, "t.rules");
    if (!rules.ok()) {
      ++refused;
      CHECK(std::string(rules.status().message()).find("t.rules") != std::string::npos);
      continue;
    }
    for (const Rule& changed : *rules) {
      const auto graphs = GraphsOf(changed, BuiltinOperators());
      instantiated += graphs.ok() ? 1 : 0;
    }
  }
  CHECK(refused > 500);
  CHECK(instantiated > 10);
}

TEST_CASE("built-in rules instantiate, both sides with equal output shapes") {
  for (const Rule& rule : BuiltinRules()) {
    const auto graphs = GraphsOf(rule, BuiltinOperators());
    INFO(rule.name);
    if (!graphs.ok()) FAIL(graphs.status().message());
    REQUIRE(graphs->source.outputs.size() == graphs->outputs.size());
    for (size_t i = 0; i < graphs->outputs.size(); ++i) {
      CHECK(PlainShape(graphs->source.tensor(graphs->source.outputs[i]).shape) ==
            PlainShape(graphs->target.tensor(graphs->target.outputs[i]).shape));
    }
  }
}

TEST_CASE("wrong rule texts are refused with file and line") {
  CHECK_THAT(Failure("rule a { given x[n] source { y = relu(x) }"), Catch::Contains("t.rules:1"));
  CHECK_THAT(Failure("rule a {\n given x[n]\n source { y = relu(z) }\n target { y = relu(x) } }"),
             Catch::Contains("t.rules:3") && Catch::Contains("z is used before"));
  CHECK_THAT(Failure("rule a { given x[n] source { y = relu(x) } target { z = relu(x) } }"),
             Catch::Contains("no output"));
  CHECK_THAT(Failure("rule a { given x[n], x[m] source { y = relu(x) } target { y = relu(x) } }"),
             Catch::Contains("given twice"));
  CHECK_THAT(Failure("rule a { given x[n] source { y = relu(x); y = relu(x) } target { y = relu(x) "
                     "} }"),
             Catch::Contains("defined twice"));
  CHECK_THAT(Failure("rule a \"open"), Catch::Contains("not closed"));
  CHECK_THAT(Failure("rewrite a {}"), Catch::Contains("expected 'rule'"));
  CHECK_THAT(Failure("commutative a { given x[n], y[n] source { z = sub(x, y) } target { z = "
                     "sub(x, y) } }"),
             Catch::Contains("op(y, x)"));
  CHECK_THAT(Failure("commutative a { given x[n] source { z = relu(x) } target { z = relu(x) } }"),
             Catch::Contains("op(y, x)"));
  CHECK_THAT(Failure("rule a { given x[n] source { y = t(x; perm = swap(0, 1)) } target { y = "
                     "relu(x) } }"),
             Catch::Contains("from the end"));
}

TEST_CASE("rules that use what is not there do not instantiate") {
  auto instantiate = [](const std::string& text) {
    const auto rules = ParseRules(text, "t.rules");
    REQUIRE(rules.ok());
    const auto graphs = GraphsOf((*rules)[0], BuiltinOperators());
    return graphs.ok() ? std::string("ok") : std::string(graphs.status().message());
  };
  CHECK_THAT(instantiate("rule a { given x[n] source { y = nonesuch(x) } target { y = relu(x) } }"),
             Catch::Contains("nonesuch"));
  CHECK_THAT(instantiate("rule a { given x[n] source { y = scale(x; value = q) } target { y = "
                         "relu(x) } }"),
             Catch::Contains("neither a variable nor a size"));
  CHECK_THAT(instantiate("rule a { given x[m, k], y[n, k] source { z = matmul(x, y) } target { z = "
                         "matmul(x, y) } }"),
             Catch::Contains("rule a"));
}

TEST_CASE("attribute expressions") {
  auto value = [](absl::string_view name) -> std::optional<double> {
    return name == "p" ? std::optional<double>(3) : std::nullopt;
  };
  CHECK(EvaluateAttr("2 * (p - 1) / 4", value) == 1.0);
  CHECK(EvaluateAttr("-p + 1", value) == -2.0);
  CHECK_FALSE(EvaluateAttr("p *", value).has_value());
  CHECK_FALSE(EvaluateAttr("q", value).has_value());
  CHECK_FALSE(EvaluateAttr("1 / 0", value).has_value());
  CHECK(IsBareName("eps_1"));
  CHECK_FALSE(IsBareName("a * b"));
  CHECK(NamesIn("n + m * 2") == std::set<std::string>{"m", "n"});
}

}  // namespace
}  // namespace tandem
