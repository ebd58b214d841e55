#include "pcg/autodiff/training.h"

#include <algorithm>
#include <optional>
#include <regex>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "pcg/autodiff/autodiff.h"
#include "pcg/autodiff/loss.h"
#include "pcg/language/op_parser.h"

namespace tandem {
namespace {

struct Optimizer {
  const char* name;
  std::vector<const char*> moments;  // suffixes of the state tensors, in operand order
  bool step;
};
const std::vector<Optimizer>& Optimizers() {
  static const auto* const kOptimizers = new std::vector<Optimizer>{
      {"sgd", {}, false},          {"momentum", {"v"}, false}, {"adam", {"m", "v"}, true},
      {"adamw", {"m", "v"}, true}, {"lamb", {"m", "v"}, true},
  };
  return *kOptimizers;
}

bool HasMasters(DType precision) { return precision == DType::kBF16 || precision == DType::kF16; }

// Finds a name in any of some expressions.
class NameFilter {
 public:
  static absl::StatusOr<NameFilter> Make(const std::vector<std::string>& expressions,
                                         const char* option, const Graph& graph) {
    NameFilter filter;
    for (const std::string& text : expressions) {
      try {
        filter.expressions_.emplace_back(text);
      } catch (const std::regex_error& e) {
        return absl::InvalidArgumentError(
            absl::StrCat(option, " '", text, "' is not a regular expression: ", e.what()));
      }
      const bool found =
          std::any_of(graph.tensors.begin(), graph.tensors.end(), [&](const Tensor& t) {
            return !t.producer.valid() && std::regex_search(t.name, filter.expressions_.back());
          });
      if (!found) {
        return absl::InvalidArgumentError(absl::StrCat(
            option, " '", text, "' matches no parameter or state; 'models show' lists them"));
      }
    }
    return filter;
  }
  bool Matches(const std::string& name) const {
    return std::any_of(expressions_.begin(), expressions_.end(),
                       [&](const std::regex& e) { return std::regex_search(name, e); });
  }

 private:
  std::vector<std::regex> expressions_;
};

class TrainingBuilder {
 public:
  TrainingBuilder(const Graph& with_loss, const TrainingOptions& options)
      : graph_(with_loss), options_(options), wide_(WideType(options.precision)) {}

  absl::StatusOr<Graph> Run() {
    absl::Status status = AddBuiltins();
    if (status.ok()) status = FindOptimizer();
    if (status.ok()) status = SelectTrained();
    if (!status.ok()) return status;
    SetPrecision();
    if (HasMasters(options_.precision)) {
      status = CastMasters();
      if (!status.ok()) return status;
    }
    auto gradients = AddGradients(graph_, *graph_.loss, trained_);
    if (!gradients.ok()) return gradients.status();
    status = AddUpdates(*gradients);
    if (!status.ok()) return status;
    return std::move(graph_);
  }

 private:
  absl::Status AddBuiltins() {
    for (const char* name : {"cast", "identity", "add"}) {
      absl::Status status = AddBuiltin(name);
      if (!status.ok()) return status;
    }
    return absl::OkStatus();
  }

  absl::Status AddBuiltin(const std::string& name) {
    auto spec = BuiltinOperators().Get(name);
    if (!spec.ok()) return spec.status();
    return graph_.operators.Add(**spec);
  }

  absl::Status FindOptimizer() {
    std::vector<std::string> names;
    for (const Optimizer& o : Optimizers()) {
      if (options_.optimizer == o.name) optimizer_ = &o;
      names.push_back(o.name);
    }
    if (optimizer_ != nullptr) return AddBuiltin(options_.optimizer);
    return absl::InvalidArgumentError(absl::StrCat("unknown optimizer '", options_.optimizer,
                                                   "'; there are ", absl::StrJoin(names, ", ")));
  }

  // ---- trained parameters
  absl::Status SelectTrained() {
    auto freeze = NameFilter::Make(options_.freeze, "--freeze", graph_);
    if (!freeze.ok()) return freeze.status();
    auto train = NameFilter::Make(options_.train, "--train", graph_);
    if (!train.ok()) return train.status();
    const std::vector<bool> reaches = ReachesLoss();
    std::set<TensorId> updated;
    for (const StateUpdate& u : graph_.updates) updated.insert(u.state);
    for (size_t t = 0; t < graph_.tensors.size(); ++t) {
      Tensor& tensor = graph_.tensors[t];
      const TensorId id(static_cast<int64_t>(t));
      if (tensor.producer.valid()) continue;
      const bool parameter = tensor.role == TensorRole::kParameter;
      const bool state = tensor.role == TensorRole::kState;
      const bool asked = (parameter || state) && train->Matches(tensor.name);
      const bool frozen = freeze->Matches(tensor.name) && !asked;
      if (asked && (!IsFloat(tensor.dtype) || updated.count(id) != 0)) {
        return absl::InvalidArgumentError(
            absl::StrCat("--train names '", tensor.name, "', which is ",
                         IsFloat(tensor.dtype) ? "updated by the model itself" : "not of floats"));
      }
      if (!parameter && !asked) continue;
      if (IsFloat(tensor.dtype) && !frozen && reaches[t]) {
        tensor.role = TensorRole::kParameter;
        trained_.push_back(id);
      } else {
        tensor.role = TensorRole::kState;
        Note(tensor, frozen ? "frozen" : "not trained: the loss does not depend on it");
      }
    }
    if (trained_.empty()) {
      return absl::InvalidArgumentError(
          absl::StrCat("model '", graph_.name,
                       "' has no parameter on a path to the loss; check --freeze, or serve"));
    }
    return absl::OkStatus();
  }

