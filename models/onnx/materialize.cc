// How known values and weights enter the graph.
#include <algorithm>
#include <cmath>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "models/onnx/context.h"

namespace tandem {
namespace {

constexpr int64_t kSmallConstant = 64;    // elements: written out
constexpr int64_t kDenseConstant = 4096;  // elements of a formula that is no simple one
constexpr int64_t kDenseTable = 1 << 22;  // elements of data of the file
constexpr int64_t kLongFormula = 2000;    // written out as text
constexpr int64_t kMostElements = int64_t{1} << 48;

AttrValue Ints(const Dims& dims) { return dims; }

// select(j - i <= 0, 0, low) over the last two dims: a causal mask.
std::optional<double> CausalLow(const FormulaArena& formulas, int id, size_t rank) {
  if (rank < 2) return std::nullopt;
  const FormulaNode& select = formulas.node(id);
  if (select.function != "select") return std::nullopt;
  const FormulaNode& le = formulas.node(select.args[0]);
  if (le.function != "le" || formulas.AsNumber(le.args[1]) != 0.0) return std::nullopt;
  AffineForm expected;
  expected.coefficients[static_cast<int>(rank) - 1] = 1;
  expected.coefficients[static_cast<int>(rank) - 2] = -1;
  const auto form = formulas.AsAffine(le.args[0]);
  if (!form || !(*form == expected) || formulas.AsNumber(select.args[1]) != 0.0) {
    return std::nullopt;
  }
  return formulas.AsNumber(select.args[2]);
}

}  // namespace

TensorId OnnxContext::AddConstant(const std::string& name, const Dims& shape, DType dtype,
                                  std::vector<double> constant) {
  Tensor tensor;
  tensor.name = UniqueTensorName(name.empty() ? absl::StrCat(node_name, "/constant") : name);
  tensor.dtype = dtype;
  for (int64_t extent : shape) tensor.shape.push_back({extent});
  tensor.role = TensorRole::kConstant;
  tensor.values = std::move(constant);
  const TensorId id = graph.AddSource(std::move(tensor));
  SetBefore(id, shape, Dims(shape.size(), 1));
  FinitenessOf(id) = Finiteness::kFinite;
  for (double v : graph.tensor(id).values) {
    if (!std::isfinite(v)) FinitenessOf(id) = Finiteness::kUnknown;
  }
  return id;
}

TensorId OnnxContext::AddWeight(const Weight& weight, const std::string& place) {
  Tensor tensor;
  tensor.name = UniqueTensorName(place.empty() ? weight.data.name
                                               : absl::StrCat(weight.data.name, "@", place));
  tensor.dtype = weight.data.dtype;
  const Dims& shape = weight.data.shape;
  tensor.values = weight.data.values;
  for (int64_t extent : shape) tensor.shape.push_back({extent});
  tensor.role = weight.role;
  tensor.external = weight.data.external;
  if (tensor.values.empty()) tensor.initializer = weight.initializer;
  tensor.note = weight.note;
  const TensorId id = graph.AddSource(std::move(tensor));
  SetBefore(id, shape, Dims(shape.size(), 1));
  return id;
}

absl::StatusOr<TensorId> OnnxContext::MakeKnown(const OnnxValue& value, const Dims& dims) {
  for (int64_t extent : dims) {
    if (extent < 1) {
      return Error(absl::StrCat("constant '", value.name, "' is empty: shape [",
                                absl::StrJoin(dims, ", "), "]"));
    }
  }
  if (Product(dims) > kMostElements) {
    return Error(absl::StrCat("constant '", value.name, "' of shape [", absl::StrJoin(dims, ", "),
                              "] is too large"));
  }
  const int formula = formulas.Simplify(value.formula, dims);
  const std::pair<std::string, int> key(
      absl::StrCat(absl::StrJoin(dims, ","), ":", static_cast<int>(value.dtype)), formula);
  if (const auto it = made_.find(key); it != made_.end()) return it->second;
  EmitOptions emit;
  emit.dtypes = {value.dtype};
  emit.name = absl::StrCat(value.name.empty() ? node_name : value.name, "/known");
  const bool is_float = IsFloat(value.dtype);
  const int64_t elements = Product(dims);
  bool finite = true;
  absl::StatusOr<OnnxValue> made = absl::UnknownError("");
  const auto low = CausalLow(formulas, formula, dims.size());
  const auto number = formulas.AsNumber(formula);
  const auto affine = formulas.AsAffine(formula);
  if (low && is_float && elements == dims[dims.size() - 1] * dims[dims.size() - 2]) {
    made = Emit("causal_mask",
                {{"rows", dims[dims.size() - 2]}, {"cols", dims[dims.size() - 1]}, {"low", *low}},
                {}, emit);
    finite = std::isfinite(*low);
    if (made.ok() && dims.size() > 2) made = Reshape(*made, dims, true, "/causal");
  } else if (elements <= kSmallConstant) {
    std::vector<double> dense = formulas.Evaluate(formula, dims);
    made = OfTensor(AddConstant(value.name, dims, value.dtype, std::move(dense)));
  } else if (number) {
    made = Emit("fill", {{"shape", Ints(dims)}, {"value", *number}}, {}, emit);
    finite = std::isfinite(*number);
  } else if (affine && affine->coefficients.size() == 1 &&
             elements == dims[static_cast<size_t>(affine->coefficients.begin()->first)]) {
    made = Emit("iota",
                {{"size", elements},
                 {"start", affine->constant},
                 {"step", affine->coefficients.begin()->second}},
                {}, emit);
    if (made.ok() && dims.size() > 1) made = Reshape(*made, dims, true, "/index");
  } else {
    const FormulaNode& node = formulas.node(formula);
    const bool data = node.kind == FormulaNode::Kind::kTable ||
                      formulas.TreeSize(formula, kLongFormula) >= kLongFormula;
    if (data && elements > kDenseTable && node.kind != FormulaNode::Kind::kTable) {
      return Unsupported(absl::StrCat("constant '", value.name, "' of ", elements,
                                      " elements follows no short formula"));
    }
    if (elements <= (data ? kDenseTable : kDenseConstant)) {
      made = OfTensor(AddConstant(value.name, dims, value.dtype, formulas.Evaluate(formula, dims)));
    } else {
      const char* kind = is_float ? "" : value.dtype == DType::kBool ? "bool" : "int";
      const auto text = formulas.ToOperator(formula, dims, kind);
      std::vector<TensorId> inputs;
      for (int table : text.tables) {
        auto [it, inserted] = tables_.emplace(table, TensorId());
        if (inserted) {
          const FormulaTable& data_of = formulas.table(table);
          it->second = AddConstant(absl::StrCat(value.name, "/table"), data_of.shape,
                                   is_float ? value.dtype : DType::kF32, data_of.values);
        }
        inputs.push_back(it->second);
      }
      auto op = Define("formula", text.body);
      if (!op.ok()) return op.status();
      Attributes attributes;
      for (size_t d = 0; d < dims.size(); ++d) attributes[absl::StrCat("n", d)] = dims[d];
      made = Emit(*op, std::move(attributes), inputs, emit);
      const auto range = formulas.Range(formula, dims);
      finite = std::isfinite(range.first) && std::isfinite(range.second);
      if (formulas.node(formula).function != "select") finite = true;  // smooth functions
    }
  }
  if (!made.ok()) return made.status();
  if (!finite) FinitenessOf(made->tensor) = Finiteness::kUnknown;
  made_[key] = made->tensor;
  return made->tensor;
}

absl::StatusOr<TensorId> OnnxContext::LookedUp(Weight* weight, TensorId table) {
  if (weight->found.valid() && !weight->per_place) return weight->found;
  const Lookup& lookup = *weight->lookup;
  EmitOptions emit;
  emit.dtypes = {weight->data.dtype};
  emit.suffix = "/lookup";
  const TensorId places = AddConstant(absl::StrCat(weight->data.name, "/places"),
                                      lookup.places_shape, DType::kI64, lookup.places);
  auto rows = Emit("embedding", {}, {places, table}, emit);
  if (!rows.ok()) return rows.status();
  // The dims looked up are in front; each goes where it was.
  std::vector<int64_t> perm;
  int64_t up = 0, other = static_cast<int64_t>(lookup.looked_up.size());
  for (size_t d = 0; d < lookup.looked_up.size() + lookup.row_shape.size(); ++d) {
    const bool front = up < static_cast<int64_t>(lookup.looked_up.size()) &&
                       lookup.looked_up[static_cast<size_t>(up)] == static_cast<int64_t>(d);
    perm.push_back(front ? up++ : other++);
  }
  auto found = Transpose(*rows, perm, "/in_place");
  if (!found.ok()) return found.status();
  return weight->found = found->tensor;
}

absl::StatusOr<TensorId> OnnxContext::Beginning(const OnnxValue& value, const Weight& weight) {
  OnnxValue whole = value;
  whole.weight = weight.beginning_of;
  whole.shape = weights[static_cast<size_t>(weight.beginning_of)].shape;
  auto id = ToTensor(whole);
  if (!id.ok()) return id;
  EmitOptions emit;
  emit.dtypes = {value.dtype};
  emit.suffix = "/beginning";
  auto part = Emit("slice",
                   {{"start", int64_t{0}},
                    {"size", weight.shape[weight.along]},
                    {"rank_c", static_cast<int64_t>(weight.shape.size() - 1 - weight.along)}},
                   {*id}, emit);
  if (!part.ok()) return part.status();
  return part->tensor;
}

absl::StatusOr<TensorId> OnnxContext::ToTensor(const OnnxValue& value) {
  switch (value.kind) {
    case OnnxValue::Kind::kTensor: {
      if (value.repeated.empty()) return value.tensor;
      auto all = Expand(OfTensor(value.tensor), value.repeated);
      if (!all.ok()) return all.status();
      return all->tensor;
    }
    case OnnxValue::Kind::kKnown: {
      Dims dims = value.shape;
      for (size_t d = 0; d < dims.size(); ++d) {
        if (!formulas.DependsOn(value.formula, static_cast<int>(d))) dims[d] = 1;
      }
      // Data that repeats is made once and repeated by a node.
      if (Product(value.shape) <= kSmallConstant || dims == value.shape ||
          formulas.AsNumber(value.formula)) {
        return MakeKnown(value, value.shape);
      }
      auto once = MakeKnown(value, dims);
      if (!once.ok()) return once;
      auto repeated = Expand(OfTensor(*once), value.shape, true);
      if (!repeated.ok()) return repeated.status();
      return repeated->tensor;
    }
    case OnnxValue::Kind::kWeight: {
      Weight& weight = weights[static_cast<size_t>(value.weight)];
      if (weight.initializer.empty()) {
        weight.initializer = node_op == "Mul" ? "uniform(0.5,1.5)" : "normal(0.02)";
      }
      if (weight.beginning_of >= 0) return Beginning(value, weight);
      TensorId id = weight.tensor;
      if (weight.per_place) {
        id = AddWeight(weight, node_name);
      } else if (!id.valid()) {
        id = weight.tensor = AddWeight(weight, "");
      }
      if (weight.lookup) {
        auto found = LookedUp(&weight, id);
        if (!found.ok()) return found.status();
        id = *found;
      }
      if (value.transposed) {
        EmitOptions emit;
        emit.suffix = "/transposed";
        emit.dtypes = {value.dtype};
        auto turned = Emit("transpose", {{"perm", Ints({1, 0})}}, {id}, emit);
        if (!turned.ok()) return turned.status();
        return turned->tensor;
      }
      if (!weight.over_batch || value.shape[0] == 1) return id;
      auto repeated = Expand(OfTensor(id), value.shape);
      if (!repeated.ok()) return repeated.status();
      return repeated->tensor;
    }
    default:
      return Unsupported("an operand is a sequence or missing");
  }
}

absl::StatusOr<TensorId> OnnxContext::ToBroadcastTensor(const OnnxValue& value) {
  if (value.kind == OnnxValue::Kind::kTensor) return value.tensor;
  if (value.kind == OnnxValue::Kind::kWeight &&
      value.shape != weights[static_cast<size_t>(value.weight)].data.shape && !value.transposed) {
    return ToTensor(value);  // taken once over the batch
  }
  if (!value.known()) return ToTensor(value);
  OnnxValue smaller = value;
  for (size_t d = 0; d < smaller.shape.size(); ++d) {
    if (!formulas.DependsOn(value.formula, static_cast<int>(d))) smaller.shape[d] = 1;
  }
  size_t leading = 0;
  while (leading < smaller.shape.size() && smaller.shape[leading] == 1) ++leading;
  std::vector<int> indices;
  for (size_t d = 0; d < smaller.shape.size(); ++d) {
    indices.push_back(d < leading ? formulas.Number(0)
                                  : formulas.Index(static_cast<int>(d - leading)));
  }
  smaller.formula = formulas.Substitute(value.formula, indices);
  smaller.shape.erase(smaller.shape.begin(), smaller.shape.begin() + static_cast<int64_t>(leading));
  return MakeKnown(smaller, smaller.shape);
}

absl::StatusOr<TensorId> OnnxContext::ToWeight(const OnnxValue& value, TensorRole role,
                                               const std::string& initializer) {
  if (value.known() && value.fill && IsFloat(value.dtype) && !value.shape.empty()) {
    Weight weight;
    weight.data.name = value.name;
    weight.data.dtype = value.dtype;
    weight.data.shape = value.shape;
    weight.role = role;
    weight.initializer = initializer;
    weight.note = "a constant fill in a weight's place; seeded when run";
    const auto [it, first] = fills_.emplace(value.name, 0);
    ++it->second;
    return AddWeight(weight, first ? "" : node_name);
  }
  if (value.kind == OnnxValue::Kind::kWeight) {
    Weight& weight = weights[static_cast<size_t>(value.weight)];
    if (role == TensorRole::kState && (weight.per_place || !weight.tensor.valid())) {
      const Weight saved = weight;
      weight.role = role;
      weight.note = "statistics of a normalisation; not trained";
      weight.initializer = initializer;
      auto id = ToTensor(value);
      if (weight.per_place) {
        weight.role = saved.role;
        weight.note = saved.note;
        weight.initializer = saved.initializer;
      }
      return id;
    }
    if (weight.per_place || weight.initializer.empty()) weight.initializer = initializer;
  }
  return ToTensor(value);
}

absl::StatusOr<OnnxValue> OnnxContext::Transpose(const OnnxValue& value,
                                                 const std::vector<int64_t>& perm,
                                                 const std::string& suffix) {
  bool identity = true;
  for (size_t i = 0; i < perm.size(); ++i) identity &= perm[i] == static_cast<int64_t>(i);
  if (identity) return value;
  if (value.kind == OnnxValue::Kind::kWeight && perm.size() == 2) {
    OnnxValue turned = value;
    turned.transposed = !value.transposed;
    std::swap(turned.shape[0], turned.shape[1]);
    return turned;
  }
  auto id = ToTensor(value);
  if (!id.ok()) return id.status();
  EmitOptions emit;
  emit.suffix = suffix;
  emit.dtypes = {value.dtype};
  return Emit("transpose", {{"perm", Ints(perm)}}, {*id}, emit);
}

}  // namespace tandem
