#include "models/onnx/sources.h"

#include <algorithm>
#include <cmath>
#include <cstring>
#include <functional>
#include <regex>
#include <set>
#include <utility>

#include "absl/strings/ascii.h"
#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "models/onnx/readers.h"

namespace tandem {
namespace {

// Names that exporters make up; a person's have dots ("layer.0.bias").
bool ExporterMade(const std::string& name) {
  return !absl::StrContains(name, '.') || absl::StartsWith(name, "onnx::") ||
         absl::StartsWith(name, "/");
}

bool Matches(const std::vector<std::regex>& patterns, const std::string& name) {
  return std::any_of(patterns.begin(), patterns.end(),
                     [&](const std::regex& p) { return std::regex_search(name, p); });
}

absl::StatusOr<std::vector<std::regex>> Patterns(const std::vector<std::string>& texts,
                                                 const char* flag) {
  std::vector<std::regex> patterns;
  for (const std::string& text : texts) {
    try {
      patterns.emplace_back(text);
    } catch (const std::regex_error& error) {
      return absl::InvalidArgumentError(absl::StrCat(flag, " '", text, "': ", error.what()));
    }
  }
  return patterns;
}

// Equal bytes, equal key; the matrix transposed has the key of its transpose.
uint64_t KeyOf(const Dims& shape, const std::vector<double>& values, bool transposed) {
  uint64_t hash = 14695981039346656037u;
  const auto add = [&](uint64_t bits) { hash = (hash ^ bits) * 1099511628211u; };
  const size_t rows = static_cast<size_t>(shape[0]);
  const size_t columns = values.size() / rows;
  add(transposed ? columns : rows);
  for (size_t i = 0; i < values.size(); ++i) {
    const size_t at = transposed ? i % rows * columns + i / rows : i;
    uint64_t bits = 0;
    std::memcpy(&bits, &values[at], sizeof bits);
    add(bits);
  }
  return hash;
}

bool AllEqual(const std::vector<double>& values) {
  return std::adjacent_find(values.begin(), values.end(), std::not_equal_to<>()) == values.end();
}

// Float initialisers of rank >= 1 that are not parameters of the model, and why.
std::string KnownReason(const OnnxTensor& tensor, bool rotation, bool setting, bool neutral) {
  if (tensor.shape.empty()) return "a scalar";
  if (!tensor.known) return "";
  if (tensor.values.empty()) return "empty";
  if (tensor.values.size() == 1 && ExporterMade(tensor.name)) return "a number";
  if (neutral && ExporterMade(tensor.name) && AllEqual(tensor.values) &&
      (tensor.values[0] == 0 || tensor.values[0] == 1)) {
    return "neutral: all zeros or ones, with a name that the exporter made up";
  }
  if (setting) return "a setting of an operator";
  if (rotation) return "leads to sines and cosines only";
  for (double value : tensor.values) {
    if (!std::isfinite(value)) return "a mask";
  }
  if (FollowsItsIndices(tensor.shape, tensor.values)) return "a formula of its indices";
  return "";
}

class InitializerReader {
 public:
  explicit InitializerReader(OnnxContext& c)
      : c_(c),
        graph_(c.file.model.graph()),
        readers_(ReadersOf(graph_)),
        shared_layers_(SharedLayers(graph_, readers_)) {}

  absl::Status Run() {
    auto tie = Patterns(c_.options.tie, "--tie");
    auto untie = Patterns(c_.options.untie, "--untie");
    auto train = Patterns(c_.options.train, "--train");
    if (!tie.ok()) return tie.status();
    if (!train.ok()) return train.status();
    if (!untie.ok()) return untie.status();
    tie_ = *std::move(tie);
    untie_ = *std::move(untie);
    train_ = *std::move(train);
    int64_t budget = kLoadedExternalBytes;
    for (const onnx::TensorProto& proto : graph_.initializer()) {
      auto tensor = ReadOnnxTensor(proto, c_.file, &budget);
      if (!tensor.ok()) {
        if (readers_.find(proto.name()) == readers_.end()) continue;  // nothing reads it
        return tensor.status();
      }
      if (absl::Status s = Add(*std::move(tensor)); !s.ok()) return s;
    }
    if (missing_ > 0) {
      c_.Note(absl::StrCat("the data of ", missing_,
                           " initialisers is in external files that are not there: planning needs "
                           "none, and a run seeds them"));
    }
    return absl::OkStatus();
  }

