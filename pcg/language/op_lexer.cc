#include "pcg/language/op_lexer.h"

#include <array>
#include <charconv>
#include <cmath>

#include "absl/strings/ascii.h"
#include "absl/strings/str_cat.h"

namespace tandem {
namespace {

// Longest first, so that ".." wins over "." and "<=" over "<".
constexpr std::array<absl::string_view, 7> kLongPunct = {"..", "->", "==", "!=", "<=", ">=", "//"};
constexpr absl::string_view kPunct = "()[]{},;:=+-*/%<>?";

bool StartsName(char c) { return absl::ascii_isalpha(static_cast<unsigned char>(c)) || c == '_'; }
bool IsDigit(char c) { return absl::ascii_isdigit(static_cast<unsigned char>(c)); }

class Lexer {
 public:
  Lexer(absl::string_view text, absl::string_view file) : text_(text), file_(file) {}

  absl::StatusOr<std::vector<Token>> Run() {
    std::vector<Token> tokens;
    for (SkipBlank(); at_ < text_.size(); SkipBlank()) {
      Token token;
      token.line = line_;
      token.column = column();
      absl::Status status = Next(token);
      if (!status.ok()) return status;
      tokens.push_back(std::move(token));
    }
    Token end;
    end.line = line_;
    end.column = column();
    tokens.push_back(end);
    return tokens;
  }

 private:
  int column() const { return static_cast<int>(at_ - line_start_) + 1; }
  char Peek(size_t ahead = 0) const {
    return at_ + ahead < text_.size() ? text_[at_ + ahead] : '\0';
  }

  void SkipBlank() {
    while (at_ < text_.size()) {
      const char c = text_[at_];
      if (c == '\n') {
        ++at_;
        ++line_;
        line_start_ = at_;
      } else if (c == ' ' || c == '\t' || c == '\r') {
        ++at_;
      } else if (c == '#') {
        while (at_ < text_.size() && text_[at_] != '\n') ++at_;
      } else {
        return;
      }
    }
  }

  absl::Status Next(Token& token) {
    const char c = text_[at_];
    if (StartsName(c)) return Name(token);
    if (IsDigit(c)) return Number(token);
    if (c == '"') return String(token);
    token.kind = Token::Kind::kPunct;
    for (absl::string_view punct : kLongPunct) {
      if (text_.substr(at_, punct.size()) == punct) {
        token.text = std::string(punct);
        at_ += punct.size();
        return absl::OkStatus();
      }
    }
    if (kPunct.find(c) == absl::string_view::npos) {
      const std::string shown =
          absl::ascii_isprint(static_cast<unsigned char>(c))
              ? absl::StrCat("'", std::string(1, c), "'")
              : absl::StrCat("byte ", static_cast<int>(static_cast<unsigned char>(c)));
      return ErrorAt(file_, token.line, token.column,
                     absl::StrCat("unexpected ", shown,
                                  "; operator text is ASCII names, numbers "
                                  "and ",
                                  kPunct));
    }
    token.text = std::string(1, c);
    ++at_;
    return absl::OkStatus();
  }

  absl::Status Name(Token& token) {
    const size_t begin = at_;
    while (StartsName(Peek()) || IsDigit(Peek())) ++at_;
    token.kind = Token::Kind::kName;
    token.text = std::string(text_.substr(begin, at_ - begin));
    return absl::OkStatus();
  }

  absl::Status Number(Token& token) {
    const size_t begin = at_;
    token.integer = true;
    while (IsDigit(Peek())) ++at_;
    if (Peek() == '.' && IsDigit(Peek(1))) {
      token.integer = false;
      ++at_;
      while (IsDigit(Peek())) ++at_;
    }
    const size_t sign = Peek(1) == '+' || Peek(1) == '-' ? 2 : 1;
    if ((Peek() == 'e' || Peek() == 'E') && IsDigit(Peek(sign))) {
      token.integer = false;
      at_ += sign;
      while (IsDigit(Peek())) ++at_;
    }
    token.kind = Token::Kind::kNumber;
    token.text = std::string(text_.substr(begin, at_ - begin));
    const char* last = token.text.data() + token.text.size();
    const auto [end, error] = std::from_chars(token.text.data(), last, token.number);
    if (error != std::errc() || end != last) {
      return ErrorAt(
          file_, token.line, token.column,
          absl::StrCat("number ", token.text, " is out of range; write inf for infinity"));
    }
    if (std::abs(token.number) > 9007199254740992.0) token.integer = false;
    return absl::OkStatus();
  }

  absl::Status String(Token& token) {
    const size_t begin = ++at_;
    while (Peek() != '"') {
      if (at_ >= text_.size() || Peek() == '\n') {
        return ErrorAt(file_, token.line, token.column,
                       "string without an end; add the closing \"");
      }
      ++at_;
    }
    token.kind = Token::Kind::kString;
    token.text = std::string(text_.substr(begin, at_ - begin));
    ++at_;
    return absl::OkStatus();
  }

  absl::string_view text_;
  absl::string_view file_;
  size_t at_ = 0;
  size_t line_start_ = 0;
  int line_ = 1;
};

}  // namespace

absl::Status ErrorAt(absl::string_view file, int line, int column, absl::string_view message) {
  return absl::InvalidArgumentError(absl::StrCat(file, ":", line, ":", column, ": ", message));
}

absl::StatusOr<std::vector<Token>> Tokenize(absl::string_view text, absl::string_view file) {
  return Lexer(text, file).Run();
}

}  // namespace tandem
