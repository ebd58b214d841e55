#include "optimizer/node_classes.h"

#include <map>
#include <set>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "pcg/graph/graph_copy.h"

namespace tandem {
namespace {

void AppendTensor(const Tensor& t, std::string& key) {
  absl::StrAppend(&key, "|", static_cast<int>(t.dtype), ":");
  for (const Factors& dim : t.shape) absl::StrAppend(&key, "(", absl::StrJoin(dim, ","), ")");
}

std::string Signature(const Graph& graph, const Node& node) {
  std::string key = absl::StrCat(node.op, AttributesText(node.attributes));
  for (TensorId t : node.inputs) AppendTensor(graph.tensor(t), key);
  absl::StrAppend(&key, "->");
  for (TensorId t : node.outputs) AppendTensor(graph.tensor(t), key);
  return key;
}

}  // namespace

bool RowProofs::Prove(const NodeClasses& classes, const Strategy& strategy) {
  std::set<std::pair<int, int>> used;
  for (size_t n = 0; n < strategy.nodes.size(); ++n) {
    for (int row : strategy.nodes[n].rows) {
      if (row > 0) used.emplace(classes.of_node[n], row);
    }
  }
  for (const auto& [cls, row] : used) {
    const NodeClass& c = classes.classes[static_cast<size_t>(cls)];
    if (rules_.IsProved(c.instance, c.table[static_cast<size_t>(row)])) continue;
    strict_ = true;
    return false;
  }
  return true;
}

absl::StatusOr<NodeClasses> ClassifyNodes(const Graph& graph, const RowProofs& proofs) {
  NodeClasses out;
  std::map<std::string, int> index;
  for (size_t n = 0; n < graph.nodes.size(); ++n) {
    const Node& node = graph.nodes[n];
    auto [it, fresh] = index.emplace(Signature(graph, node), static_cast<int>(out.classes.size()));
    if (fresh) {
      NodeClass c;
      absl::StatusOr<OpInstance> instance = InstanceOf(graph, NodeId(static_cast<int64_t>(n)));
      if (!instance.ok()) return instance.status();
      c.instance = *std::move(instance);
      c.table = FactorTable(c.instance);
      for (size_t r = 0; r < c.table.size(); ++r) {
        c.usable.push_back(r == 0 || proofs.Usable(c.instance, c.table[r]));
      }
      for (TensorId t : node.inputs) c.inputs.push_back(graph.tensor(t).dtype);
      for (TensorId t : node.outputs) c.outputs.push_back(graph.tensor(t).dtype);
      out.classes.push_back(std::move(c));
    }
    out.of_node.push_back(it->second);
  }
  return out;
}

}  // namespace tandem
