// Convolutions and pooling: ONNX's padding conventions in terms of explicit padding.
#include <algorithm>
#include <cmath>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "models/onnx/ops.h"

namespace tandem {
namespace {

// Windows over the spatial dims of a node.
struct Windows {
  Dims kernel, stride, dilation, pad_begin, pad_end;
  Dims declared_end;  // padding before ceil mode adds to it
};

absl::StatusOr<Windows> WindowsOf(OnnxCall& call, const Dims& spatial, Dims kernel) {
  OnnxContext& c = call.c;
  const size_t n = spatial.size();
  Windows w;
  w.kernel = call.Ints("kernel_shape").value_or(std::move(kernel));
  w.stride = call.Ints("strides").value_or(Dims(n, 1));
  w.dilation = call.Ints("dilations").value_or(Dims(n, 1));
  const Dims pads = call.Ints("pads").value_or(Dims(2 * n, 0));
  if (w.kernel.size() != n || w.stride.size() != n || w.dilation.size() != n ||
      pads.size() != 2 * n) {
    return c.Error(
        absl::StrCat("kernel_shape, strides, dilations or pads do not fit ", n, " spatial dims"));
  }
  for (size_t d = 0; d < n; ++d) {
    const bool sound = w.kernel[d] >= 1 && w.stride[d] >= 1 && w.dilation[d] >= 1 &&
                       w.kernel[d] < (1 << 20) && w.stride[d] < (1 << 20) &&
                       w.dilation[d] < (1 << 20) && std::abs(pads[d]) < (1 << 20) &&
                       std::abs(pads[n + d]) < (1 << 20);
    if (!sound) return c.Error("kernel_shape, strides, dilations or pads out of range");
  }
  w.pad_begin.assign(pads.begin(), pads.begin() + static_cast<int64_t>(n));
  w.pad_end.assign(pads.begin() + static_cast<int64_t>(n), pads.end());
  const std::string automatic = call.String("auto_pad", "NOTSET");
  for (size_t d = 0; d < n && automatic != "NOTSET" && !automatic.empty(); ++d) {
    w.pad_begin[d] = w.pad_end[d] = 0;
    if (automatic == "VALID") continue;
    const int64_t out = (spatial[d] + w.stride[d] - 1) / w.stride[d];
    const int64_t all = std::max<int64_t>(
        0, (out - 1) * w.stride[d] + (w.kernel[d] - 1) * w.dilation[d] + 1 - spatial[d]);
    const int64_t half = all / 2;
    w.pad_begin[d] = automatic == "SAME_UPPER" ? half : all - half;
    w.pad_end[d] = all - w.pad_begin[d];
  }
  w.declared_end = w.pad_end;
  if (call.Int("ceil_mode", 0) == 0) return w;
  for (size_t d = 0; d < n; ++d) {
    const int64_t reach = (w.kernel[d] - 1) * w.dilation[d] + 1;
    const int64_t room = spatial[d] + w.pad_begin[d] + w.pad_end[d] - reach;
    int64_t out = (room + w.stride[d] - 1) / w.stride[d] + 1;
    // The last window starts inside the tensor or the padding before it.
    if ((out - 1) * w.stride[d] >= spatial[d] + w.pad_begin[d]) --out;
    w.pad_end[d] = (out - 1) * w.stride[d] + reach - spatial[d] - w.pad_begin[d];
  }
  return w;
}

Dims Spatial(const Dims& shape) { return Dims(shape.begin() + 2, shape.end()); }

std::string ForFilter(const Dims& filter) {
  int64_t fan_in = 1;
  for (size_t d = 1; d < filter.size(); ++d) fan_in *= filter[d];
  return absl::StrCat("normal(", std::sqrt(2.0 / static_cast<double>(fan_in)), ")");
}

absl::StatusOr<std::vector<TensorId>> FilterInputs(OnnxCall& call) {
  OnnxContext& c = call.c;
  if (call.in.size() < 2) return c.Error("needs data and a filter");
  const Dims x = c.Shape(call.in[0]), f = c.Shape(call.in[1]);
  if (x.size() != f.size() || x.size() < 3) {
    return c.Error(absl::StrCat("data [", absl::StrJoin(x, ", "), "] and filter [",
                                absl::StrJoin(f, ", "), "]"));
  }
  std::vector<TensorId> inputs;
  auto data = c.ToTensor(call.in[0]);
  if (!data.ok()) return data.status();
  inputs.push_back(*data);
  auto filter = c.ToWeight(call.in[1], TensorRole::kParameter, ForFilter(f));
  if (!filter.ok()) return filter.status();
  inputs.push_back(*filter);
  if (call.has(2)) {
    auto bias = c.ToWeight(call.in[2], TensorRole::kParameter, "normal(0.02)");
    if (!bias.ok()) return bias.status();
    inputs.push_back(*bias);
  }
  return inputs;
}

absl::Status Conv(OnnxCall& call) {
  OnnxContext& c = call.c;
  auto inputs = FilterInputs(call);
  if (!inputs.ok()) return inputs.status();
  const Dims x = c.Shape(call.in[0]), f = c.Shape(call.in[1]);
  const int64_t groups = call.Int("group", 1);
  if (groups < 1 || x[1] != f[1] * groups || f[0] % groups != 0) {
    return c.Error(absl::StrCat("data of ", x[1], " channels in ", groups, " groups, filter [",
                                absl::StrJoin(f, ", "), "]"));
  }
  auto w = WindowsOf(call, Spatial(x), Spatial(f));
  if (!w.ok()) return w.status();
  if (w->kernel != Spatial(f)) return c.Error("kernel_shape is not that of the filter");
  if (x.size() == 3) {
    return call.Give(c.Emit("conv1d",
                            {{"stride", w->stride[0]},
                             {"pad", w->pad_begin[0]},
                             {"pad_end", w->pad_end[0]},
                             {"dilation", w->dilation[0]}},
                            *inputs));
  }
  if (x.size() != 4) {
    return c.Unsupported(absl::StrCat("convolution over ", x.size() - 2,
                                      " spatial dims; there are those over 1 and 2"));
  }
  return call.Give(c.Emit("conv2d",
                          {{"stride_h", w->stride[0]},
                           {"stride_w", w->stride[1]},
                           {"pad_top", w->pad_begin[0]},
                           {"pad_left", w->pad_begin[1]},
                           {"pad_bottom", w->pad_end[0]},
                           {"pad_right", w->pad_end[1]},
                           {"dilation_h", w->dilation[0]},
                           {"dilation_w", w->dilation[1]}},
                          *inputs));
}

absl::Status ConvTranspose(OnnxCall& call) {
  OnnxContext& c = call.c;
  auto inputs = FilterInputs(call);
  if (!inputs.ok()) return inputs.status();
  const Dims x = c.Shape(call.in[0]), f = c.Shape(call.in[1]);
  if (x.size() != 4) {
    return c.Unsupported(absl::StrCat("transposed convolution over ", x.size() - 2,
                                      " spatial dims; there is that over 2"));
  }
  const int64_t groups = call.Int("group", 1);
  if (groups < 1 || x[1] != f[0] || f[0] % groups != 0) {
    return c.Error(absl::StrCat("data of ", x[1], " channels in ", groups, " groups, filter [",
                                absl::StrJoin(f, ", "), "]"));
  }
  auto w = WindowsOf(call, Spatial(x), Spatial(f));
  if (!w.ok()) return w.status();
  Dims extra = call.Ints("output_padding").value_or(Dims(2, 0));
  if (extra.size() != 2) return c.Error("output_padding does not fit 2 spatial dims");
  const auto wanted = call.Ints("output_shape");
  const bool same = call.String("auto_pad", "NOTSET").rfind("SAME", 0) == 0;
  for (size_t d = 0; d < 2 && (wanted || same); ++d) {
    const int64_t out = wanted ? (*wanted)[wanted->size() - 2 + d] : x[d + 2] * w->stride[d];
    const int64_t all =
        (x[d + 2] - 1) * w->stride[d] + (w->kernel[d] - 1) * w->dilation[d] + 1 + extra[d] - out;
    const int64_t total = std::max<int64_t>(all, 0);
    if (all < 0) extra[d] -= all;
    const bool upper = call.String("auto_pad", "NOTSET") == "SAME_UPPER";
    w->pad_begin[d] = upper ? total / 2 : total - total / 2;
    w->pad_end[d] = total - w->pad_begin[d];
  }
  if (inputs->size() == 2) {
    // The number of groups follows from the bias.
    auto zero = c.ToTensor(c.Known({f[1] * groups}, call.in[0].dtype, c.formulas.Number(0)));
    if (!zero.ok()) return zero.status();
    inputs->push_back(*zero);
  }
  return call.Give(c.Emit("conv_transpose2d",
                          {{"stride_h", w->stride[0]},
                           {"stride_w", w->stride[1]},
                           {"pad_top", w->pad_begin[0]},
                           {"pad_left", w->pad_begin[1]},
                           {"pad_bottom", w->pad_end[0]},
                           {"pad_right", w->pad_end[1]},
                           {"dilation_h", w->dilation[0]},
                           {"dilation_w", w->dilation[1]},
                           {"output_pad_h", extra[0]},
                           {"output_pad_w", extra[1]}},
                          *inputs));
}

absl::Status Pool(OnnxCall& call) {
  OnnxContext& c = call.c;
  const bool max = call.node.op_type() == "MaxPool";
  if (call.wants(1)) return c.Unsupported("the indices of MaxPool are read; only values are made");
  const Dims before = c.Before(call.in[0]);
  if (before.size() != 4 && before.size() != 3) {
    return c.Unsupported(absl::StrCat("pooling over ", before.size() - 2,
                                      " spatial dims; there is that over 1 and 2"));
  }
  const Dims spatial = Spatial(before);
  auto w = WindowsOf(call, spatial, {});
  if (!w.ok()) return w.status();
  OnnxValue x = call.in[0];
  const bool line = before.size() == 3;
  if (line) {  // one row
    auto wide = c.Reshape(x, {before[0], before[1], 1, before[2]}, false, "/row");
    if (!wide.ok()) return wide.status();
    x = *wide;
    for (Dims* dims : {&w->kernel, &w->stride, &w->dilation}) dims->insert(dims->begin(), 1);
    for (Dims* dims : {&w->pad_begin, &w->pad_end, &w->declared_end})
      dims->insert(dims->begin(), 0);
  }
  auto id = c.ToTensor(x);
  if (!id.ok()) return id.status();
  Attributes attributes = {{"kernel_h", w->kernel[0]},    {"kernel_w", w->kernel[1]},
                           {"stride_h", w->stride[0]},    {"stride_w", w->stride[1]},
                           {"pad_top", w->pad_begin[0]},  {"pad_left", w->pad_begin[1]},
                           {"pad_bottom", w->pad_end[0]}, {"pad_right", w->pad_end[1]}};
  if (max) {
    attributes["dilation_h"] = w->dilation[0];
    attributes["dilation_w"] = w->dilation[1];
  } else {
    if (w->dilation != Dims{1, 1}) return c.Unsupported("dilated average pooling");
    if (call.Int("count_include_pad", 0) != 0) {
      attributes["include_pad"] = int64_t{1};
      attributes["count_bottom"] = w->declared_end[0];
      attributes["count_right"] = w->declared_end[1];
    }
  }
  OnnxContext::EmitOptions emit;
  emit.suffix = line ? "/pool" : "";
  auto result = c.Emit(max ? "max_pool2d" : "avg_pool2d", std::move(attributes), {*id}, emit);
  if (!result.ok() || !line) return call.Give(result);
  const Dims wide = c.Before(*result);
  return call.Give(c.Reshape(*result, {wide[0], wide[1], wide[3]}));
}

absl::Status GlobalPool(OnnxCall& call) {
  OnnxContext& c = call.c;
  const Dims shape = c.Before(call.in[0]);
  if (shape.size() < 3) return c.Error("needs spatial dims");
  auto id = c.ToTensor(call.in[0]);
  if (!id.ok()) return id.status();
  OnnxContext::EmitOptions emit;
  emit.suffix = "/reduce";
  auto result = c.Emit(call.node.op_type() == "GlobalMaxPool" ? "reduce_max" : "reduce_mean",
                       {{"rank_c", int64_t{0}}, {"rank_r", static_cast<int64_t>(shape.size()) - 2}},
                       {*id}, emit);
  if (!result.ok()) return result.status();
  Dims kept = {shape[0], shape[1]};
  kept.resize(shape.size(), 1);
  return call.Give(c.Reshape(*result, kept));
}

absl::Status Lrn(OnnxCall& call) {
  auto id = call.c.ToTensor(call.in[0]);
  if (!id.ok()) return id.status();
  return call.Give(call.c.Emit("lrn",
                               {{"alpha", call.Float("alpha", 0.0001)},
                                {"beta", call.Float("beta", 0.75)},
                                {"bias", call.Float("bias", 1)},
                                {"size", call.Int("size", 1)}},
                               {*id}));
}

}  // namespace

void AddWindowHandlers(OnnxHandlers* handlers) {
  (*handlers)["Conv"] = Conv;
  (*handlers)["ConvTranspose"] = ConvTranspose;
  (*handlers)["MaxPool"] = (*handlers)["AveragePool"] = Pool;
  (*handlers)["GlobalAveragePool"] = (*handlers)["GlobalMaxPool"] = GlobalPool;
  (*handlers)["LRN"] = Lrn;
}

}  // namespace tandem
