// Normalisations, and dropout.
#include <utility>

#include "absl/strings/str_cat.h"
#include "models/onnx/ops.h"

namespace tandem {
namespace {

constexpr char kScale[] = "uniform(0.5,1.5)";
constexpr char kShift[] = "normal(0.02)";

// LayerNormalization and RMSNormalization: over the dims from `axis` on.
absl::Status LayerNorm(OnnxCall& call) {
  OnnxContext& c = call.c;
  const bool rms = call.node.op_type() != "LayerNormalization";
  if (call.wants(1) || call.wants(2)) {
    return c.Unsupported("the mean and deviation are read; only the first output is made");
  }
  const Dims before = c.Before(call.in[0]);
  auto axis = call.Axis(call.Int("axis", -1), before.size());
  if (!axis.ok()) return axis.status();
  OnnxValue x = call.in[0];
  const bool several = *axis + 1 < before.size();
  int64_t width = 1;
  for (size_t d = *axis; d < before.size(); ++d) width *= before[d];
  if (several) {
    Dims flat(before.begin(), before.begin() + static_cast<int64_t>(*axis));
    flat.push_back(width);
    auto reshaped = c.Reshape(x, flat, false, "/flat");
    if (!reshaped.ok()) return reshaped.status();
    x = *reshaped;
  }
  auto id = c.ToTensor(x);
  if (!id.ok()) return id.status();
  std::vector<TensorId> inputs = {*id};
  Attributes attributes = {{"eps", call.Float("epsilon", 1e-5)}};
  for (size_t k = 1; k <= (rms ? 1u : 2u) && call.has(k); ++k) {
    OnnxValue weight = call.in[k];
    absl::StatusOr<TensorId> w = absl::UnknownError("");
    if (c.Shape(weight) != Dims{width}) {
      auto flat = c.Reshape(weight, {width}, false, absl::StrCat("/weight", k));
      if (!flat.ok()) return flat.status();
      w = c.ToTensor(*flat);
    } else {
      w = c.ToWeight(weight, TensorRole::kParameter, k == 1 ? kScale : kShift);
    }
    if (!w.ok()) return w.status();
    inputs.push_back(*w);
  }
  OnnxContext::EmitOptions emit;
  emit.suffix = several ? "/norm" : "";
  auto result = c.Emit(rms ? "rms_norm" : "layer_norm", std::move(attributes), inputs, emit);
  if (!result.ok() || !several) return call.Give(result);
  return call.Give(c.Reshape(*result, before));
}

absl::Status BatchNorm(OnnxCall& call) {
  OnnxContext& c = call.c;
  if (call.in.size() < 5) return c.Error("needs data, scale, bias, mean and variance");
  if (call.Int("spatial", 1) == 0) return c.Unsupported("statistics per position (spatial = 0)");
  const bool training =
      call.opset >= 14 ? call.Int("training_mode", 0) != 0 : call.wants(1) || call.wants(2);
  auto x = c.ToTensor(call.in[0]);
  if (!x.ok()) return x.status();
  auto scale = c.ToWeight(call.in[1], TensorRole::kParameter, kScale);
  if (!scale.ok()) return scale.status();
  auto bias = c.ToWeight(call.in[2], TensorRole::kParameter, kShift);
  if (!bias.ok()) return bias.status();
  auto mean = c.ToWeight(call.in[3], TensorRole::kState, kShift);
  if (!mean.ok()) return mean.status();
  auto variance = c.ToWeight(call.in[4], TensorRole::kState, kScale);
  if (!variance.ok()) return variance.status();
  const Attributes eps = {{"eps", call.Float("epsilon", 1e-5)}};
  if (!training) {
    return call.Give(c.Emit("batch_norm", eps, {*x, *scale, *bias, *mean, *variance}));
  }
  OnnxContext::EmitOptions emit;
  emit.suffix = "/mean";
  auto batch_mean = c.Emit("batch_mean", {}, {*x}, emit);
  if (!batch_mean.ok()) return batch_mean.status();
  emit.suffix = "/var";
  auto batch_var = c.Emit("batch_var", {}, {*x, batch_mean->tensor}, emit);
  if (!batch_var.ok()) return batch_var.status();
  auto y = c.Emit("batch_norm", eps, {*x, *scale, *bias, batch_mean->tensor, batch_var->tensor});
  if (!y.ok()) return y.status();
  call.out[0] = *y;
  const double momentum = call.Float("momentum", 0.9);
  const std::pair<TensorId, OnnxValue> running[] = {{*mean, *batch_mean}, {*variance, *batch_var}};
  for (size_t k = 0; k < 2; ++k) {
    emit.suffix = k == 0 ? "/running_mean" : "/running_var";
    auto next = c.Emit("running_average", {{"momentum", momentum}},
                       {running[k].first, running[k].second.tensor}, emit);
    if (!next.ok()) return next.status();
    if (c.graph.tensor(running[k].first).role == TensorRole::kState) {
      c.graph.updates.push_back({running[k].first, next->tensor});
    }
    if (call.out.size() > k + 1) call.out[k + 1] = *next;
  }
  for (size_t k = 3; k < call.out.size() && k < 5; ++k) {
    call.out[k] = k == 3 ? *batch_mean : *batch_var;
  }
  return absl::OkStatus();
}

absl::Status InstanceNorm(OnnxCall& call) {
  OnnxContext& c = call.c;
  if (call.in.size() < 3) return c.Error("needs data, scale and bias");
  auto x = c.ToTensor(call.in[0]);
  if (!x.ok()) return x.status();
  std::vector<TensorId> inputs = {*x};
  if (c.Uniform(call.in[1]) != 1.0 || c.Uniform(call.in[2]) != 0.0) {
    auto scale = c.ToWeight(call.in[1], TensorRole::kParameter, kScale);
    if (!scale.ok()) return scale.status();
    auto bias = c.ToWeight(call.in[2], TensorRole::kParameter, kShift);
    if (!bias.ok()) return bias.status();
    inputs.push_back(*scale);
    inputs.push_back(*bias);
  }
  return call.Give(c.Emit("instance_norm", {{"eps", call.Float("epsilon", 1e-5)}}, inputs));
}

absl::Status GroupNorm(OnnxCall& call) {
  OnnxContext& c = call.c;
  if (call.in.size() < 3) return c.Error("needs data, scale and bias");
  const Dims before = c.Before(call.in[0]);
  const int64_t groups = call.Int("num_groups", 0);
  if (before.size() < 2 || groups < 1 || before[1] % groups != 0) {
    return c.Error(absl::StrCat(groups, " groups"));
  }
  const Attributes eps = {{"eps", call.Float("epsilon", 1e-5)}};
  auto scale = c.ToWeight(call.in[1], TensorRole::kParameter, kScale);
  if (!scale.ok()) return scale.status();
  auto bias = c.ToWeight(call.in[2], TensorRole::kParameter, kShift);
  if (!bias.ok()) return bias.status();
  if (c.Shape(call.in[1]) == Dims{before[1]}) {  // from opset 21 on
    auto x = c.ToTensor(call.in[0]);
    if (!x.ok()) return x.status();
    Attributes attributes = eps;
    attributes["groups"] = groups;
    return call.Give(c.Emit("group_norm", std::move(attributes), {*x, *scale, *bias}));
  }
  int64_t rest = before[1] / groups;
  for (size_t d = 2; d < before.size(); ++d) rest *= before[d];
  auto wide = c.Reshape(call.in[0], {before[0], groups, rest}, false, "/groups");
  if (!wide.ok()) return wide.status();
  OnnxContext::EmitOptions emit;
  emit.suffix = "/norm";
  auto result = c.Emit("instance_norm", eps, {wide->tensor, *scale, *bias}, emit);
  if (!result.ok()) return result.status();
  return call.Give(c.Reshape(*result, before));
}

// Off, unless the model is in training mode.
absl::Status Dropout(OnnxCall& call) {
  OnnxContext& c = call.c;
  double ratio = call.Float("ratio", 0.5);
  if (call.has(1)) ratio = c.Uniform(call.in[1]).value_or(0);
  if (call.has(2) && !c.Uniform(call.in[2])) {
    return c.Unsupported("whether it trains is computed from the data; export it as a constant");
  }
  const bool training = call.has(2) && c.Uniform(call.in[2]).value_or(0) != 0;
  if (call.out.size() > 1) {
    call.out[1] = c.Known(c.Before(call.in[0]), DType::kBool, c.formulas.Number(1));
  }
  if (!training || ratio == 0) return call.Give(call.in[0]);
  if (call.wants(1)) return c.Unsupported("the mask of dropout in training mode");
  uint64_t seed = 14695981039346656037u;
  for (unsigned char letter : c.node_name) seed = (seed ^ letter) * 1099511628211u;
  auto id = c.ToTensor(call.in[0]);
  if (!id.ok()) return id.status();
  return call.Give(
      c.Emit("dropout", {{"ratio", ratio}, {"seed", static_cast<int64_t>(seed >> 33)}}, {*id}));
}

}  // namespace

void AddNormalizationHandlers(OnnxHandlers* handlers) {
  (*handlers)["LayerNormalization"] = (*handlers)["RMSNormalization"] = LayerNorm;
  (*handlers)["SimplifiedLayerNormalization"] = LayerNorm;
  (*handlers)["BatchNormalization"] = BatchNorm;
  (*handlers)["InstanceNormalization"] = InstanceNorm;
  (*handlers)["GroupNormalization"] = GroupNorm;
  (*handlers)["Dropout"] = Dropout;
}

}  // namespace tandem
