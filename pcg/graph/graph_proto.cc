#include "pcg/graph/graph_proto.h"

#include <set>
#include <vector>

#include "absl/container/flat_hash_map.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"

namespace tandem {
namespace {

static_assert(static_cast<int>(DType::kBool) == proto::BOOL);
static_assert(static_cast<int>(TensorRole::kStepInput) == proto::Tensor::STEP_INPUT);
static_assert(static_cast<int>(Phase::kUpdate) == proto::Node::UPDATE);

constexpr int kFormat = 1;
constexpr int64_t kLargestElements = int64_t{1} << 62;
constexpr int kLargestRank = 64;

void TensorToProto(const Tensor& tensor, proto::Tensor* out) {
  out->set_name(tensor.name);
  if (tensor.dtype != DType::kF32) out->set_dtype(DTypeToProto(tensor.dtype));
  bool factored = false;
  for (const Factors& factors : tensor.shape) factored |= factors.size() != 1;
  for (int64_t extent : PlainShape(tensor.shape)) out->add_shape(extent);
  if (factored) ShapeToProto(tensor.shape, out->mutable_factors());
  if (tensor.role != TensorRole::kActivation) {
    out->set_role(static_cast<proto::Tensor::Role>(tensor.role));
  }
  out->mutable_values()->Add(tensor.values.begin(), tensor.values.end());
  if (!tensor.external.empty()) out->set_external(tensor.external);
  if (!tensor.initializer.empty()) out->set_initializer(tensor.initializer);
  if (!tensor.note.empty()) out->set_note(tensor.note);
}

absl::Status CheckExtent(int64_t extent, int64_t* elements, const std::string& what) {
  if (extent < 1) {
    return absl::InvalidArgumentError(
        absl::StrCat(what, ": dim of ", extent, "; every dim must be at least 1"));
  }
  if (*elements > kLargestElements / extent) {
    return absl::InvalidArgumentError(absl::StrCat(what, ": more than 2^62 elements"));
  }
  *elements *= extent;
  return absl::OkStatus();
}

absl::StatusOr<Tensor> TensorFromProto(const proto::Tensor& in, const std::string& file) {
  const std::string what = absl::StrCat(file, ": tensor '", in.name(), "'");
  Tensor tensor;
  tensor.name = in.name();
  tensor.dtype = DTypeFromProto(in.dtype());
  tensor.role = static_cast<TensorRole>(in.role());
  tensor.values.assign(in.values().begin(), in.values().end());
  tensor.external = in.external();
  tensor.initializer = in.initializer();
  tensor.note = in.note();
  if (in.shape_size() > kLargestRank) {
    return absl::InvalidArgumentError(
        absl::StrCat(what, ": ", in.shape_size(), " dims; at most ", kLargestRank));
  }
  int64_t elements = 1;
  for (int64_t extent : in.shape()) {
    if (absl::Status s = CheckExtent(extent, &elements, what); !s.ok()) return s;
    tensor.shape.push_back({extent});
  }
  if (in.factors_size() > 0) {
    auto factored = ShapeFromProto(in.factors(), what);
    if (!factored.ok()) return factored.status();
    if (PlainShape(*factored) != PlainShape(tensor.shape)) {
      return absl::InvalidArgumentError(
          absl::StrCat(what, ": the factors do not multiply to the shape [",
                       absl::StrJoin(PlainShape(tensor.shape), ", "), "]"));
    }
    tensor.shape = *std::move(factored);
  }
  if (!tensor.values.empty() && static_cast<int64_t>(tensor.values.size()) != elements) {
    return absl::InvalidArgumentError(
        absl::StrCat(what, ": ", tensor.values.size(), " values for ", elements, " elements"));
  }
  if (tensor.role == TensorRole::kConstant && tensor.values.empty()) {
    return absl::InvalidArgumentError(
        absl::StrCat(what, ": a constant without values; write them, or make it a PARAMETER"));
  }
  return tensor;
}

// Reads one graph. Names become ids as tensors are declared or produced.
class Reader {
 public:
  Reader(const proto::Graph& in, const std::string& file) : in_(in), file_(file) {}

