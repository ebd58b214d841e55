#include "pcg/graph/graph_copy.h"

#include <utility>

#include "absl/strings/str_cat.h"

namespace tandem {

GraphCopy::GraphCopy(const Graph& from, Factors factors)
    : from_(from), factors_(factors), map_(from.tensors.size()) {
  to_.name = from.name;
  to_.operators = from.operators;
  to_.batch = from.batch;
  for (size_t i = 0; i < from.tensors.size(); ++i) {
    if (!from.tensors[i].producer.valid()) map_[i] = to_.AddSource(from.tensors[i]);
  }
}

absl::StatusOr<NodeId> GraphCopy::AddAs(const Node& node, Node copy, const std::string& suffix) {
  std::vector<DType> dtypes;
  for (TensorId t : node.outputs) dtypes.push_back(from_.tensor(t).dtype);
  copy.outputs.clear();
  absl::StatusOr<NodeId> id = to_.AddNode(std::move(copy), dtypes);
  if (!id.ok()) return id.status();
  for (size_t k = 0; k < node.outputs.size(); ++k) {
    const Tensor& was = from_.tensor(node.outputs[k]);
    Tensor& now = to_.tensors[to_.node(*id).outputs[k].index()];
    now.name = absl::StrCat(was.name, suffix);
    if (factors_ == Factors::kKept) now.shape = was.shape;
    now.note = was.note;
  }
  return id;
}

absl::Status GraphCopy::Add(const Node& node) {
  Node copy = node;
  for (TensorId& t : copy.inputs) t = At(t);
  absl::StatusOr<NodeId> id = AddAs(node, std::move(copy), "");
  if (!id.ok()) return id.status();
  for (size_t k = 0; k < node.outputs.size(); ++k) {
    At(node.outputs[k]) = to_.node(*id).outputs[k];
  }
  return absl::OkStatus();
}

Graph GraphCopy::Finish() {
  to_.inputs.clear();  // AddSource lists them, in another order
  for (TensorId t : from_.inputs) to_.inputs.push_back(At(t));
  for (TensorId t : from_.outputs) to_.outputs.push_back(At(t));
  if (from_.loss) to_.loss = At(*from_.loss);
  for (const StateUpdate& u : from_.updates) to_.updates.push_back({At(u.state), At(u.next)});
  return std::move(to_);
}

}  // namespace tandem
