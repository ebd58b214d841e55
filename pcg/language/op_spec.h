// An operator as parsed from text: polymorphic in rank, sizes and attributes. docs/operators.md is
// the language's manual. Everything else (OpInstance) is derived from this.
//
//   operator matmul(lhs[b.., m, k], rhs[b.., k, n]) -> out[b.., m, n] {
//     out[b, i, j] = sum(p: k) lhs[b, i, p] * rhs[b, p, j]
//   }
//
// Dims in a signature:
//   n          a size
//   b..        a group: any number of dims, indexed as one variable
//   n? , b..?  may be 1 (a group may also have fewer leading dims) and is then read at index 0
//   (g, c)     one dim made of factors, major to minor
//   3          a constant
//   perm(d)..  (outputs) the group d permuted by the integer-list attribute perm
//   oh = (h + 2*pad - k) / stride + 1     (outputs) a new size, defined by a formula
//   n..=shape  (outputs) the dims given by the integer-list attribute shape (reshape, expand,
//   fills)
// A group whose rank does not follow from the inputs' ranks is given by the attribute rank_<group>.
#ifndef TANDEM_PCG_LANGUAGE_OP_SPEC_H_
#define TANDEM_PCG_LANGUAGE_OP_SPEC_H_

#include <map>
#include <string>
#include <variant>
#include <vector>

#include "pcg/ids.h"
#include "pcg/language/expr.h"

namespace tandem {

using AttrValue = std::variant<int64_t, double, std::vector<int64_t>, std::string>;
using Attributes = std::map<std::string, AttrValue>;  // ordered: same bytes out

enum class ElementKind : uint8_t { kFloat, kInt, kBool };

struct DimSpec {
  enum class Kind : uint8_t {
    kSize,
    kGroup,
    kTuple,
    kConstant,
    kPermutedGroup,
    kDefined,
    kShapeAttr
  };
  Kind kind = Kind::kSize;
  std::string name;                // size or group
  std::vector<std::string> parts;  // kTuple: size names, major to minor
  int64_t constant = 0;
  bool broadcast = false;  // followed by '?'
  std::string attr;        // kPermutedGroup, kShapeAttr: the attribute
  ExprId definition;       // kDefined: over sizes and attributes
  bool operator==(const DimSpec&) const = default;
};

struct OperandSpec {
  std::string name;
  ElementKind kind = ElementKind::kFloat;
  std::vector<DimSpec> dims;
  bool optional = false;  // `bias[n] = 0`: may be missing; then reads give the default
  double default_value = 0;
  bool operator==(const OperandSpec&) const = default;
};

struct AttrSpec {
  std::string name;
  bool has_default = false;
  AttrValue default_value;
  bool operator==(const AttrSpec&) const = default;
};

// target[index vars] = body. The target is an output or an intermediate (named by its first
// equation). Equations come in order of use.
struct EquationSpec {
  std::string target;
  std::vector<BoundVar> index;
  ExprId body;
  bool operator==(const EquationSpec&) const = default;
};

struct OpSpec {
  std::string name;
  std::vector<OperandSpec> inputs;
  std::vector<OperandSpec> outputs;
  std::vector<AttrSpec> attributes;
  std::vector<EquationSpec> equations;
  ExprArena exprs;
  std::string text;    // canonical text, parse(text) == this; what hashes and certificates use
  std::string source;  // file:line it came from, for messages
};

}  // namespace tandem

#endif  // TANDEM_PCG_LANGUAGE_OP_SPEC_H_
