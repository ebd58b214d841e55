// Reads at computed places: Gather, GatherElements, GatherND, OneHot.
#include <algorithm>
#include <cmath>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "models/onnx/ops.h"

namespace tandem {
namespace {

// A known index into a dim of `extent`: negative ones count from the end; guessed ones that do not
// fit are taken for zeros.
absl::StatusOr<int> IndexFormula(OnnxCall& call, const OnnxValue& ids, int formula,
                                 const Dims& shape, int64_t extent) {
  FormulaArena& f = call.c.formulas;
  const auto n = static_cast<double>(extent);
  auto range = f.Range(formula, shape);
  if (!(range.second < n && range.first >= -n)) {  // bounds are coarse; small ones are looked at
    const int64_t elements = Product(shape);
    if (elements > 0 && elements <= (1 << 20)) {
      formula = f.Dense(shape, f.Evaluate(formula, shape));
      range = f.Range(formula, shape);
    }
  }
  const bool outside = range.second >= n || range.first < -n;
  if (outside && ids.assumed) {
    call.c.Note(absl::StrCat(
        "'", ids.name, "' at node '", call.c.node_name,
        "': taken for zeros (its data is missing, and positions would not fit ", extent, " rows)"));
    return f.Number(0);
  }
  if (outside && std::isfinite(range.first) && std::isfinite(range.second)) {
    return call.c.Error(absl::StrCat("index ", range.second >= n ? range.second : range.first,
                                     " into a dim of ", extent));
  }
  if (range.first >= 0 || !std::isfinite(range.first)) return formula;
  return f.Call("select", {f.Call("lt", {formula, f.Number(0)}),
                           f.Call("add", {formula, f.Number(n)}), formula});
}

absl::StatusOr<OnnxValue> GatherKnown(OnnxCall& call, size_t axis) {
  OnnxContext& c = call.c;
  FormulaArena& f = c.formulas;
  const OnnxValue &x = call.in[0], &ids = call.in[1];
  const size_t wide = ids.shape.size();
  Dims shape(x.shape.begin(), x.shape.begin() + static_cast<int64_t>(axis));
  shape.insert(shape.end(), ids.shape.begin(), ids.shape.end());
  shape.insert(shape.end(), x.shape.begin() + static_cast<int64_t>(axis) + 1, x.shape.end());
  std::vector<int> shifted;
  for (size_t k = 0; k < wide; ++k) shifted.push_back(f.Index(static_cast<int>(axis + k)));
  auto at = IndexFormula(call, ids, f.Substitute(ids.formula, shifted), shape, x.shape[axis]);
  if (!at.ok()) return at.status();
  std::vector<int> indices;
  for (size_t d = 0; d < x.shape.size(); ++d) {
    indices.push_back(d == axis  ? *at
                      : d < axis ? f.Index(static_cast<int>(d))
                                 : f.Index(static_cast<int>(d + wide - 1)));
  }
  OnnxValue result = Reindex(c, x, std::move(shape), indices);
  result.fill = false;
  result.assumed = x.assumed || ids.assumed;
  result.new_batch = x.new_batch || ids.new_batch;
  return result;
}

absl::Status Gather(OnnxCall& call) {
  OnnxContext& c = call.c;
  FormulaArena& f = c.formulas;
  if (call.in.size() != 2) return c.Error("needs data and indices");
  const OnnxValue& x = call.in[0];
  const Dims before = c.Before(x);
  auto axis = call.Axis(call.Int("axis", 0), before.size());
  if (!axis.ok()) return axis.status();
  OnnxValue ids = call.in[1];
  if (x.known() && ids.known()) return call.Give(GatherKnown(call, *axis));
  const auto rank_c = static_cast<int64_t>(before.size() - 1 - *axis);
  Dims once = ids.shape;
  if (ids.known()) {
    auto at = IndexFormula(call, ids, ids.formula, ids.shape, before[*axis]);
    if (!at.ok()) return at.status();
    ids.formula = f.Simplify(*at, ids.shape);
    const auto form = f.AsAffine(ids.formula);
    const bool line = form && ids.shape.size() <= 1;
    const double step =
        line && !form->coefficients.empty() ? form->coefficients.begin()->second : 1;
    if (line && step >= 1 && form->constant >= 0 && x.kind != OnnxValue::Kind::kWeight) {
      auto id = c.ToTensor(x);
      if (!id.ok()) return id.status();
      const int64_t size = ids.shape.empty() ? 1 : ids.shape[0];
      if (size > 1 && form->coefficients.empty()) return c.Unsupported("one element repeated");
      Attributes attributes = {
          {"start", static_cast<int64_t>(form->constant)}, {"size", size}, {"rank_c", rank_c}};
      if (step != 1) attributes["step"] = static_cast<int64_t>(step);
      OnnxContext::EmitOptions emit;
      emit.dtypes = {x.dtype};
      emit.suffix = ids.shape.empty() ? "/slice" : "";
      if (c.Before(x)[*axis] != c.Shape(x)[*axis] && size != 1) {
        return c.CannotRebind("a part of the batch is read");
      }
      auto part = c.Emit("slice", std::move(attributes), {*id}, emit);
      if (!part.ok() || !ids.shape.empty()) return call.Give(part);
      Dims fewer = c.Before(*part);
      fewer.erase(fewer.begin() + static_cast<int64_t>(*axis));
      return call.Give(c.Reshape(*part, fewer));
    }
    // What repeats is read once.
    once = ids.shape;
    for (size_t d = 0; d < once.size(); ++d) {
      if (!f.DependsOn(ids.formula, static_cast<int>(d))) once[d] = 1;
    }
  }
  const Dims all = ids.shape;
  const bool repeats = ids.known() && once != all;
  if (repeats) ids.shape = once;
  auto counted = FromFront(call, ids, c.Shape(x)[*axis], before[*axis]);
  if (!counted.ok()) return counted.status();
  auto index = c.ToTensor(*counted);
  if (!index.ok()) return index.status();
  OnnxContext::EmitOptions emit;
  emit.dtypes = {x.dtype};
  absl::StatusOr<OnnxValue> result = absl::UnknownError("");
  if (x.kind == OnnxValue::Kind::kWeight && *axis == 0) {
    OnnxValue table = x;
    if (table.transposed) {
      auto turned = c.ToTensor(table);
      if (!turned.ok()) return turned.status();
      table = c.OfTensor(*turned);
    }
    auto id = c.ToWeight(table, TensorRole::kParameter, "normal(0.02)");
    if (!id.ok()) return id.status();
    result = c.Emit("embedding", {}, {*index, *id}, emit);
  } else {
    auto id = c.ToTensor(x);
    if (!id.ok()) return id.status();
    result = c.Emit("take", {{"rank_c", rank_c}}, {*id, *index}, emit);
  }
  if (result.ok() && repeats) {
    result->repeated = c.Shape(*result);
    for (size_t d = 0; d < all.size(); ++d) result->repeated[*axis + d] = all[d];
  }
  return call.Give(result);
}

absl::Status GatherElements(OnnxCall& call) {
  OnnxContext& c = call.c;
  FormulaArena& f = c.formulas;
  const OnnxValue& x = call.in[0];
  const OnnxValue& ids = call.in[1];
  const Dims before = c.Before(x), ids_before = c.Before(ids);
  auto axis = call.Axis(call.Int("axis", 0), before.size());
  if (!axis.ok()) return axis.status();
  if (ids_before.size() != before.size()) return c.Error("data and indices of different rank");
  if (x.known() && ids.known()) {
    auto at = IndexFormula(call, ids, ids.formula, ids.shape, x.shape[*axis]);
    if (!at.ok()) return at.status();
    std::vector<int> indices;
    for (size_t d = 0; d < before.size(); ++d) {
      indices.push_back(d == *axis ? *at : f.Index(static_cast<int>(d)));
    }
    OnnxValue result = Reindex(c, x, ids.shape, indices);
    result.assumed = x.assumed || ids.assumed;
    return call.Give(result);
  }
  for (size_t d = 0; d < before.size(); ++d) {
    if (d != *axis && before[d] != ids_before[d]) {
      return c.Unsupported("indices that cover a part of the other dims");
    }
  }
  auto data = c.ToTensor(x);
  if (!data.ok()) return data.status();
  auto counted = FromFront(call, ids, c.Shape(x)[*axis], before[*axis]);
  if (!counted.ok()) return counted.status();
  auto index = c.ToTensor(*counted);
  if (!index.ok()) return index.status();
  OnnxContext::EmitOptions emit;
  emit.dtypes = {x.dtype};
  return call.Give(c.Emit("take_along",
                          {{"rank_c", static_cast<int64_t>(before.size() - 1 - *axis)}},
                          {*data, *index}, emit));
}

// Pairs (i, j) with j < i, row by row: what is meant by missing indices of n (n - 1) / 2 pairs.
std::optional<std::vector<double>> LowerTriangle(const OnnxValue& ids, const Dims& data) {
  if (!ids.assumed || ids.shape.size() != 2 || ids.shape[1] != 2 || data[0] != data[1] ||
      ids.shape[0] != data[0] * (data[0] - 1) / 2) {
    return std::nullopt;
  }
  std::vector<double> flat;
  for (int64_t i = 0; i < data[0]; ++i) {
    for (int64_t j = 0; j < i; ++j) flat.push_back(static_cast<double>(i * data[1] + j));
  }
  return flat;
}

// Rows of x by several computed indices each: one index into the dims that are chosen from, merged.
absl::StatusOr<OnnxValue> ByComputedRows(OnnxCall& call, size_t depth) {
  OnnxContext& c = call.c;
  const OnnxValue& x = call.in[0];
  const Dims before = c.Before(x), after = c.Shape(x);
  Dims flat = {1};
  OnnxValue row;
  for (size_t k = 0; k < depth; ++k) {
    if (k > 0 && before[k] != after[k]) return c.CannotRebind("rows are chosen within the batch");
    flat[0] *= before[k];
    auto index =
        Do(call, "Gather", {call.in[1], c.KnownScalar(static_cast<double>(k), DType::kI64)},
           {{"axis", -1}});
    if (index.ok()) index = FromFront(call, *index, after[k], before[k]);
    if (!index.ok() || k == 0) {
      if (!index.ok()) return index;
      row = *std::move(index);
      continue;
    }
    auto base = Do(call, "Mul", {row, c.KnownScalar(static_cast<double>(before[k]), DType::kI64)});
    if (!base.ok()) return base;
    auto next = Do(call, "Add", {*base, *index});
    if (!next.ok()) return next;
    row = *std::move(next);
  }
  flat.insert(flat.end(), before.begin() + static_cast<int64_t>(depth), before.end());
  auto data = c.Reshape(x, flat, false, "/flat");
  if (!data.ok()) return data;
  return Do(call, "Gather", {*data, row}, {{"axis", 0}});
}

absl::Status GatherND(OnnxCall& call) {
  OnnxContext& c = call.c;
  FormulaArena& f = c.formulas;
  if (call.Int("batch_dims", 0) != 0) return c.Unsupported("batch_dims");
  const OnnxValue& x = call.in[0];
  const OnnxValue& ids = call.in[1];
  const Dims before = c.Before(x), ids_before = c.Before(ids);
  if (ids_before.empty()) return c.Error("indices of no dims");
  const auto depth = static_cast<size_t>(ids_before.back());
  if (depth < 1 || depth > before.size()) return c.Error(absl::StrCat(depth, " indices each"));
  const Dims rows(ids_before.begin(), ids_before.end() - 1);
  OnnxContext::EmitOptions emit;
  emit.dtypes = {x.dtype};
  if (!ids.known()) {
    if (depth != 1) return call.Give(ByComputedRows(call, depth));
    auto flat = c.Reshape(ids, rows, false, "/ids");
    if (flat.ok()) flat = FromFront(call, *flat, c.Shape(x)[0], before[0]);
    if (!flat.ok()) return flat.status();
    auto data = c.ToWeight(x, TensorRole::kParameter, "normal(0.02)");
    if (!data.ok()) return data.status();
    return call.Give(c.Emit("embedding", {}, {flat->tensor, *data}, emit));
  }
  const auto triangle = depth == 2 ? LowerTriangle(ids, before) : std::nullopt;
  if (triangle) {
    c.Note(absl::StrCat("'", ids.name,
                        "': taken for the pairs below the diagonal (its data is missing)"));
  }
  std::vector<int> each;
  for (size_t k = 0; k < depth && !triangle; ++k) {
    std::vector<int> indices;
    for (size_t d = 0; d < rows.size(); ++d) indices.push_back(f.Index(static_cast<int>(d)));
    indices.push_back(f.Number(static_cast<double>(k)));
    auto at = IndexFormula(call, ids, f.Substitute(ids.formula, indices), rows, before[k]);
    if (!at.ok()) return at.status();
    each.push_back(*at);
  }
  if (x.known() && !triangle) {
    Dims shape = rows;
    shape.insert(shape.end(), x.shape.begin() + static_cast<int64_t>(depth), x.shape.end());
    std::vector<int> indices = each;
    for (size_t d = depth; d < x.shape.size(); ++d) {
      indices.push_back(f.Index(static_cast<int>(rows.size() + d - depth)));
    }
    OnnxValue result = Reindex(c, x, std::move(shape), indices);
    result.assumed = x.assumed || ids.assumed;
    return call.Give(result);
  }
  // The dims that are indexed become one.
  Dims flat = {1};
  for (size_t k = 0; k < depth; ++k) flat[0] *= before[k];
  flat.insert(flat.end(), before.begin() + static_cast<int64_t>(depth), before.end());
  OnnxValue data = x;
  if (depth > 1) {
    auto reshaped = c.Reshape(x, flat, false, "/flat");
    if (!reshaped.ok()) return reshaped.status();
    data = *reshaped;
  }
  int at = f.Number(0);
  if (triangle) {
    at = f.Dense(rows, *triangle);
  } else {
    for (size_t k = 0; k < depth; ++k) {
      at = f.Call("add", {f.Call("mul", {at, f.Number(static_cast<double>(before[k]))}), each[k]});
    }
  }
  OnnxValue index = c.Known(rows, DType::kI64, at);
  index.name = ids.name;
  auto index_id = c.ToTensor(index);
  if (!index_id.ok()) return index_id.status();
  auto data_id = c.ToTensor(data);
  if (!data_id.ok()) return data_id.status();
  return call.Give(c.Emit("take", {{"rank_c", static_cast<int64_t>(flat.size()) - 1}},
                          {*data_id, *index_id}, emit));
}

absl::Status OneHot(OnnxCall& call) {
  OnnxContext& c = call.c;
  if (call.in.size() != 3) return c.Error("needs indices, depth and values");
  const size_t rank = c.Shape(call.in[0]).size();
  auto axis = call.Axis(call.Int("axis", -1), rank + 1);
  if (!axis.ok()) return axis.status();
  auto depth = c.Integers(call.in[1], "the depth");
  if (!depth.ok()) return depth.status();
  auto values = c.Elements(call.in[2], "the values");
  if (!values.ok()) return values.status();
  if (depth->size() != 1 || values->size() != 2) return c.Error("one depth and two values");
  auto name =
      c.Define("one_hot",
               "(ids[a.., c..]: int; depth, off, on) -> out[a.., n = depth, c..] { out[a, j, c] "
               "= select(ids[a, c] == j, on, off) }");
  if (!name.ok()) return name.status();
  auto counted = FromFront(call, call.in[0], (*depth)[0], (*depth)[0]);
  if (!counted.ok()) return counted.status();
  auto id = c.ToTensor(*counted);
  if (!id.ok()) return id.status();
  OnnxContext::EmitOptions emit;
  emit.dtypes = {call.in[2].dtype};
  return call.Give(c.Emit(*name,
                          {{"depth", (*depth)[0]},
                           {"off", (*values)[0]},
                           {"on", (*values)[1]},
                           {"rank_c", static_cast<int64_t>(rank - *axis)}},
                          {*id}, emit));
}

}  // namespace

void AddGatherHandlers(OnnxHandlers* handlers) {
  (*handlers)["Gather"] = Gather;
  (*handlers)["GatherElements"] = GatherElements;
  (*handlers)["GatherND"] = GatherND;
  (*handlers)["OneHot"] = OneHot;
}

}  // namespace tandem
