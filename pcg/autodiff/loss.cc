#include "pcg/autodiff/loss.h"

#include <algorithm>
#include <optional>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "pcg/language/op_parser.h"

namespace tandem {
namespace {

FactoredShape Plain(const std::vector<int64_t>& shape) {
  FactoredShape factored;
  for (int64_t extent : shape) factored.push_back({extent});
  return factored;
}

class LossBuilder {
 public:
  LossBuilder(const Graph& forward, const TrainingOptions& options)
      : graph_(forward), options_(options), wide_(WideType(options.precision)) {}

  absl::StatusOr<Graph> Run() {
    for (const char* name : {"cross_entropy", "mse", "reshape"}) {
      auto spec = BuiltinOperators().Get(name);
      if (!spec.ok()) return spec.status();
      if (absl::Status s = graph_.operators.Add(**spec); !s.ok()) return s;
    }
    if (absl::Status s = AddLoss(); !s.ok()) return s;
    return std::move(graph_);
  }

 private:
  absl::Status AddLoss() {
    std::optional<TensorId> output;
    for (TensorId t : graph_.outputs) {
      if (!output && IsFloat(graph_.tensor(t).dtype)) output = t;
    }
    if (!output) {
      return absl::InvalidArgumentError(
          absl::StrCat("model '", graph_.name,
                       "' has no float output to take a loss of; give one or --mode serve"));
    }
    if (options_.loss == "output") return LossIsOutput(*output);
    if (options_.loss == "cross-entropy") return CrossEntropy(LogitsOf(*output));
    if (options_.loss == "mse") return MeanSquares(*output);
    return absl::InvalidArgumentError(absl::StrCat(
        "unknown loss '", options_.loss, "'; there are cross-entropy, mse, output, none"));
  }

  // A trailing softmax or log-softmax over the last axis is part of the loss.
  TensorId LogitsOf(TensorId output) const {
    const Tensor& tensor = graph_.tensor(output);
    if (!tensor.producer.valid()) return output;
    const Node& node = graph_.node(tensor.producer);
    if (node.op != "softmax" && node.op != "log_softmax") return output;
    const auto rank = node.attributes.find("rank_c");
    const bool last = rank == node.attributes.end() || rank->second == AttrValue(int64_t{0});
    return last ? node.inputs[0] : output;
  }

  absl::Status CrossEntropy(TensorId logits) {
    std::vector<int64_t> shape = PlainShape(graph_.tensor(logits).shape);
    if (shape.empty()) {
      return absl::InvalidArgumentError(absl::StrCat(
          "'", graph_.tensor(logits).name, "' is a scalar and has no classes; use --loss output"));
    }
    shape.pop_back();
    return LossNode("cross_entropy", logits, DType::kI64, shape);
  }

  absl::Status MeanSquares(TensorId prediction) {
    return LossNode("mse", prediction, graph_.tensor(prediction).dtype,
                    PlainShape(graph_.tensor(prediction).shape));
  }

  absl::Status LossNode(const char* op, TensorId from, DType label_type,
                        const std::vector<int64_t>& label_shape) {
    Tensor labels;
    labels.name = UniqueName(graph_, "labels");
    labels.dtype = label_type;
    labels.shape = Plain(label_shape);
    labels.role = TensorRole::kInput;
    labels.note = absl::StrCat("labels of the loss ", op, " of '", graph_.tensor(from).name, "'");
    const TensorId label_id = graph_.AddSource(std::move(labels));
    if (std::find(graph_.inputs.begin(), graph_.inputs.end(), label_id) == graph_.inputs.end()) {
      graph_.inputs.push_back(label_id);
    }
    return SetLoss(op, {}, {from, label_id});
  }

  absl::Status LossIsOutput(TensorId output) {
    const Tensor& tensor = graph_.tensor(output);
    if (ElementCount(tensor.shape) != 1) {
      return absl::InvalidArgumentError(
          absl::StrCat("output '", tensor.name, "' has ", ElementCount(tensor.shape),
                       " elements and cannot be the loss; use --loss cross-entropy or mse"));
    }
    if (tensor.producer.valid() && tensor.shape.empty()) {
      graph_.loss = output;
      return absl::OkStatus();
    }
    return SetLoss("reshape", {{"shape", std::vector<int64_t>{}}}, {output});
  }

  absl::Status SetLoss(const char* op, Attributes attributes, std::vector<TensorId> inputs) {
    Node node;
    node.name = UniqueName(graph_, "loss");
    node.op = op;
    node.attributes = std::move(attributes);
    node.inputs = std::move(inputs);
    node.origin = "training";
    auto added = graph_.AddNode(std::move(node), {wide_});
    if (!added.ok()) return added.status();
    graph_.loss = graph_.node(*added).outputs[0];
    return absl::OkStatus();
  }

  Graph graph_;
  const TrainingOptions& options_;
  const DType wide_;
};

}  // namespace

absl::StatusOr<Graph> WithLoss(const Graph& forward, const TrainingOptions& options) {
  if (options.loss == "none") return forward;
  return LossBuilder(forward, options).Run();
}

DType WideType(DType precision) { return precision == DType::kF64 ? DType::kF64 : DType::kF32; }

std::string UniqueName(const Graph& graph, const std::string& wish) {
  const auto taken = [&](const std::string& name) {
    return std::any_of(graph.tensors.begin(), graph.tensors.end(),
                       [&](const Tensor& t) { return t.name == name; }) ||
           std::any_of(graph.nodes.begin(), graph.nodes.end(),
                       [&](const Node& n) { return n.name == name; });
  };
  std::string name = wish;
  for (int i = 2; taken(name); ++i) name = absl::StrCat(wish, "_", i);
  return name;
}

}  // namespace tandem
