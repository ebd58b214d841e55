// Movement of known values: the formula's indices are replaced.
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "models/onnx/ops.h"

namespace tandem {

OnnxValue Reindex(OnnxContext& c, const OnnxValue& value, Dims shape,
                  const std::vector<int>& indices) {
  OnnxValue result = value;
  result.formula = c.formulas.Substitute(value.formula, indices);
  const int64_t elements = Product(shape);
  if (elements != 0) {
    result.formula = c.formulas.Simplify(result.formula, shape);
    if (elements <= 256 && !c.formulas.AsAffine(result.formula)) {
      result.formula = c.formulas.Dense(shape, c.formulas.Evaluate(result.formula, shape));
    }
  }
  result.shape = std::move(shape);
  return result;
}

absl::StatusOr<OnnxValue> ReshapeKnown(OnnxContext& c, const OnnxValue& value, const Dims& target) {
  FormulaArena& f = c.formulas;
  if (f.AsNumber(value.formula))
    return Reindex(c, value, target, std::vector<int>(64, f.Number(0)));
  std::vector<int> indices(value.shape.size(), f.Number(0));
  // Dims are matched in groups of equal products; within a group by division.
  size_t i = 0, j = 0;
  while (i < value.shape.size() || j < target.size()) {
    const size_t i0 = i, j0 = j;
    int64_t left = i < value.shape.size() ? value.shape[i++] : 1;
    int64_t right = j < target.size() ? target[j++] : 1;
    while (left != right) {
      if (left < right && i < value.shape.size()) {
        left *= value.shape[i++];
      } else if (right < left && j < target.size()) {
        right *= target[j++];
      } else {
        return c.Error(absl::StrCat("reshape of [", absl::StrJoin(value.shape, ", "), "] to [",
                                    absl::StrJoin(target, ", "), "]"));
      }
    }
    int flat = f.Number(0);
    for (size_t d = j0; d < j; ++d) {
      flat = f.Call("mul", {f.Number(static_cast<double>(target[d])), flat});
      if (target[d] != 1) flat = f.Call("add", {flat, f.Index(static_cast<int>(d))});
    }
    int64_t below = 1;
    for (size_t d = i; d-- > i0;) {
      int index = flat;
      if (below != 1) index = f.Call("floordiv", {index, f.Number(static_cast<double>(below))});
      if (below * value.shape[d] != left) {
        index = f.Call("mod", {index, f.Number(static_cast<double>(value.shape[d]))});
      }
      indices[d] = value.shape[d] == 1 ? f.Number(0) : index;
      below *= value.shape[d];
    }
  }
  return Reindex(c, value, target, indices);
}

absl::StatusOr<OnnxValue> ExpandKnown(OnnxContext& c, const OnnxValue& value, const Dims& target) {
  auto shape = BroadcastShape(c, value.shape, target);
  if (!shape.ok()) return shape.status();
  const size_t shift = shape->size() - value.shape.size();
  std::vector<int> indices;
  for (size_t d = 0; d < value.shape.size(); ++d) {
    indices.push_back(value.shape[d] == 1 ? c.formulas.Number(0)
                                          : c.formulas.Index(static_cast<int>(d + shift)));
  }
  return Reindex(c, value, *std::move(shape), indices);
}

absl::StatusOr<Dims> BroadcastShape(const OnnxContext& c, const Dims& a, const Dims& b) {
  Dims shape(std::max(a.size(), b.size()), 1);
  for (size_t from_end = 1; from_end <= shape.size(); ++from_end) {
    const int64_t x = from_end <= a.size() ? a[a.size() - from_end] : 1;
    const int64_t y = from_end <= b.size() ? b[b.size() - from_end] : 1;
    if (x != y && x != 1 && y != 1) {
      return c.Error(absl::StrCat("shapes [", absl::StrJoin(a, ", "), "] and [",
                                  absl::StrJoin(b, ", "), "] do not go together: ", x, " against ",
                                  y));
    }
    shape[shape.size() - from_end] = x == 1 ? y : x;
  }
  return shape;
}

absl::StatusOr<Dims> ResolveTarget(const OnnxContext& c, std::vector<int64_t> target,
                                   const Dims& input, bool allow_zero) {
  int64_t known = 1, all = 1;
  for (int64_t extent : input) all *= extent;
  int infer = -1;
  for (size_t d = 0; d < target.size(); ++d) {
    if (target[d] == 0 && !allow_zero) {
      if (d >= input.size()) {
        return c.Error(absl::StrCat("reshape target [", absl::StrJoin(target, ", "),
                                    "] copies dim ", d, " of a tensor of ", input.size()));
      }
      target[d] = input[d];
    }
    if (target[d] == -1) {
      if (infer >= 0) return c.Error("reshape target with two dims of -1");
      infer = static_cast<int>(d);
      continue;
    }
    if (target[d] < 0 || (target[d] > 0 && known > (int64_t{1} << 60) / target[d])) {
      return c.Error(absl::StrCat("reshape target [", absl::StrJoin(target, ", "), "]"));
    }
    known *= target[d];
  }
  if (infer >= 0) {
    if (known == 0 || all % known != 0) {
      return c.Error(absl::StrCat("reshape of [", absl::StrJoin(input, ", "), "] to [",
                                  absl::StrJoin(target, ", "), "]: ", all,
                                  " elements are no multiple of ", known));
    }
    target[static_cast<size_t>(infer)] = all / known;
  }
  return target;
}

}  // namespace tandem
