#include "pcg/graph/attributes_text.h"

#include <cstdint>
#include <cstring>
#include <variant>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"

namespace tandem {
namespace {

// All 64 bits: 0 and -0 differ, as do numbers that print alike.
uint64_t BitsOf(double number) {
  uint64_t bits = 0;
  static_assert(sizeof(bits) == sizeof(number));
  std::memcpy(&bits, &number, sizeof(bits));
  return bits;
}

}  // namespace

std::string AttributesText(const Attributes& attributes) {
  std::string key;
  for (const auto& [name, value] : attributes) {
    absl::StrAppend(&key, ";", name.size(), "#", name, "=", value.index(), ":");
    if (const auto* integer = std::get_if<int64_t>(&value)) absl::StrAppend(&key, *integer);
    if (const auto* number = std::get_if<double>(&value)) {
      absl::StrAppend(&key, absl::Hex(BitsOf(*number)));
    }
    if (const auto* list = std::get_if<std::vector<int64_t>>(&value)) {
      absl::StrAppend(&key, absl::StrJoin(*list, ","));
    }
    if (const auto* text = std::get_if<std::string>(&value)) {
      absl::StrAppend(&key, text->size(), "#", *text);
    }
  }
  return key;
}

}  // namespace tandem
