#include <array>
#include <charconv>
#include <cmath>
#include <variant>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "pcg/language/op_parser.h"

namespace tandem {
namespace {

// How tightly a printed expression binds; lower ones are put in parentheses where higher ones are
// required. A reduction takes in what follows it, so it is bare only where nothing can follow.
enum Precedence { kOr, kAnd, kNot, kCompare, kSum, kReduction, kTerm, kUnary, kPrimary };

std::string NumberText(double value) {
  if (std::isinf(value)) return value > 0 ? "inf" : "-inf";
  std::array<char, 64> buffer;
  const auto result = std::to_chars(buffer.data(), buffer.data() + buffer.size(), value);
  return std::string(buffer.data(), result.ptr);
}

class Printer {
 public:
  explicit Printer(const OpSpec& spec) : spec_(spec) {}

  std::string Run() const {
    std::string out = absl::StrCat("operator ", spec_.name, "(");
    out += absl::StrJoin(spec_.inputs, ", ", [this](std::string* text, const OperandSpec& operand) {
      *text += Operand(operand);
    });
    if (!spec_.attributes.empty()) {
      out += "; ";
      out += absl::StrJoin(spec_.attributes, ", ", [](std::string* text, const AttrSpec& attr) {
        *text += attr.name;
        if (attr.has_default) absl::StrAppend(text, " = ", Value(attr.default_value));
      });
    }
    out += ") -> ";
    out += absl::StrJoin(
        spec_.outputs, ", ",
        [this](std::string* text, const OperandSpec& operand) { *text += Operand(operand); });
    out += " {\n";
    out += absl::StrJoin(spec_.equations, ";\n", [this](std::string* text, const EquationSpec& e) {
      absl::StrAppend(text, "  ", e.target, "[", LeftSide(e), "] = ", Text(e.body, kOr));
    });
    return out + "\n}\n";
  }

 private:
  static std::string Value(const AttrValue& value) {
    if (const auto* integer = std::get_if<int64_t>(&value)) return absl::StrCat(*integer);
    if (const auto* number = std::get_if<double>(&value)) {
      const std::string text = NumberText(*number);
      const bool marked = text.find_first_of(".en") != std::string::npos;
      return marked ? text : absl::StrCat(text, ".0");  // stays a double
    }
    if (const auto* list = std::get_if<std::vector<int64_t>>(&value)) {
      return absl::StrCat("[", absl::StrJoin(*list, ", "), "]");
    }
    return absl::StrCat("\"", std::get<std::string>(value), "\"");
  }

  std::string Operand(const OperandSpec& operand) const {
    std::string out = absl::StrCat(operand.name, "[");
    out += absl::StrJoin(operand.dims, ", ",
                         [this](std::string* text, const DimSpec& dim) { *text += Dim(dim); });
    out += "]";
    if (operand.kind == ElementKind::kInt) out += ": int";
    if (operand.kind == ElementKind::kBool) out += ": bool";
    if (operand.optional) absl::StrAppend(&out, " = ", NumberText(operand.default_value));
    return out;
  }

  std::string Dim(const DimSpec& dim) const {
    const char* mark = dim.broadcast ? "?" : "";
    switch (dim.kind) {
      case DimSpec::Kind::kSize:
        return absl::StrCat(dim.name, mark);
      case DimSpec::Kind::kGroup:
        return absl::StrCat(dim.name, "..", mark);
      case DimSpec::Kind::kTuple:
        return absl::StrCat("(", absl::StrJoin(dim.parts, ", "), ")");
      case DimSpec::Kind::kConstant:
        return absl::StrCat(dim.constant);
      case DimSpec::Kind::kPermutedGroup:
        return absl::StrCat(dim.attr, "(", dim.name, ")..");
      case DimSpec::Kind::kDefined:
        return absl::StrCat(dim.name, " = ", Text(dim.definition, kOr));
      case DimSpec::Kind::kShapeAttr:
        return absl::StrCat(dim.name, "..=", dim.attr);
    }
    return "";
  }

  std::string LeftSide(const EquationSpec& equation) const {
    for (const OperandSpec& output : spec_.outputs) {
      if (output.name == equation.target) return OutputIndices(equation, output);
    }
    return absl::StrJoin(equation.index, ", ", [](std::string* text, const BoundVar& var) {
      absl::StrAppend(text, var.name, ": ", var.size_name);
    });
  }

