#include "verifier/equality/rule_proof.h"

#include <set>

#include "absl/strings/str_cat.h"
#include "verifier/equality/equality_proof.h"

namespace tandem {

std::string RuleSubject(const Rule& rule, const OperatorLibrary& operators) {
  std::string subject = PrintRule(rule);
  std::set<std::string> used;
  for (const auto* side : {&rule.source, &rule.target}) {
    for (const RuleStatement& s : *side) used.insert(s.op);
  }
  for (const std::string& op : used) {
    if (const OpSpec* spec = operators.Find(op)) absl::StrAppend(&subject, spec->text, "\n");
  }
  return subject;
}

Verdict ProveRule(const Rule& rule, const OperatorLibrary& operators) {
  auto graphs = GraphsOf(rule, operators);
  if (!graphs.ok()) return Unknown{std::string(graphs.status().message())};
  EqualityOptions options;
  options.allow_own_extents = false;  // a rule is for all sizes
  for (const auto& [name, at] : graphs->sizes) {
    options.sizes[name] = NamedFactor{at.tensor, at.dim, at.factor};
  }
  options.subject = RuleSubject(rule, operators);
  return ProveEqual(graphs->source, graphs->target, options);
}

}  // namespace tandem
