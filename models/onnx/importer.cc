#include "models/onnx/importer.h"

#include <algorithm>
#include <map>
#include <set>
#include <utility>

#include "absl/strings/ascii.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "models/onnx/block_tags.h"
#include "models/onnx/context.h"
#include "models/onnx/file.h"
#include "models/onnx/ops.h"
#include "models/onnx/sources.h"

namespace tandem {
namespace {

// Operators of other domains that mean what ONNX's of the same name mean.
bool KnownDomain(const onnx::NodeProto& node) {
  if (node.domain().empty() || node.domain() == "ai.onnx") return true;
  return node.domain() == "com.microsoft" &&
         (node.op_type() == "Gelu" || node.op_type() == "SimplifiedLayerNormalization");
}

std::string Printable(const std::string& name) {
  std::string text;
  for (unsigned char c : name) text += absl::ascii_isprint(c) ? static_cast<char>(c) : '?';
  return text;
}

constexpr int64_t kMostNodes = 2000000;
constexpr int kDeepest = 32;  // functions, branches and loops inside one another
constexpr int64_t kMostRounds = 1024;

class Importer {
 public:
  Importer(const OnnxFile& file, const ImportOptions& options, ImportReport* report)
      : c_(file, options, report) {}

  absl::StatusOr<Graph> Run() {
    const onnx::GraphProto& graph = c_.file.model.graph();
    c_.graph.name = graph.name();
    for (const OpSpec& spec : c_.options.operators) {
      if (absl::Status s = c_.graph.operators.Add(spec); !s.ok()) return s;
    }
    if (absl::Status s = AddInputs(c_); !s.ok()) return s;
    if (absl::Status s = AddInitializers(c_); !s.ok()) return s;
    bool symbolic = false;
    for (const auto& input : graph.input()) {
      for (const auto& dim : input.type().tensor_type().shape().dim()) {
        symbolic = symbolic || !dim.has_dim_value();
      }
    }
    strict_ = !symbolic;
    for (const auto& info : graph.value_info()) declared_[info.name()] = &info.type();
    for (const auto& info : graph.output()) declared_[info.name()] = &info.type();
    for (int i : c_.file.order) {
      if (absl::Status s = Process(graph.node(i), 0); !s.ok()) return s;
    }
    if (absl::Status s = ReportUnsupported(); !s.ok()) return s;
    if (absl::Status s = AddOutputs(); !s.ok()) return s;
    Graph result = Pruned(c_.graph);
    for (TensorId input : c_.graph.inputs) {
      const std::string& name = c_.graph.tensor(input).name;
      const bool kept = std::any_of(result.inputs.begin(), result.inputs.end(),
                                    [&](TensorId id) { return result.tensor(id).name == name; });
      if (!kept) c_.Note(absl::StrCat("input '", name, "' is read by nothing, and is left out"));
    }
    TagBlocks(&result);
    if (absl::Status s = CheckGraph(result); !s.ok()) {
      return absl::Status(s.code(), absl::StrCat(c_.file.path, ": ", s.message()));
    }
    return result;
  }

