// Matrix products: MatMul, Gemm and Einsum.
#include <algorithm>
#include <cmath>
#include <set>
#include <utility>

#include "absl/strings/ascii.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "absl/strings/str_split.h"
#include "models/onnx/ops.h"

namespace tandem {
namespace {

// Keeps the size of what flows through: variance 1 / fan_in.
std::string ForFanIn(int64_t fan_in) {
  return absl::StrCat("normal(", 1 / std::sqrt(static_cast<double>(std::max<int64_t>(fan_in, 1))),
                      ")");
}

// The weight without the transposition around it.
OnnxValue Untransposed(OnnxValue value) {
  if (!value.transposed) return value;
  value.transposed = false;
  std::swap(value.shape[0], value.shape[1]);
  return value;
}

absl::Status MatMul(OnnxCall& call) {
  OnnxContext& c = call.c;
  if (call.in.size() != 2) return c.Error("needs two operands");
  OnnxValue a = call.in[0], b = call.in[1];
  const Dims a_shape = c.Before(a), b_shape = c.Before(b);
  if (a_shape.empty() || b_shape.empty()) return c.Error("a scalar operand");
  const bool row = a_shape.size() == 1, column = b_shape.size() == 1;
  const int64_t inner = column ? b_shape[0] : b_shape[b_shape.size() - 2];
  if (a_shape.back() != inner) {
    return c.Error(absl::StrCat("[", absl::StrJoin(a_shape, ", "), "] times [",
                                absl::StrJoin(b_shape, ", "), "]: the inner dims differ"));
  }
  OnnxContext::EmitOptions emit;
  emit.suffix = row || column ? "/matmul" : "";
  absl::StatusOr<OnnxValue> result = absl::UnknownError("");
  if (b.kind == OnnxValue::Kind::kWeight && b.transposed && !row) {
    auto x = c.ToTensor(a);
    if (!x.ok()) return x.status();
    auto w = c.ToWeight(Untransposed(b), TensorRole::kParameter, ForFanIn(inner));
    if (!w.ok()) return w.status();
    result = c.Emit("linear_t", {}, {*x, *w}, emit);
    return call.Give(result);
  }
  if (row) {
    auto wide = c.Reshape(a, {1, a_shape[0]}, false, "/row");
    if (!wide.ok()) return wide.status();
    a = *wide;
  }
  if (column) {
    auto wide = c.Reshape(b, {b_shape[0], 1}, false, "/column");
    if (!wide.ok()) return wide.status();
    b = *wide;
  }
  auto lhs = c.ToWeight(a, TensorRole::kParameter, ForFanIn(inner));
  if (!lhs.ok()) return lhs.status();
  auto rhs = c.ToWeight(b, TensorRole::kParameter, ForFanIn(inner));
  if (!rhs.ok()) return rhs.status();
  result = c.Emit("matmul", {}, {*lhs, *rhs}, emit);
  if (!result.ok() || !(row || column)) return call.Give(result);
  Dims shape = c.Before(*result);
  if (row) shape.erase(shape.end() - 2);
  if (column) shape.pop_back();
  return call.Give(c.Reshape(*result, shape));
}

absl::Status Gemm(OnnxCall& call) {
  OnnxContext& c = call.c;
  if (call.in.size() < 2) return c.Error("needs two operands");
  OnnxValue a = call.in[0], b = call.in[1];
  if (c.Shape(a).size() != 2 || c.Shape(b).size() != 2) return c.Error("operands of two dims");
  bool b_transposed = call.Int("transB", 0) != 0;
  const double alpha = call.Float("alpha", 1), beta = call.Float("beta", 1);
  if (call.Int("transA", 0) != 0) {
    auto turned = c.Transpose(a, {1, 0}, "/transposed");
    if (!turned.ok()) return turned.status();
    a = *turned;
  }
  if (b.transposed) {
    b = Untransposed(b);
    b_transposed = !b_transposed;
  }
  const Dims b_shape = c.Before(b);
  const int64_t inner = b_shape[b_transposed ? 1 : 0], width = b_shape[b_transposed ? 0 : 1];
  if (c.Before(a)[1] != inner) {
    return c.Error(absl::StrCat("[", absl::StrJoin(c.Before(a), ", "), "] times [",
                                absl::StrJoin(b_shape, ", "), b_transposed ? "] transposed" : "]",
                                ": the inner dims differ"));
  }
  auto x = c.ToTensor(a);
  if (!x.ok()) return x.status();
  auto w = c.ToWeight(b, TensorRole::kParameter, ForFanIn(inner));
  if (!w.ok()) return w.status();
  std::vector<TensorId> inputs = {*x, *w};
  OnnxValue bias = call.has(2) ? call.in[2] : OnnxValue{};
  const bool has_bias = call.has(2) && beta != 0;
  Dims bias_shape = c.Shape(bias);
  while (has_bias && bias_shape.size() > 1 && bias_shape[0] == 1)
    bias_shape.erase(bias_shape.begin());
  const bool vector = has_bias && bias_shape == Dims{width} && alpha == 1 && beta == 1;
  if (vector) {
    absl::StatusOr<TensorId> id = absl::UnknownError("");
    if (c.Shape(bias).size() > 1) {
      auto flat = c.Reshape(bias, bias_shape, false, "/bias");
      if (!flat.ok()) return flat.status();
      id = c.ToTensor(*flat);
    } else {
      id = c.ToWeight(bias, TensorRole::kParameter, "normal(0.02)");
    }
    if (!id.ok()) return id.status();
    inputs.push_back(*id);
  }
  OnnxContext::EmitOptions emit;
  emit.suffix = vector || !has_bias ? (alpha == 1 ? "" : "/product") : "/product";
  auto product = c.Emit(b_transposed ? "linear_t" : "linear", {}, inputs, emit);
  if (!product.ok()) return product.status();
  if (alpha != 1) {
    emit.suffix = has_bias ? "/alpha" : "";
    product = c.Emit("scale", {{"value", alpha}}, {product->tensor}, emit);
    if (!product.ok()) return product.status();
  }
  if (!has_bias || vector) return call.Give(product);
  std::vector<OnnxValue> together = {*product, bias};
  if (absl::Status s = c.AlignBatch(&together); !s.ok()) return s;
  auto added = c.ToBroadcastTensor(together[1]);
  if (!added.ok()) return added.status();
  if (beta != 1) {
    emit.suffix = "/beta";
    auto scaled = c.Emit("scale", {{"value", beta}}, {*added}, emit);
    if (!scaled.ok()) return scaled.status();
    added = scaled->tensor;
  }
  return call.Give(c.Emit("add", {}, {product->tensor, *added}));
}

// Indices of one term of an equation; "..." becomes the group e.
absl::StatusOr<std::vector<std::string>> Letters(const OnnxContext& c, const std::string& term) {
  std::vector<std::string> letters;
  for (size_t i = 0; i < term.size(); ++i) {
    if (term[i] == '.') {
      if (term.compare(i, 3, "...") != 0) return c.Error(absl::StrCat("term '", term, "'"));
      letters.push_back("...");
      i += 2;
    } else if (absl::ascii_isalpha(static_cast<unsigned char>(term[i]))) {
      letters.push_back(std::string(1, term[i]));
    } else {
      return c.Error(absl::StrCat("term '", term, "' of the equation"));
    }
  }
  return letters;
}

absl::Status Einsum(OnnxCall& call) {
  OnnxContext& c = call.c;
  std::string equation = call.String("equation", "");
  equation.erase(std::remove(equation.begin(), equation.end(), ' '), equation.end());
  const std::vector<std::string> sides = absl::StrSplit(equation, "->");
  const std::vector<std::string> terms = absl::StrSplit(sides[0], ',');
  if (sides.size() > 2 || terms.size() != call.in.size()) {
    return c.Error(absl::StrCat("equation '", equation, "' for ", call.in.size(), " operands"));
  }
  std::vector<std::vector<std::string>> operands;
  std::map<std::string, int> uses;
  for (const std::string& term : terms) {
    auto letters = Letters(c, term);
    if (!letters.ok()) return letters.status();
    for (const std::string& letter : *letters) ++uses[letter];
    operands.push_back(*std::move(letters));
  }
  std::vector<std::string> result;
  if (sides.size() == 2) {
    auto letters = Letters(c, sides[1]);
    if (!letters.ok()) return letters.status();
    result = *std::move(letters);
  } else {
    for (const auto& [letter, count] : uses) {
      if (letter == "..." || count == 1) result.push_back(letter);
    }
  }
  const auto dim = [](const std::string& letter, bool input) -> std::string {
    if (letter == "...") return input ? "rest..?" : "rest..";
    return absl::StrCat("s_", letter);
  };
  const auto index = [](const std::string& letter) {
    return letter == "..." ? std::string("e") : absl::StrCat("i_", letter);
  };
  const auto dims_text = [&](const std::vector<std::string>& letters, bool input) {
    std::vector<std::string> parts;
    for (const auto& letter : letters) parts.push_back(dim(letter, input));
    return absl::StrJoin(parts, ", ");
  };
  const auto index_text = [&](const std::vector<std::string>& letters) {
    std::vector<std::string> parts;
    for (const auto& letter : letters) parts.push_back(index(letter));
    return absl::StrJoin(parts, ", ");
  };
  std::vector<std::string> signature, factors, bound;
  std::vector<TensorId> inputs;
  for (size_t k = 0; k < operands.size(); ++k) {
    signature.push_back(absl::StrCat("x", k, "[", dims_text(operands[k], true), "]"));
    factors.push_back(absl::StrCat("x", k, "[", index_text(operands[k]), "]"));
    auto id = c.ToTensor(call.in[k]);
    if (!id.ok()) return id.status();
    inputs.push_back(*id);
  }
  for (const auto& [letter, count] : uses) {
    if (std::find(result.begin(), result.end(), letter) != result.end()) continue;
    if (letter == "...") return c.Unsupported("a sum over the ellipsis");
    bound.push_back(absl::StrCat(index(letter), ": ", dim(letter, false)));
  }
  std::string body = absl::StrJoin(factors, " * ");
  if (!bound.empty()) body = absl::StrCat("sum(", absl::StrJoin(bound, ", "), ") ", body);
  auto name = c.Define("einsum", absl::StrCat("(", absl::StrJoin(signature, ", "), ") -> out[",
                                              dims_text(result, false), "] { out[",
                                              index_text(result), "] = ", body, " }"));
  if (!name.ok()) return name.status();
  return call.Give(c.Emit(*name, {}, inputs));
}

}  // namespace

void AddContractionHandlers(OnnxHandlers* handlers) {
  (*handlers)["MatMul"] = MatMul;
  (*handlers)["Gemm"] = Gemm;
  (*handlers)["Einsum"] = Einsum;
}

}  // namespace tandem
