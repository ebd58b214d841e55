// Proves rewrite rules: for all sizes, ranks of groups, variables and values, the rule's two sides
// compute the same outputs. A group of dims stands as one dim of any size: operators index a group
// as a whole, so what holds for one dim holds for any number of them.
#ifndef TANDEM_VERIFIER_EQUALITY_RULE_PROOF_H_
#define TANDEM_VERIFIER_EQUALITY_RULE_PROOF_H_

#include <string>

#include "pcg/language/op_parser.h"
#include "substitutions/rule.h"
#include "verifier/certificates/verdict.h"

namespace tandem {

// The statement of a rule's certificate: its text and the text of every operator in it.
std::string RuleSubject(const Rule& rule, const OperatorLibrary& operators);

Verdict ProveRule(const Rule& rule, const OperatorLibrary& operators);

}  // namespace tandem

#endif  // TANDEM_VERIFIER_EQUALITY_RULE_PROOF_H_
