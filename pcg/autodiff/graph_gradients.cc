// AddGradients: the sweep over a graph. The calculus of one operator is in autodiff.cc.
#include <algorithm>
#include <map>
#include <string>
#include <tuple>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "pcg/autodiff/autodiff.h"

namespace tandem {
namespace {

class GraphSweep {
 public:
  GraphSweep(Graph& graph, TensorId loss) : graph_(graph), loss_(loss) {}

  absl::StatusOr<std::vector<TensorId>> Run(const std::vector<TensorId>& wanted) {
    absl::Status status = Prepare(wanted);
    if (!status.ok()) return status;
    for (int64_t i = loss_producer_.value; i >= 0; --i) {
      status = Reverse(NodeId(i));
      if (status.ok()) status = SumSources(NodeId(i));
      if (!status.ok()) return status;
    }
    std::vector<TensorId> gradients;
    for (TensorId t : wanted) gradients.push_back(total_[t.index()]);
    return gradients;
  }

 private:
  absl::Status Prepare(const std::vector<TensorId>& wanted) {
    const Tensor& loss = graph_.tensor(loss_);
    if (ElementCount(loss.shape) != 1 || !IsFloat(loss.dtype)) {
      return absl::InvalidArgumentError(absl::StrCat(
          "tensor '", loss.name, "' is taken as the loss but has ", ElementCount(loss.shape),
          " elements of ", std::string(DTypeName(loss.dtype)), "; the loss is one float"));
    }
    loss_producer_ = loss.producer;
    depends_.assign(graph_.tensors.size(), false);
    total_.resize(graph_.tensors.size());
    parts_.resize(graph_.tensors.size());
    first_reader_.assign(graph_.tensors.size(), NodeId());
    for (TensorId t : wanted) {
      if (!IsFloat(graph_.tensor(t).dtype)) {
        return absl::InvalidArgumentError(
            absl::StrCat("tensor '", graph_.tensor(t).name,
                         "' is not of floats and cannot be trained; freeze it"));
      }
      depends_[t.index()] = true;
    }
    for (size_t n = 0; n < graph_.nodes.size(); ++n) {
      bool any = false;
      for (TensorId t : graph_.nodes[n].inputs) {
        any |= depends_[t.index()];
        NodeId& first = first_reader_[t.index()];
        if (!first.valid()) first = NodeId(static_cast<int64_t>(n));
      }
      for (TensorId t : graph_.nodes[n].outputs) {
        if (any && IsFloat(graph_.tensor(t).dtype)) depends_[t.index()] = true;
      }
    }
    return absl::OkStatus();
  }

  absl::Status Reverse(NodeId id) {
    const Node node = graph_.node(id);
    std::vector<GradientSeed> seeds;
    bool any = false;
    for (TensorId t : node.outputs) {
      absl::Status status = AddUp(t);
      if (!status.ok()) return status;
      const bool given = total_[t.index()].valid();
      seeds.push_back(t == loss_ ? GradientSeed::kOne
                      : given    ? GradientSeed::kGiven
                                 : GradientSeed::kZero);
      any |= seeds.back() != GradientSeed::kZero;
    }
    std::vector<int> positions;
    for (size_t i = 0; i < node.inputs.size(); ++i) {
      if (depends_[node.inputs[i].index()]) positions.push_back(static_cast<int>(i));
    }
    if (!any || positions.empty()) return absl::OkStatus();
    auto gradients = Cached(node, positions, seeds);
    if (!gradients.ok()) {
      return absl::Status(gradients.status().code(),
                          absl::StrCat("node '", node.name, "' (", node.op,
                                       "): no gradient: ", gradients.status().message()));
    }
    for (const GradientOp& gradient : **gradients) {
      absl::Status status = AddGradient(node, gradient);
      if (!status.ok()) return status;
    }
    return absl::OkStatus();
  }

  absl::StatusOr<const std::vector<GradientOp>*> Cached(const Node& node,
                                                        std::vector<int> positions,
                                                        const std::vector<GradientSeed>& seeds) {
    auto spec = graph_.operators.Get(node.op);
    if (!spec.ok()) return spec.status();
    std::vector<FactoredShape> shapes;
    for (TensorId t : node.inputs) {
      FactoredShape plain;
      for (int64_t extent : PlainShape(graph_.tensor(t).shape)) plain.push_back({extent});
      shapes.push_back(std::move(plain));
    }
    Key key{node.op, node.attributes, shapes, positions, seeds};
    const auto it = cache_.find(key);
    if (it != cache_.end()) return &it->second;
    auto instance = InstantiateForGradients(**spec, node.attributes, shapes);
    if (!instance.ok()) return instance.status();
    std::erase_if(positions, [&](int i) { return instance->input(i).kind != ElementKind::kFloat; });
    auto gradients = GradientsOf(*instance, positions, seeds);
    if (!gradients.ok()) return gradients.status();
    for (const GradientOp& gradient : *gradients) {
      absl::Status status = graph_.operators.Add(gradient.spec);
      if (!status.ok()) return status;
    }
    return &cache_.emplace(std::move(key), *std::move(gradients)).first->second;
  }

