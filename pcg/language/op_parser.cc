#include "pcg/language/op_parser.h"

#include <algorithm>
#include <array>
#include <set>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "pcg/language/op_expr_parser.h"
#include "pcg/language/op_lexer.h"

namespace tandem {
namespace {

constexpr std::array<absl::string_view, 6> kKeywords = {"operator", "else", "and",
                                                        "or",       "not",  "inf"};

constexpr int kMaxHeight = 1000;  // taller expressions overflow the stack of who walks them

class OperatorParser {
 public:
  explicit OperatorParser(TokenCursor& cursor) : cursor_(cursor), exprs_(cursor, spec_, scope_) {}

  absl::StatusOr<OpSpec> Run() {
    spec_.source = absl::StrCat(cursor_.file(), ":", cursor_.Peek().line);
    if (!cursor_.IsWord("operator")) {
      return cursor_.Error(absl::StrCat("expected 'operator', found ", Shown(cursor_.Peek())));
    }
    cursor_.Take();
    absl::Status status = Signature();
    if (!status.ok()) return status;
    status = Equations();
    if (!status.ok()) return status;
    spec_.text = PrintOperator(spec_);
    return std::move(spec_);
  }

 private:
  // A chain of operations is as deep as it is long. Operands come before what is made of them.
  absl::Status CheckHeight(const Token& at) {
    const std::vector<ExprNode>& nodes = spec_.exprs.nodes;
    for (size_t i = heights_.size(); i < nodes.size(); ++i) {
      int height = 1;
      for (ExprId arg : nodes[i].args) height = std::max(height, heights_[arg.index()] + 1);
      if (height > kMaxHeight) {
        return cursor_.ErrorAt(at, absl::StrCat("more than ", kMaxHeight,
                                                " operations in a chain; use an intermediate"));
      }
      heights_.push_back(height);
    }
    return absl::OkStatus();
  }

  absl::StatusOr<std::string> NewName(absl::string_view what) {
    const Token at = cursor_.Peek();
    auto name = cursor_.ExpectName(what);
    if (!name.ok()) return name;
    if (std::find(kKeywords.begin(), kKeywords.end(), *name) != kKeywords.end()) {
      return cursor_.ErrorAt(at, absl::StrCat("'", *name, "' is a word of the language; choose ",
                                              "another name for ", what));
    }
    return name;
  }

  absl::Status Signature() {
    auto name = NewName("the operator's name");
    if (!name.ok()) return name.status();
    spec_.name = *name;
    absl::Status status = cursor_.Expect("(", "before the inputs");
    if (!status.ok()) return status;
    if (!cursor_.IsPunct(";") && !cursor_.IsPunct(")")) {
      status = Operands(spec_.inputs, /*output=*/false);
      if (!status.ok()) return status;
    }
    if (cursor_.TakePunct(";")) {
      status = AttributeList();
      if (!status.ok()) return status;
    }
    status = cursor_.Expect(")", "after the inputs and attributes");
    if (!status.ok()) return status;
    status = cursor_.Expect("->", "before the outputs");
    if (!status.ok()) return status;
    status = ResolveInputSizes();
    if (!status.ok()) return status;
    return Operands(spec_.outputs, /*output=*/true);
  }

  absl::Status Operands(std::vector<OperandSpec>& operands, bool output) {
    do {
      OperandSpec operand;
      const Token at = cursor_.Peek();
      auto name = NewName("an operand's name");
      if (!name.ok()) return name.status();
      operand.name = *name;
      if (!operand_names_.insert(*name).second) {
        return cursor_.ErrorAt(at, absl::StrCat("operand '", *name, "' is declared twice"));
      }
      absl::Status status = cursor_.Expect("[", "before the operand's dims");
      if (!status.ok()) return status;
      while (!cursor_.TakePunct("]")) {
        if (!operand.dims.empty()) {
          status = cursor_.Expect(",", "between dims");
          if (!status.ok()) return status;
        }
        status = Dim(operand, output);
        if (!status.ok()) return status;
      }
      status = KindAndDefault(operand, output);
      if (!status.ok()) return status;
      scope_.tensors.emplace(operand.name, operand.dims);
      operands.push_back(std::move(operand));
    } while (cursor_.TakePunct(","));
    return absl::OkStatus();
  }

