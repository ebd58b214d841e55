// The functions of numbers that operator text may call.
#ifndef TANDEM_PCG_LANGUAGE_SCALAR_FUNCTIONS_H_
#define TANDEM_PCG_LANGUAGE_SCALAR_FUNCTIONS_H_

#include <vector>

#include "absl/strings/string_view.h"

namespace tandem {

struct ScalarFunction {
  absl::string_view name;
  int arity;  // -1: any
};
// All of them: there is no way to add one in text. uniform(seed, counter...) is a number from
// [0, 1) that depends on its arguments only.
const std::vector<ScalarFunction>& ScalarFunctions();

}  // namespace tandem

#endif  // TANDEM_PCG_LANGUAGE_SCALAR_FUNCTIONS_H_
