#include "pcg/autodiff/gradient_library.h"

#include <algorithm>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/match.h"
#include "pcg/language/op_parser.h"

namespace tandem {
namespace {

// A gradient operator of the library whose only input is the output's gradient.
absl::StatusOr<std::optional<GradientOp>> FromLibrary(const std::string& name,
                                                      Attributes attributes, int input) {
  auto spec = BuiltinOperators().Get(name);
  if (!spec.ok()) return spec.status();
  GradientOp gradient;
  gradient.spec = **spec;
  gradient.attributes = std::move(attributes);
  gradient.inputs = {{GradientOp::Source::kOutputGradient, 0}};
  gradient.gradient_of = {input};
  return std::optional<GradientOp>(std::move(gradient));
}

int64_t IntegerOr(const Attributes& attributes, const std::string& name, int64_t otherwise) {
  const auto it = attributes.find(name);
  if (it == attributes.end()) return otherwise;
  const auto* value = std::get_if<int64_t>(&it->second);
  return value == nullptr ? otherwise : *value;
}

// Extent of the dim that has `after` dims behind it.
int64_t ExtentFromEnd(const OpInstance& op, int tensor, int64_t after) {
  const std::vector<int64_t> shape = PlainShape(op.ShapeOf(tensor));
  return shape[shape.size() - 1 - static_cast<size_t>(after)];
}

}  // namespace

absl::StatusOr<std::optional<GradientOp>> TabledGradient(const OpInstance& op, int input) {
  const int64_t after = IntegerOr(op.attributes, "rank_c", 0);
  const auto slice = [&](int64_t start) {
    return FromLibrary(
        "slice", {{"rank_c", after}, {"size", ExtentFromEnd(op, input, after)}, {"start", start}},
        input);
  };
  if (op.op == "reshape") {
    return FromLibrary("reshape", {{"shape", PlainShape(op.ShapeOf(0))}}, input);
  }
  if (op.op == "transpose") {
    const auto it = op.attributes.find("perm");
    const auto* perm =
        it == op.attributes.end() ? nullptr : std::get_if<std::vector<int64_t>>(&it->second);
    if (perm == nullptr) return std::optional<GradientOp>();
    std::vector<int64_t> inverse(perm->size());
    for (size_t i = 0; i < perm->size(); ++i) {
      inverse[static_cast<size_t>((*perm)[i])] = static_cast<int64_t>(i);
    }
    return FromLibrary("transpose", {{"perm", inverse}}, input);
  }
  if (op.op == "slice" && IntegerOr(op.attributes, "step", 1) == 1) {
    const int64_t start = IntegerOr(op.attributes, "start", 0);
    const int64_t end = start + ExtentFromEnd(op, op.num_inputs, after);
    return FromLibrary(
        "pad", {{"high", ExtentFromEnd(op, 0, after) - end}, {"low", start}, {"rank_c", after}},
        input);
  }
  if (op.op == "pad") {
    const int64_t low = IntegerOr(op.attributes, "low", 0);
    const int64_t high = IntegerOr(op.attributes, "high", 0);
    if (low >= 0 && high >= 0) return slice(low);
  }
  if (op.op == "concat" || op.op == "concat3" || op.op == "concat4") {
    int64_t start = 0;
    for (int i = 0; i < input; ++i) start += ExtentFromEnd(op, i, after);
    return slice(start);
  }
  return std::optional<GradientOp>();
}

absl::StatusOr<std::optional<GradientOp>> LibraryGradient(const OpInstance& op,
                                                          const AdjointProgram& program,
                                                          int input) {
  const std::optional<GradientOp> none;
  if (program.equations.size() != 1 || program.output_gradients.size() != 1) return none;
  const auto& e = program.equations[0];
  ExprNode read = program.exprs[e.body];
  std::vector<int> summed;
  if (read.kind == ExprKind::kReduce && read.name == "sum") {
    for (const BoundVar& b : read.bound) summed.push_back(b.var);
    read = program.exprs[read.args[0]];
  }
  if (read.kind != ExprKind::kRead || read.has_else || read.ref != program.output_gradients[0]) {
    return none;
  }
  const auto var_of = [&](ExprId id) {
    return program.exprs[id].kind == ExprKind::kVar ? program.exprs[id].ref : -1;
  };
  for (const auto& dim : op.input(input).dims) {
    if (dim.size() != 1) return none;
  }
  // The target's index in order, with the summed variables in one run somewhere between.
  size_t next = 0, first = read.args.size();
  for (size_t d = 0; d < read.args.size(); ++d) {
    const int var = var_of(read.args[d]);
    if (var < 0) return none;
    if (next < e.vars.size() && var == e.vars[next]) {
      ++next;
    } else if (std::find(summed.begin(), summed.end(), var) != summed.end()) {
      if (first == read.args.size()) first = d;
      if (d - first >= summed.size()) return none;
      // A dim kept with extent 1 stands where the summed one was.
      if (next < e.vars.size() && summed.size() == 1 && op.ShapeOf(input)[next] == Factors{1} &&
          read.args.size() == e.vars.size()) {
        ++next;
      }
    } else {
      return none;
    }
  }
  if (next != e.vars.size()) return none;
  const auto after = static_cast<int64_t>(read.args.size() - first - summed.size());
  if (summed.empty()) return FromLibrary("identity", {}, input);
  if (read.args.size() == e.vars.size()) {
    return FromLibrary("reduce_sum_keep", {{"rank_c", after}}, input);
  }
  if (read.args.size() != e.vars.size() + summed.size()) return none;
  return FromLibrary("reduce_sum",
                     {{"rank_c", after}, {"rank_r", static_cast<int64_t>(summed.size())}}, input);
}

}  // namespace tandem
