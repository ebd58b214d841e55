// Nodes whose operands are all known are computed when the model is imported: element by element
// where the result is small, as a formula otherwise.
#include <algorithm>
#include <cmath>
#include <functional>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "models/onnx/ops.h"

namespace tandem {
namespace {

constexpr int64_t kSmall = 256;  // results up to here are evaluated and put in simplest form
constexpr int64_t kMostDense = int64_t{1} << 24;

// The result in simplest form.
OnnxValue Finish(OnnxCall& call, Dims shape, DType dtype, int formula) {
  FormulaArena& f = call.c.formulas;
  if (Product(shape) != 0) {
    formula = f.Simplify(formula, shape);
    if (Product(shape) <= kSmall && !f.AsAffine(formula)) {
      formula = f.Dense(shape, f.Evaluate(formula, shape));
    }
  }
  OnnxValue value = call.c.Known(std::move(shape), dtype, formula);
  for (const OnnxValue& input : call.in) {
    value.assumed = value.assumed || input.assumed;
    value.new_batch = value.new_batch || input.new_batch;
  }
  return value;
}

// Operands' formulas as functions of the result's indices.
struct Broadcast {
  Dims shape;
  std::vector<int> formulas;
};

absl::StatusOr<Broadcast> Align(OnnxCall& call) {
  Broadcast result;
  for (size_t k = 0; k < call.in.size(); ++k) {
    if (!call.in[k].known()) return call.c.Error(absl::StrCat("input ", k, " is missing"));
  }
  for (const OnnxValue& input : call.in) {
    auto shape = BroadcastShape(call.c, result.shape, input.shape);
    if (!shape.ok()) return shape.status();
    result.shape = *std::move(shape);
  }
  FormulaArena& f = call.c.formulas;
  for (const OnnxValue& input : call.in) {
    const size_t shift = result.shape.size() - input.shape.size();
    std::vector<int> indices;
    for (size_t d = 0; d < input.shape.size(); ++d) {
      indices.push_back(input.shape[d] == 1 ? f.Number(0) : f.Index(static_cast<int>(d + shift)));
    }
    result.formulas.push_back(f.Substitute(input.formula, indices));
  }
  return result;
}

// Element by element, through dense data.
absl::StatusOr<OnnxValue> Densely(OnnxCall& call, Dims shape, DType dtype, int formula, bool round,
                                  const std::function<double(double)>& apply) {
  if (Product(shape) > kMostDense) {
    return call.c.Unsupported(absl::StrCat("a constant of ", Product(shape),
                                           " elements is computed in a way that has no formula"));
  }
  std::vector<double> values = call.c.formulas.Evaluate(formula, shape, round);
  for (double& value : values) value = apply(value);
  const int dense = call.c.formulas.Dense(shape, std::move(values));
  return Finish(call, std::move(shape), dtype, dense);
}

absl::StatusOr<OnnxValue> FoldElementwise(OnnxCall& call) {
  FormulaArena& f = call.c.formulas;
  auto aligned = Align(call);
  if (!aligned.ok()) return aligned.status();
  const std::vector<int>& a = aligned->formulas;
  const std::string& op = call.node.op_type();
  const DType first = call.in[0].dtype;
  const auto done = [&](DType dtype, int formula) -> absl::StatusOr<OnnxValue> {
    return Finish(call, aligned->shape, dtype, formula);
  };
  static const std::map<std::string, std::string> kSame = {
      {"Add", "add"},   {"Sub", "sub"},   {"Mul", "mul"},     {"Pow", "pow"}, {"Neg", "neg"},
      {"Abs", "abs"},   {"Sign", "sign"}, {"Floor", "floor"}, {"Exp", "exp"}, {"Log", "log"},
      {"Sqrt", "sqrt"}, {"Tanh", "tanh"}, {"Erf", "erf"},     {"Sin", "sin"}, {"Cos", "cos"}};
  static const std::map<std::string, std::string> kConditions = {
      {"And", "and"},      {"BitwiseAnd", "and"}, {"Or", "or"},
      {"BitwiseOr", "or"}, {"Not", "not"},        {"Equal", "eq"},
      {"Less", "lt"},      {"LessOrEqual", "le"}, {"IsNaN", "isnan"}};
  if (const auto it = kSame.find(op); it != kSame.end()) return done(first, f.Call(it->second, a));
  if (const auto it = kConditions.find(op); it != kConditions.end()) {
    return done(DType::kBool, f.Call(it->second, a));
  }
  if (op == "Greater") return done(DType::kBool, f.Call("lt", {a[1], a[0]}));
  if (op == "GreaterOrEqual") return done(DType::kBool, f.Call("le", {a[1], a[0]}));
  if (op == "Xor") return done(DType::kBool, f.Call("not", {f.Call("eq", a)}));
  if (op == "Min" || op == "Max" || op == "Sum") {
    const char* function = op == "Min" ? "min" : op == "Max" ? "max" : "add";
    int result = a[0];
    for (size_t i = 1; i < a.size(); ++i) result = f.Call(function, {result, a[i]});
    return done(first, result);
  }
  if (op == "Where") return done(call.in[1].dtype, f.Call("select", a));
  if (op == "Reciprocal") return done(first, f.Call("div", {f.Number(1), a[0]}));
  if (op == "Ceil") return done(first, f.Call("neg", {f.Call("floor", {f.Call("neg", a)})}));
  if (op == "Sigmoid") {
    const int e = f.Call("exp", {f.Call("neg", a)});
    return done(first, f.Call("div", {f.Number(1), f.Call("add", {f.Number(1), e})}));
  }
  if (op == "Relu") return done(first, f.Call("max", {a[0], f.Number(0)}));
  if (op == "Mod") {
    if (call.Int("fmod", 0) == 0) return done(first, f.Call("mod", a));
    return Densely(call, aligned->shape, first,
                   f.Call("sub", {a[0], f.Call("mul", {a[1], f.Call("div", a)})}), false,
                   [](double v) { return v; });
  }
  // Div: of integers towards zero.
  if (IsFloat(first)) return done(first, f.Call("div", a));
  const auto low = f.Range(a[0], aligned->shape), low_by = f.Range(a[1], aligned->shape);
  if (low_by.first <= 0 && low_by.second >= 0 && f.AsNumber(a[1]) == 0.0) {
    return call.c.Error("division of an integer by zero");
  }
  if (low.first >= 0 && low_by.first > 0) return done(first, f.Call("floordiv", a));
  return Densely(call, aligned->shape, first, f.Call("div", a), false,
                 [](double v) { return std::trunc(v); });
}

absl::StatusOr<OnnxValue> FoldCast(OnnxCall& call) {
  FormulaArena& f = call.c.formulas;
  const OnnxValue& x = call.in[0];
  DType to = call.has(1) ? call.in[1].dtype : DType::kF32;
  if (call.node.op_type() == "Cast") {
    auto dtype = OnnxDType(static_cast<int>(call.Int("to", 1)), "Cast");
    if (!dtype.ok()) return call.c.Unsupported(std::string(dtype.status().message()));
    to = *dtype;
  }
  if (to == x.dtype) return x;
  if (to == DType::kBool) {
    return Finish(call, x.shape, to, f.Call("not", {f.Call("eq", {x.formula, f.Number(0)})}));
  }
  if (IsFloat(to) || !IsFloat(x.dtype)) return Finish(call, x.shape, to, x.formula);
  bool integral = false;
  if (const auto form = f.AsAffine(x.formula)) {
    integral = form->constant == std::floor(form->constant);
    for (const auto& [dim, c] : form->coefficients) integral = integral && c == std::floor(c);
  }
  if (integral) return Finish(call, x.shape, to, x.formula);
  // Where the value is cut off depends on the rounding of what it was computed with.
  return Densely(call, x.shape, to, x.formula, x.dtype == DType::kF32,
                 [](double v) { return std::trunc(v); });
}

absl::StatusOr<OnnxValue> FoldClip(OnnxCall& call) {
  FormulaArena& f = call.c.formulas;
  const double infinity = HUGE_VAL;
  int result = call.in[0].formula;
  const int low = call.has(1) ? call.in[1].formula : f.Number(call.Float("min", -infinity));
  const int high = call.has(2) ? call.in[2].formula : f.Number(call.Float("max", infinity));
  result = f.Call("min", {f.Call("max", {result, low}), high});
  return Finish(call, call.in[0].shape, call.in[0].dtype, result);
}

absl::StatusOr<OnnxValue> FoldRange(OnnxCall& call) {
  const auto start = call.c.Uniform(call.in[0]), limit = call.c.Uniform(call.in[1]),
             step = call.c.Uniform(call.in[2]);
  if (!start || !limit || !step || *step == 0) return call.c.Error("Range of no number or step 0");
  const double count = std::max(0.0, std::ceil((*limit - *start) / *step));
  if (!(count <= 1e12)) return call.c.Error(absl::StrCat("Range of ", count, " elements"));
  AffineForm form;
  form.constant = *start;
  form.coefficients[0] = *step;
  return Finish(call, {static_cast<int64_t>(count)}, call.in[0].dtype,
                call.c.formulas.FromAffine(form));
}

absl::StatusOr<OnnxValue> FoldConstantOfShape(OnnxCall& call) {
  auto shape = call.c.Integers(call.in[0], "the shape");
  if (!shape.ok()) return shape.status();
  double value = 0;
  DType dtype = DType::kF32;
  if (const auto* attribute = call.Attribute("value")) {
    int64_t budget = 0;
    auto tensor = ReadOnnxTensor(attribute->t(), call.c.file, &budget);
    if (!tensor.ok()) return tensor.status();
    if (tensor->values.size() != 1)
      return call.c.Error("value of ConstantOfShape: not one element");
    value = tensor->values[0];
    dtype = tensor->dtype;
  }
  int64_t elements = 1;
  for (int64_t extent : *shape) {
    if (extent < 0 || (extent > 0 && elements > (int64_t{1} << 48) / extent)) {
      return call.c.Error(absl::StrCat("shape [", absl::StrJoin(*shape, ", "), "]"));
    }
    elements *= extent;
  }
  OnnxValue result = Finish(call, *shape, dtype, call.c.formulas.Number(value));
  result.fill = true;
  return result;
}

absl::StatusOr<OnnxValue> FoldCumSum(OnnxCall& call) {
  FormulaArena& f = call.c.formulas;
  const OnnxValue& x = call.in[0];
  auto axes = call.c.Integers(call.in[1], "the axis");
  if (!axes.ok()) return axes.status();
  if (axes->size() != 1) return call.c.Error("CumSum along several axes");
  auto axis = call.Axis((*axes)[0], x.shape.size());
  if (!axis.ok()) return axis.status();
  const bool reverse = call.Int("reverse", 0) != 0, exclusive = call.Int("exclusive", 0) != 0;
  const int64_t n = x.shape[*axis];
  if (!f.DependsOn(x.formula, static_cast<int>(*axis))) {
    AffineForm count;
    count.coefficients[static_cast<int>(*axis)] = reverse ? -1 : 1;
    count.constant = static_cast<double>(reverse ? n : 1) - (exclusive ? 1 : 0);
    return Finish(call, x.shape, x.dtype, f.Call("mul", {x.formula, f.FromAffine(count)}));
  }
  if (Product(x.shape) == 0) return x;
  auto values = call.c.Elements(x, "the operand of CumSum");
  if (!values.ok()) return values.status();
  int64_t stride = 1;
  for (size_t d = *axis + 1; d < x.shape.size(); ++d) stride *= x.shape[d];
  const auto at = [&](int64_t outer, int64_t i, int64_t inner) {
    return static_cast<size_t>((outer * n + (reverse ? n - 1 - i : i)) * stride + inner);
  };
  for (int64_t outer = 0; outer < Product(x.shape) / (n * stride); ++outer) {
    for (int64_t inner = 0; inner < stride; ++inner) {
      double sum = 0;
      for (int64_t i = 0; i < n; ++i) {
        double& element = (*values)[at(outer, i, inner)];
        const double own = element;
        element = exclusive ? sum : sum + own;
        sum += own;
      }
    }
  }
  return Finish(call, x.shape, x.dtype, f.Dense(x.shape, *std::move(values)));
}

absl::StatusOr<OnnxValue> FoldReduce(OnnxCall& call) {
  const OnnxValue& x = call.in[0];
  const std::string& op = call.node.op_type();
  auto axes = call.IntsOf("axes", 1);
  if (!axes.ok()) return axes.status();
  std::vector<bool> reduced(x.shape.size(), !axes->has_value() || (*axes)->empty());
  for (int64_t a : axes->value_or(std::vector<int64_t>{})) {
    auto axis = call.Axis(a, x.shape.size());
    if (!axis.ok()) return axis.status();
    reduced[*axis] = true;
  }
  auto values = call.c.Elements(x, "the operand");
  if (!values.ok()) return values.status();
  Dims kept, shape;
  for (size_t d = 0; d < x.shape.size(); ++d) {
    kept.push_back(reduced[d] ? 1 : x.shape[d]);
    if (!reduced[d] || call.Int("keepdims", 1) != 0) shape.push_back(kept.back());
  }
  const bool product = op == "ReduceProd", most = op == "ReduceMax", least = op == "ReduceMin";
  std::vector<double> result(static_cast<size_t>(Product(kept)), product ? 1
                                                                 : most  ? -HUGE_VAL
                                                                 : least ? HUGE_VAL
                                                                         : 0);
  for (size_t i = 0; i < values->size(); ++i) {
    auto rest = static_cast<int64_t>(i);
    int64_t to = 0, stride = 1;
    for (size_t d = x.shape.size(); d-- > 0;) {
      if (!reduced[d]) to += rest % x.shape[d] * stride;
      stride *= kept[d];
      rest /= x.shape[d];
    }
    double& r = result[static_cast<size_t>(to)];
    const double v = (*values)[i];
    r = product ? r * v : most ? std::max(r, v) : least ? std::min(r, v) : r + v;
  }
  if (op == "ReduceMean") {
    for (double& r : result) r *= static_cast<double>(result.size()) / values->size();
  }
  return Finish(call, shape, x.dtype, call.c.formulas.Dense(shape, std::move(result)));
}

absl::StatusOr<OnnxValue> FoldNonZero(OnnxCall& call) {
  const OnnxValue& x = call.in[0];
  auto values = call.c.Elements(x, "the operand of NonZero");
  if (!values.ok()) return values.status();
  std::vector<std::vector<double>> rows(x.shape.size());
  int64_t count = 0;
  for (size_t i = 0; i < values->size(); ++i) {
    if ((*values)[i] == 0) continue;
    ++count;
    auto rest = static_cast<int64_t>(i);
    for (size_t d = x.shape.size(); d-- > 0;) {
      rows[d].push_back(static_cast<double>(rest % x.shape[d]));
      rest /= x.shape[d];
    }
  }
  std::vector<double> flat;
  for (const auto& row : rows) flat.insert(flat.end(), row.begin(), row.end());
  const Dims shape = {static_cast<int64_t>(rows.size()), count};
  return Finish(call, shape, DType::kI64, call.c.formulas.Dense(shape, std::move(flat)));
}

absl::StatusOr<OnnxValue> FoldTrilu(OnnxCall& call) {
  FormulaArena& f = call.c.formulas;
  const OnnxValue& x = call.in[0];
  const size_t rank = x.shape.size();
  if (rank < 2) return call.c.Error("Trilu of fewer than two dims");
  const double k = call.has(1) ? call.c.Uniform(call.in[1]).value_or(0) : 0;
  const int row = f.Index(static_cast<int>(rank) - 2), column = f.Index(static_cast<int>(rank) - 1);
  const int reach = f.Call("add", {row, f.Number(k)});
  const int keep =
      call.Int("upper", 1) != 0 ? f.Call("le", {reach, column}) : f.Call("le", {column, reach});
  return Finish(call, x.shape, x.dtype, f.Call("select", {keep, x.formula, f.Number(0)}));
}

absl::StatusOr<OnnxValue> FoldMatMul(OnnxCall& call) {
  FormulaArena& f = call.c.formulas;
  const OnnxValue &a = call.in[0], &b = call.in[1];
  const size_t rank = std::max(a.shape.size(), b.shape.size());
  if (a.shape.size() < 2 || b.shape.size() < 2) return call.c.Unsupported("a constant vector");
  const int64_t inner = a.shape.back();
  if (inner != b.shape[b.shape.size() - 2]) return call.c.Error("the inner dims differ");
  auto shape = BroadcastShape(call.c, Dims(a.shape.begin(), a.shape.end() - 2),
                              Dims(b.shape.begin(), b.shape.end() - 2));
  if (!shape.ok()) return shape.status();
  shape->push_back(a.shape[a.shape.size() - 2]);
  shape->push_back(b.shape.back());
  if (inner > 64) return call.c.Unsupported("a matrix product of constants");
  int sum = f.Number(0);
  for (int64_t p = 0; p < inner; ++p) {
    std::vector<int> parts;
    for (const OnnxValue* side : {&a, &b}) {
      std::vector<int> indices;
      const size_t shift = rank - side->shape.size();
      for (size_t d = 0; d < side->shape.size(); ++d) {
        const bool contracted = d + (side == &a ? 1 : 2) == side->shape.size();
        indices.push_back(contracted            ? f.Number(static_cast<double>(p))
                          : side->shape[d] == 1 ? f.Number(0)
                                                : f.Index(static_cast<int>(d + shift)));
      }
      parts.push_back(f.Substitute(side->formula, indices));
    }
    sum = f.Call("add", {sum, f.Call("mul", parts)});
  }
  return Finish(call, *shape, a.dtype, sum);
}

using Fold = absl::StatusOr<OnnxValue> (*)(OnnxCall&);

const std::map<std::string, Fold>& Folds() {
  static const auto* folds = [] {
    auto* map = new std::map<std::string, Fold>;
    for (const char* op : {"Add",       "Sub",         "Mul",        "Div",
                           "Mod",       "Pow",         "Neg",        "Abs",
                           "Sign",      "Floor",       "Ceil",       "Exp",
                           "Log",       "Sqrt",        "Tanh",       "Erf",
                           "Sin",       "Cos",         "Min",        "Max",
                           "Sum",       "And",         "BitwiseAnd", "Or",
                           "BitwiseOr", "Xor",         "Not",        "Equal",
                           "Less",      "LessOrEqual", "Greater",    "GreaterOrEqual",
                           "IsNaN",     "Where",       "Reciprocal", "Sigmoid",
                           "Relu"}) {
      (*map)[op] = FoldElementwise;
    }
    (*map)["Cast"] = (*map)["CastLike"] = FoldCast;
    (*map)["Clip"] = FoldClip;
    (*map)["Range"] = FoldRange;
    (*map)["ConstantOfShape"] = FoldConstantOfShape;
    (*map)["CumSum"] = FoldCumSum;
    for (const char* op : {"ReduceSum", "ReduceMean", "ReduceMax", "ReduceMin", "ReduceProd"}) {
      (*map)[op] = FoldReduce;
    }
    (*map)["NonZero"] = FoldNonZero;
    (*map)["Trilu"] = FoldTrilu;
    (*map)["MatMul"] = FoldMatMul;
    return map;
  }();
  return *folds;
}

}  // namespace

absl::StatusOr<bool> FoldKnown(OnnxCall& call) {
  const auto it = Folds().find(call.node.op_type());
  if (it == Folds().end() || call.in.empty()) return false;
  for (size_t i = 0; i < call.in.size(); ++i) {
    if (call.has(i) && !call.in[i].known()) return false;
  }
  auto value = it->second(call);
  if (!value.ok()) return value.status();
  call.out[0] = *std::move(value);
  return true;
}

}  // namespace tandem
