#include "pcg/instance/size_table.h"

#include <variant>

#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "pcg/instance/symbolic_attribute.h"

namespace tandem {

absl::Status OpError(const OpSpec& spec, absl::string_view message) {
  return absl::InvalidArgumentError(absl::StrCat("operator '", spec.name, "': ", message));
}

absl::StatusOr<double> SizeTable::AttributeNumber(const OpSpec& spec,
                                                  const std::string& name) const {
  const auto it = attributes.find(name);
  if (it != attributes.end()) {
    if (const auto* integer = std::get_if<int64_t>(&it->second))
      return static_cast<double>(*integer);
    if (const auto* number = std::get_if<double>(&it->second)) return *number;
    if (const auto symbol = AsSymbolic(it->second)) return symbol->representative;
  }
  return OpError(spec, absl::StrCat("attribute '", name, "' is a number"));
}

const ResolvedOperand* SizeTable::Operand(const OpSpec& spec, absl::string_view name) const {
  for (size_t i = 0; i < spec.inputs.size(); ++i) {
    if (spec.inputs[i].name == name) return inputs[i].present ? &inputs[i] : nullptr;
  }
  for (size_t i = 0; i < spec.outputs.size(); ++i) {
    if (spec.outputs[i].name == name) return &outputs[i];
  }
  const auto it = intermediates.find(name);
  return it == intermediates.end() ? nullptr : &it->second;
}

absl::StatusOr<std::vector<int>> SizeTable::RangeBases(const OpSpec& spec,
                                                       const std::string& range) {
  const auto it = names.find(range);
  if (it != names.end()) return it->second;
  auto base = ConstantBase(spec, range);
  if (!base.ok()) return base.status();
  return std::vector<int>{*base};
}

absl::StatusOr<int> SizeTable::ConstantBase(const OpSpec& spec, const std::string& range) {
  const std::string key = absl::StrCat("=", range);
  const auto it = names.find(key);
  if (it != names.end()) return it->second[0];
  BaseSize base;
  base.name = range;
  base.constant = true;
  if (!absl::SimpleAtoi(range, &base.extent)) {
    auto number = AttributeNumber(spec, range);
    if (!number.ok()) return number.status();
    base.extent = static_cast<int64_t>(*number);
    if (static_cast<double>(base.extent) != *number || base.extent < 1) {
      return OpError(spec, absl::StrCat("attribute '", range, "' = ", *number,
                                        " is used as a size; sizes are positive integers"));
    }
  }
  base.known_from = "the operator's text";
  bases.push_back(std::move(base));
  names.emplace(key, std::vector<int>{static_cast<int>(bases.size()) - 1});
  return static_cast<int>(bases.size()) - 1;
}

}  // namespace tandem
