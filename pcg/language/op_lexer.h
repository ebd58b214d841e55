// Tokens of operator text. Positions are 1-based lines and columns (a tab counts one column).
#ifndef TANDEM_PCG_LANGUAGE_OP_LEXER_H_
#define TANDEM_PCG_LANGUAGE_OP_LEXER_H_

#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"

namespace tandem {

struct Token {
  enum class Kind : uint8_t { kName, kNumber, kString, kPunct, kEnd };
  Kind kind = Kind::kEnd;
  std::string text;      // name, punctuation as written, or the contents of a string
  double number = 0;     // kNumber
  bool integer = false;  // kNumber without point or exponent, exact in 53 bits
  int line = 1;
  int column = 1;
};

// "file:line:column: message" as an InvalidArgument status.
absl::Status ErrorAt(absl::string_view file, int line, int column, absl::string_view message);

// All tokens, ended by one kEnd. `#` starts a comment that ends with the line.
absl::StatusOr<std::vector<Token>> Tokenize(absl::string_view text, absl::string_view file);

}  // namespace tandem

#endif  // TANDEM_PCG_LANGUAGE_OP_LEXER_H_
