#include "pcg/language/scalar_functions.h"

namespace tandem {

const std::vector<ScalarFunction>& ScalarFunctions() {
  static const auto* functions = new std::vector<ScalarFunction>{
      {"exp", 1}, {"log", 1}, {"sqrt", 1},  {"rsqrt", 1},   {"tanh", 1},  {"erf", 1},
      {"sin", 1}, {"cos", 1}, {"abs", 1},   {"sign", 1},    {"floor", 1}, {"pow", 2},
      {"max", 2}, {"min", 2}, {"isnan", 1}, {"uniform", -1}};
  return *functions;
}

}  // namespace tandem
