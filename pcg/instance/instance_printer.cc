#include <cmath>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "pcg/instance/op_instance.h"

namespace tandem {
namespace {

class InstancePrinter {
 public:
  explicit InstancePrinter(const OpInstance& instance) : instance_(instance) {}

  std::string Run() const {
    std::string out = absl::StrCat(instance_.op, "(", Operands(0, instance_.num_inputs), ") -> ",
                                   Operands(instance_.num_inputs, instance_.num_outputs), " {\n");
    for (const InstanceEquation& equation : instance_.equations) {
      absl::StrAppend(&out, "  ", instance_.tensors[static_cast<size_t>(equation.target)].name, "[",
                      absl::StrJoin(equation.vars, ", ",
                                    [this](std::string* text, int var) { *text += Bound(var); }),
                      "] = ", Text(equation.body), "\n");
    }
    return out + "}\n";
  }

 private:
  std::string Operands(int first, int count) const {
    std::string out;
    for (int t = first; t < first + count; ++t) {
      const InstanceOperand& operand = instance_.tensors[static_cast<size_t>(t)];
      absl::StrAppend(&out, t == first ? "" : ", ", operand.name, "[",
                      absl::StrJoin(operand.dims, ", ",
                                    [this](std::string* text, const std::vector<int>& dim) {
                                      absl::StrAppend(text, dim.size() > 1 ? "(" : "", Sizes(dim),
                                                      dim.size() > 1 ? ")" : "");
                                    }),
                      "]");
    }
    return out;
  }

  std::string Sizes(const std::vector<int>& sizes) const {
    return absl::StrJoin(sizes, ", ", [this](std::string* text, int id) {
      const SizeVar& size = instance_.sizes[static_cast<size_t>(id)];
      absl::StrAppend(text, size.constant ? "" : absl::StrCat(size.name, "="), size.extent);
    });
  }

  // Names repeat (each equation binds its own i): the number tells them apart.
  std::string Var(int var) const {
    return absl::StrCat(instance_.vars[static_cast<size_t>(var)].name, "#", var);
  }

  std::string Bound(int var) const {
    const int size = instance_.vars[static_cast<size_t>(var)].size;
    return absl::StrCat(Var(var), ": ", instance_.sizes[static_cast<size_t>(size)].name);
  }

  std::string List(const std::vector<ExprId>& ids, size_t count) const {
    std::string out;
    for (size_t i = 0; i < count; ++i) absl::StrAppend(&out, i == 0 ? "" : ", ", Text(ids[i]));
    return out;
  }

  std::string Infix(const ExprNode& node, absl::string_view sign) const {
    return absl::StrCat("(", Text(node.args[0]), " ", sign, " ", Text(node.args[1]), ")");
  }

  std::string Text(ExprId id) const {
    const ExprNode& node = instance_.exprs[id];
    switch (node.kind) {
      case ExprKind::kNumber:
        return absl::StrCat(node.number);
      case ExprKind::kVar:
        return Var(node.ref);
      case ExprKind::kSize:
        return absl::StrCat("size(", instance_.sizes[static_cast<size_t>(node.ref)].name, ")");
      case ExprKind::kAttr:
        return node.name;
      case ExprKind::kRead: {
        const size_t indices = node.args.size() - (node.has_else ? 1 : 0);
        return absl::StrCat(instance_.tensors[static_cast<size_t>(node.ref)].name, "[",
                            List(node.args, indices), "]",
                            node.has_else ? absl::StrCat(" else ", Text(node.args.back())) : "");
      }
      case ExprKind::kTuple:
        return absl::StrCat("(", List(node.args, node.args.size()), ")");
      case ExprKind::kAdd:
        return Infix(node, "+");
      case ExprKind::kSub:
        return Infix(node, "-");
      case ExprKind::kMul:
        return Infix(node, "*");
      case ExprKind::kDiv:
        return Infix(node, "/");
      case ExprKind::kFloorDiv:
        return Infix(node, "//");
      case ExprKind::kMod:
        return Infix(node, "%");
      case ExprKind::kNeg:
        return absl::StrCat("-", Text(node.args[0]));
      case ExprKind::kCall:
        return absl::StrCat(node.name, "(", List(node.args, node.args.size()), ")");
      case ExprKind::kCompare:
        return Infix(node, node.name);
      case ExprKind::kAnd:
        return Infix(node, "and");
      case ExprKind::kOr:
        return Infix(node, "or");
      case ExprKind::kNot:
        return absl::StrCat("not ", Text(node.args[0]));
      case ExprKind::kSelect:
        return absl::StrCat("select(", List(node.args, node.args.size()), ")");
      case ExprKind::kReduce:
        return absl::StrCat(node.name, "(",
                            absl::StrJoin(node.bound, ", ",
                                          [this](std::string* text, const BoundVar& bound) {
                                            *text += Bound(bound.var);
                                          }),
                            ") (", Text(node.args[0]), ")");
      case ExprKind::kNoGrad:
        return absl::StrCat("nograd(", Text(node.args[0]), ")");
    }
    return "";
  }

  const OpInstance& instance_;
};

}  // namespace

std::string ToString(const OpInstance& instance) { return InstancePrinter(instance).Run(); }

}  // namespace tandem