  absl::StatusOr<Graph> Read() {
    if (in_.has_format() && in_.format() != kFormat) {
      return Error(absl::StrCat("format ", in_.format(), "; this version reads format ", kFormat));
    }
    graph_.name = in_.name();
    graph_.batch = in_.batch();
    if (graph_.batch < 0) return Error(absl::StrCat("negative batch ", graph_.batch));
    for (absl::Status (Reader::*step)() :
         {&Reader::ReadOperators, &Reader::ReadTensors, &Reader::ReadNodes, &Reader::ReadEnds}) {
      if (absl::Status s = (this->*step)(); !s.ok()) return s;
    }
    if (absl::Status s = CheckGraph(graph_); !s.ok()) {
      return absl::Status(s.code(), absl::StrCat(file_, ": ", s.message()));
    }
    return std::move(graph_);
  }

 private:
  absl::Status Error(const std::string& message) const {
    return absl::InvalidArgumentError(absl::StrCat(file_, ": ", message));
  }

  absl::Status ReadOperators() {
    graph_.operators = BuiltinOperators();
    for (const std::string& text : in_.operators()) {
      if (absl::Status s = graph_.operators.AddText(text, file_); !s.ok()) return s;
    }
    // All unknown ones at once.
    std::map<std::string, std::pair<int, std::string>> unknown;
    for (const proto::Node& node : in_.node()) {
      if (graph_.operators.Find(node.op()) != nullptr) continue;
      auto& entry = unknown[node.op()];
      if (entry.first++ == 0) entry.second = node.name();
    }
    if (unknown.empty()) return absl::OkStatus();
    std::vector<std::string> parts;
    for (const auto& [op, entry] : unknown) {
      parts.push_back(
          absl::StrCat("'", op, "' (", entry.first, " nodes, first '", entry.second, "')"));
    }
    return Error(absl::StrCat("unknown operators: ", absl::StrJoin(parts, ", "),
                              "; define them in `operators` as text (docs/operators.md)"));
  }

  absl::Status AddName(const std::string& name, TensorId id) {
    if (name.empty()) return Error("a tensor without a name");
    if (!ids_.emplace(name, id).second) {
      return Error(absl::StrCat("two tensors are named '", name, "'; names must be unique"));
    }
    return absl::OkStatus();
  }

  absl::Status ReadTensors() {
    for (const proto::Tensor& entry : in_.tensor()) {
      auto tensor = TensorFromProto(entry, file_);
      if (!tensor.ok()) return tensor.status();
      const TensorId id(static_cast<int64_t>(graph_.tensors.size()));
      if (absl::Status s = AddName(tensor->name, id); !s.ok()) return s;
      graph_.tensors.push_back(*std::move(tensor));
    }
    return absl::OkStatus();
  }

  absl::StatusOr<TensorId> Lookup(const std::string& name, const std::string& who) const {
    const auto it = ids_.find(name);
    if (it == ids_.end()) {
      return Error(absl::StrCat(who, ": no tensor '", name, "'; declare it or name its producer"));
    }
    return it->second;
  }

  static std::vector<std::string> OutputNames(const proto::Node& node, size_t count) {
    if (node.output_size() > 0) return {node.output().begin(), node.output().end()};
    std::vector<std::string> names;
    for (size_t i = 0; i < count; ++i) {
      names.push_back(i == 0 ? node.name() : absl::StrCat(node.name(), ":", i));
    }
    return names;
  }

