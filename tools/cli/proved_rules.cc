#include "tools/cli/proved_rules.h"

#include <memory>

#include "absl/strings/str_cat.h"
#include "verifier/rule_proof.h"
#include "verifier/split_proof.h"

namespace tandem::cli {

absl::StatusOr<RuleVerdicts> ProveBuiltinRules() {
  RuleVerdicts out;
  std::vector<ProvedRuleSet::Entry> entries;
  for (const Rule& rule : BuiltinRules()) {
    const Verdict verdict = ProveRule(rule, BuiltinOperators());
    if (const auto* proved = std::get_if<Proved>(&verdict)) {
      entries.push_back({rule, proved->certificate.hash});
    } else {
      out.not_proved.push_back(absl::StrCat(rule.name, ": ", ToString(verdict)));
    }
  }
  auto prover = std::make_shared<SplitProver>();
  out.rules =
      ProvedRuleSet(std::move(entries), [prover](const OpInstance& instance, const SplitRow& row) {
        return IsProved(prover->Prove(instance, row));
      });
  return out;
}

}  // namespace tandem::cli