 private:
  absl::Status Process(const onnx::NodeProto& node, int depth) {
    if (node.output_size() == 0) return absl::OkStatus();
    if (node.op_type() == "Identity" && c_.apart.count(node.output(0)) != 0) {
      return absl::OkStatus();
    }
    if (++processed_ > kMostNodes) {
      return absl::InvalidArgumentError(absl::StrCat(c_.file.path, ": more than ", kMostNodes,
                                                     " nodes with functions written out"));
    }
    c_.node_op = Printable(node.op_type());
    c_.node_name = Printable(!node.name().empty()     ? node.name()
                             : node.output_size() > 0 ? node.output(0)
                                                      : node.op_type());
    OnnxCall call{c_, node, c_.file.opset, {}, {}};
    call.out.resize(static_cast<size_t>(node.output_size()));
    bool poisoned = false;
    for (const std::string& name : node.input()) {
      const auto it = c_.values.find(name);
      call.in.push_back(it == c_.values.end() ? OnnxValue{} : it->second);
      poisoned = poisoned || call.in.back().kind == OnnxValue::Kind::kUnsupported;
    }
    const size_t tensors = c_.graph.tensors.size();
    absl::Status status = absl::OkStatus();
    const auto handler = AllOnnxHandlers().find(node.op_type());
    if (const auto* function = FunctionOf(node); function != nullptr) {
      if (!poisoned) status = Inline(call, *function, depth);
    } else if (node.op_type() == "If" && !poisoned) {
      status = Branch(call, depth);
    } else if (node.op_type() == "Loop" && !poisoned) {
      status = Loop(call, depth);
    } else if (IsUsers(node.op_type())) {
      if (!poisoned) status = UsersOperator(call);
    } else if (!KnownDomain(node)) {
      status = absl::UnimplementedError(
          absl::StrCat("an operator of domain '", node.domain(),
                       "'; export with standard ONNX operators, or define it in a Tandem model"));
    } else if (handler == AllOnnxHandlers().end()) {
      status = absl::UnimplementedError(
          "not imported; export it as simpler operators, or define it in a Tandem model");
    } else if (!poisoned) {
      status = Apply(call, handler->second);
    }
    if (absl::IsUnimplemented(status)) {
      Record(node, std::string(status.message()));
      poisoned = true;
    } else if (!status.ok()) {
      return status;
    }
    for (size_t k = 0; k < call.out.size(); ++k) {
      const std::string& name = node.output(static_cast<int>(k));
      if (name.empty()) continue;
      OnnxValue& value = call.out[k];
      if (poisoned || value.kind == OnnxValue::Kind::kNone) {
        value = OnnxValue{};
        value.kind = OnnxValue::Kind::kUnsupported;
      }
      value.name = Printable(name);
      Rename(value, tensors);
      if (const auto it = declared_.find(name); it != declared_.end() && !poisoned) {
        if (absl::Status s = CheckDeclared(name, *it->second, value, strict_); !s.ok()) return s;
      }
      c_.values[name] = std::move(value);
    }
    return absl::OkStatus();
  }

  absl::Status Apply(OnnxCall& call, OnnxHandler handler) {
    for (size_t i = 0; i < OperandsNeeded(call); ++i) {
      if (!call.has(i)) return c_.Error(absl::StrCat("operand ", i, " is missing"));
    }
    auto folded = FoldKnown(call);
    if (!folded.ok()) return folded.status();
    if (*folded) return absl::OkStatus();
    const bool shape_only = call.node.op_type() == "Shape" || call.node.op_type() == "Size";
    for (OnnxValue& value : call.in) {
      for (int64_t extent : c_.Shape(value)) {
        if (extent == 0 && !shape_only && !value.known()) return c_.Error("an empty operand");
      }
    }
    return handler(call);
  }

  bool IsUsers(const std::string& op) const {
    return std::any_of(c_.options.operators.begin(), c_.options.operators.end(),
                       [&](const OpSpec& spec) { return spec.name == op; });
  }

  // A node that names an operator given as text; its attributes are the operator's.
  absl::Status UsersOperator(OnnxCall& call) {
    std::vector<TensorId> inputs;
    for (const OnnxValue& value : call.in) {
      auto id = c_.ToTensor(value);
      if (!id.ok()) return id.status();
      inputs.push_back(*id);
    }
    Attributes attributes;
    for (const auto& attribute : call.node.attribute()) {
      AttrValue& value = attributes[attribute.name()];
      switch (attribute.type()) {
        case onnx::AttributeProto::INT:
          value = attribute.i();
          break;
        case onnx::AttributeProto::FLOAT:
          value = static_cast<double>(attribute.f());
          break;
        case onnx::AttributeProto::STRING:
          value = attribute.s();
          break;
        case onnx::AttributeProto::INTS:
          value = std::vector<int64_t>(attribute.ints().begin(), attribute.ints().end());
          break;
        default:
          return c_.Error(absl::StrCat("attribute '", attribute.name(),
                                       "' is no number, text or list of integers"));
      }
    }
    auto outputs = c_.EmitAll(call.node.op_type(), std::move(attributes), inputs, {});
    if (!outputs.ok()) return outputs.status();
    for (size_t k = 0; k < call.out.size() && k < outputs->size(); ++k) call.out[k] = (*outputs)[k];
    return absl::OkStatus();
  }

  const onnx::FunctionProto* FunctionOf(const onnx::NodeProto& node) const {
    for (const auto& function : c_.file.model.functions()) {
      if (function.name() == node.op_type() && function.domain() == node.domain()) return &function;
    }
    return nullptr;
  }

