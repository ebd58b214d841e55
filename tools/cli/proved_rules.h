// The rules the optimizer may use: built-in ones by their stored certificates, new ones (a user's
// operators, rows of factor tables) by proving them now. Tools are the only place where the
// verifier's verdicts become a ProvedRuleSet.
#ifndef TANDEM_TOOLS_CLI_PROVED_RULES_H_
#define TANDEM_TOOLS_CLI_PROVED_RULES_H_

#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "substitutions/apply.h"
#include "verifier/certificates/certificate_book.h"

namespace tandem::cli {

struct RuleVerdicts {
  ProvedRuleSet rules;
  std::vector<std::string> not_proved;  // names of rules left out, with the reason
  CertificateBook certificates;         // of the rules, with their statements
};

// Errors: a built-in rule that does not instantiate (a bug).
absl::StatusOr<RuleVerdicts> ProveBuiltinRules();

}  // namespace tandem::cli

#endif  // TANDEM_TOOLS_CLI_PROVED_RULES_H_