  absl::Status KindAndDefault(OperandSpec& operand, bool output) {
    if (cursor_.TakePunct(":")) {
      const Token at = cursor_.Peek();
      auto kind = cursor_.ExpectName("float, int or bool");
      if (!kind.ok()) return kind.status();
      if (*kind == "int") {
        operand.kind = ElementKind::kInt;
      } else if (*kind == "bool") {
        operand.kind = ElementKind::kBool;
      } else if (*kind != "float") {
        return cursor_.ErrorAt(
            at, absl::StrCat("unknown element kind '", *kind, "'; write float, int or bool"));
      }
    }
    if (!cursor_.IsPunct("=")) return absl::OkStatus();
    if (output) return cursor_.Error("only an input may have a default value");
    cursor_.Take();
    auto value = Number();
    if (!value.ok()) return value.status();
    operand.optional = true;
    operand.default_value = value->number;
    return absl::OkStatus();
  }

  // A number literal, with its sign.
  absl::StatusOr<Token> Number() {
    const bool negative = cursor_.TakePunct("-");
    Token token = cursor_.Take();
    if (token.kind == Token::Kind::kName && token.text == "inf") {
      token.number = HUGE_VAL;
    } else if (token.kind != Token::Kind::kNumber) {
      return cursor_.ErrorAt(token, absl::StrCat("expected a number, found ", Shown(token)));
    }
    if (negative) token.number = -token.number;
    return token;
  }

  absl::Status Dim(OperandSpec& operand, bool output) {
    DimSpec dim;
    const Token at = cursor_.Peek();
    if (at.kind == Token::Kind::kNumber) {
      if (!at.integer || at.number < 1)
        return cursor_.Error("a constant dim is a positive integer");
      dim.kind = DimSpec::Kind::kConstant;
      dim.constant = static_cast<int64_t>(cursor_.Take().number);
    } else if (cursor_.TakePunct("(")) {
      dim.kind = DimSpec::Kind::kTuple;
      do {
        const Token part_at = cursor_.Peek();
        auto part = NewName("a size in the tuple");
        if (!part.ok()) return part.status();
        absl::Status status = UseSize(*part, /*group=*/false, output, part_at);
        if (!status.ok()) return status;
        dim.parts.push_back(*part);
      } while (cursor_.TakePunct(","));
      absl::Status status = cursor_.Expect(")", "after the parts of the dim");
      if (!status.ok()) return status;
    } else {
      absl::Status status = NamedDim(dim, operand, output);
      if (!status.ok()) return status;
    }
    if (cursor_.IsPunct("?")) {
      const bool allowed =
          !output && (dim.kind == DimSpec::Kind::kSize || dim.kind == DimSpec::Kind::kGroup);
      if (!allowed) return cursor_.Error("'?' follows a size or group of an input");
      cursor_.Take();
      dim.broadcast = true;
    }
    operand.dims.push_back(std::move(dim));
    return absl::OkStatus();
  }

