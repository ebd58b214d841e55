// Values of the arithmetic in rule attributes; pcg/instance/symbolic_attribute.h has the language
// and its parser.
#ifndef TANDEM_SUBSTITUTIONS_ATTR_EXPRESSION_H_
#define TANDEM_SUBSTITUTIONS_ATTR_EXPRESSION_H_

#include <functional>
#include <optional>
#include <set>
#include <string>

#include "absl/strings/string_view.h"

namespace tandem {

using NameValue = std::function<std::optional<double>(absl::string_view)>;

// Value of an expression; nullopt if it does not parse or a name has no value.
std::optional<double> EvaluateAttr(absl::string_view expression, const NameValue& value);
// The expression is one bare name.
bool IsBareName(absl::string_view expression);
// Names occurring in the expression.
std::set<std::string> NamesIn(absl::string_view expression);

}  // namespace tandem

#endif  // TANDEM_SUBSTITUTIONS_ATTR_EXPRESSION_H_