  // Positions of the nodes so that producers come before readers; the file's order where it is one.
  absl::StatusOr<std::vector<int>> Order() const {
    absl::flat_hash_map<std::string, int> producer;
    absl::flat_hash_map<std::string, int> names;
    for (int i = 0; i < in_.node_size(); ++i) {
      const proto::Node& node = in_.node(i);
      if (node.name().empty()) return Error(absl::StrCat("node ", i, " has no name"));
      if (!names.emplace(node.name(), i).second) {
        return Error(absl::StrCat("two nodes are named '", node.name(), "'"));
      }
      const size_t count = graph_.operators.Find(node.op())->outputs.size();
      const std::vector<std::string> outputs = OutputNames(node, count);
      if (outputs.size() != count) {
        return Error(absl::StrCat("node '", node.name(), "' has ", outputs.size(),
                                  " outputs; operator ", node.op(), " has ", count));
      }
      for (const std::string& output : outputs) {
        if (!producer.emplace(output, i).second) {
          return Error(absl::StrCat("nodes '", in_.node(producer[output]).name(), "' and '",
                                    node.name(), "' both produce '", output, "'"));
        }
      }
    }
    std::vector<int> waits(in_.node_size(), 0);
    std::vector<std::vector<int>> readers(in_.node_size());
    for (int i = 0; i < in_.node_size(); ++i) {
      for (const std::string& input : in_.node(i).input()) {
        const auto it = producer.find(input);
        if (it == producer.end()) continue;
        readers[it->second].push_back(i);
        ++waits[i];
      }
    }
    std::set<int> ready;
    for (int i = 0; i < in_.node_size(); ++i) {
      if (waits[i] == 0) ready.insert(i);
    }
    std::vector<int> order;
    while (!ready.empty()) {
      const int i = *ready.begin();
      ready.erase(ready.begin());
      order.push_back(i);
      for (int reader : readers[i]) {
        if (--waits[reader] == 0) ready.insert(reader);
      }
    }
    for (int i = 0; i < in_.node_size(); ++i) {
      if (waits[i] == 0) continue;
      return Error(absl::StrCat("the nodes form a cycle through '", in_.node(i).name(), "'"));
    }
    return order;
  }

  absl::Status ReadNodes() {
    auto order = Order();
    if (!order.ok()) return order.status();
    for (int i : *order) {
      if (absl::Status s = ReadNode(in_.node(i)); !s.ok()) return s;
    }
    return absl::OkStatus();
  }

  absl::Status ReadNode(const proto::Node& in) {
    const OpSpec& spec = *graph_.operators.Find(in.op());
    const std::string who = absl::StrCat("node '", in.name(), "'");
    Node node;
    node.name = in.name();
    node.op = in.op();
    node.phase = static_cast<Phase>(in.phase());
    node.block = in.block();
    node.origin = in.origin();
    auto attributes = AttributesFromProto(in.attribute());
    if (!attributes.ok()) {
      return Error(absl::StrCat(who, ": ", attributes.status().message()));
    }
    node.attributes = *std::move(attributes);
    for (const std::string& input : in.input()) {
      auto id = Lookup(input, who);
      if (!id.ok()) return id.status();
      node.inputs.push_back(*id);
    }
    const NodeId node_id(static_cast<int64_t>(graph_.nodes.size()));
    const std::vector<std::string> names = OutputNames(in, spec.outputs.size());
    std::vector<FactoredShape> inferred;  // only where some output is not declared
    for (size_t k = 0; k < names.size(); ++k) {
      auto found = ids_.find(names[k]);
      if (found == ids_.end()) {
        if (inferred.empty()) {
          auto shapes = Infer(node, spec);
          if (!shapes.ok()) return Error(absl::StrCat(who, ": ", shapes.status().message()));
          inferred = *std::move(shapes);
        }
        Tensor tensor;
        tensor.name = names[k];
        tensor.shape = inferred[k];
        tensor.dtype = InferDType(node, spec.outputs[k]);
        const TensorId id(static_cast<int64_t>(graph_.tensors.size()));
        if (absl::Status s = AddName(names[k], id); !s.ok()) return s;
        graph_.tensors.push_back(std::move(tensor));
        found = ids_.find(names[k]);
      }
      Tensor& tensor = graph_.tensors[found->second.index()];
      if (tensor.role != TensorRole::kActivation) {
        return Error(absl::StrCat(who, " produces '", names[k],
                                  "', which is declared as a source; leave its role out"));
      }
      tensor.producer = node_id;
      tensor.producer_output = static_cast<int>(k);
      node.outputs.push_back(found->second);
    }
    graph_.nodes.push_back(std::move(node));
    return absl::OkStatus();
  }

