#include <cctype>
#include <cstdlib>
#include <optional>
#include <set>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "substitutions/rule.h"

namespace tandem {
namespace {

struct Token {
  std::string text;
  int line = 1;
  bool name = false;    // identifier
  bool quoted = false;  // string, without its quotes
};

absl::Status At(absl::string_view file, int line, absl::string_view what) {
  return absl::InvalidArgumentError(absl::StrCat(file, ":", line, ": ", what));
}

absl::StatusOr<std::vector<Token>> Tokens(absl::string_view text, absl::string_view file) {
  std::vector<Token> out;
  int line = 1;
  for (size_t i = 0; i < text.size();) {
    const char c = text[i];
    if (c == '\n') ++line;
    if (std::isspace(static_cast<unsigned char>(c))) {
      ++i;
    } else if (c == '#') {
      while (i < text.size() && text[i] != '\n') ++i;
    } else if (c == '"') {
      const size_t end = text.find('"', i + 1);
      if (end == absl::string_view::npos) return At(file, line, "a string is not closed");
      out.push_back({std::string(text.substr(i + 1, end - i - 1)), line, false, true});
      for (size_t k = i; k < end; ++k) line += text[k] == '\n';
      i = end + 1;
    } else if (std::isalpha(static_cast<unsigned char>(c)) || c == '_') {
      size_t j = i;
      while (j < text.size() &&
             (std::isalnum(static_cast<unsigned char>(text[j])) || text[j] == '_')) {
        ++j;
      }
      out.push_back({std::string(text.substr(i, j - i)), line, true, false});
      i = j;
    } else if (std::isdigit(static_cast<unsigned char>(c))) {
      size_t j = i;
      while (j < text.size() && (std::isalnum(static_cast<unsigned char>(text[j])) ||
                                 (text[j] == '.' && j + 1 < text.size() && text[j + 1] != '.'))) {
        ++j;
      }
      out.push_back({std::string(text.substr(i, j - i)), line, false, false});
      i = j;
    } else if (text.substr(i, 2) == "..") {
      out.push_back({"..", line, false, false});
      i += 2;
    } else {
      out.push_back({std::string(1, c), line, false, false});
      ++i;
    }
  }
  out.push_back({"", line, false, false});
  return out;
}

class Parser {
 public:
  Parser(std::vector<Token> tokens, absl::string_view file)
      : tokens_(std::move(tokens)), file_(file) {}

  absl::StatusOr<std::vector<Rule>> All() {
    std::vector<Rule> rules;
    std::set<std::string> names;
    while (!Peek().text.empty() || Peek().quoted) {
      Rule rule;
      if (absl::Status s = One(rule); !s.ok()) return s;
      if (!names.insert(rule.name).second) {
        return Error(absl::StrCat("rule ", rule.name, " is defined twice; rename one"));
      }
      rules.push_back(std::move(rule));
    }
    return rules;
  }

 private:
  const Token& Peek() const { return tokens_[pos_]; }
  Token Next() { return tokens_[pos_ + 1 < tokens_.size() ? pos_++ : pos_]; }
  bool Is(absl::string_view text) const { return !Peek().quoted && Peek().text == text; }
  bool Take(absl::string_view text) {
    if (!Is(text)) return false;
    Next();
    return true;
  }
  absl::Status Error(absl::string_view what) const { return At(file_, Peek().line, what); }
  absl::Status Expect(absl::string_view text) {
    if (Take(text)) return absl::OkStatus();
    return Error(absl::StrCat("expected '", text, "', found '", Peek().text, "'"));
  }
  absl::Status Name(std::string& out) {
    if (!Peek().name) return Error(absl::StrCat("expected a name, found '", Peek().text, "'"));
    out = Next().text;
    return absl::OkStatus();
  }

  absl::Status Dims(std::vector<RuleDim>& dims) {
    if (absl::Status s = Expect("["); !s.ok()) return s;
    while (!Take("]")) {
      RuleDim dim;
      if (Take("(")) {
        do {
          std::string part;
          if (absl::Status s = Name(part); !s.ok()) return s;
          dim.parts.push_back(part);
        } while (Take(","));
        if (absl::Status s = Expect(")"); !s.ok()) return s;
      } else if (Take("1")) {
        // no parts: extent 1
      } else {
        std::string part;
        if (absl::Status s = Name(part); !s.ok()) return s;
        dim.parts.push_back(part);
        dim.group = Take("..");
      }
      dim.broadcast = Take("?");
      dims.push_back(std::move(dim));
      if (!Is("]")) {
        if (absl::Status s = Expect(","); !s.ok()) return s;
      }
    }
    return absl::OkStatus();
  }

  absl::Status Integer(int64_t& out) {
    const bool negative = Take("-");
    if (Peek().text.empty() || !std::isdigit(static_cast<unsigned char>(Peek().text[0]))) {
      return Error(absl::StrCat("expected a number, found '", Peek().text, "'"));
    }
    out = std::strtoll(Next().text.c_str(), nullptr, 10) * (negative ? -1 : 1);
    return absl::OkStatus();
  }

