// Cutting apart and joining: Slice, Split, Concat, Pad, and sequences of tensors.
#include <algorithm>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "models/onnx/ops.h"

namespace tandem {
namespace {

// One dim of a slice: elements start, start + step, ...
absl::StatusOr<OnnxValue> SliceDim(OnnxCall& call, const OnnxValue& x, size_t axis, int64_t start,
                                   int64_t size, int64_t step, const std::string& suffix) {
  OnnxContext& c = call.c;
  const Dims before = c.Before(x), after = c.Shape(x);
  if (start == 0 && step == 1 && size == before[axis]) return x;
  if (x.known()) {
    AffineForm at;
    at.constant = static_cast<double>(start);
    at.coefficients[static_cast<int>(axis)] = static_cast<double>(step);
    std::vector<int> indices;
    for (size_t d = 0; d < x.shape.size(); ++d)
      indices.push_back(c.formulas.Index(static_cast<int>(d)));
    indices[axis] = c.formulas.FromAffine(at);
    Dims shape = x.shape;
    shape[axis] = size;
    return Reindex(c, x, std::move(shape), indices);
  }
  if (size < 1) return c.Error("an empty slice");
  if (before[axis] != after[axis] && size != 1) {
    return c.CannotRebind("a part of the batch is cut out");
  }
  auto id = c.ToTensor(x);
  if (!id.ok()) return id.status();
  OnnxContext::EmitOptions emit;
  emit.suffix = suffix;
  emit.dtypes = {x.dtype};
  Attributes attributes = {
      {"start", start}, {"size", size}, {"rank_c", static_cast<int64_t>(before.size() - 1 - axis)}};
  if (step != 1) attributes["step"] = step;
  return c.Emit("slice", std::move(attributes), {*id}, emit);
}

absl::Status Slice(OnnxCall& call) {
  OnnxContext& c = call.c;
  auto starts = call.IntsOf("starts", 1);
  auto ends = call.IntsOf("ends", 2);
  auto axes = call.IntsOf("axes", 3);
  auto steps = call.IntsOf("steps", 4);
  for (const auto* part : {&starts, &ends, &axes, &steps}) {
    if (!part->ok()) return part->status();
  }
  if (!starts->has_value() || !ends->has_value()) return c.Error("needs starts and ends");
  const size_t n = (*starts)->size();
  const bool new_batch =
      (call.has(1) && call.in[1].new_batch) || (call.has(2) && call.in[2].new_batch);
  OnnxValue x = call.in[0];
  const size_t rank = c.Shape(x).size();
  if ((*ends)->size() != n || (axes->has_value() && (*axes)->size() != n) ||
      (steps->has_value() && (*steps)->size() != n)) {
    return c.Error("starts, ends, axes and steps differ in length");
  }
  for (size_t k = 0; k < n; ++k) {
    auto axis = call.Axis(axes->has_value() ? (**axes)[k] : static_cast<int64_t>(k), rank);
    if (!axis.ok()) return axis.status();
    const int64_t extent = (new_batch ? c.Shape(x) : c.Before(x))[*axis];
    const int64_t step = steps->has_value() ? (**steps)[k] : 1;
    if (step == 0) return c.Error("a step of 0");
    int64_t start = (**starts)[k], end = (**ends)[k];
    if (start < 0) start = start < -extent ? (step < 0 ? -1 : 0) : start + extent;
    if (end < 0) end = end < -extent ? -1 : end + extent;
    start = std::clamp<int64_t>(start, step < 0 ? -1 : 0, step < 0 ? extent - 1 : extent);
    end = std::clamp<int64_t>(end, step < 0 ? -1 : 0, extent);
    const int64_t span = step > 0 ? end - start : start - end;
    const int64_t by = step > 0 ? step : -step;
    const int64_t size = span <= 0 ? 0 : (span - 1) / by + 1;
    auto part =
        SliceDim(call, x, *axis, start, size, step, n == 1 ? "" : absl::StrCat("/dim", *axis));
    if (!part.ok()) return part.status();
    x = *std::move(part);
  }
  return call.Give(x);
}

absl::StatusOr<OnnxValue> ConcatKnown(OnnxCall& call, const std::vector<OnnxValue>& parts,
                                      size_t axis) {
  FormulaArena& f = call.c.formulas;
  OnnxValue result = parts[0];
  int64_t offset = 0;
  const int at = f.Index(static_cast<int>(axis));
  std::vector<std::pair<int64_t, int>> pieces;  // end, formula
  for (const OnnxValue& part : parts) {
    std::vector<int> indices;
    for (size_t d = 0; d < part.shape.size(); ++d) indices.push_back(f.Index(static_cast<int>(d)));
    indices[axis] = f.Call("sub", {at, f.Number(static_cast<double>(offset))});
    offset += part.shape[axis];
    pieces.emplace_back(offset, f.Substitute(part.formula, indices));
    result.assumed = result.assumed || part.assumed;
    result.new_batch = result.new_batch || part.new_batch;
  }
  int formula = pieces.back().second;
  for (size_t k = pieces.size() - 1; k-- > 0;) {
    formula = f.Call("select", {f.Call("lt", {at, f.Number(static_cast<double>(pieces[k].first))}),
                                pieces[k].second, formula});
  }
  Dims shape = parts[0].shape;
  shape[axis] = offset;
  result.formula = formula;
  result.fill = false;
  std::vector<int> same;
  for (size_t d = 0; d < shape.size(); ++d) same.push_back(f.Index(static_cast<int>(d)));
  return Reindex(call.c, result, std::move(shape), same);
}

absl::StatusOr<OnnxValue> ConcatTensors(OnnxCall& call, std::vector<OnnxValue> parts, size_t axis) {
  OnnxContext& c = call.c;
  if (absl::Status s = c.AlignBatch(&parts); !s.ok()) return s;
  // What the alignment left at 1 is repeated.
  Dims most(c.Shape(parts[0]).size(), 1);
  for (const OnnxValue& part : parts) {
    const Dims shape = c.Shape(part);
    for (size_t d = 0; d < most.size(); ++d) most[d] = std::max(most[d], shape[d]);
  }
  std::vector<TensorId> ids;
  for (OnnxValue& part : parts) {
    Dims goal = most;
    goal[axis] = c.Shape(part)[axis];
    if (c.rebinding && !part.known() && c.Shape(part) != goal) {
      auto repeated = c.Expand(part, goal, true);
      if (!repeated.ok()) return repeated.status();
      part = *repeated;
    } else if (part.known() && part.shape != goal) {
      auto made = c.ToTensor(part);
      if (!made.ok()) return made.status();
      auto repeated = c.Expand(c.OfTensor(*made), goal, true);
      if (!repeated.ok()) return repeated.status();
      part = *repeated;
    }
    auto id = c.ToTensor(part);
    if (!id.ok()) return id.status();
    ids.push_back(*id);
  }
  const Attributes attributes = {{"rank_c", static_cast<int64_t>(most.size() - 1 - axis)}};
  OnnxContext::EmitOptions emit;
  emit.dtypes = {parts[0].dtype};
  // A balanced tree of nodes of up to four operands.
  int level = 0;
  while (ids.size() > 1) {
    std::vector<TensorId> next;
    for (size_t i = 0; i < ids.size(); i += 4) {
      const size_t n = std::min<size_t>(4, ids.size() - i);
      const std::vector<TensorId> group(ids.begin() + static_cast<int64_t>(i),
                                        ids.begin() + static_cast<int64_t>(i + n));
      if (n == 1) {
        next.push_back(group[0]);
        continue;
      }
      emit.suffix = ids.size() <= 4 ? "" : absl::StrCat("/part", level, "_", i / 4);
      auto joined = c.Emit(n == 2   ? "concat"
                           : n == 3 ? "concat3"
                                    : "concat4",
                           attributes, group, emit);
      if (!joined.ok()) return joined.status();
      next.push_back(joined->tensor);
    }
    ids = std::move(next);
    ++level;
  }
  return c.OfTensor(ids[0]);
}

absl::StatusOr<OnnxValue> Join(OnnxCall& call, std::vector<OnnxValue> parts, int64_t axis_in) {
  OnnxContext& c = call.c;
  if (parts.empty()) return c.Error("nothing to join");
  const size_t rank = c.Shape(parts[0]).size();
  auto axis = call.Axis(axis_in, rank);
  if (!axis.ok()) return axis.status();
  bool known = true;
  std::vector<OnnxValue> present;
  for (OnnxValue& part : parts) {
    if (c.Shape(part).size() != rank) return c.Error("operands of different rank");
    if (c.Shape(part)[*axis] == 0) continue;
    known = known && part.known();
    present.push_back(std::move(part));
  }
  if (present.empty()) return c.Known(Dims(rank, 0), DType::kI64, c.formulas.Number(0));
  if (present.size() == 1) return present[0];
  return known ? ConcatKnown(call, present, *axis) : ConcatTensors(call, std::move(present), *axis);
}

absl::Status Concat(OnnxCall& call) { return call.Give(Join(call, call.in, call.Int("axis", 0))); }

// Lengths of the parts of a split along a dim of `extent`.
absl::StatusOr<std::vector<int64_t>> SplitSizes(OnnxCall& call, int64_t extent, int64_t parts,
                                                std::optional<std::vector<int64_t>> given) {
  if (!given) {
    if (parts < 1) return call.c.Error("a split into no parts");
    const int64_t each = (extent + parts - 1) / parts;
    given.emplace();
    for (int64_t k = 0; k < parts; ++k) {
      given->push_back(std::min(each, extent - std::min(extent, k * each)));
    }
  }
  int64_t sum = 0;
  for (int64_t size : *given) {
    if (size < 0) return call.c.Error(absl::StrCat("a part of ", size));
    sum += size;
  }
  if (sum != extent) {
    return call.c.Error(
        absl::StrCat("parts [", absl::StrJoin(*given, ", "), "] of a dim of ", extent));
  }
  return *given;
}

absl::Status Split(OnnxCall& call) {
  OnnxContext& c = call.c;
  const Dims before = c.Before(call.in[0]);
  auto axis = call.Axis(call.Int("axis", 0), before.size());
  if (!axis.ok()) return axis.status();
  auto given = call.IntsOf("split", 1);
  if (!given.ok()) return given.status();
  auto sizes = SplitSizes(call, before[*axis], static_cast<int64_t>(call.out.size()), *given);
  if (!sizes.ok()) return sizes.status();
  if (sizes->size() != call.out.size()) {
    return c.Error(absl::StrCat(sizes->size(), " parts for ", call.out.size(), " outputs"));
  }
  int64_t start = 0;
  for (size_t k = 0; k < sizes->size(); ++k) {
    auto part = SliceDim(call, call.in[0], *axis, start, (*sizes)[k], 1, absl::StrCat("/", k));
    if (!part.ok()) return part.status();
    call.out[k] = *std::move(part);
    start += (*sizes)[k];
  }
  return absl::OkStatus();
}

absl::Status SplitToSequence(OnnxCall& call) {
  OnnxContext& c = call.c;
  const Dims before = c.Before(call.in[0]);
  auto axis = call.Axis(call.Int("axis", 0), before.size());
  if (!axis.ok()) return axis.status();
  std::optional<std::vector<int64_t>> given;
  bool drop = false;
  int64_t parts = before[*axis];
  if (call.has(1)) {
    auto sizes = c.Integers(call.in[1], "the split");
    if (!sizes.ok()) return sizes.status();
    if (call.in[1].shape.empty()) {  // equal parts of this size
      if ((*sizes)[0] < 1) return c.Error("parts of no size");
      given.emplace();
      for (int64_t at = 0; at < before[*axis]; at += (*sizes)[0]) {
        given->push_back(std::min((*sizes)[0], before[*axis] - at));
      }
    } else {
      given = *sizes;
    }
  } else {
    drop = call.Int("keepdims", 1) == 0;
  }
  auto sizes = SplitSizes(call, before[*axis], parts, given);
  if (!sizes.ok()) return sizes.status();
  OnnxValue sequence;
  sequence.kind = OnnxValue::Kind::kSequence;
  sequence.dtype = call.in[0].dtype;
  int64_t start = 0;
  for (size_t k = 0; k < sizes->size(); ++k) {
    auto part = SliceDim(call, call.in[0], *axis, start, (*sizes)[k], 1, absl::StrCat("/", k));
    if (part.ok() && drop) {
      Dims fewer = c.Before(*part);
      fewer.erase(fewer.begin() + static_cast<int64_t>(*axis));
      part = c.Reshape(*part, fewer, false, absl::StrCat("/squeeze", k));
    }
    if (!part.ok()) return part.status();
    sequence.elements.push_back(*std::move(part));
    start += (*sizes)[k];
  }
  return call.Give(sequence);
}

absl::Status SequenceConstruct(OnnxCall& call) {
  OnnxValue sequence;
  sequence.kind = OnnxValue::Kind::kSequence;
  sequence.elements = call.in;
  return call.Give(sequence);
}

absl::Status SequenceEmpty(OnnxCall& call) {
  OnnxValue sequence;
  sequence.kind = OnnxValue::Kind::kSequence;
  return call.Give(sequence);
}

absl::Status SequenceInsert(OnnxCall& call) {
  if (call.in[0].kind != OnnxValue::Kind::kSequence) return call.c.Error("no sequence");
  OnnxValue sequence = call.in[0];
  const auto n = static_cast<int64_t>(sequence.elements.size());
  int64_t at = n;
  if (call.has(2)) {
    auto position = call.c.Integers(call.in[2], "the position");
    if (!position.ok()) return position.status();
    if (position->size() != 1) return call.c.Error("one position");
    at = (*position)[0] < 0 ? (*position)[0] + n : (*position)[0];
  }
  if (at < 0 || at > n) return call.c.Error(absl::StrCat("position ", at, " of ", n));
  sequence.elements.insert(sequence.elements.begin() + at, call.in[1]);
  return call.Give(sequence);
}

absl::Status SequenceAt(OnnxCall& call) {
  if (call.in[0].kind != OnnxValue::Kind::kSequence) return call.c.Error("no sequence");
  auto position = call.c.Integers(call.in[1], "the position");
  if (!position.ok()) return position.status();
  const auto n = static_cast<int64_t>(call.in[0].elements.size());
  const int64_t at = position->empty() ? 0 : (*position)[0];
  if (at < -n || at >= n) return call.c.Error(absl::StrCat("element ", at, " of ", n));
  return call.Give(call.in[0].elements[static_cast<size_t>(at < 0 ? at + n : at)]);
}

absl::Status ConcatFromSequence(OnnxCall& call) {
  if (call.in[0].kind != OnnxValue::Kind::kSequence) return call.c.Error("no sequence");
  std::vector<OnnxValue> parts = call.in[0].elements;
  if (parts.empty()) return call.c.Error("an empty sequence");
  const int64_t axis = call.Int("axis", 0);
  for (OnnxValue& part : parts) {
    if (call.Int("new_axis", 0) == 0) break;
    auto wider = Do(call, "Unsqueeze", {part, call.c.KnownInts({axis})});
    if (!wider.ok()) return wider.status();
    part = *std::move(wider);
  }
  return call.Give(Do(call, "Concat", std::move(parts), {{"axis", axis}}));
}

absl::Status Pad(OnnxCall& call) {
  OnnxContext& c = call.c;
  if (call.String("mode", "constant") != "constant") {
    return c.Unsupported(
        absl::StrCat("padding by '", call.String("mode", ""), "'; pad by a constant"));
  }
  auto pads = call.IntsOf("pads", 1);
  if (!pads.ok()) return pads.status();
  auto axes = call.IntsOf("axes", 3);
  if (!axes.ok()) return axes.status();
  double value = call.Float("value", 0);
  if (call.has(2)) {
    const auto known = c.Uniform(call.in[2]);
    if (!known) return c.Unsupported("a padding value computed from the data");
    value = *known;
  }
  OnnxValue x = call.in[0];
  const size_t rank = c.Shape(x).size();
  const size_t n = axes->has_value() ? (*axes)->size() : rank;
  if (!pads->has_value() || (*pads)->size() != 2 * n) return c.Error("pads do not fit the dims");
  for (size_t k = 0; k < n; ++k) {
    auto axis = call.Axis(axes->has_value() ? (**axes)[k] : static_cast<int64_t>(k), rank);
    if (!axis.ok()) return axis.status();
    int64_t low = (**pads)[k], high = (**pads)[n + k];
    if (low < 0 || high < 0) {
      const int64_t extent = c.Before(x)[*axis];
      auto part = SliceDim(call, x, *axis, std::max<int64_t>(0, -low),
                           extent + std::min<int64_t>(0, low) + std::min<int64_t>(0, high), 1,
                           absl::StrCat("/cut", *axis));
      if (!part.ok()) return part.status();
      x = *part;
      low = std::max<int64_t>(0, low);
      high = std::max<int64_t>(0, high);
    }
    if (low == 0 && high == 0) continue;
    if (c.Before(x)[*axis] != c.Shape(x)[*axis]) return c.CannotRebind("the batch is padded");
    auto id = c.ToTensor(x);
    if (!id.ok()) return id.status();
    OnnxContext::EmitOptions emit;
    emit.suffix = absl::StrCat("/dim", *axis);
    emit.dtypes = {x.dtype};
    auto padded = c.Emit("pad",
                         {{"low", low},
                          {"high", high},
                          {"value", value},
                          {"rank_c", static_cast<int64_t>(rank - 1 - *axis)}},
                         {*id}, emit);
    if (!padded.ok()) return padded.status();
    x = *padded;
  }
  return call.Give(x);
}

}  // namespace

void AddSlicingHandlers(OnnxHandlers* handlers) {
  OnnxHandlers& h = *handlers;
  h["Slice"] = Slice;
  h["Concat"] = Concat;
  h["Split"] = Split;
  h["SplitToSequence"] = SplitToSequence;
  h["SequenceConstruct"] = SequenceConstruct;
  h["SequenceEmpty"] = SequenceEmpty;
  h["SequenceInsert"] = SequenceInsert;
  h["SequenceAt"] = SequenceAt;
  h["ConcatFromSequence"] = ConcatFromSequence;
  h["Pad"] = Pad;
}

}  // namespace tandem
