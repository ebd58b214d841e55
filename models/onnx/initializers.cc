#include <algorithm>
#include <cmath>
#include <cstring>
#include <functional>
#include <regex>
#include <set>
#include <utility>

#include "absl/strings/match.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "absl/strings/str_join.h"
#include "models/onnx/exporter.h"
#include "models/onnx/laws.h"
#include "models/onnx/readers.h"
#include "models/onnx/sources.h"

namespace tandem {
namespace {

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

// A number that is written with few digits, as people write settings.
bool Round(double value) {
  double read = 0;
  return absl::SimpleAtod(absl::StrFormat("%.4g", value), &read) &&
         static_cast<float>(read) == static_cast<float>(value);
}

class InitializerReader {
 public:
  explicit InitializerReader(OnnxContext& c)
      : c_(c),
        graph_(c.file.model.graph()),
        exporter_(c_.file.model),
        readers_(ReadersOf(graph_, exporter_.copies())),
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
    std::vector<OnnxTensor> tensors;
    for (const onnx::TensorProto& proto : graph_.initializer()) {
      auto tensor = ReadOnnxTensor(proto, c_.file, &budget);
      if (!tensor.ok()) {
        if (readers_.find(proto.name()) == readers_.end()) continue;  // nothing reads it
        return tensor.status();
      }
      tensors.push_back(*std::move(tensor));
    }
    std::map<std::string, size_t> at;
    for (size_t i = 0; i < tensors.size(); ++i) at[tensors[i].name] = i;
    for (const auto& [name, original] : exporter_.copies()) {
      const auto it = at.find(original);
      if (it == at.end()) continue;
      tensors.push_back(tensors[it->second]);
      tensors.back().name = name;
      c_.apart.insert(name);
    }
    // What may be the beginning of another comes after all that is not.
    const std::vector<size_t> wholes = Wholes(tensors);
    std::vector<std::string> names;
    for (const OnnxTensor& tensor : tensors) names.push_back(tensor.name);
    for (size_t i = 0; i < tensors.size(); ++i) {
      if (wholes[i] != i) continue;
      if (absl::Status s = Add(std::move(tensors[i])); !s.ok()) return s;
    }
    for (size_t i = 0; i < tensors.size(); ++i) {
      if (wholes[i] == i || AddBeginning(tensors[i], names[wholes[i]])) continue;
      if (absl::Status s = Add(std::move(tensors[i])); !s.ok()) return s;
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
      const bool rotation = !asked && !exporter_.IsParameter(tensor.name) &&
                            LeadsToRotation(graph_, readers_, tensor.name, 0, &seen);
      const std::string reason = asked ? "" : WhyNotTrained(tensor, rotation);
      if (!reason.empty()) {
        value = Dense(tensor);
        if (!tensor.shape.empty() && Product(tensor.shape) > 1) {
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
        value = AsWeight(std::move(tensor), rotation, asked);
      }
    }
    const std::string name = value.name;
    c_.values[name] = std::move(value);
    return absl::OkStatus();
  }

  // Float initialisers that are no parameters of the model, and why; of a buffer that is no formula
  // AsWeight makes state.
  std::string WhyNotTrained(const OnnxTensor& tensor, bool rotation) {
    const std::string& name = tensor.name;
    if (exporter_.IsParameter(name)) return "";
    const bool made_up = exporter_.MadeUp(name);
    if (tensor.shape.empty()) return ScalarReason(tensor);
    if (!tensor.known) return "";
    if (tensor.values.empty()) return "empty";
    if (tensor.values.size() == 1 && made_up) {
      NoteComputed(tensor);
      return "a number";
    }
    if (made_up && IsNeutral(tensor)) {
      return "neutral: all zeros or ones, with a name that the exporter made up";
    }
    if (IsSetting(graph_, readers_, name)) return "a setting of an operator";
    if (rotation) return "leads to sines and cosines only";
    if (LooksLikeMask(tensor.values)) return "a mask";
    if (FollowsItsIndices(tensor.shape, tensor.values)) {
      return exporter_.IsBuffer(name)
                 ? "a formula of its indices"
                 : absl::StrCat("a formula of its indices; --train ", name, " trains it");
    }
    return "";
  }

  // Scalars are settings, unless the model has a name for them and computes with them.
  std::string ScalarReason(const OnnxTensor& tensor) {
    const std::string& name = tensor.name;
    const std::string reason = "a scalar";
    if (!exporter_.Chosen(name)) {
      NoteComputed(tensor);
      return reason;
    }
    if (exporter_.IsBuffer(name) || !tensor.known || !(std::fabs(tensor.values[0]) < 1e4)) {
      return reason;
    }
    if (!OnlyReadBy(graph_, readers_, name, {"Exp", "Mul", "Div", "Add", "Sub", "Sigmoid", "Tanh"}))
      return reason;
    c_.Note(absl::StrCat("'", name, "': a number with a name of the model's own, taken for a ",
                         "parameter; --freeze ", name, " says otherwise"));
    return "";
  }