  static std::string OutputIndices(const EquationSpec& equation, const OperandSpec& output) {
    std::vector<std::string> parts;
    size_t next = 0;
    for (const DimSpec& dim : output.dims) {
      if (dim.kind == DimSpec::Kind::kTuple) {
        std::vector<std::string> names;
        for (size_t i = 0; i < dim.parts.size(); ++i) names.push_back(equation.index[next++].name);
        parts.push_back(absl::StrCat("(", absl::StrJoin(names, ", "), ")"));
      } else if (dim.kind == DimSpec::Kind::kPermutedGroup) {
        parts.push_back(absl::StrCat(dim.attr, "(", equation.index[next++].name, ")"));
      } else {
        parts.push_back(equation.index[next++].name);
      }
    }
    return absl::StrJoin(parts, ", ");
  }

  std::string Binary(const ExprNode& node, absl::string_view sign, Precedence own) const {
    // Left-associative; a comparison does not chain.
    const Precedence right = static_cast<Precedence>(own == kSum ? kTerm : own + 1);
    const Precedence left = own == kCompare ? right : own;
    return absl::StrCat(Text(node.args[0], left), " ", sign, " ", Text(node.args[1], right));
  }

  std::string List(const std::vector<ExprId>& ids, size_t count) const {
    std::vector<std::string> parts;
    for (size_t i = 0; i < count; ++i) parts.push_back(Text(ids[i], kOr));
    return absl::StrJoin(parts, ", ");
  }

  std::string Text(ExprId id, Precedence required) const {
    Precedence own = kPrimary;
    const std::string text = Bare(spec_.exprs[id], own);
    return own < required ? absl::StrCat("(", text, ")") : text;
  }

  std::string Bare(const ExprNode& node, Precedence& own) const {
    switch (node.kind) {
      case ExprKind::kNumber:
        if (std::signbit(node.number)) own = kUnary;
        return NumberText(node.number);
      case ExprKind::kVar:
      case ExprKind::kAttr:
        return node.name;
      case ExprKind::kSize:
        return absl::StrCat("size(", node.name, ")");
      case ExprKind::kRead: {
        const size_t indices = node.args.size() - (node.has_else ? 1 : 0);
        std::string out = absl::StrCat(node.name, "[", List(node.args, indices), "]");
        if (node.has_else) absl::StrAppend(&out, " else ", Text(node.args.back(), kUnary));
        return out;
      }
      case ExprKind::kTuple:
        return absl::StrCat("(", List(node.args, node.args.size()), ")");
      case ExprKind::kAdd:
        return own = kSum, Binary(node, "+", kSum);
      case ExprKind::kSub:
        return own = kSum, Binary(node, "-", kSum);
      case ExprKind::kMul:
        return own = kTerm, Binary(node, "*", kTerm);
      case ExprKind::kDiv:
        return own = kTerm, Binary(node, "/", kTerm);
      case ExprKind::kFloorDiv:
        return own = kTerm, Binary(node, "//", kTerm);
      case ExprKind::kMod:
        return own = kTerm, Binary(node, "%", kTerm);
      case ExprKind::kNeg: {
        own = kUnary;  // -(2) keeps a negation of a number one
        const bool number = spec_.exprs[node.args[0]].kind == ExprKind::kNumber;
        return number ? absl::StrCat("-(", Text(node.args[0], kOr), ")")
                      : absl::StrCat("-", Text(node.args[0], kUnary));
      }
      case ExprKind::kCall:
        return absl::StrCat(node.name, "(", List(node.args, node.args.size()), ")");
      case ExprKind::kCompare:
        return own = kCompare, Binary(node, node.name, kCompare);
      case ExprKind::kAnd:
        return own = kAnd, Binary(node, "and", kAnd);
      case ExprKind::kOr:
        return own = kOr, Binary(node, "or", kOr);
      case ExprKind::kNot:
        return own = kNot, absl::StrCat("not ", Text(node.args[0], kNot));
      case ExprKind::kSelect:
        return absl::StrCat("select(", List(node.args, node.args.size()), ")");
      case ExprKind::kNoGrad:
        return absl::StrCat("nograd(", List(node.args, node.args.size()), ")");
      case ExprKind::kReduce: {
        own = kReduction;
        const std::string bound =
            absl::StrJoin(node.bound, ", ", [](std::string* text, const BoundVar& var) {
              absl::StrAppend(text, var.name, ": ", var.size_name);
            });
        return absl::StrCat(node.name, "(", bound, ") ", Text(node.args[0], kTerm));
      }
    }
    return "";
  }

  const OpSpec& spec_;
};

}  // namespace

std::string PrintOperator(const OpSpec& spec) { return Printer(spec).Run(); }

}  // namespace tandem