 private:
  absl::Status Add(OnnxTensor tensor) {
    OnnxValue value;
    if (!tensor.known) ++missing_;
    if (!IsFloat(tensor.dtype)) {
      value = tensor.known ? Dense(tensor) : Guess(tensor);
    } else {
      if (!tensor.shape.empty()) c_.report->initializer_parameters += Product(tensor.shape);
      c_.report->initializers.push_back(tensor.name);
      std::set<std::string> seen;
      const bool asked = Matches(train_, tensor.name);
      const bool rotation = !asked && LeadsToRotation(graph_, readers_, tensor.name, 0, &seen);
      // What exporters put in where a layer was taken apart, or computed as what is written over.
      const bool neutral = OnlyReadBy(graph_, readers_, tensor.name,
                                      {"InstanceNormalization", "ScatterElements", "ScatterND"});
      const std::string reason =
          asked ? ""
                : KnownReason(tensor, rotation, IsSetting(graph_, readers_, tensor.name), neutral);
      if (!reason.empty()) {
        value = Dense(tensor);
        if (!tensor.shape.empty() && tensor.values.size() > 1) {
          c_.Note(absl::StrCat("'", tensor.name, "': not trained, ", reason));
        }
      } else {
        for (int64_t extent : tensor.shape) {
          if (extent < 1) {
            return absl::InvalidArgumentError(absl::StrCat(c_.file.path, ": initialiser '",
                                                           tensor.name, "' is empty: shape [",
                                                           absl::StrJoin(tensor.shape, ", "), "]"));
          }
        }
        value = AsWeight(std::move(tensor), rotation);
      }
    }
    const std::string name = value.name;
    c_.values[name] = std::move(value);
    return absl::OkStatus();
  }

  OnnxValue Dense(OnnxTensor& tensor) {
    OnnxValue value = c_.Known(tensor.shape, tensor.dtype,
                               c_.formulas.Dense(tensor.shape, std::move(tensor.values)));
    value.name = tensor.name;
    return value;
  }

  // Integers and conditions whose data is missing: positions, segment numbers, masks.
  OnnxValue Guess(const OnnxTensor& tensor) {
    FormulaArena& f = c_.formulas;
    const size_t rank = tensor.shape.size();
    size_t longest = 0;
    for (size_t d = 0; d < rank; ++d) {
      if (tensor.shape[d] >= tensor.shape[longest]) longest = d;
    }
    const bool square =
        rank >= 2 && tensor.shape[rank - 1] == tensor.shape[rank - 2] && tensor.shape[rank - 1] > 1;
    const auto named = [&](const char* prefix) { return absl::StartsWith(tensor.name, prefix); };
    int formula = f.Number(0);
    std::string guess = "zeros";
    if (tensor.dtype == DType::kBool) {
      formula = f.Number(1);
      guess = "true everywhere";
      if (square && Product(tensor.shape) == tensor.shape[rank - 1] * tensor.shape[rank - 1]) {
        formula = f.Call(
            "le", {f.Index(static_cast<int>(rank) - 1), f.Index(static_cast<int>(rank) - 2)});
        guess = "a causal mask";
      }
    } else if (named("zeros") || named("full") ||
               OnlyReadBy(graph_, readers_, tensor.name, {"Equal"})) {
      guess = "zeros";
    } else if (square) {
      formula =
          f.Call("sub", {f.Index(static_cast<int>(rank) - 1), f.Index(static_cast<int>(rank) - 2)});
      guess = "relative positions";
    } else if (rank > 0) {
      formula = f.Index(static_cast<int>(longest));
      guess = absl::StrCat("positions 0 to ", tensor.shape[longest] - 1);
    }
    c_.Note(absl::StrCat("'", tensor.name, "': taken for ", guess, " (its data is missing)"));
    OnnxValue value = c_.Known(tensor.shape, tensor.dtype, formula);
    value.assumed = true;
    value.name = tensor.name;
    return value;
  }