  // A function of the model itself: its nodes, with names of their own.
  absl::Status Inline(OnnxCall& call, const onnx::FunctionProto& function, int depth) {
    if (depth > kDeepest) return c_.Error("functions nested too deeply");
    if (call.node.input_size() > function.input_size() ||
        call.node.output_size() > function.output_size()) {
      return c_.Error(
          absl::StrCat("more operands or outputs than function '", function.name(), "' has"));
    }
    const std::string scope = absl::StrCat(c_.node_name, "/", ++scopes_, "/");
    const auto inner = [&](const std::string& name) {
      return name.empty() ? name : absl::StrCat(scope, name);
    };
    for (int i = 0; i < function.input_size(); ++i) {
      const auto at = static_cast<size_t>(i);
      if (at < call.in.size() && call.has(at)) c_.values[inner(function.input(i))] = call.in[at];
    }
    for (const onnx::NodeProto& original : function.node()) {
      onnx::NodeProto node = original;
      node.set_name(inner(original.name().empty() ? original.op_type() : original.name()));
      for (std::string& name : *node.mutable_input()) name = inner(name);
      for (std::string& name : *node.mutable_output()) name = inner(name);
      node.clear_attribute();
      for (const onnx::AttributeProto& attribute : original.attribute()) {
        if (attribute.ref_attr_name().empty()) {
          *node.add_attribute() = attribute;
        } else if (const auto* given = call.Attribute(attribute.ref_attr_name().c_str())) {
          *node.add_attribute() = *given;
          node.mutable_attribute(node.attribute_size() - 1)->set_name(attribute.name());
        }
      }
      if (absl::Status s = Process(node, depth + 1); !s.ok()) return s;
    }
    for (size_t k = 0; k < call.out.size(); ++k) {
      const auto it = c_.values.find(inner(function.output(static_cast<int>(k))));
      if (it == c_.values.end()) {
        return c_.Error(absl::StrCat("function '", function.name(), "' does not make its output"));
      }
      call.out[k] = it->second;
    }
    return absl::OkStatus();
  }

  // The shape that the file declares must be the one that follows from the operators.
  absl::Status CheckDeclared(const std::string& name, const onnx::TypeProto& type,
                             const OnnxValue& value, bool strict) {
    if (!type.has_tensor_type() || !type.tensor_type().has_shape()) return absl::OkStatus();
    if (value.kind != OnnxValue::Kind::kTensor) return absl::OkStatus();
    const auto& declared = type.tensor_type().shape();
    const Dims before = c_.Before(value);
    bool same = declared.dim_size() == static_cast<int>(before.size());
    for (int d = 0; same && d < declared.dim_size(); ++d) {
      const auto& dim = declared.dim(d);
      same = !dim.has_dim_value() || dim.dim_value() == before[static_cast<size_t>(d)];
    }
    if (same) return absl::OkStatus();
    std::vector<std::string> dims;
    for (const auto& dim : declared.dim()) {
      dims.push_back(dim.has_dim_value() ? absl::StrCat(dim.dim_value()) : dim.dim_param());
    }
    const std::string message =
        absl::StrCat("'", Printable(name), "' is declared as [", absl::StrJoin(dims, ", "),
                     "], but its operators make [", absl::StrJoin(before, ", "), "]");
    if (strict) return c_.Error(message + "; export the model again");
    c_.Note(message);
    return absl::OkStatus();
  }

  // A condition that is known at import chooses the branch.
  absl::Status Branch(OnnxCall& call, int depth) {
    const auto condition = call.has(0) ? c_.Uniform(call.in[0]) : std::nullopt;
    if (!condition) return c_.Unsupported("a branch on data; export the model without it");
    if (depth > kDeepest) return c_.Error("branches nested too deeply");
    const auto* branch = call.Attribute(*condition != 0 ? "then_branch" : "else_branch");
    if (branch == nullptr) return c_.Error("has no branch");
    const onnx::GraphProto& body = branch->g();
    if (absl::Status s = AddBodyInitializers(body); !s.ok()) return s;
    for (const auto& node : body.node()) {
      if (absl::Status s = Process(node, depth + 1); !s.ok()) return s;
    }
    if (body.output_size() != static_cast<int>(call.out.size())) return c_.Error("outputs differ");
    for (size_t k = 0; k < call.out.size(); ++k) {
      const auto it = c_.values.find(body.output(static_cast<int>(k)).name());
      if (it == c_.values.end()) return c_.Error("a branch gives a value that it does not make");
      call.out[k] = it->second;
    }
    return absl::OkStatus();
  }

