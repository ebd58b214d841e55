// Operators that regroup, reorder and repeat elements, and those that ask for shapes.
#include <algorithm>
#include <cmath>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "models/onnx/ops.h"

namespace tandem {
namespace {

absl::Status Identity(OnnxCall& call) { return call.Give(call.in[0]); }

absl::Status Constant(OnnxCall& call) {
  OnnxContext& c = call.c;
  if (const auto* value = call.Attribute("value")) {
    int64_t budget = kLoadedExternalBytes;
    auto tensor = ReadOnnxTensor(value->t(), c.file, &budget);
    if (!tensor.ok()) return tensor.status();
    if (!tensor->known) return c.Unsupported("a constant whose data is kept elsewhere");
    const int formula = c.formulas.Dense(tensor->shape, std::move(tensor->values));
    return call.Give(c.Known(tensor->shape, tensor->dtype, formula));
  }
  for (const auto& a : call.node.attribute()) {
    if (a.name() == "value_float") return call.Give(c.KnownScalar(a.f(), DType::kF32));
    if (a.name() == "value_int")
      return call.Give(c.KnownScalar(static_cast<double>(a.i()), DType::kI64));
    if (a.name() == "value_ints") return call.Give(c.KnownInts({a.ints().begin(), a.ints().end()}));
    if (a.name() == "value_floats") {
      const Dims shape = {a.floats_size()};
      return call.Give(c.Known(shape, DType::kF32,
                               c.formulas.Dense(shape, {a.floats().begin(), a.floats().end()})));
    }
  }
  return c.Unsupported("a constant of strings or of a sparse tensor");
}

absl::Status Shape(OnnxCall& call) {
  OnnxContext& c = call.c;
  const Dims shape = c.Shape(call.in[0]);
  const auto rank = static_cast<int64_t>(shape.size());
  int64_t start = call.Int("start", 0), end = call.Int("end", rank);
  start = std::clamp<int64_t>(start < 0 ? start + rank : start, 0, rank);
  end = std::clamp<int64_t>(end < 0 ? end + rank : end, start, rank);
  OnnxValue value = c.KnownInts(Dims(shape.begin() + start, shape.begin() + end));
  if (call.node.op_type() == "Size") {
    double elements = 1;
    for (int64_t extent : shape) elements *= static_cast<double>(extent);
    value = c.KnownScalar(elements, DType::kI64);
  }
  value.new_batch = c.rebinding;
  return call.Give(value);
}

absl::Status Reshape(OnnxCall& call) {
  OnnxContext& c = call.c;
  if (!call.has(1)) return c.Error("needs a target");
  auto target = c.Integers(call.in[1], "the target of the reshape");
  if (!target.ok()) return target.status();
  const bool new_batch = call.in[1].new_batch;
  const Dims input = new_batch ? c.Shape(call.in[0]) : c.Before(call.in[0]);
  auto dims = ResolveTarget(c, *std::move(target), input, call.Int("allowzero", 0) != 0);
  if (!dims.ok()) return dims.status();
  return call.Give(c.Reshape(call.in[0], *dims, new_batch));
}

absl::Status Flatten(OnnxCall& call) {
  const Dims before = call.c.Before(call.in[0]);
  int64_t axis = call.Int("axis", 1);
  if (axis < 0) axis += static_cast<int64_t>(before.size());
  if (axis < 0 || axis > static_cast<int64_t>(before.size()))
    return call.c.Error("axis out of range");
  Dims target = {1, 1};
  for (size_t d = 0; d < before.size(); ++d) {
    target[static_cast<int64_t>(d) < axis ? 0 : 1] *= before[d];
  }
  return call.Give(call.c.Reshape(call.in[0], target));
}

absl::Status Squeeze(OnnxCall& call) {
  OnnxContext& c = call.c;
  const Dims before = c.Before(call.in[0]);
  auto axes = call.IntsOf("axes", 1);
  if (!axes.ok()) return axes.status();
  std::vector<bool> drop(before.size(), false);
  for (size_t d = 0; d < before.size() && !axes->has_value(); ++d) drop[d] = before[d] == 1;
  for (int64_t axis : axes->value_or(std::vector<int64_t>{})) {
    auto d = call.Axis(axis, before.size());
    if (!d.ok()) return d.status();
    if (before[*d] != 1) return c.Error(absl::StrCat("squeeze of a dim of ", before[*d]));
    drop[*d] = true;
  }
  const Dims after = c.Shape(call.in[0]);
  Dims target;
  for (size_t d = 0; d < before.size(); ++d) {
    if (!drop[d]) target.push_back(before[d]);
    if (drop[d] && after[d] != 1) return c.CannotRebind("a squeezed dim follows the batch");
  }
  return call.Give(c.Reshape(call.in[0], target));
}

absl::Status Unsqueeze(OnnxCall& call) {
  OnnxContext& c = call.c;
  const Dims before = c.Before(call.in[0]);
  auto axes = call.IntsOf("axes", 1);
  if (!axes.ok()) return axes.status();
  if (!axes->has_value()) return c.Error("needs axes");
  const size_t rank = before.size() + (*axes)->size();
  std::vector<bool> one(rank, false);
  for (int64_t axis : **axes) {
    auto d = call.Axis(axis, rank);
    if (!d.ok()) return d.status();
    if (one[*d]) return c.Error(absl::StrCat("axis ", axis, " twice"));
    one[*d] = true;
  }
  Dims target;
  size_t from = 0;
  for (size_t d = 0; d < rank; ++d) target.push_back(one[d] ? 1 : before[from++]);
  return call.Give(c.Reshape(call.in[0], target));
}

absl::Status Transpose(OnnxCall& call) {
  OnnxContext& c = call.c;
  const size_t rank = c.Shape(call.in[0]).size();
  std::vector<int64_t> perm;
  for (size_t d = rank; d-- > 0;) perm.push_back(static_cast<int64_t>(d));
  perm = call.Ints("perm").value_or(perm);
  std::vector<bool> seen(rank, false);
  for (int64_t d : perm) {
    if (perm.size() != rank || d < 0 || d >= static_cast<int64_t>(rank) ||
        seen[static_cast<size_t>(d)]) {
      return c.Error(absl::StrCat("perm [", absl::StrJoin(perm, ", "), "] of ", rank, " dims"));
    }
    seen[static_cast<size_t>(d)] = true;
  }
  const OnnxValue& x = call.in[0];
  if (!x.known()) return call.Give(c.Transpose(x, perm));
  Dims shape(rank);
  std::vector<int> indices(rank);
  for (size_t d = 0; d < rank; ++d) {
    shape[d] = x.shape[static_cast<size_t>(perm[d])];
    indices[static_cast<size_t>(perm[d])] = c.formulas.Index(static_cast<int>(d));
  }
  return call.Give(Reindex(c, x, std::move(shape), indices));
}

absl::Status Expand(OnnxCall& call) {
  OnnxContext& c = call.c;
  auto target = c.Integers(call.in[1], "the shape of the expansion");
  if (!target.ok()) return target.status();
  for (int64_t extent : *target) {
    if (extent < 1) return c.Error(absl::StrCat("expand to a dim of ", extent));
  }
  OnnxValue x = call.in[0];
  auto result = c.Expand(x, *target, call.in[1].new_batch);
  if (result.ok() && x.known()) result->new_batch = x.new_batch || call.in[1].new_batch;
  return call.Give(result);
}

// Each dim repeated as a whole (inner = false) or element by element (inner = true).
absl::StatusOr<OnnxValue> Repeat(OnnxCall& call, const OnnxValue& x, const Dims& times,
                                 bool inner) {
  OnnxContext& c = call.c;
  const Dims before = c.Before(x);
  Dims apart, repeated, result;
  for (size_t d = 0; d < before.size(); ++d) {
    if (times[d] < 1) return c.Error(absl::StrCat("a dim repeated ", times[d], " times"));
    const bool split = times[d] != 1;
    if (split && !inner) apart.push_back(1), repeated.push_back(times[d]);
    apart.push_back(before[d]), repeated.push_back(before[d]);
    if (split && inner) apart.push_back(1), repeated.push_back(times[d]);
    result.push_back(before[d] * times[d]);
  }
  auto wide = c.Reshape(x, apart, false, "/apart");
  if (!wide.ok()) return wide.status();
  auto all = c.Expand(*wide, repeated);
  if (!all.ok()) return all.status();
  return c.Reshape(*all, result);
}

absl::Status Tile(OnnxCall& call) {
  auto times = call.c.Integers(call.in[1], "the repeats");
  if (!times.ok()) return times.status();
  if (times->size() != call.c.Shape(call.in[0]).size()) return call.c.Error("repeats do not fit");
  return call.Give(Repeat(call, call.in[0], *times, false));
}

// Nearest neighbours at whole multiples are a repetition.
absl::Status Resize(OnnxCall& call) {
  OnnxContext& c = call.c;
  const Dims before = c.Before(call.in[0]);
  const std::string mode = call.String("mode", "nearest");
  if (mode != "nearest") return Interpolate(call);
  const bool upsample = call.node.op_type() == "Upsample" || call.opset < 11;
  // Only where the neighbour below is the nearest.
  const std::string place = call.String("coordinate_transformation_mode", "half_pixel");
  const std::string nearest = call.String("nearest_mode", "round_prefer_floor");
  const bool below =
      (place == "asymmetric" && nearest == "floor") ||
      (place != "align_corners" && place != "asymmetric" && nearest == "round_prefer_floor");
  if ((call.opset >= 11 && !below) || call.Ints("axes")) return Interpolate(call);
  Dims times(before.size(), 0);
  const size_t scales_at = upsample ? 1 : 2;
  if (!upsample && call.has(3)) {
    auto sizes = c.Integers(call.in[3], "the sizes");
    if (!sizes.ok()) return sizes.status();
    for (size_t d = 0; d < before.size() && d < sizes->size(); ++d) {
      if ((*sizes)[d] % before[d] == 0) times[d] = (*sizes)[d] / before[d];
    }
  } else if (call.has(scales_at)) {
    auto scales = c.Elements(call.in[scales_at], "the scales");
    if (!scales.ok()) return scales.status();
    for (size_t d = 0; d < before.size() && d < scales->size(); ++d) {
      if ((*scales)[d] == std::floor((*scales)[d])) times[d] = static_cast<int64_t>((*scales)[d]);
    }
  }
  for (int64_t t : times) {
    if (t < 1) return Interpolate(call);
  }
  return call.Give(Repeat(call, call.in[0], times, true));
}

absl::Status DepthToSpace(OnnxCall& call) {
  OnnxContext& c = call.c;
  const Dims x = c.Before(call.in[0]);
  const int64_t b = call.Int("blocksize", 1);
  const bool to_space = call.node.op_type() == "DepthToSpace";
  if (x.size() != 4 || b < 1) return c.Error("needs four dims and a block size");
  const bool fits = to_space ? x[1] % (b * b) == 0 : x[2] % b == 0 && x[3] % b == 0;
  if (!fits) return c.Error(absl::StrCat("[", absl::StrJoin(x, ", "), "] in blocks of ", b));
  Dims apart, result;
  std::vector<int64_t> perm;
  if (!to_space) {
    apart = {x[0], x[1], x[2] / b, b, x[3] / b, b};
    perm = {0, 3, 5, 1, 2, 4};
    result = {x[0], x[1] * b * b, x[2] / b, x[3] / b};
  } else {
    const int64_t depth = x[1] / (b * b);
    result = {x[0], depth, x[2] * b, x[3] * b};
    const bool columns_first = call.String("mode", "DCR") == "CRD";
    apart =
        columns_first ? Dims{x[0], depth, b, b, x[2], x[3]} : Dims{x[0], b, b, depth, x[2], x[3]};
    perm = columns_first ? std::vector<int64_t>{0, 1, 4, 2, 5, 3}
                         : std::vector<int64_t>{0, 3, 4, 1, 5, 2};
  }
  auto wide = c.Reshape(call.in[0], apart, false, "/apart");
  if (!wide.ok()) return wide.status();
  auto turned = c.Transpose(*wide, perm, "/turned");
  if (!turned.ok()) return turned.status();
  return call.Give(c.Reshape(*turned, result));
}

}  // namespace

void AddMovementHandlers(OnnxHandlers* handlers) {
  OnnxHandlers& h = *handlers;
  h["Identity"] = Identity;
  h["Constant"] = Constant;
  h["Shape"] = h["Size"] = Shape;
  h["Reshape"] = Reshape;
  h["Flatten"] = Flatten;
  h["Squeeze"] = Squeeze;
  h["Unsqueeze"] = Unsqueeze;
  h["Transpose"] = Transpose;
  h["Expand"] = Expand;
  h["Tile"] = Tile;
  h["Resize"] = h["Upsample"] = Resize;
  h["DepthToSpace"] = h["SpaceToDepth"] = DepthToSpace;
}

}  // namespace tandem
