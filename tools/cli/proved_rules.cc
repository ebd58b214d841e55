#include "tools/cli/proved_rules.h"

#include <memory>
#include <optional>

#include "absl/strings/str_cat.h"
#include "verifier/equality/rule_proof.h"
#include "verifier/splits/split_proof.h"

namespace tandem::cli {

absl::StatusOr<RuleVerdicts> ProveBuiltinRules() {
  RuleVerdicts out;
  std::vector<ProvedRuleSet::Entry> entries;
  for (const Rule& rule : BuiltinRules()) {
    std::optional<Certificate> certificate =
        BuiltinCertificates().Find(RuleSubject(rule, BuiltinOperators()));
    if (!certificate) {
      const Verdict verdict = ProveRule(rule, BuiltinOperators());
      if (const auto* proved = std::get_if<Proved>(&verdict)) certificate = proved->certificate;
      if (!certificate) {
        out.not_proved.push_back(absl::StrCat(rule.name, ": ", ToString(verdict)));
        continue;
      }
    }
    entries.push_back({rule, certificate->hash});
    out.certificates.Add(CertificateKind::kRule, rule.name, *std::move(certificate));
  }
  auto prover = std::make_shared<SplitProver>(&BuiltinCertificates());
  out.rules =
      ProvedRuleSet(std::move(entries), [prover](const OpInstance& instance, const SplitRow& row) {
        return IsProved(prover->Prove(instance, row));
      });
  return out;
}

}  // namespace tandem::cli
