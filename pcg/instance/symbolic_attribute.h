// Attributes that stay symbols. A rule is proved for all values of its variables, so its graphs
// carry attribute strings "$<expression>=<value>": the expression (names, numbers, + - * / and
// parentheses) is what the attribute means, the value a representative for shape inference.
// Instances hold the expression, its names as kAttr nodes.
#ifndef TANDEM_PCG_INSTANCE_SYMBOLIC_ATTRIBUTE_H_
#define TANDEM_PCG_INSTANCE_SYMBOLIC_ATTRIBUTE_H_

#include <optional>
#include <string>

#include "pcg/language/expr.h"
#include "pcg/language/op_spec.h"

namespace tandem {

struct SymbolicAttribute {
  std::string expression;
  double representative = 0;
};

// nullopt if the value is no such string.
std::optional<SymbolicAttribute> AsSymbolic(const AttrValue& value);

// Adds the expression to an arena; nullopt if it does not parse. A kAttr node carries the name and,
// in `number`, the representative of the whole attribute.
std::optional<ExprId> AddSymbolic(const SymbolicAttribute& attribute, ExprArena& arena);

}  // namespace tandem

#endif  // TANDEM_PCG_INSTANCE_SYMBOLIC_ATTRIBUTE_H_