  absl::StatusOr<std::vector<FactoredShape>> Infer(const Node& node, const OpSpec& spec) const {
    std::vector<FactoredShape> inputs;
    for (TensorId id : node.inputs) inputs.push_back(graph_.tensor(id).shape);
    auto instance = Instantiate(spec, node.attributes, inputs);
    if (!instance.ok()) return instance.status();
    std::vector<FactoredShape> outputs;
    for (int k = 0; k < instance->num_outputs; ++k) {
      outputs.push_back(instance->ShapeOf(instance->num_inputs + k));
    }
    return outputs;
  }

  DType InferDType(const Node& node, const OperandSpec& output) const {
    if (output.kind == ElementKind::kInt) return DType::kI64;
    if (output.kind == ElementKind::kBool) return DType::kBool;
    for (TensorId id : node.inputs) {
      if (IsFloat(graph_.tensor(id).dtype)) return graph_.tensor(id).dtype;
    }
    return node.inputs.empty() ? DType::kF32 : graph_.tensor(node.inputs[0]).dtype;
  }

  absl::Status ReadEnds() {
    for (const std::string& name : in_.input()) {
      auto id = Lookup(name, "inputs");
      if (!id.ok()) return id.status();
      graph_.inputs.push_back(*id);
    }
    if (in_.input_size() == 0) {
      for (size_t i = 0; i < graph_.tensors.size(); ++i) {
        const TensorRole role = graph_.tensors[i].role;
        if (role == TensorRole::kInput || role == TensorRole::kStepInput) {
          graph_.inputs.push_back(TensorId(static_cast<int64_t>(i)));
        }
      }
    }
    for (const std::string& name : in_.output()) {
      auto id = Lookup(name, "outputs");
      if (!id.ok()) return id.status();
      graph_.outputs.push_back(*id);
    }
    if (in_.has_loss()) {
      auto id = Lookup(in_.loss(), "loss");
      if (!id.ok()) return id.status();
      graph_.loss = *id;
    }
    for (const proto::StateUpdate& update : in_.update()) {
      auto state = Lookup(update.state(), "update");
      auto next = Lookup(update.next(), "update");
      if (!state.ok()) return state.status();
      if (!next.ok()) return next.status();
      graph_.updates.push_back({*state, *next});
    }
    return absl::OkStatus();
  }

