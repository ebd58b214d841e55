// Expressions of the operator language, as values: an arena of nodes addressed by ExprId.
//
// One node type serves the parsed text (names unresolved) and the resolved instance (names replaced
// by indices). Children come before their parents in the arena; nothing is ever mutated in place.
#ifndef TANDEM_PCG_LANGUAGE_EXPR_H_
#define TANDEM_PCG_LANGUAGE_EXPR_H_

#include <cstdint>
#include <string>
#include <vector>

#include "pcg/ids.h"

namespace tandem {

enum class ExprKind : uint8_t {
  kNumber,  // number (also +-inf)
  kVar,     // an index variable used as a value or inside an index; `ref` = loop variable
  kSize,    // a size used as a value; `ref` = size
  kAttr,    // an attribute by name (parsed text only; an instance holds numbers)
  kRead,    // tensor `ref` at args[0..dims); each argument is an index expression or a kTuple.
            // If has_else, the last argument is the value where an index is out of range.
  kTuple,   // one index a factor of the dim, major to minor
  kAdd,
  kSub,
  kMul,
  kDiv,
  kNeg,
  kFloorDiv,
  kMod,      // on integers, rounding to minus infinity
  kCall,     // scalar function `name` of args: see scalar_functions.h
  kCompare,  // name is one of == != < <= > >=
  kAnd,
  kOr,
  kNot,
  kSelect,  // args: condition, then, otherwise
  kReduce,  // name is sum, max, min, prod or argmax; `bound` are its loop variables; args[0] the
            // body
  kNoGrad,  // value of args[0], no gradient flows (must be justified: checked by differences)
};

// A loop variable together with what it ranges over. In parsed text `size` is a size or group name
// and `var` the variable's name; in an instance they are indices.
struct BoundVar {
  std::string name;       // for printing
  std::string size_name;  // parsed text: what it ranges over ("" = infer from use)
  int var = -1;           // instance: index into OpInstance::vars
  bool operator==(const BoundVar&) const = default;
};

struct ExprNode {
  ExprKind kind = ExprKind::kNumber;
  double number = 0;
  int ref = -1;
  bool has_else = false;
  std::string name;
  std::vector<ExprId> args;
  std::vector<BoundVar> bound;
  bool operator==(const ExprNode&) const = default;
};

struct ExprArena {
  std::vector<ExprNode> nodes;
  const ExprNode& operator[](ExprId id) const { return nodes[id.index()]; }
  ExprId Add(ExprNode node) {
    nodes.push_back(std::move(node));
    return ExprId(static_cast<int64_t>(nodes.size()) - 1);
  }
  bool operator==(const ExprArena&) const = default;
};

}  // namespace tandem

#endif  // TANDEM_PCG_LANGUAGE_EXPR_H_
