// Element types. The reference interpreter computes in float64 whatever the type says; types decide
// bytes, costs, and what an executor computes in.
#ifndef TANDEM_PCG_DTYPE_H_
#define TANDEM_PCG_DTYPE_H_

#include <cstdint>
#include <optional>

#include "absl/strings/string_view.h"

namespace tandem {

enum class DType : uint8_t { kF64, kF32, kTF32, kBF16, kF16, kI64, kI32, kBool };

// Bytes one element takes in memory (tf32 is stored as fp32).
int64_t DTypeBytes(DType t);
// "fp64", "fp32", "tf32", "bf16", "fp16", "int64", "int32", "bool".
absl::string_view DTypeName(DType t);
std::optional<DType> DTypeFromName(absl::string_view name);
bool IsFloat(DType t);

}  // namespace tandem

#endif  // TANDEM_PCG_DTYPE_H_