  absl::Status AddGradient(const Node& node, const GradientOp& gradient) {
    Node backward;
    backward.op = gradient.spec.name;
    backward.attributes = gradient.attributes;
    backward.phase = Phase::kBackward;
    backward.block = node.block;
    backward.origin = "autodiff";
    for (const GradientOp::Operand& operand : gradient.inputs) {
      const auto at = static_cast<size_t>(operand.position);
      switch (operand.source) {
        case GradientOp::Source::kInput:
          backward.inputs.push_back(node.inputs[at]);
          break;
        case GradientOp::Source::kOutput:
          backward.inputs.push_back(node.outputs[at]);
          break;
        case GradientOp::Source::kOutputGradient:
          backward.inputs.push_back(total_[node.outputs[at].index()]);
          break;
      }
    }
    std::vector<DType> dtypes;
    for (int input : gradient.gradient_of) {
      dtypes.push_back(graph_.tensor(node.inputs[static_cast<size_t>(input)]).dtype);
    }
    const TensorId first_input = node.inputs[static_cast<size_t>(gradient.gradient_of[0])];
    if (backward.op == "identity") {
      if (graph_.tensor(backward.inputs[0]).dtype == dtypes[0]) {
        parts_[first_input.index()].push_back({backward.inputs[0], node.block});
        return absl::OkStatus();
      }
      backward.op = "cast";
      auto cast = BuiltinOperators().Get("cast");
      if (!cast.ok()) return cast.status();
      absl::Status status = graph_.operators.Add(**cast);
      if (!status.ok()) return status;
    }
    backward.name = absl::StrCat(node.name, ".grad");
    if (gradient.gradient_of.size() == 1 && node.inputs.size() > 1) {
      absl::StrAppend(&backward.name, ".", gradient.gradient_of[0]);
    }
    auto added = graph_.AddNode(std::move(backward), dtypes);
    if (!added.ok()) {
      return absl::Status(added.status().code(),
                          absl::StrCat("node '", node.name, "' (", node.op,
                                       "): its gradient: ", added.status().message()));
    }
    for (size_t k = 0; k < gradient.gradient_of.size(); ++k) {
      const TensorId of = node.inputs[static_cast<size_t>(gradient.gradient_of[k])];
      parts_[of.index()].push_back({graph_.node(*added).outputs[k], node.block});
    }
    return absl::OkStatus();
  }

  // Sources have all their contributions once their first reader is reversed.
  absl::Status SumSources(NodeId id) {
    const std::vector<TensorId> inputs = graph_.node(id).inputs;
    for (TensorId t : inputs) {
      if (graph_.tensor(t).producer.valid() || first_reader_[t.index()] != id) continue;
      absl::Status status = AddUp(t);
      if (!status.ok()) return status;
    }
    return absl::OkStatus();
  }

  // The gradient of `t` from its contributions, by `add` nodes.
  absl::Status AddUp(TensorId t) {
    std::vector<Part>& parts = parts_[t.index()];
    if (parts.empty() || total_[t.index()].valid()) return absl::OkStatus();
    const std::string name = graph_.tensor(t).name;
    const NodeId producer = graph_.tensor(t).producer;
    TensorId total = parts[0].gradient;
    for (size_t i = 1; i < parts.size(); ++i) {
      Node add;
      add.name = absl::StrCat(name, ".grad_sum");
      if (i + 1 < parts.size()) absl::StrAppend(&add.name, ".", i);
      add.op = "add";
      add.inputs = {total, parts[i].gradient};
      add.phase = Phase::kBackward;
      add.origin = "autodiff";
      add.block = producer.valid() ? graph_.node(producer).block : SharedBlock(parts);
      if (graph_.operators.Find("add") == nullptr) {
        absl::Status status = graph_.operators.Add(*BuiltinOperators().Find("add"));
        if (!status.ok()) return status;
      }
      auto added = graph_.AddNode(std::move(add), {graph_.tensor(t).dtype});
      if (!added.ok()) return added.status();
      total = graph_.node(*added).outputs[0];
    }
    total_[t.index()] = total;
    return absl::OkStatus();
  }

  struct Part {
    TensorId gradient;
    int block = -1;
  };
  static int SharedBlock(const std::vector<Part>& parts) {
    const bool same = std::all_of(parts.begin(), parts.end(),
                                  [&](const Part& p) { return p.block == parts[0].block; });
    return same ? parts[0].block : -1;
  }

  using Key = std::tuple<std::string, Attributes, std::vector<FactoredShape>, std::vector<int>,
                         std::vector<GradientSeed>>;
  Graph& graph_;
  const TensorId loss_;
  NodeId loss_producer_;
  std::vector<bool> depends_;  // per forward tensor: on a wanted one
  std::vector<std::vector<Part>> parts_;
  std::vector<TensorId> total_;
  std::vector<NodeId> first_reader_;
  std::map<Key, std::vector<GradientOp>> cache_;
};

}  // namespace

absl::StatusOr<std::vector<TensorId>> AddGradients(Graph& graph, TensorId loss,
                                                   const std::vector<TensorId>& wanted) {
  return GraphSweep(graph, loss).Run(wanted);
}

}  // namespace tandem
