// Indices that count from the end where they are negative.
#include <algorithm>
#include <set>
#include <string>
#include <utility>

#include "absl/strings/match.h"
#include "models/onnx/ops.h"

namespace tandem {
namespace {

constexpr char kFromFront[] = "from_front";
constexpr int kDeepest = 24;  // nodes looked at on the way from an index to what it is made of

double Number(const Node& node, const char* attribute, double otherwise) {
  const auto it = node.attributes.find(attribute);
  if (it == node.attributes.end()) return otherwise;
  if (const auto* i = std::get_if<int64_t>(&it->second)) return static_cast<double>(*i);
  if (const auto* f = std::get_if<double>(&it->second)) return *f;
  return otherwise;
}

// Certainly no element is below zero. What a run is given counts from the front: a model's inputs
// are taken at their word.
bool NeverNegative(const Graph& graph, TensorId id, int depth) {
  static const std::set<std::string> kIfAllAre = {
      "identity", "reshape", "transpose", "expand",  "slice", "concat", "concat3",
      "concat4",  "add",     "mul",       "minimum", "floor", "cast",   "div"};
  static const std::set<std::string> kIfFirstIs = {"take", "take_along"};
  static const std::set<std::string> kAlways = {"argmax", "abs", "square", "relu"};
  const Tensor& tensor = graph.tensor(id);
  if (tensor.dtype == DType::kBool) return true;
  if (!tensor.producer.valid()) {
    if (tensor.role == TensorRole::kInput) return !IsFloat(tensor.dtype);
    return !tensor.values.empty() &&
           *std::min_element(tensor.values.begin(), tensor.values.end()) >= 0;
  }
  if (depth == kDeepest) return false;
  const Node& node = graph.node(tensor.producer);
  const auto is = [&](size_t operand) {
    return NeverNegative(graph, node.inputs[operand], depth + 1);
  };
  const auto all = [&](size_t first) {
    for (size_t i = first; i < node.inputs.size(); ++i) {
      if (!is(i)) return false;
    }
    return true;
  };
  if (kAlways.count(node.op) != 0 || absl::StartsWith(node.op, kFromFront)) return true;
  if (kIfAllAre.count(node.op) != 0 || absl::StartsWith(node.op, "truncate") ||
      absl::StartsWith(node.op, "integer_divide") || absl::StartsWith(node.op, "running_sum")) {
    return all(0);
  }
  if (kIfFirstIs.count(node.op) != 0) return is(0);
  if (node.op == "embedding") return is(1);
  if (node.op == "where") return all(1);
  if (node.op == "maximum") return is(0) || is(1);
  if (node.op == "scale" || node.op == "shift") return Number(node, "value", -1) >= 0 && all(0);
  if (node.op == "fill") return Number(node, "value", -1) >= 0;
  if (node.op == "clip") return Number(node, "low", -1) >= 0 || all(0);
  if (node.op == "iota") return Number(node, "start", 0) >= 0 && Number(node, "step", 1) >= 0;
  return false;
}

}  // namespace

absl::StatusOr<OnnxValue> FromFront(OnnxCall& call, const OnnxValue& ids, int64_t extent,
                                    int64_t extent_before) {
  OnnxContext& c = call.c;
  if (ids.kind != OnnxValue::Kind::kTensor || NeverNegative(c.graph, ids.tensor, 0)) return ids;
  auto name = c.Define(kFromFront,
                       "(ids[d..]: int; extent) -> out[d..]: int { out[i] = select(ids[i] < 0, "
                       "ids[i] + extent, ids[i]) }");
  if (!name.ok()) return name.status();
  const Attributes before = {{"extent", extent_before}};
  OnnxContext::EmitOptions emit;
  emit.dtypes = {ids.dtype};
  emit.suffix = "/from_front";
  emit.before = &before;
  auto counted = c.Emit(*name, {{"extent", extent}}, {ids.tensor}, emit);
  if (!counted.ok()) return counted;
  counted->repeated = ids.repeated;
  return counted;
}

}  // namespace tandem