  const proto::Graph& in_;
  const std::string& file_;
  Graph graph_;
  absl::flat_hash_map<std::string, TensorId> ids_;
};

}  // namespace

void AttributesToProto(const Attributes& attributes,
                       google::protobuf::RepeatedPtrField<proto::Attribute>* out) {
  for (const auto& [name, value] : attributes) {
    proto::Attribute* entry = out->Add();
    entry->set_name(name);
    if (const auto* i = std::get_if<int64_t>(&value)) entry->set_i(*i);
    if (const auto* f = std::get_if<double>(&value)) entry->set_f(*f);
    if (const auto* s = std::get_if<std::string>(&value)) entry->set_s(*s);
    if (const auto* ints = std::get_if<std::vector<int64_t>>(&value)) {
      entry->mutable_ints()->Add(ints->begin(), ints->end());
    }
  }
}

absl::StatusOr<Attributes> AttributesFromProto(
    const google::protobuf::RepeatedPtrField<proto::Attribute>& in) {
  Attributes attributes;
  for (const proto::Attribute& entry : in) {
    const int given = (entry.has_i() ? 1 : 0) + (entry.has_f() ? 1 : 0) + (entry.has_s() ? 1 : 0) +
                      (entry.ints_size() > 0 ? 1 : 0);
    if (entry.name().empty() || given > 1) {
      return absl::InvalidArgumentError(
          absl::StrCat("attribute '", entry.name(), "' needs a name and one of i, f, s and ints"));
    }
    AttrValue value = std::vector<int64_t>(entry.ints().begin(), entry.ints().end());
    if (entry.has_i()) value = entry.i();
    if (entry.has_f()) value = entry.f();
    if (entry.has_s()) value = entry.s();
    if (!attributes.emplace(entry.name(), std::move(value)).second) {
      return absl::InvalidArgumentError(
          absl::StrCat("attribute '", entry.name(), "' is given twice"));
    }
  }
  return attributes;
}

absl::StatusOr<FactoredShape> ShapeFromProto(
    const google::protobuf::RepeatedPtrField<proto::Factors>& in, const std::string& what) {
  if (in.size() > kLargestRank) {
    return absl::InvalidArgumentError(
        absl::StrCat(what, ": ", in.size(), " dims; at most ", kLargestRank));
  }
  FactoredShape shape;
  int64_t elements = 1;
  for (const proto::Factors& factors : in) {
    if (factors.extent_size() == 0) {
      return absl::InvalidArgumentError(absl::StrCat(what, ": a dim without factors"));
    }
    for (int64_t extent : factors.extent()) {
      if (absl::Status s = CheckExtent(extent, &elements, what); !s.ok()) return s;
    }
    shape.emplace_back(factors.extent().begin(), factors.extent().end());
  }
  return shape;
}

void ShapeToProto(const FactoredShape& shape,
                  google::protobuf::RepeatedPtrField<proto::Factors>* out) {
  for (const Factors& factors : shape) {
    out->Add()->mutable_extent()->Add(factors.begin(), factors.end());
  }
}

void GraphToProto(const Graph& graph, OperatorTexts texts, proto::Graph* out) {
  out->set_format(kFormat);
  if (!graph.name.empty()) out->set_name(graph.name);
  std::set<std::string> used;
  for (const Node& node : graph.nodes) used.insert(node.op);
  for (const auto& [name, spec] : graph.operators.specs()) {
    const OpSpec* builtin = BuiltinOperators().Find(name);
    const bool is_builtin = builtin != nullptr && builtin->text == spec.text;
    if (is_builtin && (texts == OperatorTexts::kForPeople || !used.count(name))) continue;
    out->add_operators(spec.text);
  }
  for (const Tensor& tensor : graph.tensors) TensorToProto(tensor, out->add_tensor());
  for (const Node& node : graph.nodes) {
    proto::Node* entry = out->add_node();
    entry->set_name(node.name);
    entry->set_op(node.op);
    AttributesToProto(node.attributes, entry->mutable_attribute());
    for (TensorId id : node.inputs) entry->add_input(graph.tensor(id).name);
    for (TensorId id : node.outputs) entry->add_output(graph.tensor(id).name);
    if (node.phase != Phase::kForward) {
      entry->set_phase(static_cast<proto::Node::Phase>(node.phase));
    }
    if (node.block != -1) entry->set_block(node.block);
    if (!node.origin.empty()) entry->set_origin(node.origin);
  }
  for (TensorId id : graph.inputs) out->add_input(graph.tensor(id).name);
  for (TensorId id : graph.outputs) out->add_output(graph.tensor(id).name);
  if (graph.loss.has_value()) out->set_loss(graph.tensor(*graph.loss).name);
  for (const StateUpdate& update : graph.updates) {
    proto::StateUpdate* entry = out->add_update();
    entry->set_state(graph.tensor(update.state).name);
    entry->set_next(graph.tensor(update.next).name);
  }
  if (graph.batch != 0) out->set_batch(graph.batch);
}

absl::StatusOr<Graph> GraphFromProto(const proto::Graph& in, const std::string& file) {
  return Reader(in, file).Read();
}

}  // namespace tandem