  static void Note(Tensor& tensor, const char* text) {
    absl::StrAppend(&tensor.note, tensor.note.empty() ? "" : "; ", text);
  }

  // Through float tensors. (That an operator on the way has no gradient shows later.)
  std::vector<bool> ReachesLoss() const {
    std::vector<bool> reaches(graph_.tensors.size(), false);
    reaches[graph_.loss->index()] = true;
    for (size_t n = graph_.nodes.size(); n-- > 0;) {
      const Node& node = graph_.nodes[n];
      const bool any = std::any_of(node.outputs.begin(), node.outputs.end(), [&](TensorId t) {
        return reaches[t.index()] && IsFloat(graph_.tensor(t).dtype);
      });
      for (TensorId t : node.inputs) reaches[t.index()] = reaches[t.index()] || any;
    }
    return reaches;
  }

  // ---- precision
  // The loss, and where a rule took it apart what is between its parts.
  std::vector<TensorId> LossParts() const {
    std::vector<TensorId> parts = {*graph_.loss};
    const NodeId producer = graph_.tensor(*graph_.loss).producer;
    if (!producer.valid()) return parts;
    const std::string& origin = graph_.node(producer).origin;
    for (const Node& node : graph_.nodes) {
      if (origin.empty() || node.origin != origin) continue;
      parts.insert(parts.end(), node.outputs.begin(), node.outputs.end());
    }
    return parts;
  }

  void SetPrecision() {
    std::set<TensorId> wide(trained_.begin(), trained_.end());
    if (!HasMasters(options_.precision)) wide.clear();
    for (TensorId t : LossParts()) wide.insert(t);
    for (const StateUpdate& u : graph_.updates) wide.insert({u.state, u.next});
    for (size_t t = 0; t < graph_.tensors.size(); ++t) {
      Tensor& tensor = graph_.tensors[t];
      if (!IsFloat(tensor.dtype)) continue;
      const bool is_wide = wide.count(TensorId(static_cast<int64_t>(t))) != 0;
      tensor.dtype = is_wide ? wide_ : options_.precision;
    }
  }

  // Readers of a master read its working copy, made by a node at the start of the step.
  absl::Status CastMasters() {
    const std::vector<std::vector<NodeId>> readers = graph_.Readers();
    Graph original = std::move(graph_);
    graph_ = original;
    graph_.nodes.clear();
    std::vector<TensorId> replaced(original.tensors.size());
    for (TensorId t : trained_) {
      const std::vector<NodeId>& by = readers[t.index()];
      if (by.empty()) continue;
      Node cast;
      cast.name =
          absl::StrCat(original.tensor(t).name, ".", std::string(DTypeName(options_.precision)));
      cast.op = "cast";
      cast.inputs = {t};
      cast.origin = "precision";
      cast.block = original.node(by[0]).block;
      for (NodeId reader : by) {
        if (original.node(reader).block != cast.block) cast.block = -1;
      }
      // Where masters are kept in pieces: the pieces of the working copy are gathered once for the
      // whole step between the two nodes, or for each phase anew behind them.
      Node whole;
      whole.name = absl::StrCat(cast.name, ".whole");
      whole.op = "identity";
      whole.origin = cast.origin;
      whole.block = cast.block;
      auto added = graph_.AddNode(std::move(cast), {options_.precision});
      if (!added.ok()) return added.status();
      whole.inputs = graph_.node(*added).outputs;
      added = graph_.AddNode(std::move(whole), {options_.precision});
      if (!added.ok()) return added.status();
      replaced[t.index()] = graph_.node(*added).outputs[0];
    }
    const int64_t shift = static_cast<int64_t>(graph_.nodes.size());
    for (Node node : original.nodes) {
      for (TensorId& t : node.inputs) {
        if (replaced[t.index()].valid()) t = replaced[t.index()];
      }
      graph_.nodes.push_back(std::move(node));
    }
    for (size_t t = 0; t < original.tensors.size(); ++t) {
      NodeId& producer = graph_.tensors[t].producer;
      if (producer.valid()) producer = NodeId(producer.value + shift);
    }
    return absl::OkStatus();
  }

