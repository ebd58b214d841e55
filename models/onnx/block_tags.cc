#include "models/onnx/block_tags.h"

#include <algorithm>
#include <iterator>
#include <map>
#include <set>
#include <vector>

#include "absl/strings/ascii.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_split.h"

namespace tandem {
namespace {

// A region is a block, or what comes between blocks. Regions are ordered by first appearance.
constexpr int kNowhere = 0;  // before anything is tagged

bool IsParameter(const Tensor& tensor) {
  return tensor.role == TensorRole::kParameter || tensor.role == TensorRole::kState;
}

// Exporters' own names ("val_12", "onnx::MatMul_88") say nothing.
bool Telling(const std::string& name) {
  return name.find_first_of("./") != std::string::npos && name.rfind("onnx::", 0) != 0;
}

// Layers by the parameters' names; a prefix that has one number only is no sequence of layers.
std::map<TensorId, std::pair<std::string, int>> LayersOfParameters(const Graph& graph) {
  std::map<TensorId, std::pair<std::string, int>> layers;
  std::map<std::string, std::set<int>> numbers;
  for (size_t t = 0; t < graph.tensors.size(); ++t) {
    const Tensor& tensor = graph.tensors[t];
    if (!IsParameter(tensor) || !Telling(tensor.name)) continue;
    const auto layer = LayerOfName(tensor.name.substr(0, tensor.name.find('@')));
    if (!layer) continue;
    layers[TensorId(static_cast<int64_t>(t))] = *layer;
    numbers[layer->first].insert(layer->second);
  }
  for (auto it = layers.begin(); it != layers.end();) {
    it = numbers[it->second.first].size() < 2 ? layers.erase(it) : std::next(it);
  }
  return layers;
}

}  // namespace

std::optional<std::pair<std::string, int>> LayerOfName(const std::string& name) {
  std::string prefix;
  std::string part;
  for (size_t i = 0; i <= name.size(); ++i) {
    const char at = i < name.size() ? name[i] : '.';
    if (at != '.' && at != '/' && at != '_') {
      part += at;
      continue;
    }
    int number = 0;
    const bool digits = !part.empty() && std::all_of(part.begin(), part.end(), [](unsigned char c) {
      return absl::ascii_isdigit(c);
    });
    // A number that stands first is a position in a plain sequence of layers of one kind each.
    if (digits && !prefix.empty() && absl::SimpleAtoi(part, &number)) {
      return std::make_pair(prefix.substr(0, prefix.size() - 1), number);
    }
    prefix += part;
    prefix += at == '_' ? '_' : '.';
    part.clear();
  }
  return std::nullopt;
}

void TagBlocks(Graph* graph) {
  const size_t n = graph->nodes.size();
  const auto layers = LayersOfParameters(*graph);
  std::map<std::pair<std::string, int>, int> regions;
  std::vector<bool> is_block = {false};
  std::vector<int> region(n, kNowhere);
  std::vector<bool> own(n, false);
  for (size_t i = 0; i < n; ++i) {
    const Node& node = graph->nodes[i];
    std::optional<std::pair<std::string, int>> layer;
    bool outside = false;
    int from = kNowhere;
    for (TensorId id : node.inputs) {
      const Tensor& tensor = graph->tensor(id);
      if (tensor.producer.valid()) {
        from = std::max(from, region[tensor.producer.index()]);
      } else if (IsParameter(tensor)) {
        if (const auto found = layers.find(id); found != layers.end()) {
          layer = found->second;
        } else {
          outside = outside || Telling(tensor.name);
        }
      }
    }
    region[i] = from;
    if (layer) {
      const auto [it, first] = regions.emplace(*layer, static_cast<int>(is_block.size()));
      if (first) is_block.push_back(true);
      region[i] = it->second;
      own[i] = true;
    } else if (outside && from != kNowhere && is_block[static_cast<size_t>(from)]) {
      region[i] = static_cast<int>(is_block.size());
      is_block.push_back(false);
      own[i] = true;
    }
  }
  // What only one node reads belongs to it.
  const std::vector<std::vector<NodeId>> readers = graph->Readers();
  for (size_t i = n; i-- > 0;) {
    if (own[i]) continue;
    int goes_to = -1;
    bool one = true;
    for (TensorId id : graph->nodes[i].outputs) {
      for (NodeId reader : readers[id.index()]) {
        one = one && goes_to == -1;
        goes_to = region[reader.index()];
      }
    }
    if (one && goes_to > region[i]) region[i] = goes_to;
  }
  // Numbers without gaps, blocks only.
  std::map<int, int> numbers;
  for (size_t r = 0; r < is_block.size(); ++r) {
    if (is_block[r]) numbers.emplace(static_cast<int>(r), static_cast<int>(numbers.size()));
  }
  for (size_t i = 0; i < n; ++i) {
    const auto it = numbers.find(region[i]);
    graph->nodes[i].block = it == numbers.end() ? -1 : it->second;
  }
}

}  // namespace tandem
