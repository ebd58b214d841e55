// Expressions of operator text: recursive descent over tokens, names checked against a scope while
// parsing, so that every error knows its place. Used by op_parser.cc alone.
//
//   expr    := or                           or   := and { "or" and }
//   and     := not { "and" not }            not  := "not" not | compare
//   compare := sum [ (== != < <= > >=) sum ]
//   sum     := term { (+ -) term }          term := unary { (* / // %) unary }
//   unary   := "-" unary | primary
//   primary := number | inf | name | tensor "[" indices "]" [ "else" unary ] | name "(" ... ")"
//            | (sum max min prod argmax) "(" i: size, ... ")" term | "(" expr ")"
#ifndef TANDEM_PCG_LANGUAGE_OP_EXPR_PARSER_H_
#define TANDEM_PCG_LANGUAGE_OP_EXPR_PARSER_H_

#include <map>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "pcg/language/op_lexer.h"
#include "pcg/language/op_spec.h"

namespace tandem {

// The tokens of a text and the position in them. Copyable to look ahead.
class TokenCursor {
 public:
  TokenCursor(const std::vector<Token>* tokens, absl::string_view file)
      : tokens_(tokens), file_(file) {}
  const Token& Peek(size_t ahead = 0) const {
    return (*tokens_)[std::min(at_ + ahead, tokens_->size() - 1)];
  }
  Token Take() {
    const Token& token = Peek();
    if (at_ + 1 < tokens_->size()) ++at_;
    return token;
  }
  bool IsPunct(absl::string_view text, size_t ahead = 0) const {
    return Peek(ahead).kind == Token::Kind::kPunct && Peek(ahead).text == text;
  }
  bool IsName(size_t ahead = 0) const { return Peek(ahead).kind == Token::Kind::kName; }
  bool IsWord(absl::string_view text) const { return IsName() && Peek().text == text; }
  bool AtEnd() const { return Peek().kind == Token::Kind::kEnd; }
  bool TakePunct(absl::string_view text);  // true and past it if it is next
  absl::Status Expect(absl::string_view punct, absl::string_view where);
  absl::StatusOr<std::string> ExpectName(absl::string_view what);
  absl::Status Error(absl::string_view message) const { return ErrorAt(Peek(), message); }
  absl::Status ErrorAt(const Token& token, absl::string_view message) const;
  absl::string_view file() const { return file_; }

 private:
  const std::vector<Token>* tokens_;
  absl::string_view file_;
  size_t at_ = 0;
};

std::string Shown(const Token& token);  // for messages: 'name', "end of text"
bool IsReductionName(absl::string_view name);

// What names mean while an operator is parsed.
struct OpScope {
  struct Variable {
    std::string range;  // size, group, attribute or number; "" = not known yet (intermediates)
    Token token;
  };
  std::map<std::string, bool, std::less<>> sizes;                    // name -> is a group
  std::map<std::string, std::vector<DimSpec>, std::less<>> tensors;  // readable ones
  std::map<std::string, Variable, std::less<>> variables;
  bool definition = false;  // in a size's formula: names are sizes and attributes, no tensors

  bool IsGroup(absl::string_view range) const {
    const auto it = sizes.find(range);
    return it != sizes.end() && it->second;
  }
};

class ExprParser {
 public:
  ExprParser(TokenCursor& cursor, OpSpec& spec, OpScope& scope)
      : cursor_(cursor), spec_(spec), scope_(scope) {}

  absl::StatusOr<ExprId> Value();       // a number-valued expression
  absl::StatusOr<std::string> Range();  // what a variable ranges over

 private:
  absl::StatusOr<ExprId> Or();
  absl::StatusOr<ExprId> And();
  absl::StatusOr<ExprId> Not();
  absl::StatusOr<ExprId> Compare();
  absl::StatusOr<ExprId> Sum();
  absl::StatusOr<ExprId> Term();
  absl::StatusOr<ExprId> Unary();
  absl::StatusOr<ExprId> Primary();
  absl::StatusOr<ExprId> Name();
  absl::StatusOr<ExprId> Call();
  absl::StatusOr<ExprId> Reduction();
  absl::StatusOr<ExprId> Read();
  absl::StatusOr<ExprId> Index(const DimSpec& dim);
  absl::StatusOr<ExprId> PermutedIndex(const DimSpec& dim);

  bool HasAttribute(absl::string_view name) const;
  bool IsBoolean(ExprId id) const;
  absl::Status RequireNumber(ExprId id, const Token& at) const;
  absl::Status RequireBoolean(ExprId id, const Token& at) const;
  void InferRange(ExprId index, const std::string& range);
  ExprId Add(ExprKind kind, std::vector<ExprId> args, std::string name = "");

  TokenCursor& cursor_;
  OpSpec& spec_;
  OpScope& scope_;
  int depth_ = 0;
};

}  // namespace tandem

#endif  // TANDEM_PCG_LANGUAGE_OP_EXPR_PARSER_H_
