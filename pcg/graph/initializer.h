// How a run makes the values of a source that has none, as Tensor::initializer says it:
// "constant(value)", "normal(deviation)", "normal(mean,deviation)", "uniform(low,high)", of finite
// numbers.
#ifndef TANDEM_PCG_GRAPH_INITIALIZER_H_
#define TANDEM_PCG_GRAPH_INITIALIZER_H_

#include <cstdint>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"

namespace tandem {

struct Initializer {
  enum class Kind : uint8_t { kConstant, kNormal, kUniform };
  Kind kind = Kind::kConstant;
  double a = 0, b = 0;  // the constant; mean and deviation; bounds
};

// Errors: any other text; the message quotes it and says what can be written.
absl::StatusOr<Initializer> ParseInitializer(absl::string_view text);

}  // namespace tandem

#endif  // TANDEM_PCG_GRAPH_INITIALIZER_H_
