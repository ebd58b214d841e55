#include "verifier/program/value_numbers.h"

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "absl/strings/str_join.h"
#include "pcg/graph/graph_copy.h"
#include "verifier/certificates/statement.h"

namespace tandem {

int ValueNumbers::Number(const std::string& key) {
  return numbers_.emplace(key, static_cast<int>(numbers_.size())).first->second;
}

std::vector<int> ValueNumbers::Of(const Graph& graph) {
  std::vector<int> out(graph.tensors.size(), -1);
  for (size_t i = 0; i < graph.tensors.size(); ++i) {
    const Tensor& t = graph.tensors[i];
    if (t.producer.valid()) continue;
    std::string key = absl::StrCat("source ", t.name, " ", absl::StrJoin(PlainShape(t.shape), ","));
    if (t.role == TensorRole::kConstant) {
      // Constants are what they contain.
      key = absl::StrCat("constant ", absl::StrJoin(PlainShape(t.shape), ","));
      for (double v : t.values) absl::StrAppendFormat(&key, ",%a", v);
    }
    key += ElementLetter(t.dtype);
    out[i] = Number(key);
  }
  for (const Node& node : graph.nodes) {
    const OpSpec* spec = graph.operators.Find(node.op);
    std::string key = absl::StrCat("op ", spec == nullptr ? node.op : spec->text);
    absl::StrAppend(&key, AttributesText(node.attributes));
    absl::StrAppend(&key, "(");
    for (TensorId t : node.inputs) absl::StrAppend(&key, out[t.index()], ",");
    absl::StrAppend(&key, ")");
    for (TensorId t : node.outputs) key += ElementLetter(graph.tensor(t).dtype);
    const int base = Number(key);
    for (size_t k = 0; k < node.outputs.size(); ++k) {
      out[node.outputs[k].index()] = Number(absl::StrCat("out ", base, ":", k));
    }
  }
  return out;
}

}  // namespace tandem
