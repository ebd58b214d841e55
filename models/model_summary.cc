#include "models/model_summary.h"

#include <nlohmann/json.hpp>

#include "absl/strings/match.h"
#include "pcg/instance/op_analysis.h"

namespace tandem {
namespace {

ModelSummary::Port PortOf(const Tensor& tensor) {
  return {tensor.name, std::string(DTypeName(tensor.dtype)), PlainShape(tensor.shape)};
}

nlohmann::ordered_json PortsJson(const std::vector<ModelSummary::Port>& ports) {
  auto array = nlohmann::ordered_json::array();
  for (const ModelSummary::Port& port : ports) {
    array.push_back({{"name", port.name}, {"dtype", port.dtype}, {"shape", port.shape}});
  }
  return array;
}

}  // namespace

absl::StatusOr<ModelSummary> Summarize(const Graph& graph, const ImportReport* report) {
  ModelSummary summary;
  if (report != nullptr) {
    summary.unsupported = report->unsupported;
    summary.notes = report->notes;
  }
  summary.nodes = static_cast<int64_t>(graph.nodes.size());
  for (const Tensor& tensor : graph.tensors) {
    const int64_t elements = ElementCount(tensor.shape);
    const bool trained = tensor.role == TensorRole::kParameter;
    const bool frozen = tensor.role == TensorRole::kState && IsFloat(tensor.dtype) &&
                        absl::StrContains(tensor.note, "repeated it for every sample");
    if (!trained && !frozen) continue;
    summary.parameters += elements;
    summary.parameter_bytes += elements * DTypeBytes(tensor.dtype);
    if (trained) summary.trainable_parameters += elements;
  }
  for (size_t i = 0; i < graph.nodes.size(); ++i) {
    if (graph.nodes[i].phase != Phase::kForward) continue;
    auto instance = InstanceOf(graph, NodeId(static_cast<int64_t>(i)));
    if (!instance.ok()) return instance.status();
    const std::vector<int64_t> in(static_cast<size_t>(instance->num_inputs), 4);
    const std::vector<int64_t> out(static_cast<size_t>(instance->num_outputs), 4);
    summary.forward_flops += AnalyzeOp(*instance, {}, in, out).contraction_flops;
  }
  for (TensorId id : graph.inputs) summary.inputs.push_back(PortOf(graph.tensor(id)));
  for (TensorId id : graph.outputs) summary.outputs.push_back(PortOf(graph.tensor(id)));
  return summary;
}

ModelSummary SummarizeReport(const ImportReport& report) {
  ModelSummary summary;
  summary.nodes = report.nodes;
  summary.parameters = report.initializer_parameters;
  summary.trainable_parameters = report.initializer_parameters;
  summary.parameter_bytes = 4 * report.initializer_parameters;
  summary.unsupported = report.unsupported;
  summary.notes = report.notes;
  return summary;
}

std::string ToJson(const ModelSummary& summary) {
  nlohmann::ordered_json json;
  json["nodes"] = summary.nodes;
  json["parameters"] = summary.parameters;
  json["trainable_parameters"] = summary.trainable_parameters;
  json["parameter_bytes"] = summary.parameter_bytes;
  json["forward_flops"] = summary.forward_flops;
  json["inputs"] = PortsJson(summary.inputs);
  json["outputs"] = PortsJson(summary.outputs);
  json["unsupported"] = nlohmann::ordered_json::array();
  for (const UnsupportedOp& op : summary.unsupported) {
    json["unsupported"].push_back({{"op", op.op},
                                   {"count", op.count},
                                   {"example_node", op.example_node},
                                   {"reason", op.reason}});
  }
  json["notes"] = summary.notes;
  return json.dump(2, ' ', false, nlohmann::json::error_handler_t::replace) + "\n";
}

}  // namespace tandem