  absl::Status NamedDim(DimSpec& dim, const OperandSpec& operand, bool output) {
    const Token at = cursor_.Peek();
    auto name = NewName("a dim");
    if (!name.ok()) return name.status();
    dim.name = *name;
    if (cursor_.TakePunct("(")) {
      dim.kind = DimSpec::Kind::kPermutedGroup;
      dim.attr = *name;
      auto group = NewName("the permuted group");
      if (!group.ok()) return group.status();
      dim.name = *group;
      absl::Status status = cursor_.Expect(")", "after the permuted group");
      if (!status.ok()) return status;
      status = cursor_.Expect("..", "after the permuted group");
      if (!status.ok()) return status;
      if (!output)
        permuted_.emplace_back(dim.attr, at);
      else if (!HasAttribute(dim.attr))
        return UndeclaredAttribute(dim.attr, at);
      return UseSize(dim.name, /*group=*/true, output, at);
    }
    if (cursor_.TakePunct("..")) {
      dim.kind = DimSpec::Kind::kGroup;
      if (!cursor_.IsPunct("=")) return UseSize(dim.name, /*group=*/true, output, at);
      if (!output) return cursor_.Error("only outputs take dims from an attribute");
      cursor_.Take();
      const Token attr_at = cursor_.Peek();
      auto attr = cursor_.ExpectName("an integer-list attribute");
      if (!attr.ok()) return attr.status();
      if (!HasAttribute(*attr)) return UndeclaredAttribute(*attr, attr_at);
      dim.kind = DimSpec::Kind::kShapeAttr;
      dim.attr = *attr;
      return DeclareSize(dim.name, /*group=*/true, at);
    }
    if (!cursor_.IsPunct("=")) return UseSize(dim.name, /*group=*/false, output, at);
    if (!output) return cursor_.Error("only outputs define sizes");
    cursor_.Take();
    if (scope_.sizes.count(dim.name) != 0) {
      return cursor_.ErrorAt(at, absl::StrCat("size '", dim.name, "' of '", operand.name,
                                              "' is known already; choose another name"));
    }
    dim.kind = DimSpec::Kind::kDefined;
    scope_.definition = true;
    auto definition = exprs_.Value();
    scope_.definition = false;
    if (!definition.ok()) return definition.status();
    if (absl::Status s = CheckHeight(at); !s.ok()) return s;
    dim.definition = *definition;
    return DeclareSize(dim.name, /*group=*/false, at);
  }

  absl::Status DeclareSize(const std::string& name, bool group, const Token& at) {
    const auto [it, added] = scope_.sizes.emplace(name, group);
    if (added || it->second == group) return absl::OkStatus();
    return cursor_.ErrorAt(at, absl::StrCat("'", name, "' is a size here and a group elsewhere"));
  }

  // In an input a name declares the size; in an output the size must be known.
  absl::Status UseSize(const std::string& name, bool group, bool output, const Token& at) {
    if (output && scope_.sizes.count(name) == 0 && !HasAttribute(name)) {
      return cursor_.ErrorAt(at, absl::StrCat("unknown size '", name,
                                              "' in an output; sizes come "
                                              "from inputs, or write ",
                                              name, " = formula"));
    }
    return DeclareSize(name, group, at);
  }

  bool HasAttribute(absl::string_view name) const {
    return std::any_of(spec_.attributes.begin(), spec_.attributes.end(),
                       [&](const AttrSpec& attr) { return attr.name == name; });
  }

  absl::Status UndeclaredAttribute(absl::string_view name, const Token& at) const {
    return cursor_.ErrorAt(at, absl::StrCat("undeclared attribute '", name,
                                            "'; declare it after the inputs: (...; ", name, ")"));
  }

  absl::Status ResolveInputSizes() {
    for (const auto& [attr, at] : permuted_) {
      if (!HasAttribute(attr)) return UndeclaredAttribute(attr, at);
    }
    return absl::OkStatus();
  }

  absl::Status AttributeList() {
    do {
      AttrSpec attr;
      const Token at = cursor_.Peek();
      auto name = NewName("an attribute's name");
      if (!name.ok()) return name.status();
      attr.name = *name;
      if (HasAttribute(*name)) {
        return cursor_.ErrorAt(at, absl::StrCat("attribute '", *name, "' is declared twice"));
      }
      if (cursor_.TakePunct("=")) {
        attr.has_default = true;
        absl::Status status = DefaultValue(attr.default_value);
        if (!status.ok()) return status;
      }
      spec_.attributes.push_back(std::move(attr));
    } while (cursor_.TakePunct(","));
    return absl::OkStatus();
  }

