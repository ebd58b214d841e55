// Writes at computed places: ScatterElements, ScatterND.
#include <optional>
#include <utility>

#include "absl/strings/str_cat.h"
#include "models/onnx/ops.h"

namespace tandem {
namespace {

constexpr int64_t kMostKnown = int64_t{1} << 20;

// "add" or "none"; others are refused.
absl::StatusOr<bool> Adds(const OnnxCall& call) {
  const std::string reduction = call.String("reduction", "none");
  if (reduction == "none") return false;
  if (reduction == "add") return true;
  return call.c.Unsupported(absl::StrCat("values at the same place joined by '", reduction, "'"));
}

// out[.., ids[.., j, ..], ..] = updates[.., j, ..] along one axis, as routers spread their weights
// over all experts. Places are distinct, as ONNX demands unless values are added.
absl::Status ScatterElements(OnnxCall& call) {
  OnnxContext& c = call.c;
  const OnnxValue &x = call.in[0], &ids = call.in[1], &updates = call.in[2];
  const Dims before = c.Before(x), ids_before = c.Before(ids);
  auto axis = call.Axis(call.Int("axis", 0), before.size());
  if (!axis.ok()) return axis.status();
  auto adds = Adds(call);
  if (!adds.ok()) return adds.status();
  if (ids_before.size() != before.size()) return c.Error("data and indices of different rank");
  if (ids_before != c.Before(updates)) return c.Error("indices and updates of different shapes");
  for (size_t d = 0; d < before.size(); ++d) {
    if (d != *axis && before[d] != ids_before[d]) {
      return c.Unsupported("indices that cover a part of the other dims");
    }
  }
  const auto zero = c.Uniform(x);
  const bool fresh = zero && *zero == 0;
  auto counted = FromFront(call, ids, c.Shape(x)[*axis], before[*axis]);
  if (!counted.ok()) return counted.status();
  OnnxValue places = *counted;
  if (ids.known()) {
    FormulaArena& f = c.formulas;
    const auto n = static_cast<double>(before[*axis]);
    const auto range = f.Range(ids.formula, ids.shape);
    if (range.second >= n || range.first < -n) return c.Error("an index outside the data");
    places.formula = f.Call("select", {f.Call("lt", {ids.formula, f.Number(0)}),
                                       f.Call("add", {ids.formula, f.Number(n)}), ids.formula});
  }
  std::vector<OnnxValue> together = {x, places, updates};
  if (absl::Status s = c.AlignBatch(&together); !s.ok()) return s;
  auto index = c.ToTensor(together[1]);
  if (!index.ok()) return index.status();
  auto value = c.ToTensor(together[2]);
  if (!value.ok()) return value.status();
  Attributes attributes = {{"rank_c", static_cast<int64_t>(before.size() - 1 - *axis)}};
  OnnxContext::EmitOptions emit;
  emit.dtypes = {x.dtype};
  const std::string put = "sum(t: m) select(ids[a, t, c] == i, u[a, t, c], 0)";
  if (fresh) {
    auto name = c.Define("scatter",
                         absl::StrCat("(ids[a.., m, c..]: int, u[a.., m, c..]; size) -> out[a.., n "
                                      "= size, c..] { out[a, i, c] = ",
                                      put, " }"));
    if (!name.ok()) return name.status();
    attributes["size"] = before[*axis];
    return call.Give(c.Emit(*name, std::move(attributes), {*index, *value}, emit));
  }
  auto data = c.ToTensor(together[0]);
  if (!data.ok()) return data.status();
  const std::string operands =
      "(x[a.., n, c..], ids[a.., m, c..]: int, u[a.., m, c..]) -> out[a.., n, c..] { ";
  auto name =
      *adds ? c.Define("scatter_add",
                       absl::StrCat(operands, "out[a, i, c] = x[a, i, c] + (", put, ") }"))
            : c.Define("scatter_over",
                       absl::StrCat(operands,
                                    "hits[a, i: n, c] = sum(t: m) select(ids[a, t, c] == i, 1, 0); "
                                    "put[a, i: n, c] = ",
                                    put,
                                    "; out[a, i, c] = select(hits[a, i, c] > 0, put[a, i, c], x[a, "
                                    "i, c]) }"));
  if (!name.ok()) return name.status();
  return call.Give(c.Emit(*name, std::move(attributes), {*data, *index, *value}, emit));
}

// Known places: every row of the result is one of the data or one of the updates.
absl::Status ScatterND(OnnxCall& call) {
  OnnxContext& c = call.c;
  const OnnxValue &x = call.in[0], &ids = call.in[1], &updates = call.in[2];
  if (call.String("reduction", "none") != "none") return c.Unsupported("adding at known places");
  const Dims before = c.Before(x), ids_before = c.Before(ids);
  if (ids_before.empty() || ids_before.back() < 1 ||
      ids_before.back() > static_cast<int64_t>(before.size())) {
    return c.Error("indices do not fit the data");
  }
  const auto depth = static_cast<size_t>(ids_before.back());
  auto places = c.Integers(ids, "the places written");
  if (!places.ok()) return places.status();
  int64_t rows = 1, width = 1;
  for (size_t d = 0; d < before.size(); ++d) (d < depth ? rows : width) *= before[d];
  const int64_t written = static_cast<int64_t>(places->size()) / ids_before.back();
  if (Product(c.Before(updates)) != written * width) return c.Error("updates do not fit");
  if (rows > kMostKnown) return c.Unsupported(absl::StrCat(rows, " rows"));
  std::vector<double> source(static_cast<size_t>(rows));  // rows of the data, then of the updates
  for (size_t r = 0; r < source.size(); ++r) source[r] = static_cast<double>(r);
  for (int64_t w = 0; w < written; ++w) {
    int64_t row = 0;
    for (size_t k = 0; k < depth; ++k) {
      int64_t at = (*places)[static_cast<size_t>(w) * depth + k];
      if (at < 0) at += before[k];
      if (at < 0 || at >= before[k]) return c.Error("an index outside the data");
      row = row * before[k] + at;
    }
    source[static_cast<size_t>(row)] = static_cast<double>(rows + w);
  }
  if (x.known() && updates.known() && rows * width <= kMostKnown && written * width <= kMostKnown) {
    const std::vector<double> old = c.formulas.Evaluate(x.formula, x.shape);
    const std::vector<double> fresh = c.formulas.Evaluate(updates.formula, updates.shape);
    std::vector<double> result;
    result.reserve(old.size());
    for (double from : source) {
      const bool kept = from < static_cast<double>(rows);
      const auto at = static_cast<size_t>(kept ? from : from - static_cast<double>(rows));
      const auto begin = (kept ? old : fresh).begin() + static_cast<int64_t>(at) * width;
      result.insert(result.end(), begin, begin + width);
    }
    OnnxValue value = c.Known(x.shape, x.dtype, c.formulas.Dense(x.shape, std::move(result)));
    value.assumed = x.assumed || ids.assumed || updates.assumed;
    value.new_batch = x.new_batch || ids.new_batch || updates.new_batch;
    return call.Give(value);
  }
  Dims flat(before.begin() + static_cast<int64_t>(depth), before.end());
  flat.insert(flat.begin(), rows);
  auto data = c.Reshape(x, flat, false, "/rows");
  if (!data.ok()) return data.status();
  flat[0] = written;
  auto fresh = c.Reshape(updates, flat, false, "/updates");
  if (!fresh.ok()) return fresh.status();
  auto all = Do(call, "Concat", {*data, *fresh}, {{"axis", 0}});
  if (!all.ok()) return all.status();
  const OnnxValue index = c.Known({rows}, DType::kI64, c.formulas.Dense({rows}, std::move(source)));
  auto taken = Do(call, "Gather", {*all, index}, {{"axis", 0}});
  if (!taken.ok()) return taken.status();
  return call.Give(c.Reshape(*taken, before, false, "/whole"));
}

}  // namespace

void AddScatterHandlers(OnnxHandlers* handlers) {
  (*handlers)["ScatterElements"] = (*handlers)["Scatter"] = ScatterElements;
  (*handlers)["ScatterND"] = ScatterND;
}

}  // namespace tandem