  absl::Status Attr(RuleAttr& attr) {
    if (Take("[")) {
      attr.kind = RuleAttr::Kind::kList;
      while (!Take("]")) {
        int64_t v = 0;
        if (absl::Status s = Integer(v); !s.ok()) return s;
        attr.list.push_back(v);
        Take(",");
      }
      return absl::OkStatus();
    }
    if (Take("swap")) {
      attr.kind = RuleAttr::Kind::kSwap;
      int64_t a = 0, b = 0;
      if (absl::Status s = Expect("("); !s.ok()) return s;
      if (absl::Status s = Integer(a); !s.ok()) return s;
      if (absl::Status s = Expect(","); !s.ok()) return s;
      if (absl::Status s = Integer(b); !s.ok()) return s;
      if (a >= 0 || b >= 0) return Error("swap counts dims from the end: write -1 for the last");
      attr.list = {a, b};
      return Expect(")");
    }
    std::vector<std::string> parts;
    int depth = 0;
    while (depth > 0 || (!Is(",") && !Is(")"))) {
      if (Peek().text.empty()) return Error("the attribute's value does not end");
      if (Is(";") || Is("{") || Is("}")) return Error("expected an expression");
      depth += Is("(") ? 1 : Is(")") ? -1 : 0;
      parts.push_back(Next().text);
    }
    if (parts.empty()) return Error("an attribute has no value");
    attr.expression = absl::StrJoin(parts, " ");
    return absl::OkStatus();
  }

  absl::Status Statement(RuleStatement& statement) {
    statement.line = Peek().line;
    do {
      std::string name;
      if (absl::Status s = Name(name); !s.ok()) return s;
      statement.outputs.push_back(name);
      if (Take(":")) {
        statement.has_shape = true;
        if (absl::Status s = Dims(statement.shape); !s.ok()) return s;
      }
    } while (Take(","));
    if (absl::Status s = Expect("="); !s.ok()) return s;
    if (absl::Status s = Name(statement.op); !s.ok()) return s;
    if (absl::Status s = Expect("("); !s.ok()) return s;
    while (!Is(")") && !Is(";")) {
      std::string input;
      if (absl::Status s = Name(input); !s.ok()) return s;
      statement.inputs.push_back(input);
      if (!Is(")") && !Is(";")) {
        if (absl::Status s = Expect(","); !s.ok()) return s;
      }
    }
    if (Take(";")) {
      do {
        std::string key;
        if (absl::Status s = Name(key); !s.ok()) return s;
        if (absl::Status s = Expect("="); !s.ok()) return s;
        if (absl::Status s = Attr(statement.attributes[key]); !s.ok()) return s;
      } while (Take(","));
    }
    return Expect(")");
  }

  absl::Status Side(std::vector<RuleStatement>& side, const std::set<std::string>& given) {
    if (absl::Status s = Expect("{"); !s.ok()) return s;
    std::set<std::string> known = given;
    while (!Take("}")) {
      RuleStatement statement;
      if (absl::Status s = Statement(statement); !s.ok()) return s;
      for (const std::string& input : statement.inputs) {
        if (!known.count(input)) {
          return Error(absl::StrCat("tensor ", input, " is used before it is defined"));
        }
      }
      for (const std::string& output : statement.outputs) {
        if (!known.insert(output).second) {
          return Error(absl::StrCat("tensor ", output, " is defined twice on one side"));
        }
      }
      side.push_back(std::move(statement));
      if (!Is("}")) {
        if (absl::Status s = Expect(";"); !s.ok()) return s;
      }
    }
    return absl::OkStatus();
  }

  absl::Status One(Rule& rule) {
    rule.source_text = absl::StrCat(file_, ":", Peek().line);
    if (Take("alternative")) {
      rule.use = RuleUse::kAlternative;
    } else if (Take("commutative")) {
      rule.use = RuleUse::kCommutative;
    } else if (!Take("rule")) {
      return Error(absl::StrCat("expected 'rule', 'alternative' or 'commutative', found '",
                                Peek().text, "'"));
    }
    if (absl::Status s = Name(rule.name); !s.ok()) return s;
    if (Peek().quoted) rule.reason = Next().text;
    if (absl::Status s = Expect("{"); !s.ok()) return s;
    std::set<std::string> given;
    if (Take("given")) {
      do {
        RuleInput input;
        if (absl::Status s = Name(input.name); !s.ok()) return s;
        if (absl::Status s = Dims(input.dims); !s.ok()) return s;
        if (Take(":")) {
          if (absl::Status s = Expect("int"); !s.ok()) return s;
          input.integer = true;
        }
        if (!given.insert(input.name).second) {
          return Error(absl::StrCat("tensor ", input.name, " is given twice"));
        }
        rule.inputs.push_back(std::move(input));
      } while (Take(","));
    }
    if (Take("variables")) {
      do {
        std::string name;
        if (absl::Status s = Name(name); !s.ok()) return s;
        rule.variables.push_back(name);
      } while (Take(","));
    }
    if (absl::Status s = Expect("source"); !s.ok()) return s;
    if (absl::Status s = Side(rule.source, given); !s.ok()) return s;
    if (absl::Status s = Expect("target"); !s.ok()) return s;
    if (absl::Status s = Side(rule.target, given); !s.ok()) return s;
    if (absl::Status s = Expect("}"); !s.ok()) return s;
    if (rule.source.empty()) return Error(absl::StrCat("rule ", rule.name, " has no source"));
    if (rule.Outputs().empty()) {
      return Error(
          absl::StrCat("rule ", rule.name, " has no output: name the same tensor on both sides"));
    }
    if (rule.use == RuleUse::kCommutative && !ExchangesInputs(rule)) {
      return Error(absl::StrCat("rule ", rule.name, " is commutative and has to say op(x, y) = ",
                                "op(y, x), with one statement on each side"));
    }
    return absl::OkStatus();
  }

