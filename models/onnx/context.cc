#include "models/onnx/context.h"

#include <algorithm>
#include <cmath>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"

namespace tandem {
namespace {

constexpr int64_t kMostKnownElements = int64_t{1} << 24;
constexpr int64_t kMostElements = int64_t{1} << 60;

std::string ShapeText(const Dims& shape) {
  return absl::StrCat("[", absl::StrJoin(shape, ", "), "]");
}

}  // namespace

OnnxContext::OnnxContext(const OnnxFile& file_in, const ImportOptions& options_in,
                         ImportReport* report_in)
    : file(file_in), options(options_in), report(report_in) {
  graph.operators = BuiltinOperators();
}

absl::Status OnnxContext::Error(const std::string& message) const {
  return absl::InvalidArgumentError(
      absl::StrCat(file.path, ": node '", node_name, "' (", node_op, "): ", message));
}

absl::Status OnnxContext::Unsupported(const std::string& reason) const {
  return absl::UnimplementedError(reason);
}

absl::Status OnnxContext::CannotRebind(const std::string& what) const {
  return Error(absl::StrCat("the batch cannot be changed from the ", exported_batch,
                            " of the export to ", options.global_batch, ": ", what,
                            "; export the model with a symbolic batch, or plan for ",
                            exported_batch));
}

void OnnxContext::Note(const std::string& note) {
  auto& notes = report->notes;
  if (std::find(notes.begin(), notes.end(), note) == notes.end()) notes.push_back(note);
}

OnnxValue OnnxContext::Known(Dims shape, DType dtype, int formula) const {
  OnnxValue value;
  value.kind = OnnxValue::Kind::kKnown;
  value.shape = std::move(shape);
  value.dtype = dtype;
  value.formula = formula;
  return value;
}

OnnxValue OnnxContext::KnownInts(const std::vector<int64_t>& ints) const {
  auto& arena = const_cast<FormulaArena&>(formulas);  // the arena only grows
  const Dims shape = {static_cast<int64_t>(ints.size())};
  return Known(shape, DType::kI64, arena.Dense(shape, {ints.begin(), ints.end()}));
}

OnnxValue OnnxContext::KnownScalar(double value, DType dtype) const {
  return Known({}, dtype, const_cast<FormulaArena&>(formulas).Number(value));
}

absl::StatusOr<std::vector<double>> OnnxContext::Elements(const OnnxValue& value,
                                                          const std::string& what) const {
  if (!value.known()) {
    return Unsupported(absl::StrCat(what,
                                    " is computed from the data; it must be known when the "
                                    "model is imported"));
  }
  const int64_t count = Product(value.shape);
  if (count > kMostKnownElements) {
    return Unsupported(absl::StrCat(what, " has ", count, " elements; at most ", kMostKnownElements,
                                    " are computed at import"));
  }
  return formulas.Evaluate(value.formula, value.shape);
}

absl::StatusOr<std::vector<int64_t>> OnnxContext::Integers(const OnnxValue& value,
                                                           const std::string& what) const {
  auto elements = Elements(value, what);
  if (!elements.ok()) return elements.status();
  std::vector<int64_t> integers;
  for (double element : *elements) {
    if (!(std::fabs(element) <= 9.3e18)) return Error(absl::StrCat(what, " holds ", element));
    integers.push_back(element >= 9.2233720368547748e18    ? INT64_MAX
                       : element <= -9.2233720368547748e18 ? INT64_MIN
                                                           : static_cast<int64_t>(element));
  }
  return integers;
}

std::optional<double> OnnxContext::Uniform(const OnnxValue& value) const {
  if (!value.known()) return std::nullopt;
  return formulas.AsNumber(value.formula);
}

Dims OnnxContext::Shape(const OnnxValue& value) const {
  if (value.kind != OnnxValue::Kind::kTensor) return value.shape;
  return value.repeated.empty() ? PlainShape(graph.tensor(value.tensor).shape) : value.repeated;
}

Dims OnnxContext::Before(const OnnxValue& value) const {
  if (value.kind != OnnxValue::Kind::kTensor || !rebinding || !value.repeated.empty()) {
    return Shape(value);
  }
  return before_[value.tensor.index()];
}

Dims& OnnxContext::Outer(TensorId id) {
  outer_.resize(std::max(outer_.size(), id.index() + 1));
  return outer_[id.index()];
}

void OnnxContext::SetBefore(TensorId id, Dims before, Dims outer) {
  before_.resize(std::max(before_.size(), id.index() + 1));
  before_[id.index()] = std::move(before);
  Outer(id) = std::move(outer);
}

Finiteness& OnnxContext::FinitenessOf(TensorId id) {
  finiteness_.resize(std::max(finiteness_.size(), id.index() + 1), Finiteness::kFinite);
  return finiteness_[id.index()];
}

std::string OnnxContext::UniqueTensorName(const std::string& name) {
  std::string unique = name.empty() ? "tensor" : name;
  for (int k = 1; !tensor_names_.insert(unique).second; ++k) unique = absl::StrCat(name, "~", k);
  return unique;
}

std::string OnnxContext::UniqueNodeName(const std::string& name) {
  std::string unique = name.empty() ? "node" : name;
  for (int k = 1; !node_names_.insert(unique).second; ++k) unique = absl::StrCat(name, "~", k);
  return unique;
}

OnnxValue OnnxContext::OfTensor(TensorId id) const {
  OnnxValue value;
  value.kind = OnnxValue::Kind::kTensor;
  value.tensor = id;
  value.dtype = graph.tensor(id).dtype;
  return value;
}

absl::StatusOr<std::vector<OnnxValue>> OnnxContext::EmitAll(const std::string& op,
                                                            Attributes attributes,
                                                            const std::vector<TensorId>& inputs,
                                                            const EmitOptions& emit) {
  Node node;
  node.name = UniqueNodeName(!emit.name.empty() ? emit.name : absl::StrCat(node_name, emit.suffix));
  node.op = op;
  node.attributes = attributes;
  node.inputs = inputs;
  std::vector<DType> dtypes = emit.dtypes;
  auto spec = graph.operators.Get(op);
  if (!spec.ok()) return spec.status();
  if (dtypes.empty()) {
    DType first = inputs.empty() ? DType::kF32 : graph.tensor(inputs[0]).dtype;
    for (TensorId id : inputs) {
      if (!IsFloat(graph.tensor(id).dtype)) continue;
      first = graph.tensor(id).dtype;
      break;
    }
    for (const OperandSpec& output : (*spec)->outputs) {
      dtypes.push_back(output.kind == ElementKind::kBool  ? DType::kBool
                       : output.kind == ElementKind::kInt ? DType::kI64
                                                          : first);
    }
  }
  auto id = graph.AddNode(std::move(node), dtypes);
  if (!id.ok()) return Error(std::string(id.status().message()));
  std::vector<Dims> before_shapes;
  if (rebinding) {
    std::vector<FactoredShape> before_inputs;
    for (TensorId input : inputs) {
      FactoredShape shape;
      for (int64_t extent : before_[input.index()]) shape.push_back({extent});
      before_inputs.push_back(std::move(shape));
    }
    auto instance =
        Instantiate(**spec, emit.before != nullptr ? *emit.before : attributes, before_inputs);
    if (!instance.ok()) {
      return CannotRebind(
          absl::StrCat("with the batch of the export: ", instance.status().message()));
    }
    for (int k = 0; k < instance->num_outputs; ++k) {
      before_shapes.push_back(PlainShape(instance->ShapeOf(instance->num_inputs + k)));
    }
  }
  Finiteness finiteness = Finiteness::kFinite;
  for (TensorId input : inputs) {
    if (FinitenessOf(input) != Finiteness::kFinite) finiteness = Finiteness::kUnknown;
  }
  std::vector<OnnxValue> results;
  const std::vector<TensorId> outputs = graph.node(*id).outputs;
  for (size_t k = 0; k < outputs.size(); ++k) {
    Tensor& tensor = graph.tensors[outputs[k].index()];
    tensor.name = UniqueTensorName(tensor.name);
    int64_t elements = 1;
    for (int64_t extent : PlainShape(tensor.shape)) {
      if (extent < 1 || elements > kMostElements / extent) {
        return Error(absl::StrCat("the result's shape ", ShapeText(PlainShape(tensor.shape)),
                                  " is empty or too large"));
      }
      elements *= extent;
    }
    FinitenessOf(outputs[k]) = finiteness;
    if (rebinding) {
      const Dims after = PlainShape(tensor.shape);
      Dims outer(after.size(), 1);
      for (size_t d = 0; d < after.size(); ++d) {
        if (after[d] == before_shapes[k][d]) continue;
        bool first = true;
        for (TensorId input : inputs) {
          const Dims input_after = PlainShape(graph.tensor(input).shape);
          for (size_t e = 0; e < input_after.size(); ++e) {
            if (input_after[e] != after[d] || before_[input.index()][e] != before_shapes[k][d]) {
              continue;
            }
            const int64_t found = outer_[input.index()][e];
            outer[d] = first || outer[d] == found ? found : 0;
            first = false;
          }
        }
      }
      SetBefore(outputs[k], before_shapes[k], std::move(outer));
    }
    results.push_back(OfTensor(outputs[k]));
  }
  return results;
}

absl::StatusOr<OnnxValue> OnnxContext::Emit(const std::string& op, Attributes attributes,
                                            const std::vector<TensorId>& inputs,
                                            const EmitOptions& emit) {
  auto outputs = EmitAll(op, std::move(attributes), inputs, emit);
  if (!outputs.ok()) return outputs.status();
  return (*outputs)[0];
}

absl::StatusOr<std::string> OnnxContext::Define(const std::string& stem, const std::string& body) {
  uint64_t hash = 14695981039346656037u;  // FNV-1a: the same on every machine
  for (unsigned char c : body) hash = (hash ^ c) * 1099511628211u;
  const std::string name = absl::StrCat(stem, "_", absl::Hex(hash >> 32, absl::kZeroPad8));
  if (graph.operators.Find(name) != nullptr) return name;
  const absl::Status s =
      graph.operators.AddText(absl::StrCat("operator ", name, body), absl::StrCat("import:", name));
  if (!s.ok()) return absl::InternalError(absl::StrCat(s.message(), " in ", body));
  return name;
}

absl::Status OnnxContext::DropBatch(OnnxValue* value, size_t dim) const {
  if (value->known()) {
    if (formulas.DependsOn(value->formula, static_cast<int>(dim))) {
      return CannotRebind(absl::StrCat("constant '", value->name, "' of shape ",
                                       ShapeText(value->shape), " differs along the batch"));
    }
    value->shape[dim] = 1;
    return absl::OkStatus();
  }
  if (!value->repeated.empty() && graph.tensor(value->tensor).shape[dim] == Factors{1}) {
    value->repeated[dim] = 1;
    return absl::OkStatus();
  }
  if (value->kind == OnnxValue::Kind::kWeight &&
      weights[static_cast<size_t>(value->weight)].over_batch && dim == 0) {
    value->shape[0] = 1;
    return absl::OkStatus();
  }
  return CannotRebind(absl::StrCat("dim ", dim, " of '", value->name, "', shape ",
                                   ShapeText(Shape(*value)), ", does not follow the batch"));
}

absl::Status OnnxContext::AlignBatch(std::vector<OnnxValue>* together) const {
  if (!rebinding) return absl::OkStatus();
  size_t rank = 0;
  for (const OnnxValue& value : *together) rank = std::max(rank, Shape(value).size());
  for (size_t from_end = 1; from_end <= rank; ++from_end) {
    int64_t batch_before = 0;
    for (const OnnxValue& value : *together) {
      const Dims before = Before(value), after = Shape(value);
      if (after.size() < from_end) continue;
      const size_t d = after.size() - from_end;
      if (before[d] != after[d]) batch_before = before[d];
    }
    if (batch_before <= 1) continue;
    for (OnnxValue& value : *together) {
      const Dims before = Before(value), after = Shape(value);
      if (after.size() < from_end) continue;
      const size_t d = after.size() - from_end;
      if (before[d] != batch_before || after[d] != before[d] || value.new_batch) continue;
      if (absl::Status s = DropBatch(&value, d); !s.ok()) return s;
    }
  }
  return absl::OkStatus();
}

}  // namespace tandem