  absl::Status DefaultValue(AttrValue& value) {
    if (cursor_.Peek().kind == Token::Kind::kString) {
      value = cursor_.Take().text;
      return absl::OkStatus();
    }
    if (!cursor_.TakePunct("[")) {
      auto number = Number();
      if (!number.ok()) return number.status();
      if (number->integer) {
        value = static_cast<int64_t>(number->number);
      } else {
        value = number->number;
      }
      return absl::OkStatus();
    }
    std::vector<int64_t> list;
    while (!cursor_.TakePunct("]")) {
      if (!list.empty()) {
        absl::Status status = cursor_.Expect(",", "between list elements");
        if (!status.ok()) return status;
      }
      const Token at = cursor_.Peek();
      auto number = Number();
      if (!number.ok()) return number.status();
      if (!number->integer) return cursor_.ErrorAt(at, "lists hold integers");
      list.push_back(static_cast<int64_t>(number->number));
    }
    value = std::move(list);
    return absl::OkStatus();
  }

  absl::Status Equations() {
    // Outputs become readable with their equations.
    for (const OperandSpec& output : spec_.outputs) scope_.tensors.erase(output.name);
    absl::Status status = cursor_.Expect("{", "before the equations");
    if (!status.ok()) return status;
    while (!cursor_.IsPunct("}")) {
      status = Equation();
      if (!status.ok()) return status;
      if (!cursor_.TakePunct(";")) break;
    }
    for (const OperandSpec& output : spec_.outputs) {
      if (scope_.tensors.count(output.name) == 0) {
        return cursor_.Error(absl::StrCat("output '", output.name, "' has no equation"));
      }
    }
    return cursor_.Expect("}", "after the equations (';' separates them)");
  }

  absl::Status Equation() {
    const Token at = cursor_.Peek();
    auto target = NewName("the target of an equation");
    if (!target.ok()) return target.status();
    if (scope_.tensors.count(*target) != 0) {
      return cursor_.ErrorAt(
          at, absl::StrCat("'", *target, "' ",
                           IsInput(*target) ? "is an input" : "has an equation already",
                           "; equations define outputs and intermediates, once each"));
    }
    const OperandSpec* output = nullptr;
    for (const OperandSpec& operand : spec_.outputs) {
      if (operand.name == *target) output = &operand;
    }
    EquationSpec equation;
    equation.target = *target;
    scope_.variables.clear();
    absl::Status status = LeftSide(equation, output);
    if (!status.ok()) return status;
    status = cursor_.Expect("=", "after the left side");
    if (!status.ok()) return status;
    const Token body_at = cursor_.Peek();
    auto body = exprs_.Value();
    if (!body.ok()) return body.status();
    status = CheckHeight(body_at);
    if (!status.ok()) return status;
    equation.body = *body;
    std::vector<DimSpec> dims;
    for (BoundVar& index : equation.index) {
      const OpScope::Variable& variable = scope_.variables.find(index.name)->second;
      if (variable.range.empty()) {
        return cursor_.ErrorAt(variable.token,
                               absl::StrCat("cannot tell what index '", index.name,
                                            "' ranges over; write ", index.name, ": size"));
      }
      index.size_name = variable.range;
      DimSpec dim;
      dim.name = variable.range;
      dim.kind = scope_.IsGroup(dim.name) ? DimSpec::Kind::kGroup : DimSpec::Kind::kSize;
      dims.push_back(std::move(dim));
    }
    scope_.tensors.emplace(*target, output != nullptr ? output->dims : dims);
    spec_.equations.push_back(std::move(equation));
    return absl::OkStatus();
  }

  bool IsInput(absl::string_view name) const {
    return std::any_of(spec_.inputs.begin(), spec_.inputs.end(),
                       [&](const OperandSpec& operand) { return operand.name == name; });
  }

