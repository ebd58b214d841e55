// Operands of ONNX operators, and operators on values that are no node of the file.
#include <set>
#include <utility>

#include "models/onnx/ops.h"

namespace tandem {

size_t OperandsNeeded(const OnnxCall& call) {
  static const std::map<std::string, size_t> kNeeded = {{"Add", 2},
                                                        {"Sub", 2},
                                                        {"Mul", 2},
                                                        {"Div", 2},
                                                        {"Pow", 2},
                                                        {"Mod", 2},
                                                        {"Xor", 2},
                                                        {"And", 2},
                                                        {"Or", 2},
                                                        {"BitwiseAnd", 2},
                                                        {"BitwiseOr", 2},
                                                        {"Equal", 2},
                                                        {"Less", 2},
                                                        {"LessOrEqual", 2},
                                                        {"Greater", 2},
                                                        {"GreaterOrEqual", 2},
                                                        {"Where", 3},
                                                        {"Expand", 2},
                                                        {"Reshape", 2},
                                                        {"CastLike", 2},
                                                        {"PRelu", 2},
                                                        {"Tile", 2},
                                                        {"Gather", 2},
                                                        {"GatherElements", 2},
                                                        {"GatherND", 2},
                                                        {"CumSum", 2},
                                                        {"SequenceAt", 2},
                                                        {"Range", 3},
                                                        {"OneHot", 3},
                                                        {"MatMul", 2},
                                                        {"Gemm", 2},
                                                        {"Conv", 2},
                                                        {"ConvTranspose", 2},
                                                        {"BatchNormalization", 5},
                                                        {"InstanceNormalization", 3},
                                                        {"GroupNormalization", 3},
                                                        {"LayerNormalization", 2},
                                                        {"Attention", 3},
                                                        {"RotaryEmbedding", 3},
                                                        {"ScatterElements", 3},
                                                        {"ScatterND", 3},
                                                        {"SequenceEmpty", 0},
                                                        {"SequenceInsert", 2}};
  static const std::set<std::string> kAll = {
      "Sum", "Mean", "Min", "Max", "Concat", "Einsum", "SequenceConstruct"};
  if (kAll.count(call.node.op_type()) != 0) return call.in.size();
  if (call.node.op_type() == "Constant") return 0;
  const auto it = kNeeded.find(call.node.op_type());
  return it == kNeeded.end() ? 1 : it->second;
}

absl::StatusOr<OnnxValue> Do(OnnxCall& call, const char* op, std::vector<OnnxValue> in,
                             const std::map<std::string, int64_t>& attributes) {
  onnx::NodeProto node;
  node.set_op_type(op);
  node.add_output("result");
  for (const auto& [name, value] : attributes) {
    auto* attribute = node.add_attribute();
    attribute->set_name(name);
    attribute->set_type(onnx::AttributeProto::INT);
    attribute->set_i(value);
  }
  OnnxCall inner{call.c, node, call.opset, std::move(in), std::vector<OnnxValue>(1)};
  auto folded = FoldKnown(inner);
  if (!folded.ok()) return folded.status();
  if (!*folded) {
    if (absl::Status s = AllOnnxHandlers().at(op)(inner); !s.ok()) return s;
  }
  return inner.out[0];
}

}  // namespace tandem
