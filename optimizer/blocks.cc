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
  for (Node& node : forward.nodes) {
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
    node.block = block;
    for (TensorId t : node.outputs) of_tensor[t.index()] = block;
  }
}

}  // namespace tandem