  // Initialisers of a branch or a loop.
  absl::Status AddBodyInitializers(const onnx::GraphProto& body) {
    int64_t budget = kLoadedExternalBytes;
    for (const auto& proto : body.initializer()) {
      auto tensor = ReadOnnxTensor(proto, c_.file, &budget);
      if (!tensor.ok()) return tensor.status();
      if (!tensor->known) return c_.Unsupported("weights inside a branch or a loop");
      OnnxValue value = c_.Known(tensor->shape, tensor->dtype,
                                 c_.formulas.Dense(tensor->shape, std::move(tensor->values)));
      value.name = proto.name();
      c_.values[proto.name()] = std::move(value);
    }
    return absl::OkStatus();
  }

  absl::Status TooManyRounds() const {
    return c_.Unsupported(absl::StrCat("a loop of more than ", kMostRounds, " rounds"));
  }

  // A loop of a known number of rounds is written out. Names of the body are overwritten each
  // round.
  absl::Status Loop(OnnxCall& call, int depth) {
    if (depth > kDeepest) return c_.Error("loops nested too deeply");
    const auto* attribute = call.Attribute("body");
    if (attribute == nullptr) return c_.Error("has no body");
    const onnx::GraphProto& body = attribute->g();
    const size_t carried = call.in.size() < 2 ? 0 : call.in.size() - 2;
    if (body.input_size() != static_cast<int>(carried) + 2 ||
        body.output_size() != static_cast<int>(call.out.size()) + 1 || call.out.size() < carried) {
      return c_.Error("operands and outputs of the body do not fit the loop's");
    }
    int64_t rounds = kMostRounds + 1;
    if (call.has(0)) {
      auto count = c_.Integers(call.in[0], "the number of rounds");
      if (!count.ok()) return count.status();
      if (count->size() != 1) return c_.Error("one number of rounds");
      rounds = (*count)[0];
      if (rounds > kMostRounds && !call.has(1)) return TooManyRounds();
    }
    OnnxValue goes_on = call.has(1) ? call.in[1] : c_.KnownScalar(1, DType::kBool);
    const std::string name = c_.node_name, op = c_.node_op;
    std::vector<OnnxValue> state(call.in.begin() + static_cast<int64_t>(call.in.size() - carried),
                                 call.in.end());
    std::vector<std::vector<OnnxValue>> scanned(call.out.size() - carried);
    for (int64_t round = 0; round < rounds; ++round) {
      const auto more = c_.Uniform(goes_on);
      if (!more) return c_.Unsupported("a loop whose length the data decides");
      if (*more == 0) break;
      if (round == kMostRounds) return TooManyRounds();
      c_.values[body.input(0).name()] = c_.KnownScalar(static_cast<double>(round), DType::kI64);
      c_.values[body.input(1).name()] = goes_on;
      for (size_t k = 0; k < carried; ++k) {
        c_.values[body.input(static_cast<int>(k) + 2).name()] = state[k];
      }
      if (absl::Status s = AddBodyInitializers(body); !s.ok()) return s;
      for (const auto& node : body.node()) {
        if (absl::Status s = Process(node, depth + 1); !s.ok()) return s;
      }
      c_.node_name = name;
      c_.node_op = op;
      for (int k = 0; k < body.output_size(); ++k) {
        const auto it = c_.values.find(body.output(k).name());
        if (it == c_.values.end()) return c_.Error("the body gives a value that it does not make");
        if (it->second.kind == OnnxValue::Kind::kUnsupported) return absl::OkStatus();
        const auto at = static_cast<size_t>(k);
        if (at == 0) {
          goes_on = it->second;
        } else if (at <= carried) {
          state[at - 1] = it->second;
        } else {
          auto row = Do(call, "Unsqueeze", {it->second, c_.KnownInts({0})}, {});
          if (!row.ok()) return row.status();
          scanned[at - 1 - carried].push_back(*std::move(row));
        }
      }
    }
    for (size_t k = 0; k < carried; ++k) call.out[k] = std::move(state[k]);
    for (size_t k = 0; k < scanned.size(); ++k) {
      if (scanned[k].empty()) return c_.Unsupported("a loop of no rounds that collects values");
      auto all = Do(call, "Concat", std::move(scanned[k]), {{"axis", 0}});
      if (!all.ok()) return all.status();
      call.out[carried + k] = *std::move(all);
    }
    return absl::OkStatus();
  }

