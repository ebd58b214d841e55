#include "pcg/graph/graph.h"

#include <algorithm>
#include <deque>
#include <mutex>
#include <optional>
#include <set>
#include <unordered_map>
#include <utility>

#include "absl/strings/str_cat.h"
#include "pcg/graph/attributes_text.h"
#include "pcg/graph/initializer.h"

namespace tandem {
namespace {

// Everything an instance depends on, as bytes: equal layers are instantiated once.
void AppendShapes(const std::vector<FactoredShape>& shapes, std::string& key) {
  for (const FactoredShape& shape : shapes) {
    for (const Factors& factors : shape) {
      for (int64_t factor : factors) absl::StrAppend(&key, factor, "*");
      key += ',';
    }
    key += ';';
  }
}

std::vector<FactoredShape> ShapesOf(const Graph& graph, const std::vector<TensorId>& tensors) {
  std::vector<FactoredShape> shapes;
  for (TensorId id : tensors) shapes.push_back(graph.tensor(id).shape);
  return shapes;
}

absl::Status InNode(const Node& node, const absl::Status& status) {
  return absl::Status(status.code(), absl::StrCat("node '", node.name, "': ", status.message()));
}

// Instances by what they depend on: the operator's text, attributes and shapes. Instantiation is a
// pure function, asked again and again for equal nodes by everything that walks a graph (lowering,
// timeline, verifier, runtime), so its answers are kept for the whole process. Errors are not kept.
class InstanceMemo {
 public:
  static InstanceMemo& Get() {
    static auto* memo = new InstanceMemo;
    return *memo;
  }

  std::optional<OpInstance> Find(const std::string& key) {
    const std::lock_guard<std::mutex> lock(mutex_);
    const auto it = instances_.find(key);
    if (it == instances_.end()) return std::nullopt;
    return it->second;
  }

  void Keep(std::string key, const OpInstance& instance) {
    const std::lock_guard<std::mutex> lock(mutex_);
    if (instances_.size() >= kMost) instances_.clear();
    instances_.emplace(std::move(key), instance);
  }

 private:
  static constexpr size_t kMost = 4096;  // far more than a model has; a few tens of MB at worst

  std::mutex mutex_;
  std::unordered_map<std::string, OpInstance> instances_;
};

// `outputs` null: not known yet.
absl::StatusOr<OpInstance> Remembered(const OpSpec& spec, const Attributes& attributes,
                                      const std::vector<FactoredShape>& inputs,
                                      const std::vector<FactoredShape>* outputs) {
  std::string key =
      absl::StrCat(spec.text, outputs == nullptr ? "?" : "!", AttributesText(attributes), "|");
  AppendShapes(inputs, key);
  key += '>';
  if (outputs != nullptr) AppendShapes(*outputs, key);
  if (std::optional<OpInstance> known = InstanceMemo::Get().Find(key)) return *std::move(known);
  auto instance = outputs == nullptr ? Instantiate(spec, attributes, inputs)
                                     : InstantiateWithOutputs(spec, attributes, inputs, *outputs);
  if (instance.ok()) InstanceMemo::Get().Keep(std::move(key), *instance);
  return instance;
}

absl::StatusOr<OpInstance> InstanceOfNode(const Graph& graph, const Node& node) {
  auto spec = graph.operators.Get(node.op);
  if (!spec.ok()) return InNode(node, spec.status());
  const std::vector<FactoredShape> outputs = ShapesOf(graph, node.outputs);
  auto instance = Remembered(**spec, node.attributes, ShapesOf(graph, node.inputs), &outputs);
  if (!instance.ok()) return InNode(node, instance.status());
  return instance;
}

DType FirstOf(const Graph& graph, const Node& node, bool wanted_float, DType otherwise) {
  for (TensorId input : node.inputs) {
    const DType dtype = graph.tensor(input).dtype;
    if (IsFloat(dtype) == wanted_float && dtype != DType::kBool) return dtype;
  }
  return otherwise;
}

DType OutputType(const Graph& graph, const Node& node, ElementKind kind) {
  switch (kind) {
    case ElementKind::kBool:
      return DType::kBool;
    case ElementKind::kInt:
      return FirstOf(graph, node, false, DType::kI64);
    case ElementKind::kFloat:
      break;
  }
  // Operators that only move elements keep integers integers.
  const bool all_integer = !node.inputs.empty() &&
                           std::none_of(node.inputs.begin(), node.inputs.end(), [&](TensorId id) {
                             return IsFloat(graph.tensor(id).dtype);
                           });
  if (all_integer) return graph.tensor(node.inputs[0]).dtype;
  return FirstOf(graph, node, true, DType::kF32);
}

// Shapes of all operands of a node under what is known; by key, so that equal nodes share the work.
class ShapeCache {
 public:
  absl::StatusOr<std::vector<FactoredShape>> Get(const Graph& graph, const Node& node) {
    std::string key = absl::StrCat(node.op, AttributesText(node.attributes), "|");
    AppendShapes(ShapesOf(graph, node.inputs), key);
    key += '>';
    AppendShapes(ShapesOf(graph, node.outputs), key);
    const auto it = shapes_.find(key);
    if (it != shapes_.end()) return it->second;
    auto instance = InstanceOfNode(graph, node);
    if (!instance.ok()) return instance.status();
    std::vector<FactoredShape> shapes;
    const int operands = instance->num_inputs + instance->num_outputs;
    for (int i = 0; i < operands; ++i) shapes.push_back(instance->ShapeOf(i));
    shapes_.emplace(std::move(key), shapes);
    return shapes;
  }

