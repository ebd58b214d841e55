// Elementwise operators. Arithmetic with a known number becomes scale, shift and power; what adds
// nothing disappears.
#include <algorithm>
#include <cmath>
#include <utility>

#include "absl/strings/str_cat.h"
#include "models/onnx/masks.h"
#include "models/onnx/ops.h"

namespace tandem {
namespace {

bool HoldsInfinity(OnnxContext& c, const OnnxValue& value) {
  const auto range = c.formulas.Range(value.formula, value.shape);
  return !std::isfinite(range.first) || !std::isfinite(range.second);
}

// A known operand that repeats along everything: its number, if the other operand alone gives the
// result's shape.
std::optional<double> NumberBeside(const OnnxContext& c, const OnnxValue& number,
                                   const OnnxValue& other) {
  const auto value = c.Uniform(number);
  if (!value) return std::nullopt;
  const Dims& shape = number.shape;
  const Dims with = c.Shape(other), before = c.Before(other);
  if (shape.size() > with.size()) return std::nullopt;
  for (size_t k = 1; k <= shape.size(); ++k) {
    const int64_t extent = shape[shape.size() - k];
    if (extent != 1 && extent != with[with.size() - k] && extent != before[with.size() - k]) {
      return std::nullopt;
    }
  }
  return value;
}

// One binary node after the batch is aligned; `larger_first` for commutative operators.
absl::StatusOr<OnnxValue> Binary(OnnxCall& call, const std::string& op, OnnxValue a, OnnxValue b,
                                 bool commutative, const std::string& suffix) {
  OnnxContext& c = call.c;
  std::vector<OnnxValue> together = {std::move(a), std::move(b)};
  // (A constant that was made from a shape speaks of the new batch, and has no shape of old.)
  auto whole = BroadcastShape(c, c.Before(together[0]), c.Before(together[1]));
  if (!whole.ok() && !c.rebinding) return whole.status();
  if (absl::Status s = c.AlignBatch(&together); !s.ok()) return s;
  if (absl::StatusOr<Dims> shape = BroadcastShape(c, c.Shape(together[0]), c.Shape(together[1]));
      !shape.ok()) {
    return shape.status();
  }
  // Activations before weights and constants, larger before smaller, so that patterns need one
  // order.
  if (commutative && together[0].kind != OnnxValue::Kind::kTensor &&
      together[1].kind == OnnxValue::Kind::kTensor &&
      Product(c.Shape(together[1])) > Product(c.Shape(together[0]))) {
    std::swap(together[0], together[1]);
  }
  auto lhs = c.ToBroadcastTensor(together[0]);
  if (!lhs.ok()) return lhs.status();
  auto rhs = c.ToBroadcastTensor(together[1]);
  if (!rhs.ok()) return rhs.status();
  OnnxContext::EmitOptions emit;
  emit.suffix = suffix;
  auto result = c.Emit(op, {}, {*lhs, *rhs}, emit);
  if (!result.ok()) return result;
  if (!whole.ok()) return result;
  if (op != "add") return c.Restore(*result, *whole);
  // Scores plus a mask: finite in every row if the mask is.
  for (int k = 0; k < 2; ++k) {
    const OnnxValue& mask = together[static_cast<size_t>(k)];
    const OnnxValue& other = together[static_cast<size_t>(1 - k)];
    if (!mask.known() || !HoldsInfinity(c, mask)) continue;
    const bool other_finite = other.kind == OnnxValue::Kind::kTensor &&
                              c.FinitenessOf(other.tensor) == Finiteness::kFinite;
    const Dims other_shape = c.Shape(other);
    const bool same_rows =
        !mask.shape.empty() && !other_shape.empty() && mask.shape.back() == other_shape.back();
    c.FinitenessOf(result->tensor) = other_finite && same_rows && EveryRowHas(c, mask, 0, false)
                                         ? Finiteness::kRowsFinite
                                         : Finiteness::kUnknown;
  }
  return c.Restore(*result, *whole);
}

// One operand with a known number.
absl::StatusOr<OnnxValue> WithNumber(OnnxCall& call, const std::string& op, const OnnxValue& x,
                                     double number, bool number_first, const std::string& suffix) {
  OnnxContext& c = call.c;
  OnnxContext::EmitOptions emit;
  emit.suffix = suffix;
  const bool keep = std::isfinite(number);
  if (keep && ((op == "add" && number == 0) || (op == "sub" && number == 0 && !number_first) ||
               (op == "mul" && number == 1) || (op == "div" && number == 1 && !number_first))) {
    return x;
  }
  auto id = c.ToTensor(x);
  if (!id.ok()) return id.status();
  const auto one = [&](const char* name, Attributes attributes,
                       TensorId input) -> absl::StatusOr<OnnxValue> {
    emit.dtypes = {x.dtype};
    return c.Emit(name, std::move(attributes), {input}, emit);
  };
  if (op == "add") return one("shift", {{"value", number}}, *id);
  if (op == "mul") return one("scale", {{"value", number}}, *id);
  if (op == "sub" && !number_first) return one("shift", {{"value", -number}}, *id);
  if (op == "div" && !number_first) return one("scale", {{"value", 1 / number}}, *id);
  if (op == "maximum") return one("clip", {{"low", number}, {"high", HUGE_VAL}}, *id);
  if (op == "minimum") return one("clip", {{"low", -HUGE_VAL}, {"high", number}}, *id);
  if (op == "sub") {
    emit.suffix = suffix + "/neg";
    auto negative = one("neg", {}, *id);
    if (!negative.ok() || number == 0) return negative;
    emit.suffix = suffix;
    return one("shift", {{"value", number}}, negative->tensor);
  }
  if (op == "div") {
    emit.suffix = suffix + (number == 1 ? "" : "/reciprocal");
    auto inverse = one("reciprocal", {}, *id);
    if (!inverse.ok() || number == 1) return inverse;
    emit.suffix = suffix;
    return one("scale", {{"value", number}}, inverse->tensor);
  }
  if (op == "pow" && !number_first) {
    if (number == 1) return x;
    if (number == 0.5) return one("sqrt", {}, *id);
    if (number == -1) return one("reciprocal", {}, *id);
    return one("power", {{"exponent", number}}, *id);
  }
  return absl::UnimplementedError(op);
}

absl::StatusOr<OnnxValue> Arithmetic(OnnxCall& call, const std::string& op, const OnnxValue& a,
                                     const OnnxValue& b, const std::string& suffix) {
  const bool commutative = op == "add" || op == "mul" || op == "maximum" || op == "minimum";
  const bool floats = IsFloat(a.dtype);
  if (op == "div" && !floats) {
    auto id_a = call.c.ToBroadcastTensor(a);
    if (!id_a.ok()) return id_a.status();
    auto id_b = call.c.ToBroadcastTensor(b);
    if (!id_b.ok()) return id_b.status();
    auto name =
        call.c.Define("integer_divide",
                      "(x[d..?], y[d..?]) -> out[d..]: int { out[i] = select(x[i] * y[i] < 0,"
                      " -floor(-x[i] / y[i]), floor(x[i] / y[i])) }");
    if (!name.ok()) return name.status();
    OnnxContext::EmitOptions emit;
    emit.dtypes = {a.dtype};
    emit.suffix = suffix;
    return call.c.Emit(*name, {}, {*id_a, *id_b}, emit);
  }
  if (const auto number = NumberBeside(call.c, b, a)) {
    return WithNumber(call, op, a, *number, false, suffix);
  }
  const auto number = NumberBeside(call.c, a, b);
  if (number && commutative) return WithNumber(call, op, b, *number, false, suffix);
  if (number && (op == "sub" || op == "div")) return WithNumber(call, op, b, *number, true, suffix);
  return Binary(call, op, a, b, commutative, suffix);
}

template <const char* kOp>
absl::Status TwoOperands(OnnxCall& call) {
  if (call.in.size() != 2) return call.c.Error("needs two operands");
  return call.Give(Arithmetic(call, kOp, call.in[0], call.in[1], ""));
}

// Sum, Min, Max, Mean of any number of operands.
template <const char* kOp>
absl::Status ManyOperands(OnnxCall& call) {
  if (call.in.empty()) return call.c.Error("needs an operand");
  OnnxValue result = call.in[0];
  for (size_t i = 1; i < call.in.size(); ++i) {
    const bool last = i + 1 == call.in.size();
    auto next = Arithmetic(call, kOp, result, call.in[i], last ? "" : absl::StrCat("/", i));
    if (!next.ok()) return next.status();
    result = *std::move(next);
  }
  if (call.node.op_type() == "Mean" && call.in.size() > 1) {
    return call.Give(
        WithNumber(call, "mul", result, 1.0 / static_cast<double>(call.in.size()), false, "/mean"));
  }
  return call.Give(result);
}

template <const char* kOp>
absl::Status Compare(OnnxCall& call) {
  return call.Give(Binary(call, kOp, call.in[0], call.in[1], false, ""));
}

template <const char* kOp>
absl::Status Unary(OnnxCall& call) {
  auto id = call.c.ToTensor(call.in[0]);
  if (!id.ok()) return id.status();
  return call.Give(call.c.Emit(kOp, {}, {*id}));
}

// Operators that Tandem has no built-in for: their text, over x[i] and attributes of the node.
struct TextOp {
  const char* onnx;
  const char* body;
  std::vector<std::pair<const char*, double>> attributes;  // with ONNX's defaults
};

const std::vector<TextOp>& TextOps() {
  static const auto* ops = new std::vector<TextOp>{
      {"Ceil", "-floor(-x[i])", {}},
      {"Elu", "select(x[i] > 0, x[i], alpha * (exp(x[i]) - 1))", {{"alpha", 1}}},
      {"Celu", "max(x[i], 0) + min(0, alpha * (exp(min(x[i], 0) / alpha) - 1))", {{"alpha", 1}}},
      {"Selu",
       "gamma * select(x[i] > 0, x[i], alpha * (exp(x[i]) - 1))",
       {{"alpha", 1.6732632423543772}, {"gamma", 1.0507009873554805}}},
      {"Softsign", "x[i] / (1 + abs(x[i]))", {}},
      {"ThresholdedRelu", "select(x[i] > alpha, x[i], 0)", {{"alpha", 1}}},
      {"Mish", "x[i] * tanh(log(1 + exp(x[i])))", {}},
      {"Tan", "sin(x[i]) / cos(x[i])", {}},
      {"Sinh", "(exp(x[i]) - exp(-x[i])) / 2", {}},
      {"Cosh", "(exp(x[i]) + exp(-x[i])) / 2", {}},
      {"Swish", "x[i] / (1 + exp(-alpha * x[i]))", {{"alpha", 1}}},
      {"Shrink",
       "select(x[i] > lambd, x[i] - bias, select(x[i] < -lambd, x[i] + bias, 0))",
       {{"bias", 0}, {"lambd", 0.5}}},
  };
  return *ops;
}

absl::Status ByText(OnnxCall& call) {
  for (const TextOp& op : TextOps()) {
    if (call.node.op_type() != op.onnx) continue;
    auto id = call.c.ToTensor(call.in[0]);
    if (!id.ok()) return id.status();
    std::string names;
    Attributes attributes;
    for (const auto& [name, value] : op.attributes) {
      absl::StrAppend(&names, names.empty() ? "; " : ", ", name);
      attributes[name] = call.Float(name, value);
    }
    std::string stem = op.onnx;
    std::transform(stem.begin(), stem.end(), stem.begin(), ::tolower);
    auto name = call.c.Define(
        stem, absl::StrCat("(x[d..]", names, ") -> out[d..] { out[i] = ", op.body, " }"));
    if (!name.ok()) return name.status();
    return call.Give(call.c.Emit(*name, std::move(attributes), {*id}));
  }
  return call.c.Unsupported("no text for it");
}

absl::Status WithAttributes(OnnxCall& call, const char* op, Attributes attributes) {
  auto id = call.c.ToTensor(call.in[0]);
  if (!id.ok()) return id.status();
  return call.Give(call.c.Emit(op, std::move(attributes), {*id}));
}

absl::Status LeakyRelu(OnnxCall& call) {
  return WithAttributes(call, "leaky_relu", {{"alpha", call.Float("alpha", 0.01)}});
}

absl::Status HardSigmoid(OnnxCall& call) {
  return WithAttributes(call, "hard_sigmoid",
                        {{"alpha", call.Float("alpha", 0.2)}, {"beta", call.Float("beta", 0.5)}});
}

absl::Status Gelu(OnnxCall& call) {
  return WithAttributes(call, call.String("approximate", "none") == "tanh" ? "gelu_tanh" : "gelu",
                        {});
}

absl::Status Clip(OnnxCall& call) {
  double bounds[2] = {call.Float("min", -HUGE_VAL), call.Float("max", HUGE_VAL)};
  for (size_t k = 0; k < 2; ++k) {
    if (!call.has(k + 1)) continue;
    const auto value = call.c.Uniform(call.in[k + 1]);
    if (!value) return call.c.Unsupported("a bound of Clip is computed from the data");
    bounds[k] = *value;
  }
  if (bounds[0] == 0 && bounds[1] == HUGE_VAL) return WithAttributes(call, "relu", {});
  return WithAttributes(call, "clip", {{"low", bounds[0]}, {"high", bounds[1]}});
}

absl::Status PRelu(OnnxCall& call) {
  OnnxContext& c = call.c;
  auto x = c.ToTensor(call.in[0]);
  if (!x.ok()) return x.status();
  auto slope = c.ToWeight(call.in[1], TensorRole::kParameter, "uniform(0.1,0.4)");
  if (!slope.ok()) return slope.status();
  auto name = c.Define("prelu",
                       "(x[d..], slope[d..?]) -> out[d..] { out[i] = max(x[i], 0) + slope[i] * "
                       "min(x[i], 0) }");
  if (!name.ok()) return name.status();
  return call.Give(c.Emit(*name, {}, {*x, *slope}));
}

absl::Status Cast(OnnxCall& call) {
  OnnxContext& c = call.c;
  const OnnxValue& x = call.in[0];
  DType to = call.has(1) ? call.in[1].dtype : DType::kF32;
  if (call.node.op_type() == "Cast") {
    auto dtype = OnnxDType(static_cast<int>(call.Int("to", 1)), "to");
    if (!dtype.ok()) return c.Unsupported(std::string(dtype.status().message()));
    to = *dtype;
  }
  if (to == x.dtype) return call.Give(x);
  auto id = c.ToTensor(x);
  if (!id.ok()) return id.status();
  OnnxContext::EmitOptions emit;
  emit.dtypes = {to};
  std::string op = "cast";
  if (to == DType::kBool) {
    auto name =
        c.Define("not_zero", "(x[d..]) -> out[d..]: bool { out[i] = select(x[i] != 0, 1, 0) }");
    if (!name.ok()) return name.status();
    op = *name;
  } else if (!IsFloat(to) && IsFloat(x.dtype)) {
    auto name = c.Define("truncate",
                         "(x[d..]) -> out[d..]: int { out[i] = select(x[i] < 0, -floor(-x[i]), "
                         "floor(x[i])) }");
    if (!name.ok()) return name.status();
    op = *name;
  }
  return call.Give(c.Emit(op, {}, {*id}, emit));
}

absl::Status IsNaN(OnnxCall& call) {
  OnnxContext& c = call.c;
  auto id = c.ToTensor(call.in[0]);
  if (!id.ok()) return id.status();
  // The guard of a softmax whose rows are provably not fully masked; what else holds NaN, the data
  // says.
  const NodeId producer = c.graph.tensor(*id).producer;
  if (producer.valid() && c.graph.node(producer).op == "softmax" &&
      c.FinitenessOf(*id) == Finiteness::kFinite) {
    return call.Give(c.Known(c.Before(call.in[0]), DType::kBool, c.formulas.Number(0)));
  }
  return call.Give(c.Emit("isnan", {}, {*id}));
}

absl::Status Where(OnnxCall& call) {
  OnnxContext& c = call.c;
  auto whole = BroadcastShape(c, c.Before(call.in[1]), c.Before(call.in[2]));
  if (whole.ok()) whole = BroadcastShape(c, *whole, c.Before(call.in[0]));
  if (!whole.ok() && !c.rebinding) return whole.status();
  if (const auto chosen = c.Uniform(call.in[0])) {
    const OnnxValue& value = call.in[*chosen != 0 ? 1 : 2];
    if (!whole.ok()) return call.Give(value);
    return call.Give(c.Restore(value, *whole));
  }
  std::vector<OnnxValue> together = call.in;
  if (absl::Status s = c.AlignBatch(&together); !s.ok()) return s;
  std::vector<TensorId> ids;
  for (const OnnxValue& value : together) {
    auto id = c.ToBroadcastTensor(value);
    if (!id.ok()) return id.status();
    ids.push_back(*id);
  }
  OnnxContext::EmitOptions emit;
  emit.dtypes = {call.in[1].dtype};
  auto result = c.Emit("where", {}, ids, emit);
  if (!result.ok()) return result.status();
  // Scores masked by a known condition.
  for (size_t k = 1; k <= 2; ++k) {
    const auto low = c.Uniform(together[k]);
    const OnnxValue& other = together[3 - k];
    if (!low || std::isfinite(*low) || !together[0].known()) continue;
    const bool finite = other.kind == OnnxValue::Kind::kTensor &&
                        c.FinitenessOf(other.tensor) == Finiteness::kFinite;
    c.FinitenessOf(result->tensor) = finite && EveryRowHas(c, together[0], k == 1 ? 0 : 1, true)
                                         ? Finiteness::kRowsFinite
                                         : Finiteness::kUnknown;
  }
  if (!whole.ok()) return call.Give(result);
  return call.Give(c.Restore(*result, *whole));
}

// Operators of two operands that Tandem has no built-in for.
absl::Status PairByText(OnnxCall& call) {
  OnnxContext& c = call.c;
  if (call.in.size() != 2) return c.Error("needs two operands");
  const bool mod = call.node.op_type() == "Mod";
  const bool truncated = mod && call.Int("fmod", 0) != 0;
  const std::string body = !mod        ? "select(x[i] == y[i], 0, 1)"
                           : truncated ? "x[i] - y[i] * sign(x[i] / y[i]) * floor(abs(x[i] / y[i]))"
                                       : "x[i] - y[i] * floor(x[i] / y[i])";
  auto name = c.Define(truncated ? "remainder"
                       : mod     ? "modulo"
                                 : "exclusive_or",
                       absl::StrCat("(x[d..?], y[d..?]) -> out[d..]", mod ? "" : ": bool",
                                    " { out[i] = ", body, " }"));
  if (!name.ok()) return name.status();
  return call.Give(Binary(call, *name, call.in[0], call.in[1], false, ""));
}

// The lower or upper triangle of a tensor: the rest becomes 0.
absl::Status Trilu(OnnxCall& call) {
  OnnxContext& c = call.c;
  FormulaArena& f = c.formulas;
  const Dims shape = c.Shape(call.in[0]);
  if (shape.size() < 2) return c.Error("needs two dims");
  const auto k = call.has(1) ? c.Uniform(call.in[1]) : std::optional<double>(0);
  if (!k) return c.Unsupported("the diagonal is computed from the data");
  const int row = f.Index(0), column = f.Index(1);
  const int reach = f.Call("add", {row, f.Number(*k)});
  const int keep =
      call.Int("upper", 1) != 0 ? f.Call("le", {reach, column}) : f.Call("le", {column, reach});
  const OnnxValue mask = c.Known({shape[shape.size() - 2], shape.back()}, DType::kBool, keep);
  auto condition = c.ToTensor(mask);
  if (!condition.ok()) return condition.status();
  auto x = c.ToTensor(call.in[0]);
  if (!x.ok()) return x.status();
  auto zero = c.ToTensor(c.KnownScalar(0, call.in[0].dtype));
  if (!zero.ok()) return zero.status();
  OnnxContext::EmitOptions emit;
  emit.dtypes = {call.in[0].dtype};
  return call.Give(c.Emit("where", {}, {*condition, *x, *zero}, emit));
}

constexpr char kAdd[] = "add", kSub[] = "sub", kMul[] = "mul", kDiv[] = "div", kPow[] = "pow";
constexpr char kMaximum[] = "maximum", kMinimum[] = "minimum";
constexpr char kEqual[] = "equal", kLess[] = "less", kLessEqual[] = "less_equal";
constexpr char kGreater[] = "greater", kGreaterEqual[] = "greater_equal";
constexpr char kAnd[] = "logical_and", kOr[] = "logical_or", kNot[] = "logical_not";
constexpr char kNeg[] = "neg", kExp[] = "exp", kLog[] = "log", kSqrt[] = "sqrt", kAbs[] = "abs";
constexpr char kReciprocal[] = "reciprocal", kSign[] = "sign", kFloor[] = "floor";
constexpr char kTanh[] = "tanh", kErf[] = "erf", kSin[] = "sin", kCos[] = "cos";
constexpr char kSigmoid[] = "sigmoid", kSoftplus[] = "softplus", kRelu[] = "relu";
constexpr char kHardSwish[] = "hard_swish";

}  // namespace

void AddElementwiseHandlers(OnnxHandlers* handlers) {
  OnnxHandlers& h = *handlers;
  h["Add"] = TwoOperands<kAdd>;
  h["Sub"] = TwoOperands<kSub>;
  h["Mul"] = TwoOperands<kMul>;
  h["Div"] = TwoOperands<kDiv>;
  h["Pow"] = TwoOperands<kPow>;
  h["Sum"] = h["Mean"] = ManyOperands<kAdd>;
  h["Max"] = ManyOperands<kMaximum>;
  h["Min"] = ManyOperands<kMinimum>;
  h["Equal"] = Compare<kEqual>;
  h["Less"] = Compare<kLess>;
  h["LessOrEqual"] = Compare<kLessEqual>;
  h["Greater"] = Compare<kGreater>;
  h["GreaterOrEqual"] = Compare<kGreaterEqual>;
  h["And"] = h["BitwiseAnd"] = Compare<kAnd>;
  h["Or"] = h["BitwiseOr"] = Compare<kOr>;
  h["Not"] = Unary<kNot>;
  h["Neg"] = Unary<kNeg>;
  h["Exp"] = Unary<kExp>;
  h["Log"] = Unary<kLog>;
  h["Sqrt"] = Unary<kSqrt>;
  h["Abs"] = Unary<kAbs>;
  h["Reciprocal"] = Unary<kReciprocal>;
  h["Sign"] = Unary<kSign>;
  h["Floor"] = Unary<kFloor>;
  h["Tanh"] = Unary<kTanh>;
  h["Erf"] = Unary<kErf>;
  h["Sin"] = Unary<kSin>;
  h["Cos"] = Unary<kCos>;
  h["Sigmoid"] = Unary<kSigmoid>;
  h["Softplus"] = Unary<kSoftplus>;
  h["Relu"] = Unary<kRelu>;
  h["HardSwish"] = Unary<kHardSwish>;
  h["LeakyRelu"] = LeakyRelu;
  h["HardSigmoid"] = HardSigmoid;
  h["Gelu"] = Gelu;
  h["Clip"] = Clip;
  h["PRelu"] = PRelu;
  h["Cast"] = h["CastLike"] = Cast;
  h["IsNaN"] = IsNaN;
  h["Where"] = Where;
  h["Mod"] = h["Xor"] = PairByText;
  h["Trilu"] = Trilu;
  for (const TextOp& op : TextOps()) h[op.onnx] = ByText;
}

}  // namespace tandem
