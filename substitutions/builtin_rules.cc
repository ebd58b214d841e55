#include <cstdio>
#include <cstdlib>

#include "substitutions/builtin_rules_text.h"
#include "substitutions/rule.h"

namespace tandem {

const std::vector<Rule>& BuiltinRules() {
  static const std::vector<Rule>* rules = [] {
    auto* all = new std::vector<Rule>();
    for (const auto& [file, text] : kBuiltinRuleTexts) {
      absl::StatusOr<std::vector<Rule>> parsed = ParseRules(text, file);
      if (!parsed.ok()) {
        std::fprintf(stderr, "built-in rules do not parse: %s\n",
                     parsed.status().ToString().c_str());
        std::abort();
      }
      all->insert(all->end(), parsed->begin(), parsed->end());
    }
    return all;
  }();
  return *rules;
}

}  // namespace tandem
