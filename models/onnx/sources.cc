#include "models/onnx/sources.h"

#include <algorithm>
#include <set>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"

namespace tandem {

absl::Status AddInputs(OnnxContext& c) {
  const onnx::GraphProto& graph = c.file.model.graph();
  std::set<std::string> initializers, symbols;
  for (const auto& tensor : graph.initializer()) initializers.insert(tensor.name());
  std::set<std::string> inner;  // symbols of dims that are not leading
  for (const auto& proto : graph.input()) {
    const auto& dims = proto.type().tensor_type().shape().dim();
    for (int d = 1; d < dims.size(); ++d) inner.insert(dims[d].dim_param());
  }
  std::string batch_symbol;
  int64_t batch = 0;
  bool first = true;
  std::vector<std::string> unbound;
  struct Input {
    std::string name;
    DType dtype;
    Dims shape;
  };
  std::vector<Input> inputs;
  for (const auto& proto : graph.input()) {
    if (initializers.count(proto.name()) != 0) continue;
    const std::string where = absl::StrCat(c.file.path, ": input '", proto.name(), "'");
    if (!proto.type().has_tensor_type()) {
      return absl::InvalidArgumentError(absl::StrCat(where, " is no tensor"));
    }
    const auto& type = proto.type().tensor_type();
    auto dtype = OnnxDType(type.elem_type(), where);
    if (!dtype.ok()) return dtype.status();
    if (!type.has_shape()) {
      return absl::InvalidArgumentError(
          absl::StrCat(where, " has no shape; export the model with one"));
    }
    Input input{proto.name(), *dtype, {}};
    int64_t elements = 1;
    for (int d = 0; d < type.shape().dim_size(); ++d) {
      const auto& dim = type.shape().dim(d);
      int64_t extent = dim.dim_value();
      if (!dim.has_dim_value()) {
        std::string symbol = dim.dim_param();
        if (symbol.empty()) symbol = absl::StrCat(proto.name(), "_dim", d);
        symbols.insert(symbol);
        if (first && d == 0) batch_symbol = symbol;
        const auto bound = c.options.dims.find(symbol);
        extent = bound != c.options.dims.end() ? bound->second : 0;
        if (symbol == batch_symbol && c.options.global_batch > 0) {
          if (extent != 0 && extent != c.options.global_batch) {
            return absl::InvalidArgumentError(
                absl::StrCat(where, ": dim '", symbol, "' is the batch: --dim ", symbol, "=",
                             extent, " says another one than --global-batch ",
                             c.options.global_batch, "; leave one out"));
          }
          extent = c.options.global_batch;
        }
        if (extent == 0 && symbol == batch_symbol) extent = 1;
        // Exporters that found no link between the inputs give each batch a name of its own.
        if (extent == 0 && d == 0 && !first && !batch_symbol.empty() &&
            type.shape().dim_size() > 1 && inner.count(symbol) == 0) {
          extent = batch;
          c.Note(absl::StrCat("leading dim '", symbol, "' of input '", proto.name(),
                              "' taken for the batch"));
        }
        if (extent == 0 && c.options.default_dim > 0) {
          extent = c.options.default_dim;
          c.Note(absl::StrCat("dim '", symbol, "' taken for ", extent, "; --dim ", symbol,
                              "=N says otherwise"));
        }
        if (extent == 0) {
          if (std::find(unbound.begin(), unbound.end(), symbol) == unbound.end())
            unbound.push_back(symbol);
          extent = 1;
        }
      }
      if (extent < 1 || elements > (int64_t{1} << 48) / extent) {
        return absl::InvalidArgumentError(absl::StrCat(where, ": dim ", d, " is ", extent,
                                                       "; dims are positive, and the whole is "
                                                       "at most 2^48 elements"));
      }
      elements *= extent;
      input.shape.push_back(extent);
    }
    if (first && !input.shape.empty()) {
      batch = input.shape[0];
      first = false;
    }
    inputs.push_back(std::move(input));
  }
  if (inputs.empty()) {
    return absl::InvalidArgumentError(absl::StrCat(
        c.file.path, ": the model has no inputs beside its weights; there is nothing to compute"));
  }
  if (!unbound.empty()) {
    return absl::InvalidArgumentError(
        absl::StrCat(c.file.path, ": dims without a value: ", absl::StrJoin(unbound, ", "),
                     "; give each one, for example --dim ", unbound[0], "=128"));
  }
  for (const auto& [symbol, extent] : c.options.dims) {
    if (symbols.count(symbol) != 0) continue;
    return absl::InvalidArgumentError(
        absl::StrCat(c.file.path, ": no symbolic dim '", symbol, "'; ",
                     symbols.empty() ? "all dims are fixed"
                                     : absl::StrCat("there are ", absl::StrJoin(symbols, ", "))));
  }
  const int64_t wanted = c.options.global_batch;
  const bool fixed = batch_symbol.empty();
  c.rebinding = fixed && wanted > 0 && batch > 0 && wanted != batch;
  c.exported_batch = fixed ? batch : 0;
  c.graph.batch = c.rebinding ? wanted : batch;
  if (!fixed && wanted == 0) c.Note(absl::StrCat("batch '", batch_symbol, "' taken for ", batch));
  if (c.rebinding) {
    c.Note(absl::StrCat("the batch of ", batch, " that the export fixed is replaced by ", wanted));
  }
  for (const Input& input : inputs) {
    Tensor tensor;
    tensor.name = c.UniqueTensorName(input.name);
    tensor.dtype = input.dtype;
    tensor.role = TensorRole::kInput;
    for (int64_t extent : input.shape) tensor.shape.push_back({extent});
    if (c.rebinding && !input.shape.empty() && input.shape[0] == batch) tensor.shape[0] = {wanted};
    const TensorId id = c.graph.AddSource(std::move(tensor));
    c.SetBefore(id, input.shape, Dims(input.shape.size(), 1));
    OnnxValue value = c.OfTensor(id);
    value.name = input.name;
    c.values[input.name] = std::move(value);
  }
  return absl::OkStatus();
}

}  // namespace tandem
