#include "pcg/language/op_expr_parser.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <limits>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "pcg/language/scalar_functions.h"

namespace tandem {
namespace {

constexpr int kMaxDepth = 200;  // deeper nesting is an error, not a stack overflow
constexpr std::array<absl::string_view, 5> kReductions = {"sum", "max", "min", "prod", "argmax"};
constexpr std::array<absl::string_view, 6> kComparisons = {"==", "!=", "<", "<=", ">", ">="};

class DepthGuard {
 public:
  explicit DepthGuard(int& depth) : depth_(depth) { ++depth_; }
  ~DepthGuard() { --depth_; }
  bool too_deep() const { return depth_ > kMaxDepth; }

 private:
  int& depth_;
};

const ScalarFunction* FindFunction(absl::string_view name) {
  for (const ScalarFunction& function : ScalarFunctions()) {
    if (function.name == name) return &function;
  }
  return nullptr;
}

}  // namespace

bool IsReductionName(absl::string_view name) {
  return std::find(kReductions.begin(), kReductions.end(), name) != kReductions.end();
}

std::string Shown(const Token& token) {
  return token.kind == Token::Kind::kEnd ? "the end of the text"
                                         : absl::StrCat("'", token.text, "'");
}

bool TokenCursor::TakePunct(absl::string_view text) {
  if (!IsPunct(text)) return false;
  Take();
  return true;
}

absl::Status TokenCursor::Expect(absl::string_view punct, absl::string_view where) {
  if (TakePunct(punct)) return absl::OkStatus();
  return Error(absl::StrCat("expected '", punct, "' ", where, ", found ", Shown(Peek())));
}

absl::StatusOr<std::string> TokenCursor::ExpectName(absl::string_view what) {
  if (IsName()) return Take().text;
  return Error(absl::StrCat("expected ", what, ", found ", Shown(Peek())));
}

absl::Status TokenCursor::ErrorAt(const Token& token, absl::string_view message) const {
  return tandem::ErrorAt(file_, token.line, token.column, message);
}

ExprId ExprParser::Add(ExprKind kind, std::vector<ExprId> args, std::string name) {
  ExprNode node;
  node.kind = kind;
  node.args = std::move(args);
  node.name = std::move(name);
  return spec_.exprs.Add(std::move(node));
}

bool ExprParser::HasAttribute(absl::string_view name) const {
  return std::any_of(spec_.attributes.begin(), spec_.attributes.end(),
                     [&](const AttrSpec& attr) { return attr.name == name; });
}

bool ExprParser::IsBoolean(ExprId id) const {
  const ExprKind kind = spec_.exprs[id].kind;
  return kind == ExprKind::kCompare || kind == ExprKind::kAnd || kind == ExprKind::kOr ||
         kind == ExprKind::kNot;
}

absl::Status ExprParser::RequireNumber(ExprId id, const Token& at) const {
  if (!IsBoolean(id)) return absl::OkStatus();
  return cursor_.ErrorAt(at, "a condition is not a number; write select(condition, 1, 0)");
}

absl::Status ExprParser::RequireBoolean(ExprId id, const Token& at) const {
  if (IsBoolean(id)) return absl::OkStatus();
  return cursor_.ErrorAt(at, "a number is not a condition; compare it, for example != 0");
}

// The first plain use of a variable of an intermediate says what it ranges over.
void ExprParser::InferRange(ExprId index, const std::string& range) {
  const ExprNode& node = spec_.exprs[index];
  if (node.kind != ExprKind::kVar) return;
  const auto it = scope_.variables.find(node.name);
  if (it != scope_.variables.end() && it->second.range.empty()) it->second.range = range;
}

absl::StatusOr<ExprId> ExprParser::Value() {
  const Token at = cursor_.Peek();
  auto id = Or();
  if (!id.ok()) return id;
  absl::Status status = RequireNumber(*id, at);
  if (!status.ok()) return status;
  return id;
}

absl::StatusOr<ExprId> ExprParser::Or() {
  const Token at = cursor_.Peek();
  auto left = And();
  while (left.ok() && cursor_.IsWord("or")) {
    cursor_.Take();
    const Token right_at = cursor_.Peek();
    auto right = And();
    if (!right.ok()) return right;
    absl::Status status = RequireBoolean(*left, at);
    status.Update(RequireBoolean(*right, right_at));
    if (!status.ok()) return status;
    left = Add(ExprKind::kOr, {*left, *right});
  }
  return left;
}

absl::StatusOr<ExprId> ExprParser::And() {
  const Token at = cursor_.Peek();
  auto left = Not();
  while (left.ok() && cursor_.IsWord("and")) {
    cursor_.Take();
    const Token right_at = cursor_.Peek();
    auto right = Not();
    if (!right.ok()) return right;
    absl::Status status = RequireBoolean(*left, at);
    status.Update(RequireBoolean(*right, right_at));
    if (!status.ok()) return status;
    left = Add(ExprKind::kAnd, {*left, *right});
  }
  return left;
}

absl::StatusOr<ExprId> ExprParser::Not() {
  const DepthGuard guard(depth_);
  if (guard.too_deep())
    return cursor_.Error("expression is nested too deeply; use an intermediate");
  if (!cursor_.IsWord("not")) return Compare();
  cursor_.Take();
  const Token at = cursor_.Peek();
  auto inner = Not();
  if (!inner.ok()) return inner;
  absl::Status status = RequireBoolean(*inner, at);
  if (!status.ok()) return status;
  return Add(ExprKind::kNot, {*inner});
}

absl::StatusOr<ExprId> ExprParser::Compare() {
  const Token at = cursor_.Peek();
  auto left = Sum();
  if (!left.ok()) return left;
  for (absl::string_view comparison : kComparisons) {
    if (!cursor_.TakePunct(comparison)) continue;
    const Token right_at = cursor_.Peek();
    auto right = Sum();
    if (!right.ok()) return right;
    absl::Status status = RequireNumber(*left, at);
    status.Update(RequireNumber(*right, right_at));
    if (!status.ok()) return status;
    return Add(ExprKind::kCompare, {*left, *right}, std::string(comparison));
  }
  return left;
}

absl::StatusOr<ExprId> ExprParser::Sum() {
  const Token at = cursor_.Peek();
  auto left = Term();
  while (left.ok() && (cursor_.IsPunct("+") || cursor_.IsPunct("-"))) {
    const bool plus = cursor_.Take().text == "+";
    const Token right_at = cursor_.Peek();
    auto right = Term();
    if (!right.ok()) return right;
    absl::Status status = RequireNumber(*left, at);
    status.Update(RequireNumber(*right, right_at));
    if (!status.ok()) return status;
    left = Add(plus ? ExprKind::kAdd : ExprKind::kSub, {*left, *right});
  }
  return left;
}

absl::StatusOr<ExprId> ExprParser::Term() {
  static constexpr std::pair<absl::string_view, ExprKind> kOperators[] = {
      {"*", ExprKind::kMul},
      {"/", ExprKind::kDiv},
      {"//", ExprKind::kFloorDiv},
      {"%", ExprKind::kMod}};
  const Token at = cursor_.Peek();
  auto left = Unary();
  while (left.ok()) {
    const auto* op = std::find_if(std::begin(kOperators), std::end(kOperators),
                                  [&](const auto& o) { return cursor_.IsPunct(o.first); });
    if (op == std::end(kOperators)) break;
    cursor_.Take();
    const Token right_at = cursor_.Peek();
    auto right = Unary();
    if (!right.ok()) return right;
    absl::Status status = RequireNumber(*left, at);
    status.Update(RequireNumber(*right, right_at));
    if (!status.ok()) return status;
    left = Add(op->second, {*left, *right});
  }
  return left;
}

absl::StatusOr<ExprId> ExprParser::Unary() {
  const DepthGuard guard(depth_);
  if (guard.too_deep())
    return cursor_.Error("expression is nested too deeply; use an intermediate");
  if (!cursor_.IsPunct("-")) return Primary();
  cursor_.Take();
  const Token at = cursor_.Peek();
  const bool literal = at.kind == Token::Kind::kNumber || cursor_.IsWord("inf");
  auto inner = Unary();
  if (!inner.ok()) return inner;
  absl::Status status = RequireNumber(*inner, at);
  if (!status.ok()) return status;
  if (literal) {  // -2 is a number, not a negation
    spec_.exprs.nodes.back().number *= -1;
    return inner;
  }
  return Add(ExprKind::kNeg, {*inner});
}

absl::StatusOr<ExprId> ExprParser::Primary() {
  const Token& token = cursor_.Peek();
  if (token.kind == Token::Kind::kNumber) {
    const ExprId id = Add(ExprKind::kNumber, {});
    spec_.exprs.nodes.back().number = cursor_.Take().number;
    return id;
  }
  if (token.kind == Token::Kind::kName) {
    if (cursor_.IsPunct("(", 1)) {
      const bool binds = cursor_.IsName(2) && cursor_.IsPunct(":", 3);
      return binds && IsReductionName(token.text) ? Reduction() : Call();
    }
    if (cursor_.IsPunct("[", 1)) return Read();
    return Name();
  }
  if (cursor_.TakePunct("(")) {
    auto inner = Or();
    if (!inner.ok()) return inner;
    absl::Status status = cursor_.Expect(")", "to close the parenthesis");
    if (!status.ok()) return status;
    return inner;
  }
  return cursor_.Error(absl::StrCat("expected an expression, found ", Shown(token)));
}

absl::StatusOr<ExprId> ExprParser::Name() {
  const Token token = cursor_.Take();
  if (scope_.variables.count(token.text) != 0) return Add(ExprKind::kVar, {}, token.text);
  if (HasAttribute(token.text)) return Add(ExprKind::kAttr, {}, token.text);
  if (scope_.definition && scope_.sizes.count(token.text) != 0) {
    return Add(ExprKind::kSize, {}, token.text);
  }
  if (token.text == "inf") {
    const ExprId id = Add(ExprKind::kNumber, {});
    spec_.exprs.nodes.back().number = std::numeric_limits<double>::infinity();
    return id;
  }
  if (scope_.sizes.count(token.text) != 0) {
    return cursor_.ErrorAt(token,
                           absl::StrCat("'", token.text, "' is a size; write size(", token.text,
                                        ") for its value, or bind an index of this name"));
  }
  if (scope_.tensors.count(token.text) != 0) {
    return cursor_.ErrorAt(token, absl::StrCat("tensor '", token.text,
                                               "' is read without indices; "
                                               "write ",
                                               token.text, "[...]"));
  }
  return cursor_.ErrorAt(
      token,
      absl::StrCat("unbound name '", token.text,
                   "'; bind it on the left side or in a reduction, or declare an attribute"));
}

absl::StatusOr<ExprId> ExprParser::Call() {
  const Token token = cursor_.Take();
  cursor_.Take();  // "("
  if (token.text == "size") {
    const Token at = cursor_.Peek();
    auto name = cursor_.ExpectName("a size or group in size(...)");
    if (!name.ok()) return name.status();
    if (scope_.sizes.count(*name) == 0) {
      return cursor_.ErrorAt(at, absl::StrCat("unknown size '", *name,
                                              "'; sizes are those of the "
                                              "signature"));
    }
    absl::Status status = cursor_.Expect(")", "after size(name");
    if (!status.ok()) return status;
    return Add(ExprKind::kSize, {}, *name);
  }
  std::vector<ExprId> args;
  std::vector<Token> at;
  while (!cursor_.TakePunct(")")) {
    if (!args.empty()) {
      absl::Status status = cursor_.Expect(",", "between arguments");
      if (!status.ok()) return status;
    }
    at.push_back(cursor_.Peek());
    auto arg = Or();
    if (!arg.ok()) return arg;
    args.push_back(*arg);
  }
  const ScalarFunction* function = FindFunction(token.text);
  const bool select = token.text == "select";
  const bool nograd = token.text == "nograd";
  if (function == nullptr && !select && !nograd) {
    const bool index_only = token.text == "regroup";
    return cursor_.ErrorAt(
        token, index_only
                   ? absl::StrCat("regroup(...) is an index of a read, not a value")
                   : absl::StrCat("unknown function '", token.text,
                                  "'; there are select, "
                                  "nograd, size and ",
                                  absl::StrJoin(ScalarFunctions(), " ",
                                                [](std::string* out, const ScalarFunction& f) {
                                                  out->append(f.name.data(), f.name.size());
                                                })));
  }
  const int arity = select ? 3 : nograd ? 1 : function->arity;
  if (arity >= 0 ? static_cast<int>(args.size()) != arity : args.empty()) {
    return cursor_.ErrorAt(
        token, absl::StrCat(token.text, " takes ", arity >= 0 ? absl::StrCat(arity) : "at least 1",
                            " argument(s), not ", args.size()));
  }
  absl::Status status;
  for (size_t i = 0; i < args.size(); ++i) {
    status.Update(select && i == 0 ? RequireBoolean(args[i], at[i])
                                   : RequireNumber(args[i], at[i]));
  }
  if (!status.ok()) return status;
  if (select) return Add(ExprKind::kSelect, args);
  if (nograd) return Add(ExprKind::kNoGrad, args);
  return Add(ExprKind::kCall, args, token.text);
}

absl::StatusOr<std::string> ExprParser::Range() {
  const Token token = cursor_.Take();
  if (token.kind == Token::Kind::kNumber && token.integer && token.number >= 1) return token.text;
  if (token.kind != Token::Kind::kName) {
    return cursor_.ErrorAt(token,
                           absl::StrCat("expected a size, group, attribute or positive number "
                                        "as a range, found ",
                                        Shown(token)));
  }
  if (scope_.sizes.count(token.text) == 0 && !HasAttribute(token.text)) {
    return cursor_.ErrorAt(token,
                           absl::StrCat("unknown size '", token.text,
                                        "'; ranges are sizes of the signature or attributes"));
  }
  return token.text;
}

absl::StatusOr<ExprId> ExprParser::Reduction() {
  if (scope_.definition) return cursor_.Error("a size's formula has no reductions");
  const Token token = cursor_.Take();
  cursor_.Take();  // "("
  ExprNode node;
  node.kind = ExprKind::kReduce;
  node.name = token.text;
  do {
    const Token at = cursor_.Peek();
    auto name = cursor_.ExpectName("an index variable");
    if (!name.ok()) return name.status();
    absl::Status status = cursor_.Expect(":", "and a range after the index variable");
    if (!status.ok()) return status;
    auto range = Range();
    if (!range.ok()) return range.status();
    if (!scope_.variables.emplace(*name, OpScope::Variable{*range, at}).second) {
      return cursor_.ErrorAt(at, absl::StrCat("index '", *name,
                                              "' is bound already; choose another "
                                              "name"));
    }
    node.bound.push_back(BoundVar{*name, *range, -1});
  } while (cursor_.TakePunct(","));
  absl::Status status = cursor_.Expect(")", "after the bound variables");
  if (!status.ok()) return status;
  if (node.name == "argmax" && node.bound.size() != 1) {
    return cursor_.ErrorAt(token, "argmax binds one variable (a size or a group)");
  }
  const Token at = cursor_.Peek();
  auto body = Term();
  if (!body.ok()) return body;
  status = RequireNumber(*body, at);
  if (!status.ok()) return status;
  for (const BoundVar& bound : node.bound) scope_.variables.erase(bound.name);
  node.args = {*body};
  return spec_.exprs.Add(std::move(node));
}

}  // namespace tandem