  absl::Status LeftSide(EquationSpec& equation, const OperandSpec* output) {
    absl::Status status = cursor_.Expect("[", "after the target");
    if (!status.ok()) return status;
    size_t position = 0;
    for (; !cursor_.TakePunct("]"); ++position) {
      if (position > 0) {
        status = cursor_.Expect(",", "between indices");
        if (!status.ok()) return status;
      }
      if (output != nullptr && position >= output->dims.size()) {
        return cursor_.Error(
            absl::StrCat("'", output->name, "' has ", output->dims.size(), " dim(s)"));
      }
      status = output != nullptr ? OutputIndex(equation, output->dims[position])
                                 : BindIndex(equation, "");
      if (!status.ok()) return status;
    }
    if (output != nullptr && position != output->dims.size()) {
      return cursor_.Error(absl::StrCat("'", output->name, "' has ", output->dims.size(),
                                        " dim(s) but the left side has ", position, " index(es)"));
    }
    return absl::OkStatus();
  }

  absl::Status OutputIndex(EquationSpec& equation, const DimSpec& dim) {
    switch (dim.kind) {
      case DimSpec::Kind::kTuple: {
        absl::Status status = cursor_.Expect("(", "because this dim is a tuple");
        for (size_t i = 0; status.ok() && i < dim.parts.size(); ++i) {
          if (i > 0) status = cursor_.Expect(",", "between the indices of the tuple's parts");
          if (status.ok()) status = BindIndex(equation, dim.parts[i]);
        }
        if (!status.ok()) return status;
        return cursor_.Expect(")", "after the indices of the tuple's parts");
      }
      case DimSpec::Kind::kPermutedGroup: {
        if (!cursor_.IsWord(dim.attr)) {
          return cursor_.Error(absl::StrCat("this dim is ", dim.attr, "(", dim.name,
                                            "); index it as ", dim.attr, "(i)"));
        }
        cursor_.Take();
        absl::Status status = cursor_.Expect("(", "before the permuted index");
        if (status.ok()) status = BindIndex(equation, dim.name);
        if (!status.ok()) return status;
        return cursor_.Expect(")", "after the permuted index");
      }
      case DimSpec::Kind::kConstant:
        return BindIndex(equation, absl::StrCat(dim.constant));
      default:
        return BindIndex(equation, dim.name);
    }
  }

  // `range` = "" for an intermediate: given as `i: n`, or inferred from the body.
  absl::Status BindIndex(EquationSpec& equation, const std::string& range) {
    const Token at = cursor_.Peek();
    auto name = NewName("an index variable");
    if (!name.ok()) return name.status();
    OpScope::Variable variable{range, at};
    if (cursor_.TakePunct(":")) {
      const Token range_at = cursor_.Peek();
      auto given = exprs_.Range();
      if (!given.ok()) return given.status();
      if (!range.empty() && *given != range) {
        return cursor_.ErrorAt(range_at,
                               absl::StrCat("this position ranges over ", range, ", not ", *given));
      }
      variable.range = *given;
    }
    if (!scope_.variables.emplace(*name, variable).second) {
      return cursor_.ErrorAt(at,
                             absl::StrCat("index '", *name, "' is bound twice on the left side"));
    }
    equation.index.push_back(BoundVar{*name, variable.range, -1});
    return absl::OkStatus();
  }

  TokenCursor& cursor_;
  OpSpec spec_;
  OpScope scope_;
  ExprParser exprs_;
  std::vector<int> heights_;  // of the expressions checked so far, by id
  std::set<std::string> operand_names_;
  std::vector<std::pair<std::string, Token>> permuted_;
};

}  // namespace

absl::StatusOr<std::vector<OpSpec>> ParseOperators(absl::string_view text, absl::string_view file) {
  auto tokens = Tokenize(text, file);
  if (!tokens.ok()) return tokens.status();
  TokenCursor cursor(&*tokens, file);
  std::vector<OpSpec> specs;
  while (!cursor.AtEnd()) {
    auto spec = OperatorParser(cursor).Run();
    if (!spec.ok()) return spec.status();
    specs.push_back(*std::move(spec));
  }
  return specs;
}

}  // namespace tandem
