// Reshape and Expand: where the batch that the export fixed is found again in constant shapes.
#include <numeric>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "models/onnx/batch.h"
#include "models/onnx/context.h"
#include "models/onnx/ops.h"

namespace tandem {
namespace {

struct Factor {
  int64_t extent = 1;
  bool batch = false;
};

// Splits one group of dims (equal products on both sides) that holds the batch.
bool MapGroup(const BatchDims& from, size_t from_begin, size_t from_end, const Dims& target,
              size_t begin, size_t end, int64_t batch_from, int64_t batch_to, BatchDims* out) {
  std::vector<Factor> factors;
  int batches = 0;
  for (size_t d = from_begin; d < from_end; ++d) {
    if (from.from[d] == from.to[d]) {
      factors.push_back({from.from[d], false});
      continue;
    }
    if (from.outer[d] == 0) return false;
    factors.push_back({from.outer[d], false});
    factors.push_back({batch_from, true});
    factors.push_back({from.from[d] / from.outer[d] / batch_from, false});
    ++batches;
  }
  if (batches != 1) return false;
  size_t at = 0;
  for (size_t j = begin; j < end; ++j) {
    int64_t rest = target[j], outer = 1;
    bool holds = false, took = false;
    bool later_one = false;
    for (size_t k = j + 1; k < end; ++k) later_one = later_one || target[k] == 1;
    while (at < factors.size()) {
      Factor& factor = factors[at];
      if (factor.batch) {
        const bool take = batch_from == 1 ? !(rest == 1 && took && later_one)
                                          : rest % batch_from == 0 && rest > 1;
        if (!take) break;
        rest /= batch_from;
        holds = took = true;
        ++at;
        continue;
      }
      if (factor.extent == 1) {
        ++at;
        continue;
      }
      if (rest == 1) break;
      const int64_t common = std::gcd(rest, factor.extent);
      if (common == 1) return false;
      rest /= common;
      factor.extent /= common;
      if (!holds) outer *= common;
      took = true;
      if (factor.extent > 1 && rest > 1) return false;
    }
    if (rest != 1) return false;
    out->from.push_back(target[j]);
    out->to.push_back(holds ? target[j] / batch_from * batch_to : target[j]);
    out->outer.push_back(holds ? outer : 1);
  }
  return at == factors.size();
}

}  // namespace

std::optional<BatchDims> MapReshape(const BatchDims& from, const Dims& target, int64_t batch_from,
                                    int64_t batch_to) {
  BatchDims out;
  size_t i = 0, j = 0;
  while (i < from.from.size() || j < target.size()) {
    const size_t i0 = i, j0 = j;
    int64_t left = i < from.from.size() ? from.from[i++] : 1;
    int64_t right = j < target.size() ? target[j++] : 1;
    while (left != right) {
      if (left < right) {
        if (i >= from.from.size()) return std::nullopt;
        left *= from.from[i++];
      } else {
        if (j >= target.size()) return std::nullopt;
        right *= target[j++];
      }
    }
    // What is left at the end can only be ones.
    if (i == from.from.size()) {
      while (j < target.size() && target[j] == 1) ++j;
    }
    if (j == target.size()) {
      while (i < from.from.size() && from.from[i] == 1) ++i;
    }
    bool batch = false;
    for (size_t d = i0; d < i; ++d) batch = batch || from.from[d] != from.to[d];
    if (batch && i - i0 == 1 && j - j0 == 1) {
      out.from.push_back(from.from[i0]);
      out.to.push_back(from.to[i0]);
      out.outer.push_back(from.outer[i0]);
    } else if (batch) {
      if (!MapGroup(from, i0, i, target, j0, j, batch_from, batch_to, &out)) return std::nullopt;
    } else {
      for (size_t k = j0; k < j; ++k) {
        out.from.push_back(target[k]);
        out.to.push_back(target[k]);
        out.outer.push_back(1);
      }
    }
  }
  return out;
}

absl::StatusOr<OnnxValue> OnnxContext::Reshape(const OnnxValue& value, const Dims& target,
                                               bool target_has_new_batch,
                                               const std::string& suffix) {
  if (value.known() && Product(value.shape) == 0 && Product(target) == 0) {
    return Known(target, value.dtype, value.formula);
  }
  for (int64_t extent : target) {
    if (extent < 1) return Error(absl::StrCat("reshape to a dim of ", extent));
  }
  const Dims before = Before(value), after = Shape(value);
  const Dims& speaks = target_has_new_batch ? after : before;
  if (Product(speaks) != Product(target)) {
    return Error(absl::StrCat("reshape of [", absl::StrJoin(speaks, ", "), "] to [",
                              absl::StrJoin(target, ", "), "]: the numbers of elements differ"));
  }
  if (value.known()) return ReshapeKnown(*this, value, target);
  auto id = ToTensor(value);
  if (!id.ok()) return id.status();
  Dims new_after = target, new_before = target, outer(target.size(), 1);
  if (rebinding) {
    BatchDims from{speaks, target_has_new_batch ? before : after, Outer(*id)};
    const int64_t b_from = target_has_new_batch ? options.global_batch : exported_batch;
    const int64_t b_to = target_has_new_batch ? exported_batch : options.global_batch;
    auto mapped = MapReshape(from, target, b_from, b_to);
    if (!mapped) {
      return CannotRebind(absl::StrCat("in the reshape of [", absl::StrJoin(speaks, ", "), "] to [",
                                       absl::StrJoin(target, ", "),
                                       "] the batch is not a factor of one dim"));
    }
    (target_has_new_batch ? new_before : new_after) = mapped->to;
    outer = mapped->outer;
  }
  if (new_after == after && new_before == before) return value;
  EmitOptions emit;
  emit.dtypes = {value.dtype};
  emit.suffix = suffix;
  const Attributes with_before = {{"shape", AttrValue(new_before)}};
  emit.before = &with_before;
  auto result = Emit("reshape", {{"shape", AttrValue(new_after)}}, {*id}, emit);
  if (result.ok() && rebinding) Outer(result->tensor) = outer;
  // Rows along the last axis stay rows if it does.
  if (result.ok() && !target.empty() && !after.empty() && new_after.back() == after.back()) {
    FinitenessOf(result->tensor) = FinitenessOf(*id);
  }
  return result;
}

absl::StatusOr<OnnxValue> OnnxContext::Restore(OnnxValue value, const Dims& shape) {
  Dims before = Before(value);
  if (before == shape) return value;
  if (value.known()) return ExpandKnown(*this, value, shape);
  if (before.size() < shape.size()) {
    Dims wide(shape.size() - before.size(), 1);
    wide.insert(wide.end(), before.begin(), before.end());
    auto reshaped = Reshape(value, wide, false, "/rank");
    if (!reshaped.ok()) return reshaped;
    value = *reshaped;
    before = wide;
  }
  auto id = ToTensor(value);
  if (!id.ok()) return id.status();
  value = OfTensor(*id);
  if (before != shape) value.repeated = shape;
  return value;
}

absl::StatusOr<OnnxValue> OnnxContext::Expand(const OnnxValue& value, const Dims& target,
                                              bool target_has_new_batch) {
  Dims before = Before(value), after = Shape(value);
  const size_t rank = std::max(after.size(), target.size());
  Dims goal(rank - target.size(), 1);
  goal.insert(goal.end(), target.begin(), target.end());
  if (value.known()) return ExpandKnown(*this, value, goal);
  before.insert(before.begin(), rank - before.size(), 1);
  after.insert(after.begin(), rank - after.size(), 1);
  const bool same_rank = rank == Shape(value).size();
  Dims new_before = before, new_after = after;
  for (size_t d = 0; d < rank; ++d) {
    const int64_t have = target_has_new_batch ? after[d] : before[d];
    if (goal[d] < 1) return Error(absl::StrCat("expand to a dim of ", goal[d]));
    if (goal[d] == have || goal[d] == 1) continue;
    if (have != 1) {
      return Error(absl::StrCat("expand of [", absl::StrJoin(after, ", "), "] to [",
                                absl::StrJoin(goal, ", "), "]: dim ", d, " is ", have, ", not 1"));
    }
    if (after[d] != before[d]) continue;  // one sample of the export, and it follows the batch
    new_before[d] = new_after[d] = goal[d];
    if (!rebinding || d != 0) continue;
    if (target_has_new_batch && goal[d] == options.global_batch) new_before[d] = exported_batch;
    if (!target_has_new_batch && goal[d] == exported_batch) new_after[d] = options.global_batch;
  }
  if (same_rank && new_before == before && new_after == after) return value;
  auto id = ToTensor(value);
  if (!id.ok()) return id.status();
  EmitOptions emit;
  emit.dtypes = {value.dtype};
  emit.suffix = node_op == "Expand" ? "" : "/expand";
  const Attributes with_before = {{"shape", AttrValue(new_before)}};
  emit.before = &with_before;
  return Emit("expand", {{"shape", AttrValue(new_after)}}, {*id}, emit);
}

}  // namespace tandem