  // ---- updates
  TensorId AddScalar(const char* name) {
    Tensor scalar;
    scalar.name = UniqueName(graph_, name);
    scalar.dtype = wide_;
    scalar.role = TensorRole::kStepInput;
    const TensorId id = graph_.AddSource(std::move(scalar));
    if (std::find(graph_.inputs.begin(), graph_.inputs.end(), id) == graph_.inputs.end()) {
      graph_.inputs.push_back(id);
    }
    return id;
  }

  absl::Status AddUpdates(const std::vector<TensorId>& gradients) {
    const TensorId lr = AddScalar("lr");
    const TensorId step = optimizer_->step ? AddScalar("step") : TensorId();
    for (size_t i = 0; i < trained_.size(); ++i) {
      const TensorId w = trained_[i];
      if (!gradients[i].valid()) {  // zero everywhere, for example only rounded
        graph_.tensors[w.index()].role = TensorRole::kState;
        Note(graph_.tensors[w.index()], "not trained: its gradient is zero");
        continue;
      }
      absl::Status status = AddUpdate(w, gradients[i], lr, step);
      if (!status.ok()) return status;
    }
    return absl::OkStatus();
  }

  absl::Status AddUpdate(TensorId w, TensorId gradient, TensorId lr, TensorId step) {
    const Tensor master = graph_.tensor(w);
    std::vector<TensorId> states = {w};
    std::vector<DType> types = {master.dtype};
    for (const char* moment : optimizer_->moments) {
      Tensor state;
      state.name = absl::StrCat(master.name, ".", moment);
      state.dtype = wide_;
      state.shape = master.shape;
      state.role = TensorRole::kState;
      state.initializer = "constant(0)";
      states.push_back(graph_.AddSource(std::move(state)));
      types.push_back(wide_);
    }
    Node update;
    update.name = absl::StrCat(master.name, ".update");
    update.op = optimizer_->name;
    update.phase = Phase::kUpdate;
    update.origin = "training";
    const NodeId producer = graph_.tensor(gradient).producer;
    if (producer.valid()) update.block = graph_.node(producer).block;
    update.inputs = states;
    update.inputs.push_back(gradient);
    update.inputs.push_back(lr);
    if (step.valid()) update.inputs.push_back(step);
    auto added = graph_.AddNode(std::move(update), types);
    if (!added.ok()) return added.status();
    for (size_t k = 0; k < states.size(); ++k) {
      graph_.updates.push_back({states[k], graph_.node(*added).outputs[k]});
    }
    return absl::OkStatus();
  }

  Graph graph_;
  const TrainingOptions& options_;
  const DType wide_;
  const Optimizer* optimizer_ = nullptr;
  std::vector<TensorId> trained_;
};

absl::Status CheckPrecision(DType precision) {
  if (IsFloat(precision)) return absl::OkStatus();
  return absl::InvalidArgumentError(
      absl::StrCat("precision ", std::string(DTypeName(precision)),
                   " is not a float type; use fp32, tf32, bf16, fp16 or fp64"));
}

}  // namespace

absl::StatusOr<Graph> WithPrecision(const Graph& forward, DType precision) {
  absl::Status status = CheckPrecision(precision);
  if (!status.ok()) return status;
  Graph graph = forward;
  std::set<TensorId> wide;
  for (const StateUpdate& u : graph.updates) wide.insert({u.state, u.next});
  for (size_t t = 0; t < graph.tensors.size(); ++t) {
    if (!IsFloat(graph.tensors[t].dtype)) continue;
    const bool is_wide = wide.count(TensorId(static_cast<int64_t>(t))) != 0;
    graph.tensors[t].dtype = is_wide ? WideType(precision) : precision;
  }
  return graph;
}

absl::StatusOr<Graph> TrainLoss(const Graph& with_loss, const TrainingOptions& options) {
  absl::Status status = CheckPrecision(options.precision);
  if (!status.ok()) return status;
  if (options.loss == "none") return WithPrecision(with_loss, options.precision);
  if (!with_loss.loss) {
    return absl::InvalidArgumentError(
        absl::StrCat("model '", with_loss.name, "' has no loss to be trained for"));
  }
  absl::StatusOr<Graph> training = TrainingBuilder(with_loss, options).Run();
  if (!training.ok() || options.outputs) return training;
  return WithoutOutputs(*training);
}

Graph WithoutOutputs(const Graph& training) {
  Graph out = training;
  out.outputs.clear();
  return Pruned(out);
}

absl::StatusOr<Graph> MakeTrainingGraph(const Graph& forward, const TrainingOptions& options) {
  absl::StatusOr<Graph> with_loss = WithLoss(forward, options);
  if (!with_loss.ok()) return with_loss.status();
  return TrainLoss(*with_loss, options);
}

}  // namespace tandem
