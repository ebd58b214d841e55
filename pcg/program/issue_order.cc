#include "pcg/program/issue_order.h"

#include <algorithm>

namespace tandem {
namespace {

class Order {
 public:
  Order(const Graph& graph, const std::vector<bool>& sent, const std::vector<bool>& late)
      : graph_(graph),
        readers_(graph.Readers()),
        issued_(graph.nodes.size(), false),
        prompt_(LateNodes(graph)) {
    for (size_t n = 0; n < graph.nodes.size(); ++n) {
      prompt_[n] = prompt_[n] && !late[n] && graph.nodes[n].phase == Phase::kBackward;
    }
    const std::vector<bool> stored = NodesOfStoredValues(graph);
    for (size_t n = 0; n < graph.nodes.size(); ++n) {
      if (!late[n] && (!stored[n] || sent[n])) Issue(NodeId(static_cast<int64_t>(n)));
    }
    for (size_t n = 0; n < graph.nodes.size(); ++n) {  // what nothing but an output reads
      if (!late[n]) Issue(NodeId(static_cast<int64_t>(n)));
    }
    for (size_t n = 0; n < graph.nodes.size(); ++n) Follow(NodeId(static_cast<int64_t>(n)));
  }

  std::vector<NodeId> order;

 private:
  // With what it needs before it.
  void Issue(NodeId top) {
    std::vector<NodeId> stack = {top};
    while (!stack.empty()) {
      const NodeId n = stack.back();
      const size_t depth = stack.size();
      if (!issued_[n.index()]) {
        const std::vector<TensorId>& inputs = graph_.node(n).inputs;
        for (auto t = inputs.rbegin(); t != inputs.rend(); ++t) {
          const NodeId producer = graph_.tensor(*t).producer;
          if (producer.valid() && !issued_[producer.index()]) stack.push_back(producer);
        }
      }
      if (stack.size() > depth) continue;
      stack.pop_back();
      if (!issued_[n.index()]) IssueOne(n);
    }
  }

  // And what hands its results on at once. (Such a node has one operand.)
  void IssueOne(NodeId n) {
    issued_[n.index()] = true;
    order.push_back(n);
    for (TensorId t : graph_.node(n).outputs) {
      for (NodeId reader : readers_[t.index()]) {
        if (prompt_[reader.index()] && !issued_[reader.index()]) IssueOne(reader);
      }
    }
  }

  // The node if it is still to come, then the readers of its results that need nothing more.
  void Follow(NodeId top) {
    std::vector<NodeId> stack = {top};
    while (!stack.empty()) {
      const NodeId n = stack.back();
      stack.pop_back();
      if (issued_[n.index()]) continue;
      const std::vector<TensorId>& inputs = graph_.node(n).inputs;
      const bool ready = std::all_of(inputs.begin(), inputs.end(), [&](TensorId t) {
        const NodeId producer = graph_.tensor(t).producer;
        return !producer.valid() || issued_[producer.index()];
      });
      if (!ready) continue;
      issued_[n.index()] = true;
      order.push_back(n);
      const std::vector<TensorId>& outputs = graph_.node(n).outputs;
      for (auto t = outputs.rbegin(); t != outputs.rend(); ++t) {
        const std::vector<NodeId>& readers = readers_[t->index()];
        stack.insert(stack.end(), readers.rbegin(), readers.rend());
      }
    }
  }

  const Graph& graph_;
  const std::vector<std::vector<NodeId>> readers_;
  std::vector<bool> issued_;
  std::vector<bool> prompt_;  // hands a gradient on before its reduction
};

}  // namespace

std::vector<bool> LateNodes(const Graph& graph) {
  std::vector<bool> wanted(graph.tensors.size(), false);  // by something that is not late
  for (TensorId t : graph.outputs) wanted[t.index()] = true;
  if (graph.loss) wanted[graph.loss->index()] = true;
  std::vector<bool> late(graph.nodes.size(), false);
  for (size_t n = graph.nodes.size(); n-- > 0;) {
    const Node& node = graph.nodes[n];
    late[n] = node.phase != Phase::kForward &&
              std::none_of(node.outputs.begin(), node.outputs.end(),
                           [&](TensorId t) { return bool{wanted[t.index()]}; });
    if (late[n] && node.phase == Phase::kBackward) {
      // What computes a gradient is no late node, whoever reads it: only what hands it on.
      late[n] = node.inputs.size() == 1 && node.outputs.size() == 1 &&
                ElementCount(graph.tensor(node.inputs[0]).shape) ==
                    ElementCount(graph.tensor(node.outputs[0]).shape);
    }
    if (late[n]) continue;
    for (TensorId t : node.inputs) wanted[t.index()] = true;
  }
  return late;
}

std::vector<bool> NodesOfStoredValues(const Graph& graph) {
  std::vector<bool> stored(graph.nodes.size(), false);
  for (size_t n = 0; n < graph.nodes.size(); ++n) {
    const Node& node = graph.nodes[n];
    stored[n] = node.phase == Phase::kForward && !node.inputs.empty() &&
                std::all_of(node.inputs.begin(), node.inputs.end(), [&](TensorId t) {
                  const Tensor& tensor = graph.tensor(t);
                  if (tensor.producer.valid()) return bool{stored[tensor.producer.index()]};
                  return tensor.role == TensorRole::kParameter ||
                         tensor.role == TensorRole::kState || tensor.role == TensorRole::kConstant;
                });
  }
  return stored;
}

std::vector<NodeId> IssueOrder(const Graph& graph, const std::vector<bool>& sent,
                               const std::vector<bool>& late) {
  return Order(graph, sent, late).order;
}

}  // namespace tandem
