#include "models/onnx/readers.h"

#include <algorithm>
#include <functional>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"

namespace tandem {

size_t WideDims(const std::vector<int64_t>& dims) {
  size_t wide = 0;
  for (int64_t extent : dims) wide += extent > 1 ? 1 : 0;
  return wide;
}

Readers ReadersOf(const onnx::GraphProto& graph, const std::map<std::string, std::string>& apart) {
  std::map<std::string, std::string> same;
  for (const onnx::NodeProto& node : graph.node()) {
    if (node.op_type() != "Identity" || node.input_size() != 1 || node.output_size() != 1) continue;
    if (apart.count(node.output(0)) != 0) continue;
    const auto it = same.find(node.input(0));
    same[node.output(0)] = it == same.end() ? node.input(0) : it->second;
  }
  Readers readers;
  for (int n = 0; n < graph.node_size(); ++n) {
    if (graph.node(n).output_size() == 1 &&
        (same.count(graph.node(n).output(0)) != 0 || apart.count(graph.node(n).output(0)) != 0)) {
      continue;
    }
    for (int i = 0; i < graph.node(n).input_size(); ++i) {
      const std::string& value = graph.node(n).input(i);
      const auto it = same.find(value);
      readers[it == same.end() ? value : it->second].emplace_back(n, i);
    }
  }
  return readers;
}

bool LeadsToRotation(const onnx::GraphProto& graph, const Readers& readers,
                     const std::string& value, int depth, std::set<std::string>* seen) {
  static const std::vector<std::string> kThrough = {
      "Mul",    "Concat",   "Unsqueeze", "Cast",     "MatMul", "Transpose", "Reshape",
      "Expand", "Identity", "Squeeze",   "CastLike", "Einsum", "Slice",     "Tile"};
  const auto it = readers.find(value);
  if (it == readers.end() || depth > 12) return false;
  if (!seen->insert(value).second) return true;  // looked at on the way here
  for (const auto& [n, operand] : it->second) {
    const onnx::NodeProto& node = graph.node(n);
    if (node.op_type() == "Cos" || node.op_type() == "Sin" || node.op_type() == "Shape") continue;
    if (std::find(kThrough.begin(), kThrough.end(), node.op_type()) == kThrough.end()) return false;
    if (node.output_size() == 0) return false;
    if (!LeadsToRotation(graph, readers, node.output(0), depth + 1, seen)) return false;
  }
  return true;
}

bool LeadsToSoftmax(const onnx::GraphProto& graph, const Readers& readers, const std::string& value,
                    int depth) {
  const auto it = readers.find(value);
  if (it == readers.end() || depth > 6) return false;
  for (const auto& [n, operand] : it->second) {
    const onnx::NodeProto& node = graph.node(n);
    const std::string& op = node.op_type();
    if (op == "Softmax") continue;
    const bool through = op == "Add" || op == "Cast" || op == "Reshape" || op == "Where";
    if (!through || node.output_size() == 0) return false;
    if (!LeadsToSoftmax(graph, readers, node.output(0), depth + 1)) return false;
  }
  return true;
}

bool WeighsRows(const onnx::GraphProto& graph, const Readers& readers, const std::string& value) {
  const auto it = readers.find(value);
  if (it == readers.end()) return false;
  return std::all_of(it->second.begin(), it->second.end(), [&](const std::pair<int, int>& reader) {
    const onnx::NodeProto& node = graph.node(reader.first);
    if (node.op_type() != "Mul" || node.input_size() != 2) return false;
    const std::string& rows = node.input(1 - reader.second);
    return std::any_of(graph.node().begin(), graph.node().end(), [&](const auto& maker) {
      return maker.op_type() == "Gather" && maker.output_size() == 1 && maker.output(0) == rows;
    });
  });
}

bool IsSetting(const onnx::GraphProto& graph, const Readers& readers, const std::string& value) {
  static const std::set<std::string> kSettled = {"Resize", "Upsample", "Clip", "Pad", "OneHot"};
  const auto it = readers.find(value);
  return it != readers.end() &&
         std::all_of(it->second.begin(), it->second.end(), [&](const std::pair<int, int>& reader) {
           const std::string& op = graph.node(reader.first).op_type();
           return op == "Range" || (reader.second > 0 && kSettled.count(op) != 0);
         });
}

bool OnlyReadBy(const onnx::GraphProto& graph, const Readers& readers, const std::string& value,
                const std::vector<std::string>& ops) {
  const auto it = readers.find(value);
  if (it == readers.end()) return false;
  for (const auto& [n, operand] : it->second) {
    if (std::find(ops.begin(), ops.end(), graph.node(n).op_type()) == ops.end()) return false;
  }
  return true;
}

std::set<size_t> SharedLayers(const onnx::GraphProto& graph, const Readers& readers) {
  static const std::set<std::string> kLayers = {"MatMul", "Gemm", "Transpose", "Conv"};
  std::map<std::pair<std::string, size_t>, size_t> places;  // of an operator that reads some bytes
  for (const onnx::TensorProto& tensor : graph.initializer()) {
    const auto it = readers.find(tensor.name());
    const std::vector<int64_t> dims(tensor.dims().begin(), tensor.dims().end());
    if (it == readers.end() || WideDims(dims) < 2) continue;
    const std::string& raw = tensor.raw_data();
    const bool varies = raw.size() > 8 && raw.compare(0, raw.size() - 8, raw, 8) != 0;
    const auto& [first, operand] = it->second[0];
    const std::string& op = graph.node(first).op_type();
    const bool same = std::all_of(it->second.begin(), it->second.end(), [&](const auto& reader) {
      return graph.node(reader.first).op_type() == op && reader.second == operand;
    });
    if (!same || kLayers.count(op) == 0) continue;
    const std::string shape = absl::StrCat(op, " ", absl::StrJoin(dims, ","));
    if (varies) {
      places[{shape, std::hash<std::string>()(raw)}] += it->second.size();
    } else {
      places[{absl::StrCat(shape, " ", tensor.name()), 0}] = it->second.size();
    }
  }
  std::set<size_t> counts;
  for (const auto& [matrix, count] : places) {
    if (count > 1) counts.insert(count);
  }
  return counts;
}

}  // namespace tandem