  OnnxValue WeightValue(int index, const std::string& name, bool transposed) const {
    const Weight& weight = c_.weights[static_cast<size_t>(index)];
    OnnxValue value;
    value.kind = OnnxValue::Kind::kWeight;
    value.dtype = weight.data.dtype;
    value.shape = weight.data.shape;
    value.weight = index;
    value.name = name;
    value.transposed = transposed;
    if (transposed) std::swap(value.shape[0], value.shape[1]);
    return value;
  }

  OnnxValue AsWeight(OnnxTensor tensor, bool rotation) {
    const std::string name = tensor.name;
    const bool vector = WideDims(tensor.shape) <= 1;
    const bool untied = Matches(untie_, name), tied = Matches(tie_, name);
    const auto it = readers_.find(name);
    const size_t places = it == readers_.end() ? 0 : it->second.size();
    if (!vector && !untied) {
      if (const auto same = Tied(tensor)) return WeightValue(same->first, name, same->second);
    }
    Weight weight;
    weight.note = "a float initialiser; trained";
    weight.per_place =
        places > 1 && (untied || (vector && !tied && shared_layers_.count(places) == 0));
    if (weight.per_place) {
      weight.note = "a vector that the exporter merged, taken apart by place; trained";
    } else if (places > 1) {
      weight.note = absl::StrCat("read in ", places, " places, one parameter (tied); trained");
    }
    if (rotation) {
      weight.role = TensorRole::kState;
      weight.note = "leads to sines and cosines only: a rotary table; not trained";
    } else if (OverBatch(tensor)) {
      const bool asked = Matches(train_, name);
      weight.over_batch = true;
      if (!asked) weight.role = TensorRole::kState;
      weight.note = absl::StrCat("the export repeated it for every sample; ",
                                 asked ? "trained once for all" : "not trained");
      c_.Note(absl::StrCat("'", name, "': ", weight.note));
    }
    weight.data = std::move(tensor);
    c_.weights.push_back(std::move(weight));
    return WeightValue(static_cast<int>(c_.weights.size()) - 1, name, false);
  }

  // An earlier weight with the same data, or with the same data transposed.
  std::optional<std::pair<int, bool>> Tied(const OnnxTensor& tensor) {
    const int next = static_cast<int>(c_.weights.size());
    if (!tensor.known) {
      const std::string key = absl::StrCat(tensor.external, "|", absl::StrJoin(tensor.shape, ","));
      const auto [it, first] = by_place_.emplace(key, next);
      if (first) return std::nullopt;
      return std::make_pair(it->second, false);
    }
    if (AllEqual(tensor.values)) return std::nullopt;
    const bool matrix = tensor.shape.size() == 2;
    const uint64_t key = KeyOf(tensor.shape, tensor.values, false);
    if (const auto it = by_value_.find(key); it != by_value_.end()) {
      const OnnxTensor& data = c_.weights[static_cast<size_t>(it->second)].data;
      if (data.shape == tensor.shape && data.values == tensor.values) {
        return std::make_pair(it->second, false);
      }
    }
    if (matrix) {
      const auto it = by_value_.find(KeyOf(tensor.shape, tensor.values, true));
      if (it != by_value_.end()) {
        const OnnxTensor& data = c_.weights[static_cast<size_t>(it->second)].data;
        const auto rows = static_cast<size_t>(tensor.shape[0]);
        const auto columns = static_cast<size_t>(tensor.shape[1]);
        bool same = data.shape == Dims{tensor.shape[1], tensor.shape[0]};
        for (size_t i = 0; i < rows && same; ++i) {
          for (size_t j = 0; j < columns && same; ++j) {
            same = tensor.values[i * columns + j] == data.values[j * rows + i];
          }
        }
        if (same) return std::make_pair(it->second, true);
      }
    }
    by_value_.emplace(key, next);
    return std::nullopt;
  }

