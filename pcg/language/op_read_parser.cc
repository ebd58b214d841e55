// Reads of tensors in operator text: one index a dim, checked against the kind of the dim.
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "pcg/language/op_expr_parser.h"

namespace tandem {
namespace {

std::string DimText(const DimSpec& dim) {
  switch (dim.kind) {
    case DimSpec::Kind::kTuple:
      return absl::StrCat("(", absl::StrJoin(dim.parts, ", "), ")");
    case DimSpec::Kind::kConstant:
      return absl::StrCat(dim.constant);
    default:
      return dim.name;
  }
}

}  // namespace

absl::StatusOr<ExprId> ExprParser::Read() {
  const Token token = cursor_.Take();
  cursor_.Take();  // "["
  const auto tensor = scope_.tensors.find(token.text);
  if (scope_.definition || tensor == scope_.tensors.end()) {
    return cursor_.ErrorAt(token,
                           absl::StrCat("unknown tensor '", token.text,
                                        "'; it is no operand and has no equation before this "
                                        "one"));
  }
  const std::vector<DimSpec> dims = tensor->second;
  std::vector<ExprId> args;
  if (cursor_.IsWord("regroup") && cursor_.IsPunct("(", 1)) {
    const Token at = cursor_.Take();
    cursor_.Take();
    auto inner =
        cursor_.IsName()
            ? Name()
            : absl::StatusOr<ExprId>(cursor_.Error("expected an index variable in regroup(...)"));
    if (!inner.ok()) return inner;
    if (spec_.exprs[*inner].kind != ExprKind::kVar) {
      return cursor_.ErrorAt(at, "regroup(...) takes an index variable");
    }
    absl::Status status = cursor_.Expect(")", "after regroup(index");
    if (!status.ok()) return status;
    args.push_back(Add(ExprKind::kCall, {*inner}, "regroup"));
    status = cursor_.Expect("]", "after regroup(...), which is the only index");
    if (!status.ok()) return status;
  } else {
    while (!cursor_.TakePunct("]")) {
      if (!args.empty()) {
        absl::Status status = cursor_.Expect(",", "between indices");
        if (!status.ok()) return status;
      }
      if (args.size() == dims.size()) {
        return cursor_.Error(absl::StrCat("'", token.text, "' has ", dims.size(),
                                          " dim(s); give one index for each"));
      }
      auto index = Index(dims[args.size()]);
      if (!index.ok()) return index;
      args.push_back(*index);
    }
    if (args.size() != dims.size()) {
      return cursor_.ErrorAt(
          token, absl::StrCat("'", token.text, "' has ", dims.size(), " dim(s) but ", args.size(),
                              " index(es) are given"));
    }
  }
  ExprNode node;
  node.kind = ExprKind::kRead;
  node.name = token.text;
  node.args = std::move(args);
  if (cursor_.IsWord("else")) {
    cursor_.Take();
    const Token at = cursor_.Peek();
    auto otherwise = Unary();
    if (!otherwise.ok()) return otherwise;
    absl::Status status = RequireNumber(*otherwise, at);
    if (!status.ok()) return status;
    node.has_else = true;
    node.args.push_back(*otherwise);
  }
  return spec_.exprs.Add(std::move(node));
}

absl::StatusOr<ExprId> ExprParser::PermutedIndex(const DimSpec& dim) {
  const Token at = cursor_.Peek();
  if (!(cursor_.IsWord(dim.attr) && cursor_.IsPunct("(", 1) && cursor_.IsName(2))) {
    return cursor_.ErrorAt(at, absl::StrCat("this dim is ", dim.attr, "(", dim.name,
                                            "); index it as ", dim.attr, "(i)"));
  }
  cursor_.Take();
  cursor_.Take();
  auto inner = Name();
  if (!inner.ok()) return inner;
  InferRange(*inner, dim.name);
  absl::Status status = cursor_.Expect(")", "after the permuted index");
  if (!status.ok()) return status;
  return Add(ExprKind::kCall, {*inner}, dim.attr);
}

absl::StatusOr<ExprId> ExprParser::Index(const DimSpec& dim) {
  if (dim.kind == DimSpec::Kind::kPermutedGroup) return PermutedIndex(dim);
  const Token at = cursor_.Peek();
  if (dim.kind == DimSpec::Kind::kTuple) {
    // "(u, k)": a comma directly inside the parenthesis makes it a tuple.
    bool tuple = false;
    int depth = 0;
    for (size_t ahead = 0; cursor_.Peek(ahead).kind != Token::Kind::kEnd; ++ahead) {
      if (ahead == 0 && !cursor_.IsPunct("(")) break;
      if (cursor_.IsPunct("(", ahead) || cursor_.IsPunct("[", ahead)) ++depth;
      if (cursor_.IsPunct(")", ahead) || cursor_.IsPunct("]", ahead)) --depth;
      if (depth == 0) break;
      if (depth == 1 && cursor_.IsPunct(",", ahead)) tuple = true;
    }
    if (tuple) {
      cursor_.Take();
      std::vector<ExprId> parts;
      do {
        const Token part_at = cursor_.Peek();
        auto part = Sum();
        if (!part.ok()) return part;
        absl::Status status = RequireNumber(*part, part_at);
        if (!status.ok()) return status;
        if (parts.size() < dim.parts.size()) InferRange(*part, dim.parts[parts.size()]);
        parts.push_back(*part);
      } while (cursor_.TakePunct(","));
      absl::Status status = cursor_.Expect(")", "after the tuple's indices");
      if (!status.ok()) return status;
      if (parts.size() != dim.parts.size()) {
        return cursor_.ErrorAt(at, absl::StrCat("the dim ", DimText(dim), " has ", dim.parts.size(),
                                                " parts but ", parts.size(), " indices are given"));
      }
      return Add(ExprKind::kTuple, parts);
    }
  }
  auto index = Sum();
  if (!index.ok()) return index;
  absl::Status status = RequireNumber(*index, at);
  if (!status.ok()) return status;
  const bool group = dim.kind == DimSpec::Kind::kGroup || dim.kind == DimSpec::Kind::kShapeAttr;
  if (dim.kind != DimSpec::Kind::kTuple) {
    InferRange(*index,
               dim.kind == DimSpec::Kind::kConstant ? absl::StrCat(dim.constant) : dim.name);
  }
  const ExprNode& node = spec_.exprs[*index];
  const auto variable = scope_.variables.find(node.name);
  const bool group_variable = node.kind == ExprKind::kVar && variable != scope_.variables.end() &&
                              scope_.IsGroup(variable->second.range);
  if (group && !group_variable) {
    return cursor_.ErrorAt(at, absl::StrCat("the group ", dim.name,
                                            ".. is indexed by one variable "
                                            "that ranges over a group"));
  }
  if (!group && group_variable) {
    return cursor_.ErrorAt(
        at, absl::StrCat("index '", node.name, "' ranges over the group ", variable->second.range,
                         " but the dim ", DimText(dim), " is a single size"));
  }
  return index;
}

}  // namespace tandem
