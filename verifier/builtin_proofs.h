// Proves everything Tandem comes with: the built-in rules, and every row of the factor table of
// every built-in operator and of its gradient operators (on an instance with dims made up from the
// signature; a row holds for all sizes).
#ifndef TANDEM_VERIFIER_BUILTIN_PROOFS_H_
#define TANDEM_VERIFIER_BUILTIN_PROOFS_H_

#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "pcg/language/op_parser.h"
#include "substitutions/rule.h"
#include "verifier/certificates/certificate_book.h"

namespace tandem {

struct ProvedThings {
  CertificateBook book;                 // rules in their order, then rows in that of statements
  std::vector<std::string> not_proved;  // "rule x: refuted: ..."
};

// Errors: an operator that cannot be instantiated.
absl::StatusOr<ProvedThings> ProveAll(const std::vector<Rule>& rules,
                                      const OperatorLibrary& operators);

}  // namespace tandem

#endif  // TANDEM_VERIFIER_BUILTIN_PROOFS_H_