  static bool ExchangesInputs(const Rule& rule) {
    if (rule.source.size() != 1 || rule.target.size() != 1) return false;
    const RuleStatement& a = rule.source[0];
    const RuleStatement& b = rule.target[0];
    return a.op == b.op && a.outputs == b.outputs && a.inputs.size() == 2 && b.inputs.size() == 2 &&
           a.inputs[0] == b.inputs[1] && a.inputs[1] == b.inputs[0] && a.inputs[0] != a.inputs[1] &&
           a.attributes.empty() && b.attributes.empty();
  }

  std::vector<Token> tokens_;
  std::string file_;
  size_t pos_ = 0;
};

std::string DimsText(const std::vector<RuleDim>& dims) {
  std::vector<std::string> parts;
  for (const RuleDim& dim : dims) {
    std::string text = dim.parts.empty() ? "1"
                       : dim.parts.size() == 1
                           ? dim.parts[0]
                           : absl::StrCat("(", absl::StrJoin(dim.parts, ", "), ")");
    if (dim.group) text += "..";
    if (dim.broadcast) text += "?";
    parts.push_back(text);
  }
  return absl::StrCat("[", absl::StrJoin(parts, ", "), "]");
}

std::string StatementText(const RuleStatement& s) {
  std::string out = absl::StrJoin(s.outputs, ", ");
  if (s.has_shape) absl::StrAppend(&out, ": ", DimsText(s.shape));
  absl::StrAppend(&out, " = ", s.op, "(", absl::StrJoin(s.inputs, ", "));
  std::vector<std::string> attributes;
  for (const auto& [key, attr] : s.attributes) {
    attributes.push_back(
        absl::StrCat(key, " = ",
                     attr.kind == RuleAttr::Kind::kExpression ? attr.expression
                     : attr.kind == RuleAttr::Kind::kList
                         ? absl::StrCat("[", absl::StrJoin(attr.list, ", "), "]")
                         : absl::StrCat("swap(", absl::StrJoin(attr.list, ", "), ")")));
  }
  if (!attributes.empty()) absl::StrAppend(&out, "; ", absl::StrJoin(attributes, ", "));
  return out + ")";
}

}  // namespace

std::vector<std::string> Rule::Outputs() const {
  std::set<std::string> in_target;
  for (const RuleStatement& s : target) in_target.insert(s.outputs.begin(), s.outputs.end());
  std::vector<std::string> outputs;
  for (const RuleStatement& s : source) {
    for (const std::string& name : s.outputs) {
      if (in_target.count(name)) outputs.push_back(name);
    }
  }
  return outputs;
}

absl::StatusOr<std::vector<Rule>> ParseRules(absl::string_view text, absl::string_view file) {
  absl::StatusOr<std::vector<Token>> tokens = Tokens(text, file);
  if (!tokens.ok()) return tokens.status();
  return Parser(*std::move(tokens), file).All();
}

const char* RuleUseWord(RuleUse use) {
  switch (use) {
    case RuleUse::kNormalize:
      return "rule";
    case RuleUse::kAlternative:
      return "alternative";
    case RuleUse::kCommutative:
      return "commutative";
  }
  return "rule";
}

std::string PrintRule(const Rule& rule) {
  std::string out =
      absl::StrCat(RuleUseWord(rule.use), " ", rule.name, " \"", rule.reason, "\" {\n");
  std::vector<std::string> given;
  for (const RuleInput& input : rule.inputs) {
    given.push_back(absl::StrCat(input.name, DimsText(input.dims), input.integer ? ": int" : ""));
  }
  if (!given.empty()) absl::StrAppend(&out, "  given ", absl::StrJoin(given, ", "), "\n");
  if (!rule.variables.empty()) {
    absl::StrAppend(&out, "  variables ", absl::StrJoin(rule.variables, ", "), "\n");
  }
  for (bool target : {false, true}) {
    const auto& side = target ? rule.target : rule.source;
    std::vector<std::string> lines;
    for (const RuleStatement& s : side) lines.push_back(StatementText(s));
    absl::StrAppend(&out, target ? "  target {\n    " : "  source {\n    ",
                    absl::StrJoin(lines, ";\n    "), "\n  }\n");
  }
  return out + "}\n";
}

}  // namespace tandem
