#include "verifier/certificates/statement.h"

#include <cstdio>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"

namespace tandem {
namespace {

class Writer {
 public:
  explicit Writer(const OpInstance& op) : op_(op) {}

  std::string Text() const {
    std::string out = absl::StrCat("operator ", op_.op, "\n");
    for (const SizeVar& size : op_.sizes) {
      absl::StrAppend(&out, "  size ", size.name);
      if (size.constant) absl::StrAppend(&out, " = ", size.extent);
      if (size.definition.valid()) absl::StrAppend(&out, " := ", Expr(size.definition));
      out += "\n";
    }
    for (size_t t = 0; t < op_.tensors.size(); ++t) {
      const InstanceOperand& operand = op_.tensors[t];
      int i = static_cast<int>(t);
      absl::StrAppend(&out, i < op_.num_inputs                     ? "  input "
                            : i < op_.num_inputs + op_.num_outputs ? "  output "
                                                                   : "  value ");
      std::string dims =
          absl::StrJoin(operand.dims, ", ", [&](std::string* text, const std::vector<int>& dim) {
            absl::StrAppend(text, "(",
                            absl::StrJoin(dim, " ",
                                          [&](std::string* s, int size) {
                                            absl::StrAppend(
                                                s, size, ":",
                                                op_.sizes[static_cast<size_t>(size)].name);
                                          }),
                            ")");
          });
      const char* kind = operand.kind == ElementKind::kInt    ? ": int"
                         : operand.kind == ElementKind::kBool ? ": bool"
                                                              : "";
      absl::StrAppend(&out, t, ":", operand.name, "[", dims, "]", kind, "\n");
    }
    for (const InstanceEquation& e : op_.equations) {
      absl::StrAppend(
          &out, "  ", e.target, "[",
          absl::StrJoin(e.vars, ", ", [&](auto* s, int v) { absl::StrAppend(s, Var(v)); }),
          "] = ", Expr(e.body), "\n");
    }
    return out;
  }

 private:
  std::string Var(int v) const {
    return absl::StrCat(op_.vars[static_cast<size_t>(v)].name, "#", v, ":",
                        op_.vars[static_cast<size_t>(v)].size);
  }

  std::string Expr(ExprId id) const {
    const ExprNode& e = op_.exprs[id];
    std::string args =
        absl::StrJoin(e.args, ", ", [&](std::string* s, ExprId a) { absl::StrAppend(s, Expr(a)); });
    switch (e.kind) {
      case ExprKind::kNumber: {
        char text[40];
        std::snprintf(text, sizeof(text), "%.17g", e.number);
        return text;
      }
      case ExprKind::kVar:
        return Var(e.ref);
      case ExprKind::kSize:
        return absl::StrCat("size(", e.ref, ")");
      case ExprKind::kRead:
        return absl::StrCat(op_.tensors[static_cast<size_t>(e.ref)].name, "#", e.ref,
                            e.has_else ? "else[" : "[", args, "]");
      case ExprKind::kReduce:
        return absl::StrCat(
            e.name, "(",
            absl::StrJoin(e.bound, ",",
                          [&](auto* s, const auto& b) { absl::StrAppend(s, Var(b.var)); }),
            ": ", args, ")");
      case ExprKind::kTuple:
        return absl::StrCat("(", args, ")");
      case ExprKind::kAttr:
        return absl::StrCat("attribute ", e.name);
      case ExprKind::kAdd:
        return absl::StrCat("add(", args, ")");
      case ExprKind::kSub:
        return absl::StrCat("sub(", args, ")");
      case ExprKind::kMul:
        return absl::StrCat("mul(", args, ")");
      case ExprKind::kDiv:
        return absl::StrCat("div(", args, ")");
      case ExprKind::kNeg:
        return absl::StrCat("neg(", args, ")");
      case ExprKind::kFloorDiv:
        return absl::StrCat("floordiv(", args, ")");
      case ExprKind::kMod:
        return absl::StrCat("mod(", args, ")");
      case ExprKind::kCall:
        return absl::StrCat("call ", e.name, "(", args, ")");
      case ExprKind::kCompare:
        return absl::StrCat("compare ", e.name, "(", args, ")");
      case ExprKind::kAnd:
        return absl::StrCat("and(", args, ")");
      case ExprKind::kOr:
        return absl::StrCat("or(", args, ")");
      case ExprKind::kNot:
        return absl::StrCat("not(", args, ")");
      case ExprKind::kSelect:
        return absl::StrCat("select(", args, ")");
      case ExprKind::kNoGrad:
        return absl::StrCat("nograd(", args, ")");
    }
    return "?";
  }

  const OpInstance& op_;
};

}  // namespace

char ElementLetter(DType dtype) { return IsFloat(dtype) ? 'r' : dtype == DType::kBool ? 'b' : 'i'; }

std::string InstanceStatement(const OpInstance& instance) { return Writer(instance).Text(); }

}  // namespace tandem
