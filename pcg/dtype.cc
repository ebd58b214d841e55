#include "pcg/dtype.h"

namespace tandem {
namespace {
struct Row {
  DType type;
  absl::string_view name;
  int64_t bytes;
};
constexpr Row kRows[] = {
    {DType::kF64, "fp64", 8},  {DType::kF32, "fp32", 4},  {DType::kTF32, "tf32", 4},
    {DType::kBF16, "bf16", 2}, {DType::kF16, "fp16", 2},  {DType::kI64, "int64", 8},
    {DType::kI32, "int32", 4}, {DType::kBool, "bool", 1},
};
}  // namespace

int64_t DTypeBytes(DType t) { return kRows[static_cast<int>(t)].bytes; }

absl::string_view DTypeName(DType t) { return kRows[static_cast<int>(t)].name; }

std::optional<DType> DTypeFromName(absl::string_view name) {
  for (const Row& row : kRows) {
    if (row.name == name) return row.type;
  }
  return std::nullopt;
}

bool IsFloat(DType t) { return t <= DType::kF16; }

}  // namespace tandem
