#include "pcg/graph/graph_builder.h"

#include "absl/strings/str_cat.h"

namespace tandem {

GraphBuilder::GraphBuilder(std::string name, int64_t batch) {
  graph_.name = std::move(name);
  graph_.batch = batch;
  graph_.operators = BuiltinOperators();
}

TensorId GraphBuilder::Source(const std::string& name, const std::vector<int64_t>& shape,
                              TensorRole role, DType dtype, const std::string& initializer) {
  Tensor t;
  t.name = name;
  t.role = role;
  t.dtype = dtype;
  t.initializer = initializer;
  for (int64_t extent : shape) t.shape.push_back({extent});
  return graph_.AddSource(std::move(t));
}

TensorId GraphBuilder::Input(const std::string& name, const std::vector<int64_t>& shape,
                             DType dtype) {
  return Source(name, shape, TensorRole::kInput, dtype, "");
}

TensorId GraphBuilder::Parameter(const std::string& name, const std::vector<int64_t>& shape,
                                 const std::string& initializer) {
  return Source(name, shape, TensorRole::kParameter, DType::kF32, initializer);
}

TensorId GraphBuilder::State(const std::string& name, const std::vector<int64_t>& shape,
                             const std::string& initializer) {
  return Source(name, shape, TensorRole::kState, DType::kF32, initializer);
}

TensorId GraphBuilder::Op(const std::string& op, const std::vector<TensorId>& inputs,
                          Attributes attributes) {
  return Named(absl::StrCat(op, "_", graph_.nodes.size()), op, inputs, std::move(attributes));
}

TensorId GraphBuilder::Named(const std::string& name, const std::string& op,
                             const std::vector<TensorId>& inputs, Attributes attributes) {
  if (!status_.ok()) return TensorId(0);
  Node node;
  node.name = name;
  node.op = op;
  node.inputs = inputs;
  node.attributes = std::move(attributes);
  node.block = block_;
  const OpSpec* spec = graph_.operators.Find(op);
  if (spec != nullptr && inputs.size() < spec->inputs.size()) {
    std::vector<int64_t> absent;
    for (size_t i = inputs.size(); i < spec->inputs.size(); ++i) {
      absent.push_back(static_cast<int64_t>(i));
    }
    node.attributes["absent"] = absent;
  }
  absl::StatusOr<NodeId> id = graph_.AddNode(std::move(node), {DType::kF32});
  if (!id.ok()) {
    status_ = id.status();
    return TensorId(0);
  }
  return graph_.node(*id).outputs[0];
}

const std::vector<int64_t> GraphBuilder::Shape(TensorId id) const {
  return id.index() < graph_.tensors.size() ? PlainShape(graph_.tensor(id).shape)
                                            : std::vector<int64_t>{};
}

absl::StatusOr<Graph> GraphBuilder::Finish(const std::vector<TensorId>& outputs) {
  if (!status_.ok()) return status_;
  graph_.outputs = outputs;
  if (absl::Status s = CheckGraph(graph_); !s.ok()) return s;
  return std::move(graph_);
}

}  // namespace tandem
