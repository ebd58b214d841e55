// Parses operator text. Every error is "file:line:column: what is wrong; what to write instead".
#ifndef TANDEM_PCG_LANGUAGE_OP_PARSER_H_
#define TANDEM_PCG_LANGUAGE_OP_PARSER_H_

#include <map>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "pcg/language/op_spec.h"

namespace tandem {

// All operators of a text, in order. `file` is used in messages.
absl::StatusOr<std::vector<OpSpec>> ParseOperators(absl::string_view text, absl::string_view file);
// Canonical text; ParseOperators(PrintOperator(s)) gives s again.
std::string PrintOperator(const OpSpec& spec);

// Operators by name. A graph owns one: built-ins plus what a user or automatic differentiation
// added. Ordered by name.
class OperatorLibrary {
 public:
  // An equal redefinition is fine; a different one of the same name is an error.
  absl::Status Add(OpSpec spec);
  absl::Status AddText(absl::string_view text, absl::string_view file);
  const OpSpec* Find(absl::string_view name) const;                 // null if unknown
  absl::StatusOr<const OpSpec*> Get(absl::string_view name) const;  // error lists near names
  const std::map<std::string, OpSpec, std::less<>>& specs() const { return specs_; }

 private:
  std::map<std::string, OpSpec, std::less<>> specs_;
};

// The operators Tandem comes with (pcg/operators/*.ops, embedded). Parsed once.
const OperatorLibrary& BuiltinOperators();

}  // namespace tandem

#endif  // TANDEM_PCG_LANGUAGE_OP_PARSER_H_