 private:
  std::unordered_map<std::string, std::vector<FactoredShape>> shapes_;
};

}  // namespace

TensorId Graph::AddSource(Tensor tensor) {
  const TensorId id(static_cast<int64_t>(tensors.size()));
  tensor.producer = NodeId();
  if (tensor.role == TensorRole::kInput || tensor.role == TensorRole::kStepInput) {
    inputs.push_back(id);
  }
  tensors.push_back(std::move(tensor));
  return id;
}

absl::StatusOr<NodeId> Graph::AddNode(Node node, const std::vector<DType>& output_dtypes) {
  for (TensorId input : node.inputs) {
    if (!input.valid() || input.index() >= tensors.size()) {
      return InNode(node, absl::InvalidArgumentError(
                              absl::StrCat("input tensor ", input.value, " does not exist")));
    }
  }
  auto spec = operators.Get(node.op);
  if (!spec.ok()) return InNode(node, spec.status());
  auto instance = Remembered(**spec, node.attributes, ShapesOf(*this, node.inputs), nullptr);
  if (!instance.ok()) return InNode(node, instance.status());
  const NodeId id(static_cast<int64_t>(nodes.size()));
  node.outputs.clear();
  for (int i = 0; i < instance->num_outputs; ++i) {
    Tensor tensor;
    tensor.name =
        i == 0 && instance->num_outputs == 1 ? node.name : absl::StrCat(node.name, ":", i);
    const size_t index = static_cast<size_t>(i);
    tensor.dtype = index < output_dtypes.size() ? output_dtypes[index]
                                                : OutputType(*this, node, instance->output(i).kind);
    tensor.shape = instance->ShapeOf(instance->num_inputs + i);
    tensor.producer = id;
    tensor.producer_output = i;
    node.outputs.push_back(TensorId(static_cast<int64_t>(tensors.size())));
    tensors.push_back(std::move(tensor));
  }
  nodes.push_back(std::move(node));
  return id;
}

std::vector<std::vector<NodeId>> Graph::Readers() const {
  std::vector<std::vector<NodeId>> readers(tensors.size());
  for (size_t n = 0; n < nodes.size(); ++n) {
    const NodeId id(static_cast<int64_t>(n));
    for (TensorId input : nodes[n].inputs) {
      std::vector<NodeId>& of = readers[input.index()];
      if (of.empty() || of.back() != id) of.push_back(id);
    }
  }
  return readers;
}

absl::StatusOr<OpInstance> InstanceOf(const Graph& graph, NodeId node) {
  return InstanceOfNode(graph, graph.node(node));
}

absl::Status PropagateFactors(Graph& graph) {
  // Shapes are only ever refined, so this ends. A state and its next value have one shape.
  const std::vector<std::vector<NodeId>> readers = graph.Readers();
  std::vector<std::vector<TensorId>> same(graph.tensors.size());
  for (const StateUpdate& update : graph.updates) {
    same[update.state.index()].push_back(update.next);
    same[update.next.index()].push_back(update.state);
  }
  std::deque<NodeId> queue;
  std::vector<bool> queued(graph.nodes.size(), true);
  for (size_t n = 0; n < graph.nodes.size(); ++n) queue.push_back(NodeId(static_cast<int64_t>(n)));
  const auto enqueue = [&](NodeId node) {
    if (!node.valid() || queued[node.index()]) return;
    queued[node.index()] = true;
    queue.push_back(node);
  };
  const auto refine = [&](TensorId tensor, const FactoredShape& shape) {
    std::vector<TensorId> open = {tensor};
    while (!open.empty()) {
      const TensorId id = open.back();
      open.pop_back();
      Tensor& entry = graph.tensors[id.index()];
      if (entry.shape == shape) continue;
      if (id != tensor && PlainShape(entry.shape) != PlainShape(shape)) continue;
      entry.shape = shape;
      enqueue(entry.producer);
      for (NodeId reader : readers[id.index()]) enqueue(reader);
      open.insert(open.end(), same[id.index()].begin(), same[id.index()].end());
    }
  };
  ShapeCache cache;
  while (!queue.empty()) {
    const NodeId id = queue.front();
    queue.pop_front();
    queued[id.index()] = false;
    const Node& node = graph.node(id);
    auto shapes = cache.Get(graph, node);
    if (!shapes.ok()) return shapes.status();
    for (size_t i = 0; i < node.inputs.size(); ++i) refine(node.inputs[i], (*shapes)[i]);
    for (size_t i = 0; i < node.outputs.size(); ++i) {
      refine(node.outputs[i], (*shapes)[node.inputs.size() + i]);
    }
  }
  return absl::OkStatus();
}

absl::Status CheckGraph(const Graph& graph) {
  const auto bad = [&](const auto&... parts) {
    return absl::InvalidArgumentError(absl::StrCat("graph '", graph.name, "': ", parts...));
  };
  const auto exists = [&](TensorId id) { return id.valid() && id.index() < graph.tensors.size(); };
  std::set<absl::string_view> names;
  for (size_t t = 0; t < graph.tensors.size(); ++t) {
    const Tensor& tensor = graph.tensors[t];
    if (!names.insert(tensor.name).second) return bad("two tensors are named '", tensor.name, "'");
    for (size_t d = 0; d < tensor.shape.size(); ++d) {
      int64_t extent = tensor.shape[d].empty() ? 0 : 1;
      for (int64_t factor : tensor.shape[d]) extent = factor < 1 ? 0 : extent * factor;
      if (extent == 0) return bad("dim ", d, " of tensor '", tensor.name, "' has no elements");
    }
    if (!tensor.values.empty() &&
        static_cast<int64_t>(tensor.values.size()) != ElementCount(tensor.shape)) {
      return bad("tensor '", tensor.name, "' has ", tensor.values.size(), " values for ",
                 ElementCount(tensor.shape), " elements");
    }
    if (!tensor.initializer.empty()) {
      const auto initializer = ParseInitializer(tensor.initializer);
      if (!initializer.ok()) {
        return bad("tensor '", tensor.name, "': ", initializer.status().message());
      }
    }
    const bool produced = tensor.producer.valid();
    if (produced != (tensor.role == TensorRole::kActivation)) {
      return bad("tensor '", tensor.name, "' is ", produced ? "produced by a node" : "a source",
                 " against its role");
    }
    if (!produced) continue;
    if (tensor.producer.index() >= graph.nodes.size()) {
      return bad("the producer of tensor '", tensor.name, "' does not exist");
    }
    const Node& node = graph.node(tensor.producer);
    const size_t output = static_cast<size_t>(tensor.producer_output);
    if (output >= node.outputs.size() || node.outputs[output].index() != t) {
      return bad("tensor '", tensor.name, "' is not output ", output, " of node '", node.name, "'");
    }
  }
  names.clear();
  ShapeCache cache;
  for (size_t n = 0; n < graph.nodes.size(); ++n) {
    const Node& node = graph.nodes[n];
    if (!names.insert(node.name).second) return bad("two nodes are named '", node.name, "'");
    for (TensorId input : node.inputs) {
      if (!exists(input)) return bad("an input of node '", node.name, "' does not exist");
      const NodeId producer = graph.tensor(input).producer;
      if (producer.valid() && producer.index() >= n) {
        return bad("node '", node.name, "' reads tensor '", graph.tensor(input).name,
                   "' before node '", graph.node(producer).name, "' makes it");
      }
    }
    for (TensorId output : node.outputs) {
      if (!exists(output)) return bad("an output of node '", node.name, "' does not exist");
      if (graph.tensor(output).producer != NodeId(static_cast<int64_t>(n))) {
        return bad("tensor '", graph.tensor(output).name, "' has two producers");
      }
    }
    auto shapes = cache.Get(graph, node);
    if (!shapes.ok()) return bad(shapes.status().message());
  }
  for (TensorId id : graph.inputs) {
    if (!exists(id)) return bad("an input does not exist");
  }
  for (TensorId id : graph.outputs) {
    if (!exists(id)) return bad("an output does not exist");
  }
  if (graph.loss.has_value()) {
    if (!exists(*graph.loss)) return bad("the loss does not exist");
    if (ElementCount(graph.tensor(*graph.loss).shape) != 1) {
      return bad("the loss '", graph.tensor(*graph.loss).name, "' is not a scalar");
    }
  }
  for (const StateUpdate& update : graph.updates) {
    if (!exists(update.state) || !exists(update.next))
      return bad("an update's tensor does not exist");
    const Tensor& state = graph.tensor(update.state);
    if (PlainShape(state.shape) != PlainShape(graph.tensor(update.next).shape)) {
      return bad("state '", state.name, "' is updated by '", graph.tensor(update.next).name,
                 "' of another shape");
    }
  }
  return absl::OkStatus();
}

Graph Pruned(const Graph& graph) {
  std::vector<bool> needed_tensor(graph.tensors.size(), false);
  std::vector<bool> needed_node(graph.nodes.size(), false);
  std::vector<TensorId> open = graph.outputs;
  if (graph.loss.has_value()) open.push_back(*graph.loss);
  for (const StateUpdate& update : graph.updates) {
    open.push_back(update.state);
    open.push_back(update.next);
  }
  while (!open.empty()) {
    const TensorId id = open.back();
    open.pop_back();
    if (needed_tensor[id.index()]) continue;
    needed_tensor[id.index()] = true;
    const NodeId producer = graph.tensor(id).producer;
    if (!producer.valid() || needed_node[producer.index()]) continue;
    needed_node[producer.index()] = true;
    const Node& node = graph.node(producer);
    open.insert(open.end(), node.inputs.begin(), node.inputs.end());
    open.insert(open.end(), node.outputs.begin(), node.outputs.end());
  }
  Graph out;
  out.name = graph.name;
  out.operators = graph.operators;
  out.batch = graph.batch;
  std::vector<TensorId> tensor_map(graph.tensors.size());
  std::vector<NodeId> node_map(graph.nodes.size());
  int64_t next = 0;
  for (size_t n = 0; n < graph.nodes.size(); ++n) {
    if (needed_node[n]) node_map[n] = NodeId(next++);
  }
  for (size_t t = 0; t < graph.tensors.size(); ++t) {
    if (!needed_tensor[t]) continue;
    tensor_map[t] = TensorId(static_cast<int64_t>(out.tensors.size()));
    out.tensors.push_back(graph.tensors[t]);
    NodeId& producer = out.tensors.back().producer;
    if (producer.valid()) producer = node_map[producer.index()];
  }
  for (size_t n = 0; n < graph.nodes.size(); ++n) {
    if (!needed_node[n]) continue;
    out.nodes.push_back(graph.nodes[n]);
    for (TensorId& id : out.nodes.back().inputs) id = tensor_map[id.index()];
    for (TensorId& id : out.nodes.back().outputs) id = tensor_map[id.index()];
  }
  for (TensorId id : graph.inputs) {
    if (tensor_map[id.index()].valid()) out.inputs.push_back(tensor_map[id.index()]);
  }
  for (TensorId id : graph.outputs) out.outputs.push_back(tensor_map[id.index()]);
  if (graph.loss.has_value()) out.loss = tensor_map[graph.loss->index()];
  for (const StateUpdate& update : graph.updates) {
    out.updates.push_back({tensor_map[update.state.index()], tensor_map[update.next.index()]});
  }
  return out;
}

}  // namespace tandem