  // A number that may have been a parameter before the exporter computed with it.
  void NoteComputed(const OnnxTensor& tensor) {
    if (!exporter_.lacks_parameters() || !tensor.known || Round(tensor.values[0]) ||
        absl::StartsWith(tensor.name, "val_")) {
      return;
    }
    c_.Note(absl::StrCat("'", tensor.name, "': a number that the exporter computed, perhaps from ",
                         "a parameter; not trained. Exported without optimisation ",
                         "(optimize=False) the file has the parameter itself"));
  }

  // What exporters put in where a layer was taken apart, as what is written over, as masks that
  // mask nothing, and as weights of samples.
  bool IsNeutral(const OnnxTensor& tensor) {
    const double value = tensor.values[0];
    if (!AllEqual(tensor.values) || (value != 0 && value != 1)) return false;
    const auto only = [&](const std::vector<std::string>& ops) {
      return OnlyReadBy(graph_, readers_, tensor.name, ops);
    };
    if (only({"InstanceNormalization", "ScatterElements", "ScatterND"})) return true;
    if (tensor.shape.size() < 2) return false;
    if (value == 1 && tensor.shape.back() == 1 && WeighsRows(graph_, readers_, tensor.name)) {
      return true;
    }
    if (value == 0 && LeadsToSoftmax(graph_, readers_, tensor.name, 0)) return true;
    if (value == 0 && only({"Add", "Sub", "Mul"})) {
      c_.Note(absl::StrCat("'", tensor.name, "': zeros that the exporter computed, taken for a ",
                           "parameter; --freeze ", tensor.name, " says otherwise"));
    }
    return false;
  }

  // Computed by the exporter, and added to something: what it may have looked up or cut out.
  bool Computed(const OnnxTensor& tensor) const {
    return tensor.known && IsFloat(tensor.dtype) && WideDims(tensor.shape) >= 2 &&
           exporter_.MadeUp(tensor.name) && !AllEqual(tensor.values) &&
           OnlyReadBy(graph_, readers_, tensor.name, {"Add", "Sub", "Concat"});
  }

  // For each tensor the largest one that begins with it, or itself.
  std::vector<size_t> Wholes(const std::vector<OnnxTensor>& tensors) const {
    std::vector<size_t> wholes(tensors.size());
    for (size_t i = 0; i < tensors.size(); ++i) {
      const OnnxTensor& part = tensors[i];
      wholes[i] = i;
      if (!Computed(part) || Matches(untie_, part.name)) continue;
      for (size_t j = 0; j < tensors.size(); ++j) {
        const OnnxTensor& whole = tensors[j];
        if (!whole.known || !IsFloat(whole.dtype) ||
            whole.values.size() <= tensors[wholes[i]].values.size() ||
            !BeginningOf(part.shape, part.values, whole.shape, whole.values)) {
          continue;
        }
        wholes[i] = j;
      }
    }
    return wholes;
  }

  // The tensor as the beginning of a parameter, if `whole` became one.
  bool AddBeginning(const OnnxTensor& tensor, const std::string& whole) {
    const OnnxValue& value = c_.values[whole];
    if (value.kind != OnnxValue::Kind::kWeight || value.transposed) return false;
    const Weight& of = c_.weights[static_cast<size_t>(value.weight)];
    if (of.role != TensorRole::kParameter || of.per_place || of.over_batch || of.lookup ||
        of.data.shape != value.shape) {
      return false;
    }
    c_.report->initializer_parameters += Product(tensor.shape);
    c_.report->initializers.push_back(tensor.name);
    Weight weight;
    weight.note = absl::StrCat("the beginning of '", of.data.name, "'");
    weight.beginning_of = value.weight;
    weight.along = *BeginningOf(tensor.shape, tensor.values, of.data.shape, of.data.values);
    weight.shape = tensor.shape;
    weight.data.name = tensor.name;
    weight.data.dtype = tensor.dtype;
    c_.Note(absl::StrCat("'", tensor.name, "': taken for the beginning of '", of.data.name,
                         "'; --untie ", tensor.name, " says otherwise"));
    c_.weights.push_back(std::move(weight));
    c_.values[tensor.name] =
        WeightValue(static_cast<int>(c_.weights.size()) - 1, tensor.name, false);
    return true;
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
    value.shape = weight.shape;
    value.weight = index;
    value.name = name;
    value.transposed = transposed;
    if (transposed) std::swap(value.shape[0], value.shape[1]);
    return value;
  }

