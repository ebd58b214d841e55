#include "pcg/graph/interpreter.h"

#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"

namespace tandem {

absl::StatusOr<std::vector<HostTensor>> Evaluate(const OpInstance& instance,
                                                 const std::vector<const HostTensor*>& inputs,
                                                 const PieceOfOp& piece) {
  auto nest = LoopNest::Compile(instance, piece);
  if (!nest.ok()) return nest.status();
  if (inputs.size() != nest->input_elements().size()) {
    return absl::InvalidArgumentError(absl::StrCat("operator '", instance.op, "' has ",
                                                   nest->input_elements().size(), " input(s), not ",
                                                   inputs.size()));
  }
  std::vector<const double*> in;
  for (size_t i = 0; i < inputs.size(); ++i) {
    if (static_cast<int64_t>(inputs[i]->data.size()) != nest->input_elements()[i]) {
      return absl::InvalidArgumentError(absl::StrCat(
          "input '", instance.tensors[i].name, "' of operator '", instance.op, "' has ",
          inputs[i]->data.size(), " elements, expected ", nest->input_elements()[i]));
    }
    in.push_back(inputs[i]->data.data());
  }
  std::vector<HostTensor> outputs;
  for (int i = 0; i < instance.num_outputs; ++i) {
    HostTensor output;
    for (const std::vector<int>& dim : instance.output(i).dims) {
      int64_t extent = 1;
      for (int size : dim) {
        const size_t s = static_cast<size_t>(size);
        extent *= piece.extents.empty() ? instance.sizes[s].extent : piece.extents[s];
      }
      output.shape.push_back(extent);
    }
    output.data.resize(static_cast<size_t>(nest->output_elements()[static_cast<size_t>(i)]));
    outputs.push_back(std::move(output));
  }
  std::vector<double*> out;
  for (HostTensor& output : outputs) out.push_back(output.data.data());
  absl::Status status = nest->Run<double>(in, out);
  if (!status.ok()) return status;
  return outputs;
}

absl::StatusOr<std::map<TensorId, HostTensor>> EvaluateGraph(
    const Graph& graph, const std::map<TensorId, HostTensor>& sources,
    const std::vector<TensorId>& wanted) {
  std::vector<bool> needed(graph.tensors.size(), false);
  std::vector<int> uses(graph.tensors.size(), 0);  // reads left; wanted values stay
  for (TensorId id : wanted) {
    needed[id.index()] = true;
    ++uses[id.index()];
  }
  std::vector<bool> runs(graph.nodes.size(), false);
  for (size_t n = graph.nodes.size(); n-- > 0;) {
    const Node& node = graph.nodes[n];
    for (TensorId output : node.outputs) {
      if (needed[output.index()] && sources.count(output) == 0) runs[n] = true;
    }
    if (!runs[n]) continue;
    for (TensorId input : node.inputs) {
      needed[input.index()] = true;
      ++uses[input.index()];
    }
  }
  std::map<TensorId, HostTensor> values;
  const auto find = [&](TensorId id) -> absl::StatusOr<const HostTensor*> {
    if (const auto given = sources.find(id); given != sources.end()) return &given->second;
    if (const auto made = values.find(id); made != values.end()) return &made->second;
    const Tensor& tensor = graph.tensor(id);
    if (tensor.values.empty()) {
      return absl::InvalidArgumentError(absl::StrCat("tensor '", tensor.name,
                                                     "' has no value; give it "
                                                     "among the sources"));
    }
    HostTensor value;
    value.shape = PlainShape(tensor.shape);
    value.data = tensor.values;
    return &values.emplace(id, std::move(value)).first->second;
  };
  for (size_t n = 0; n < graph.nodes.size(); ++n) {
    if (!runs[n]) continue;
    const Node& node = graph.nodes[n];
    auto instance = InstanceOf(graph, NodeId(static_cast<int64_t>(n)));
    if (!instance.ok()) return instance.status();
    std::vector<const HostTensor*> inputs;
    for (TensorId input : node.inputs) {
      auto value = find(input);
      if (!value.ok()) return value.status();
      inputs.push_back(*value);
    }
    auto outputs = Evaluate(*instance, inputs);
    if (!outputs.ok()) {
      return absl::Status(outputs.status().code(),
                          absl::StrCat("node '", node.name, "': ", outputs.status().message()));
    }
    for (size_t i = 0; i < node.outputs.size(); ++i) {
      const TensorId output = node.outputs[i];
      if (uses[output.index()] > 0 && sources.count(output) == 0) {
        values[output] = std::move((*outputs)[i]);
      }
    }
    for (TensorId input : node.inputs) {
      if (--uses[input.index()] == 0) values.erase(input);
    }
  }
  std::map<TensorId, HostTensor> out;
  for (TensorId id : wanted) {
    auto value = find(id);
    if (!value.ok()) return value.status();
    out[id] = **value;
  }
  return out;
}

}  // namespace tandem
