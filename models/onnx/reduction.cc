// Reductions, softmax, and the choice of the largest.
#include <algorithm>
#include <utility>

#include "absl/strings/str_cat.h"
#include "models/onnx/ops.h"

namespace tandem {
namespace {

// Reduces dims of x by "sum", "mean", "max", "min" or "prod".
absl::StatusOr<OnnxValue> Reduce(OnnxCall& call, const OnnxValue& x, const std::string& how,
                                 std::vector<size_t> axes, bool keep, const std::string& suffix) {
  OnnxContext& c = call.c;
  const Dims before = c.Before(x);
  const size_t rank = before.size();
  std::sort(axes.begin(), axes.end());
  axes.erase(std::unique(axes.begin(), axes.end()), axes.end());
  if (axes.empty()) return x;
  OnnxContext::EmitOptions emit;
  emit.suffix = suffix;
  const bool kept_form = how == "sum" || how == "mean" || how == "max";
  if (axes.size() == 1 && keep && kept_form) {
    auto id = c.ToTensor(x);
    if (!id.ok()) return id.status();
    return c.Emit(absl::StrCat("reduce_", how, "_keep"),
                  {{"rank_c", static_cast<int64_t>(rank - 1 - axes[0])}}, {*id}, emit);
  }
  OnnxValue from = x;
  int64_t behind = static_cast<int64_t>(rank - 1 - axes.back());
  if (axes.back() - axes[0] + 1 != axes.size()) {  // bring the dims together, last
    std::vector<int64_t> perm;
    for (size_t d = 0; d < rank; ++d) {
      if (!std::binary_search(axes.begin(), axes.end(), d)) perm.push_back(static_cast<int64_t>(d));
    }
    for (size_t d : axes) perm.push_back(static_cast<int64_t>(d));
    auto turned = c.Transpose(x, perm, suffix + "/transpose");
    if (!turned.ok()) return turned.status();
    from = *turned;
    behind = 0;
  }
  auto id = c.ToTensor(from);
  if (!id.ok()) return id.status();
  emit.suffix = suffix + (keep ? "/reduce" : "");
  auto result =
      c.Emit(absl::StrCat("reduce_", how),
             {{"rank_c", behind}, {"rank_r", static_cast<int64_t>(axes.size())}}, {*id}, emit);
  if (!result.ok() || !keep) return result;
  Dims shape = before;
  for (size_t d : axes) shape[d] = 1;
  return c.Reshape(*result, shape, false, suffix);
}

absl::StatusOr<std::vector<size_t>> AxesOf(OnnxCall& call, bool* identity) {
  const size_t rank = call.c.Shape(call.in[0]).size();
  auto given = call.IntsOf("axes", 1);
  if (!given.ok()) return given.status();
  std::vector<size_t> axes;
  if (!given->has_value() || (*given)->empty()) {
    *identity = call.Int("noop_with_empty_axes", 0) != 0;
    for (size_t d = 0; d < rank && !*identity; ++d) axes.push_back(d);
    return axes;
  }
  for (int64_t axis : **given) {
    auto d = call.Axis(axis, rank);
    if (!d.ok()) return d.status();
    axes.push_back(*d);
  }
  return axes;
}

absl::Status ReduceNode(OnnxCall& call) {
  OnnxContext& c = call.c;
  bool identity = false;
  auto axes = AxesOf(call, &identity);
  if (!axes.ok()) return axes.status();
  const bool keep = call.Int("keepdims", 1) != 0;
  const std::string& op = call.node.op_type();
  static const std::map<std::string, std::string> kPlain = {{"ReduceSum", "sum"},
                                                            {"ReduceMean", "mean"},
                                                            {"ReduceMax", "max"},
                                                            {"ReduceMin", "min"},
                                                            {"ReduceProd", "prod"}};
  if (const auto it = kPlain.find(op); it != kPlain.end()) {
    return call.Give(Reduce(call, call.in[0], it->second, *axes, keep, ""));
  }
  const auto unary = [&](const OnnxValue& x, const char* name, Attributes attributes,
                         const std::string& suffix) -> absl::StatusOr<OnnxValue> {
    auto id = c.ToTensor(x);
    if (!id.ok()) return id.status();
    OnnxContext::EmitOptions emit;
    emit.suffix = suffix;
    return c.Emit(name, std::move(attributes), {*id}, emit);
  };
  absl::StatusOr<OnnxValue> inner = call.in[0];
  std::string last;
  if (op == "ReduceL1") inner = unary(call.in[0], "abs", {}, "/abs");
  if (op == "ReduceL2" || op == "ReduceSumSquare") {
    inner = unary(call.in[0], "power", {{"exponent", 2.0}}, "/square");
  }
  if (op == "ReduceL2") last = "sqrt";
  if (op == "ReduceLogSum") last = "log";
  if (op == "ReduceLogSumExp") {
    if (axes->size() != 1)
      return c.Unsupported("the log of a sum of exponentials over several dims");
    auto name =
        c.Define("log_sum_exp",
                 "(x[a.., n, c..]) -> out[a.., c..] { m[a, c] = nograd(max(i: n) x[a, i, c]); "
                 "out[a, c] = m[a, c] + log(sum(i: n) exp(x[a, i, c] - m[a, c])) }");
    if (!name.ok()) return name.status();
    const Dims before = c.Before(call.in[0]);
    auto result = unary(call.in[0], name->c_str(),
                        {{"rank_c", static_cast<int64_t>(before.size() - 1 - (*axes)[0])}},
                        keep ? "/reduce" : "");
    if (!result.ok() || !keep) return call.Give(result);
    Dims shape = before;
    shape[(*axes)[0]] = 1;
    return call.Give(c.Reshape(*result, shape));
  }
  if (!inner.ok()) return inner.status();
  auto sum = Reduce(call, *inner, "sum", *axes, keep, last.empty() ? "" : "/sum");
  if (!sum.ok() || last.empty()) return call.Give(sum);
  return call.Give(unary(*sum, last.c_str(), {}, ""));
}

absl::Status ArgMax(OnnxCall& call) {
  OnnxContext& c = call.c;
  const Dims before = c.Before(call.in[0]);
  auto axis = call.Axis(call.Int("axis", 0), before.size());
  if (!axis.ok()) return axis.status();
  if (call.Int("select_last_index", 0) != 0) {
    return c.Unsupported("select_last_index; ties go to the first here");
  }
  auto id = c.ToTensor(call.in[0]);
  if (!id.ok()) return id.status();
  OnnxContext::EmitOptions emit;
  if (call.node.op_type() == "ArgMin") {
    emit.suffix = "/neg";
    auto negative = c.Emit("neg", {}, {*id}, emit);
    if (!negative.ok()) return negative.status();
    id = negative->tensor;
  }
  const bool keep = call.Int("keepdims", 1) != 0;
  emit.suffix = keep ? "/argmax" : "";
  emit.dtypes = {DType::kI64};
  auto result =
      c.Emit("argmax", {{"rank_c", static_cast<int64_t>(before.size() - 1 - *axis)}}, {*id}, emit);
  if (!result.ok() || !keep) return call.Give(result);
  Dims shape = before;
  shape[*axis] = 1;
  return call.Give(c.Reshape(*result, shape));
}

// The k largest one after the other: each is the largest of what the earlier ones left.
absl::Status TopK(OnnxCall& call) {
  OnnxContext& c = call.c;
  const Dims before = c.Before(call.in[0]);
  auto axis = call.Axis(call.Int("axis", -1), before.size());
  if (!axis.ok()) return axis.status();
  auto ks = call.has(1)
                ? c.Integers(call.in[1], "k")
                : absl::StatusOr<std::vector<int64_t>>(std::vector<int64_t>{call.Int("k", 1)});
  if (!ks.ok()) return ks.status();
  if (ks->size() != 1 || (*ks)[0] < 1 || (*ks)[0] > before[*axis]) return c.Error("k out of range");
  const int64_t k = (*ks)[0];
  if (k > 16) return c.Unsupported(absl::StrCat("the ", k, " largest; up to 16 are chosen"));
  auto x = c.ToTensor(call.in[0]);
  if (!x.ok()) return x.status();
  const auto rank_c = static_cast<int64_t>(before.size() - 1 - *axis);
  auto drop = c.Define("drop_index",
                       "(x[a.., n, c..], at[a.., c..]: int) -> out[a.., n, c..] { out[a, i, c] = "
                       "select(at[a, c] == i, -inf, x[a, i, c]) }");
  if (!drop.ok()) return drop.status();
  TensorId rest = *x;
  OnnxContext::EmitOptions emit;
  if (call.Int("largest", 1) == 0) {
    emit.suffix = "/neg";
    auto negative = c.Emit("neg", {}, {rest}, emit);
    if (!negative.ok()) return negative.status();
    rest = negative->tensor;
  }
  Dims one = before;
  one[*axis] = 1;
  absl::StatusOr<OnnxValue> ids = absl::UnknownError("");
  for (int64_t r = 0; r < k; ++r) {
    emit.suffix = absl::StrCat("/argmax", r);
    emit.dtypes = {DType::kI64};
    auto at = c.Emit("argmax", {{"rank_c", rank_c}}, {rest}, emit);
    if (!at.ok()) return at.status();
    auto column = c.Reshape(*at, one, false, absl::StrCat("/column", r));
    if (!column.ok()) return column.status();
    if (r == 0) {
      ids = column;
    } else {
      emit.suffix = absl::StrCat("/concat", r);
      ids = c.Emit("concat", {{"rank_c", rank_c}}, {ids->tensor, column->tensor}, emit);
      if (!ids.ok()) return ids.status();
    }
    if (r + 1 == k) break;
    emit.suffix = absl::StrCat("/rest", r);
    emit.dtypes = {call.in[0].dtype};
    auto left = c.Emit(*drop, {{"rank_c", rank_c}}, {rest, at->tensor}, emit);
    if (!left.ok()) return left.status();
    rest = left->tensor;
  }
  emit.suffix = "/values";
  emit.dtypes = {call.in[0].dtype};
  auto values = c.Emit("take_along", {{"rank_c", rank_c}}, {*x, ids->tensor}, emit);
  if (!values.ok()) return values.status();
  call.out[0] = *values;
  if (call.out.size() > 1) call.out[1] = *ids;
  return absl::OkStatus();
}

absl::Status Softmax(OnnxCall& call) {
  OnnxContext& c = call.c;
  const bool log = call.node.op_type() == "LogSoftmax";
  const Dims before = c.Before(call.in[0]);
  auto axis = call.Axis(call.Int("axis", call.opset >= 13 ? -1 : 1), before.size());
  if (!axis.ok()) return axis.status();
  OnnxValue x = call.in[0];
  // Before opset 13 all dims from the axis on were one.
  bool flatten = call.opset < 13 && *axis + 1 < before.size();
  if (flatten) {
    Dims flat(before.begin(), before.begin() + static_cast<int64_t>(*axis));
    int64_t rest = 1;
    for (size_t d = *axis; d < before.size(); ++d) rest *= before[d];
    if (rest == before[*axis]) {
      flatten = false;
    } else {
      flat.push_back(rest);
      auto reshaped = c.Reshape(x, flat, false, "/flat");
      if (!reshaped.ok()) return reshaped.status();
      x = *reshaped;
    }
  }
  auto id = c.ToTensor(x);
  if (!id.ok()) return id.status();
  const Finiteness in = c.FinitenessOf(*id);
  OnnxContext::EmitOptions emit;
  emit.suffix = flatten ? "/softmax" : "";
  const size_t rank = c.Shape(x).size();
  auto result =
      c.Emit(log ? "log_softmax" : "softmax",
             {{"rank_c", static_cast<int64_t>(flatten ? 0 : rank - 1 - *axis)}}, {*id}, emit);
  if (!result.ok()) return result.status();
  const bool rows = in == Finiteness::kRowsFinite && *axis + 1 == rank && !log;
  c.FinitenessOf(result->tensor) =
      in == Finiteness::kFinite || rows ? Finiteness::kFinite : Finiteness::kUnknown;
  if (flatten) return call.Give(c.Reshape(*result, before));
  return call.Give(result);
}

absl::Status CumSum(OnnxCall& call) {
  OnnxContext& c = call.c;
  const Dims before = c.Before(call.in[0]);
  auto axes = c.Integers(call.in[1], "the axis");
  if (!axes.ok()) return axes.status();
  auto axis = call.Axis(axes->empty() ? 0 : (*axes)[0], before.size());
  if (!axis.ok()) return axis.status();
  const bool reverse = call.Int("reverse", 0) != 0, exclusive = call.Int("exclusive", 0) != 0;
  const std::string order =
      absl::StrCat(reverse ? "i" : "j", exclusive ? " < " : " <= ", reverse ? "j" : "i");
  auto name = c.Define(
      "running_sum", absl::StrCat("(x[a.., n, c..]) -> out[a.., n, c..] { out[a, i, c] = sum(j: n) "
                                  "select(",
                                  order, ", x[a, j, c], 0) }"));
  if (!name.ok()) return name.status();
  auto id = c.ToTensor(call.in[0]);
  if (!id.ok()) return id.status();
  OnnxContext::EmitOptions emit;
  emit.dtypes = {call.in[0].dtype};
  return call.Give(
      c.Emit(*name, {{"rank_c", static_cast<int64_t>(before.size() - 1 - *axis)}}, {*id}, emit));
}

}  // namespace

void AddReductionHandlers(OnnxHandlers* handlers) {
  for (const char* op :
       {"ReduceSum", "ReduceMean", "ReduceMax", "ReduceMin", "ReduceProd", "ReduceL1", "ReduceL2",
        "ReduceSumSquare", "ReduceLogSum", "ReduceLogSumExp"}) {
    (*handlers)[op] = ReduceNode;
  }
  (*handlers)["ArgMax"] = (*handlers)["ArgMin"] = ArgMax;
  (*handlers)["TopK"] = TopK;
  (*handlers)["Softmax"] = (*handlers)["LogSoftmax"] = Softmax;
  (*handlers)["CumSum"] = CumSum;
}

}  // namespace tandem
