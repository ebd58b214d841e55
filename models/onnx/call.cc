// Reading the attributes and operands of one node of an ONNX graph.
#include <utility>

#include "absl/strings/str_cat.h"
#include "models/onnx/context.h"
#include "models/onnx/ops.h"

namespace tandem {

const onnx::AttributeProto* OnnxCall::Attribute(const char* name) const {
  for (const auto& attribute : node.attribute()) {
    if (attribute.name() == name) return &attribute;
  }
  return nullptr;
}

int64_t OnnxCall::Int(const char* name, int64_t otherwise) const {
  const auto* attribute = Attribute(name);
  return attribute == nullptr ? otherwise : attribute->i();
}

double OnnxCall::Float(const char* name, double otherwise) const {
  const auto* attribute = Attribute(name);
  return attribute == nullptr ? otherwise : static_cast<double>(attribute->f());
}

std::string OnnxCall::String(const char* name, const std::string& otherwise) const {
  const auto* attribute = Attribute(name);
  return attribute == nullptr ? otherwise : attribute->s();
}

std::optional<std::vector<int64_t>> OnnxCall::Ints(const char* name) const {
  const auto* attribute = Attribute(name);
  if (attribute == nullptr) return std::nullopt;
  return std::vector<int64_t>(attribute->ints().begin(), attribute->ints().end());
}

absl::StatusOr<size_t> OnnxCall::Axis(int64_t axis, size_t rank) const {
  const auto n = static_cast<int64_t>(rank);
  if (axis < -n || axis >= n) return c.Error(absl::StrCat("axis ", axis, " of ", rank, " dims"));
  return static_cast<size_t>(axis < 0 ? axis + n : axis);
}

absl::StatusOr<std::optional<std::vector<int64_t>>> OnnxCall::IntsOf(const char* name,
                                                                     size_t i) const {
  if (auto ints = Ints(name)) return ints;
  if (!has(i)) return std::optional<std::vector<int64_t>>();
  auto values = c.Integers(in[i], name);
  if (!values.ok()) return values.status();
  return std::optional<std::vector<int64_t>>(*std::move(values));
}

absl::Status OnnxCall::Give(absl::StatusOr<OnnxValue> value) {
  if (!value.ok()) return value.status();
  out[0] = *std::move(value);
  return absl::OkStatus();
}

}  // namespace tandem