  OnnxValue AsWeight(OnnxTensor tensor, bool rotation, bool asked) {
    const std::string name = tensor.name;
    const bool vector = WideDims(tensor.shape) <= 1;
    const bool untied = Matches(untie_, name), tied = Matches(tie_, name);
    const auto it = readers_.find(name);
    const size_t places = it == readers_.end() ? 0 : it->second.size();
    if (!vector && !untied) {
      if (const auto same = Tied(tensor)) return WeightValue(same->first, name, same->second);
    }
    Weight weight;
    weight.shape = tensor.shape;
    weight.note = "a float initialiser; trained";
    weight.per_place =
        places > 1 &&
        (untied || (vector && !tied && !exporter_.exact() && shared_layers_.count(places) == 0));
    if (weight.per_place) {
      weight.note = "a vector that the exporter merged, taken apart by place; trained";
      if (exporter_.lacks_parameters() && !untied) {
        c_.Note(absl::StrCat("'", name, "': read in ", places,
                             " places, taken for a parameter each; ", "--tie ", name,
                             " says otherwise"));
      }
    } else if (places > 1) {
      weight.note = absl::StrCat("read in ", places, " places, one parameter (tied); trained");
      if (exporter_.lacks_parameters() && exporter_.MadeUp(name)) {
        c_.Note(absl::StrCat("'", name, "': read in ", places, " places, taken for one parameter; ",
                             "--untie ", name, " says otherwise"));
      }
    }
    if (rotation) {
      weight.role = TensorRole::kState;
      weight.note = "leads to sines and cosines only: a rotary table; not trained";
    } else if (exporter_.IsBuffer(name) && !asked) {
      weight.role = TensorRole::kState;
      weight.note = "a buffer of the exported model; not trained";
    } else if (OverBatch(tensor)) {
      const bool trained = asked || Computed(tensor);
      weight.over_batch = true;
      if (!trained) weight.role = TensorRole::kState;
      weight.note = absl::StrCat("the export repeated it for every sample; ",
                                 trained ? "trained once for all" : "not trained");
      c_.Note(absl::StrCat("'", name, "': ", weight.note,
                           asked     ? ""
                           : trained ? "; --freeze "
                                     : "; --train ",
                           asked ? "" : name, asked ? "" : " says otherwise"));
    }
    const bool computed = weight.role == TensorRole::kParameter && Computed(tensor);
    if (weight.over_batch) {
      const int64_t batch = tensor.shape[0];
      tensor.shape[0] = 1;
      tensor.values.resize(tensor.values.size() / static_cast<size_t>(batch));
    }
    if (computed) {
      weight.lookup = FindLookup(tensor.shape, tensor.values);
      if (weight.lookup) {
        c_.Note(absl::StrCat("'", name, "': rows of a table of ", weight.lookup->rows,
                             " that the exporter looked up; the table is trained"));
        tensor.shape = weight.lookup->row_shape;
        tensor.shape.insert(tensor.shape.begin(), weight.lookup->rows);
        tensor.values = std::move(weight.lookup->table);
      }
    }
    weight.data = std::move(tensor);
    c_.weights.push_back(std::move(weight));
    return WeightValue(static_cast<int>(c_.weights.size()) - 1, name, false);
  }

  // An earlier weight with the same data, or with the same data transposed, unless the file says
  // that they are two: layers that were copied begin with equal weights.
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
      if (data.shape == tensor.shape && data.values == tensor.values &&
          !exporter_.Apart(data.name, tensor.name)) {
        return std::make_pair(it->second, false);
      }
    }
    if (matrix) {
      const auto it = by_value_.find(KeyOf(tensor.shape, tensor.values, true));
      if (it != by_value_.end()) {
        const OnnxTensor& data = c_.weights[static_cast<size_t>(it->second)].data;
        const auto rows = static_cast<size_t>(tensor.shape[0]);
        const auto columns = static_cast<size_t>(tensor.shape[1]);
        bool same = data.shape == Dims{tensor.shape[1], tensor.shape[0]} &&
                    !exporter_.Apart(data.name, tensor.name);
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
    if (exporter_.IsParameter(tensor.name)) return false;
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
  const Exporter exporter_;
  const Readers readers_;
  const std::set<size_t> shared_layers_;
  std::vector<std::regex> tie_, untie_, train_;
  std::map<uint64_t, int> by_value_;
  std::map<std::string, int> by_place_;
  int missing_ = 0;
};

}  // namespace

absl::Status AddInitializers(OnnxContext& c) { return InitializerReader(c).Run(); }

}  // namespace tandem