  bool OverBatch(const OnnxTensor& tensor) const {
    const int64_t batch = c_.exported_batch;
    if (batch < 2 || tensor.shape.size() < 3 || tensor.shape[0] != batch) return false;
    if (!OnlyReadBy(graph_, readers_, tensor.name, {"Concat", "Add", "Sub", "Mul"})) return false;
    if (!tensor.known) return true;
    const size_t each = tensor.values.size() / static_cast<size_t>(batch);
    for (size_t i = each; i < tensor.values.size(); ++i) {
      if (tensor.values[i] != tensor.values[i - each]) return false;
    }
    return true;
  }

  OnnxContext& c_;
  const onnx::GraphProto& graph_;
  const Readers readers_;
  const std::set<size_t> shared_layers_;
  std::vector<std::regex> tie_, untie_, train_;
  std::map<uint64_t, int> by_value_;
  std::map<std::string, int> by_place_;
  int missing_ = 0;
};

// x[p+1] + x[p-1] is the same multiple of x[p] all the way down each column.
bool Sinusoids(const Dims& shape, const std::vector<double>& values) {
  const auto columns = static_cast<size_t>(shape.back());
  const size_t rows = values.size() / columns;
  if (shape.size() < 2 || rows < 6 || columns < 2) return false;
  for (double value : values) {
    if (!(std::fabs(value) <= 1.0001)) return false;
  }
  bool moves = false;
  for (size_t j = 0; j < columns; ++j) {
    // The multiple by least squares, then the residual.
    double xy = 0, xx = 0;
    for (size_t p = 1; p + 1 < rows; ++p) {
      const double x = values[p * columns + j];
      xy += x * (values[(p + 1) * columns + j] + values[(p - 1) * columns + j]);
      xx += x * x;
    }
    if (xx == 0) return false;
    const double multiple = xy / xx;
    moves = moves || std::fabs(multiple - 2) > 1e-3;
    for (size_t p = 1; p + 1 < rows; ++p) {
      const double residual = values[(p + 1) * columns + j] + values[(p - 1) * columns + j] -
                              multiple * values[p * columns + j];
      if (std::fabs(residual) > 2e-4) return false;
    }
  }
  return moves;
}

}  // namespace

bool FollowsItsIndices(const std::vector<int64_t>& shape, const std::vector<double>& values) {
  if (values.size() < 4 || AllEqual(values)) return false;
  const size_t n = values.size();
  if (WideDims(shape) == 1) {
    const double step = values[1] - values[0];
    bool arithmetic = true, geometric = values[0] == 1 && values[1] > 0 && values[1] < 1;
    for (size_t i = 1; i < n; ++i) {
      arithmetic = arithmetic && values[i] == values[0] + step * static_cast<double>(i);
      geometric = geometric && std::fabs(values[i] / values[i - 1] / values[1] - 1) < 1e-4;
    }
    return arithmetic || geometric;
  }
  if (Sinusoids(shape, values)) return true;
  // A triangle of two values over the last two dims.
  const int64_t columns = shape.back(), rows = shape[shape.size() - 2];
  if (rows < 2 || columns < 2) return false;
  const double inside = values[static_cast<size_t>((rows - 1) * columns)],
               outside = values[static_cast<size_t>(columns - 1)];
  if (inside == outside) return false;
  for (size_t i = 0; i < n; ++i) {
    const int64_t j = static_cast<int64_t>(i) % columns,
                  row = static_cast<int64_t>(i) / columns % rows;
    if (values[i] != (j <= row ? inside : outside)) return false;
  }
  return true;
}

absl::Status AddInitializers(OnnxContext& c) { return InitializerReader(c).Run(); }

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
        if (symbol == batch_symbol && c.options.global_batch > 0) extent = c.options.global_batch;
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
