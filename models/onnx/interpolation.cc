// Resize between pixels: along each dim a known matrix, whose rows are the weights of the
// neighbours that an output pixel is made of.
#include <algorithm>
#include <cmath>
#include <utility>

#include "absl/strings/str_cat.h"
#include "models/onnx/ops.h"

namespace tandem {
namespace {

struct Sampling {
  std::string mode;     // nearest, linear, cubic
  std::string place;    // coordinate_transformation_mode
  std::string nearest;  // nearest_mode
  double cubic = -0.75;
};

// Where output pixel i lies in the input.
absl::StatusOr<double> Coordinate(const OnnxCall& call, const Sampling& how, int64_t i, int64_t in,
                                  int64_t out, double scale) {
  const auto at = static_cast<double>(i);
  if (how.place == "asymmetric") return at / scale;
  if (how.place == "align_corners") {
    // The length before it is rounded down, as ONNX has it.
    const double length = static_cast<double>(in) * scale;
    return out > 1 ? at * static_cast<double>(in - 1) / (length - 1) : 0.0;
  }
  const double half = (at + 0.5) / scale - 0.5;
  if (how.place == "half_pixel") return half;
  if (how.place == "pytorch_half_pixel") return out > 1 ? half : 0.0;
  return call.c.Unsupported(absl::StrCat("coordinates '", how.place, "'"));
}

double CubicWeight(double a, double distance) {
  const double d = std::fabs(distance);
  if (d <= 1) return ((a + 2) * d - (a + 3)) * d * d + 1;
  if (d < 2) return ((a * d - 5 * a) * d + 8 * a) * d - 4 * a;
  return 0;
}

int64_t Nearest(const std::string& mode, double x) {
  if (mode == "floor") return static_cast<int64_t>(std::floor(x));
  if (mode == "ceil") return static_cast<int64_t>(std::ceil(x));
  if (mode == "round_prefer_ceil") return static_cast<int64_t>(std::floor(x + 0.5));
  return static_cast<int64_t>(std::ceil(x - 0.5));  // round_prefer_floor
}

// [out, in], row-major.
absl::StatusOr<std::vector<double>> Weights(const OnnxCall& call, const Sampling& how, int64_t in,
                                            int64_t out, double scale) {
  std::vector<double> weights(static_cast<size_t>(in * out), 0);
  for (int64_t i = 0; i < out; ++i) {
    auto x = Coordinate(call, how, i, in, out, scale);
    if (!x.ok()) return x.status();
    const auto add = [&](int64_t at, double weight) {
      weights[static_cast<size_t>(i * in + std::clamp<int64_t>(at, 0, in - 1))] += weight;
    };
    const auto below = static_cast<int64_t>(std::floor(*x));
    const double beyond = *x - std::floor(*x);
    if (how.mode == "nearest") {
      add(Nearest(how.nearest, *x), 1);
    } else if (how.mode == "linear") {
      add(below, 1 - beyond);
      add(below + 1, beyond);
    } else {
      for (int64_t k = -1; k <= 2; ++k) {
        add(below + k, CubicWeight(how.cubic, beyond - static_cast<double>(k)));
      }
    }
  }
  return weights;
}

bool IsIdentity(const std::vector<double>& weights, int64_t in, int64_t out) {
  for (int64_t i = 0; i < out; ++i) {
    for (int64_t j = 0; j < in; ++j) {
      if (weights[static_cast<size_t>(i * in + j)] != (i == j ? 1 : 0)) return false;
    }
  }
  return in == out;
}

constexpr int64_t kMostWeights = int64_t{1} << 22;

}  // namespace

absl::Status Interpolate(OnnxCall& call) {
  OnnxContext& c = call.c;
  const bool upsample = call.node.op_type() == "Upsample" || call.opset < 11;
  Sampling how;
  how.mode = call.String("mode", "nearest");
  how.place = call.String("coordinate_transformation_mode", upsample ? "asymmetric" : "half_pixel");
  how.nearest = call.String("nearest_mode", upsample ? "floor" : "round_prefer_floor");
  how.cubic = call.Float("cubic_coeff_a", -0.75);
  if (how.mode != "nearest" && how.mode != "linear" && how.mode != "cubic") {
    return c.Unsupported(absl::StrCat("interpolation '", how.mode, "'"));
  }
  if (call.Int("antialias", 0) != 0) return c.Unsupported("antialiasing");
  if (call.Int("exclude_outside", 0) != 0) return c.Unsupported("neighbours outside left out");
  if (call.String("keep_aspect_ratio_policy", "stretch") != "stretch") {
    return c.Unsupported("sizes that keep the aspect ratio");
  }
  OnnxValue x = call.in[0];
  const Dims before = c.Before(x);
  std::vector<size_t> axes;
  if (const auto given = call.Ints("axes")) {
    for (int64_t a : *given) {
      auto axis = call.Axis(a, before.size());
      if (!axis.ok()) return axis.status();
      axes.push_back(*axis);
    }
  } else {
    for (size_t d = 0; d < before.size(); ++d) axes.push_back(d);
  }
  std::vector<int64_t> sizes;
  std::vector<double> scales;
  if (!upsample && call.has(3)) {
    auto given = c.Integers(call.in[3], "the sizes");
    if (!given.ok()) return given.status();
    sizes = *given;
    for (size_t k = 0; k < axes.size() && k < sizes.size(); ++k) {
      scales.push_back(static_cast<double>(sizes[k]) / static_cast<double>(before[axes[k]]));
    }
  } else if (call.has(upsample ? 1 : 2)) {
    auto given = c.Elements(call.in[upsample ? 1 : 2], "the scales");
    if (!given.ok()) return given.status();
    scales = *given;
    for (size_t k = 0; k < axes.size() && k < scales.size(); ++k) {
      sizes.push_back(
          static_cast<int64_t>(std::floor(static_cast<double>(before[axes[k]]) * scales[k])));
    }
  }
  if (sizes.size() != axes.size() || scales.size() != axes.size()) {
    return c.Error("needs a size or a scale for each dim");
  }
  for (size_t k = 0; k < axes.size(); ++k) {
    const size_t axis = axes[k];
    const int64_t in = before[axis], out = sizes[k];
    if (out < 1 || !(scales[k] > 0)) return c.Error(absl::StrCat("a size of ", out));
    if (in == out && scales[k] == 1) continue;
    if (c.Before(x)[axis] != c.Shape(x)[axis]) return c.CannotRebind("the batch is resized");
    if (in > kMostWeights / out) {
      return c.Unsupported(absl::StrCat("a dim of ", in, " resized to ", out));
    }
    auto weights = Weights(call, how, in, out, scales[k]);
    if (!weights.ok()) return weights.status();
    if (IsIdentity(*weights, in, out)) continue;
    auto name = c.Define("interpolate",
                         "(x[a.., n, c..], w[m, n]) -> out[a.., m, c..] { out[a, i, c] = sum(t: n) "
                         "w[i, t] * x[a, t, c] }");
    if (!name.ok()) return name.status();
    OnnxValue matrix =
        c.Known({out, in}, x.dtype, c.formulas.Dense({out, in}, *std::move(weights)));
    matrix.name = absl::StrCat(c.node_name, "/weights", axis);
    auto matrix_id = c.ToTensor(matrix);
    if (!matrix_id.ok()) return matrix_id.status();
    auto data = c.ToTensor(x);
    if (!data.ok()) return data.status();
    OnnxContext::EmitOptions emit;
    emit.suffix = absl::StrCat("/dim", axis);
    emit.dtypes = {x.dtype};
    auto result = c.Emit(*name, {{"rank_c", static_cast<int64_t>(before.size() - 1 - axis)}},
                         {*data, *matrix_id}, emit);
    if (!result.ok()) return result.status();
    x = *result;
  }
  return call.Give(x);
}

}  // namespace tandem
