// The text of pcg/operators/*.ops, as built into the program.
#ifndef TANDEM_PCG_OPERATORS_BUILTIN_OPERATORS_H_
#define TANDEM_PCG_OPERATORS_BUILTIN_OPERATORS_H_

#include <vector>

#include "absl/strings/string_view.h"

namespace tandem {

struct EmbeddedFile {
  absl::string_view name;  // "pcg/operators/elementwise.ops"
  absl::string_view text;
};
std::vector<EmbeddedFile> BuiltinOperatorFiles();

}  // namespace tandem

#endif  // TANDEM_PCG_OPERATORS_BUILTIN_OPERATORS_H_