  // A tensor that this node made carries the name of the ONNX value.
  void Rename(const OnnxValue& value, size_t tensors) {
    if (value.kind != OnnxValue::Kind::kTensor || !value.repeated.empty()) return;
    if (value.tensor.index() < tensors) return;
    Tensor& tensor = c_.graph.tensors[value.tensor.index()];
    if (tensor.role != TensorRole::kActivation || tensor.name == value.name) return;
    tensor.name = c_.UniqueTensorName(value.name);
  }

  void Record(const onnx::NodeProto& node, const std::string& reason) {
    for (UnsupportedOp& entry : c_.report->unsupported) {
      if (entry.op == c_.node_op && entry.reason == reason) {
        ++entry.count;
        return;
      }
    }
    (void)node;
    c_.report->unsupported.push_back({c_.node_op, 1, c_.node_name, reason});
  }

  absl::Status ReportUnsupported() const {
    if (c_.report->unsupported.empty()) return absl::OkStatus();
    std::vector<std::string> parts;
    for (const UnsupportedOp& entry : c_.report->unsupported) {
      parts.push_back(absl::StrCat(entry.op, " (", entry.count, ", first at node '",
                                   entry.example_node, "'): ", entry.reason));
    }
    return absl::InvalidArgumentError(
        absl::StrCat(c_.file.path, ": unsupported operators: ", absl::StrJoin(parts, "; ")));
  }

  absl::Status AddOutputs() {
    for (const auto& output : c_.file.model.graph().output()) {
      const auto it = c_.values.find(output.name());
      if (it == c_.values.end()) {
        return absl::InvalidArgumentError(
            absl::StrCat(c_.file.path, ": output '", output.name(), "' is made by no node"));
      }
      c_.node_op = "output";
      c_.node_name = Printable(output.name());
      auto id = c_.ToTensor(it->second);
      if (absl::IsUnimplemented(id.status())) return c_.Error(std::string(id.status().message()));
      if (!id.ok()) return id.status();
      if (c_.graph.tensor(*id).role != TensorRole::kActivation) {
        auto copy = c_.Emit("identity", {}, {*id});
        if (!copy.ok()) return copy.status();
        id = copy->tensor;
      }
      c_.graph.outputs.push_back(*id);
    }
    return absl::OkStatus();
  }

  OnnxContext c_;
  int scopes_ = 0;
  int64_t processed_ = 0;
  bool strict_ = true;  // all dims of the file are numbers
  std::map<std::string, const onnx::TypeProto*> declared_;
};

}  // namespace

const OnnxHandlers& AllOnnxHandlers() {
  static const auto* handlers = [] {
    auto* map = new OnnxHandlers;
    AddElementwiseHandlers(map);
    AddContractionHandlers(map);
    AddMovementHandlers(map);
    AddSlicingHandlers(map);
    AddReductionHandlers(map);
    AddNormalizationHandlers(map);
    AddWindowHandlers(map);
    AddGatherHandlers(map);
    AddTransformerHandlers(map);
    AddScatterHandlers(map);
    // Folded only: their operands must be known.
    for (const char* op : {"Range", "ConstantOfShape", "NonZero"}) {
      map->emplace(op, [](OnnxCall& call) {
        return call.c.Unsupported("its operands are computed from the data");
      });
    }
    return map;
  }();
  return *handlers;
}

absl::StatusOr<Graph> ImportOnnxBytes(const std::string& bytes, const std::string& path,
                                      const ImportOptions& options, ImportReport* report) {
  ImportReport unread;
  if (report == nullptr) report = &unread;
  *report = ImportReport();
  auto file = ReadOnnxBytes(bytes, path);
  if (!file.ok()) return file.status();
  report->opset = file->opset;
  report->producer = file->model.producer_name();
  report->nodes = file->model.graph().node_size();
  return Importer(*file, options, report).Run();
}

absl::StatusOr<Graph> ImportOnnx(const std::string& path, const ImportOptions& options,
                                 ImportReport* report) {
  auto file = ReadOnnx(path);
  if (!file.ok()) return file.status();
  ImportReport unread;
  if (report == nullptr) report = &unread;
  *report = ImportReport();
  report->opset = file->opset;
  report->producer = file->model.producer_name();
  report->nodes = file->model.graph().node_size();
  return Importer(*file, options, report).Run();
}

}  // namespace tandem
