#include "verifier/builtin_proofs.h"

#include "absl/strings/str_cat.h"
#include "pcg/layout/factor_table.h"
#include "verifier/equality/rule_proof.h"
#include "verifier/sample_instances.h"
#include "verifier/splits/split_proof.h"

namespace tandem {

absl::StatusOr<ProvedThings> ProveAll(const std::vector<Rule>& rules,
                                      const OperatorLibrary& operators) {
  ProvedThings out;
  for (const Rule& rule : rules) {
    const Verdict verdict = ProveRule(rule, operators);
    if (const auto* proved = std::get_if<Proved>(&verdict)) {
      out.book.Add(CertificateKind::kRule, rule.name, proved->certificate);
    } else {
      out.not_proved.push_back(absl::StrCat("rule ", rule.name, ": ", ToString(verdict)));
    }
  }
  SplitProver prover;
  for (const auto& [name, spec] : operators.specs()) {
    absl::StatusOr<OpInstance> forward = SampleInstance(spec);
    if (!forward.ok()) return forward.status();
    absl::StatusOr<std::vector<OpInstance>> instances = GradientInstances(*forward);
    if (!instances.ok()) return instances.status();
    instances->push_back(*std::move(forward));
    for (const OpInstance& instance : *instances) {
      for (const SplitRow& row : FactorTable(instance)) {
        const Verdict& verdict = prover.Prove(instance, row);
        if (IsProved(verdict)) continue;
        out.not_proved.push_back(
            absl::StrCat("row ", RowName(SplitStatement(instance, row)), ": ", ToString(verdict)));
      }
    }
  }
  out.book.AddAll(prover.Certificates());
  return out;
}

}  // namespace tandem
