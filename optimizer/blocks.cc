#include "optimizer/blocks.h"

#include <algorithm>
#include <cctype>
#include <map>

namespace tandem {
namespace {

bool Digits(const std::string& s) {
  return !s.empty() &&
         std::all_of(s.begin(), s.end(), [](unsigned char c) { return std::isdigit(c) != 0; });
}

// By node: an output or a state of the model depends on it, not the loss alone.
std::vector<bool> ForOutputs(const Graph& graph) {
  std::vector<bool> needed(graph.tensors.size(), false);
  for (TensorId t : graph.outputs) needed[t.index()] = true;
  for (const StateUpdate& u : graph.updates) needed[u.next.index()] = true;
  std::vector<bool> nodes(graph.nodes.size(), false);
  for (size_t n = graph.nodes.size(); n-- > 0;) {
    for (TensorId t : graph.nodes[n].outputs) nodes[n] = nodes[n] || needed[t.index()];
    if (!nodes[n]) continue;
    for (TensorId t : graph.nodes[n].inputs) needed[t.index()] = true;
  }
  return nodes;
}

}  // namespace

std::string BlockPrefix(const std::string& parameter) {
  size_t start = 0;
  while (start < parameter.size()) {
    size_t end = parameter.find_first_of("./", start);
    if (end == std::string::npos) break;  // the last component is the parameter itself
    const std::string part = parameter.substr(start, end - start);
    const size_t underscore = part.rfind('_');
    if (Digits(part) || (underscore != std::string::npos && Digits(part.substr(underscore + 1)))) {
      return parameter.substr(0, end);
    }
    start = end + 1;
  }
  return "";
}

void AssignBlocks(Graph& forward) {
  std::map<std::string, int> blocks;
  std::vector<int> of_tensor(forward.tensors.size(), 0);
  const std::vector<bool> for_outputs = ForOutputs(forward);
  for (size_t n = 0; n < forward.nodes.size(); ++n) {
    Node& node = forward.nodes[n];
    int block = 0;
    for (TensorId t : node.inputs) {
      const Tensor& tensor = forward.tensor(t);
      if (tensor.role == TensorRole::kParameter) {
        const std::string prefix = BlockPrefix(tensor.name);
        if (prefix.empty()) continue;
        auto it = blocks.emplace(prefix, static_cast<int>(blocks.size()) + 1).first;
        block = std::max(block, it->second);
      } else if (tensor.producer.valid()) {
        block = std::max(block, of_tensor[t.index()]);
      }
    }
    node.block = for_outputs[n] ? block : -1;
    for (TensorId t : node.outputs) of_tensor[t.index()] = block;
  }
}

}  // namespace tandem
