// Rewrite rules as data: two small graphs over the operator library that mean the same.
//
//   rule rms_norm "Exporters spell RMS norm out" {
//     given x[b.., n], w[n]
//     variables eps
//     source { s = power(x; exponent = 2); m = reduce_mean_keep(s; rank_c = 0);
//              e = shift(m; value = eps); r = sqrt(e); i = reciprocal(r);
//              y = mul(x, i); out = mul(w, y) }
//     target { out = rms_norm(x, w; eps = eps) }
//   }
//
// Sizes and variables are universally quantified; a group stands for any number of dims. A
// statement that needs a shape attribute says the shape: `y: [(b, h), s, d] = reshape(x)`. Tensors
// named on both sides (other than the given ones) are the outputs. Nothing here is trusted: the
// verifier proves each rule, and the optimizer takes a ProvedRuleSet.
#ifndef TANDEM_SUBSTITUTIONS_RULE_H_
#define TANDEM_SUBSTITUTIONS_RULE_H_

#include <map>
#include <string>
#include <variant>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "pcg/graph/graph.h"

namespace tandem {

// One dim of a rule's tensor: a group, or a product of sizes (1 = none).
struct RuleDim {
  bool group = false;      // name = parts[0]
  bool broadcast = false;  // may be 1 in the matched graph; only where the operators repeat it
  std::vector<std::string> parts;
  bool operator==(const RuleDim&) const = default;
};

struct RuleInput {
  std::string name;
  std::vector<RuleDim> dims;
  bool integer = false;
  bool operator==(const RuleInput&) const = default;
};

// An attribute in a rule: text of an arithmetic expression over variables ("eps", "a * b", "2"), or
// a list of such, or a permutation written swap(i, j) of the tensor's last dims.
struct RuleAttr {
  enum class Kind : uint8_t { kExpression, kList, kSwap };
  Kind kind = Kind::kExpression;
  std::string expression;
  std::vector<int64_t> list;  // kList; kSwap: the two dims, counted from the end (-1 = last)
  bool operator==(const RuleAttr&) const = default;
};

struct RuleStatement {
  std::vector<std::string> outputs;
  std::string op;
  std::vector<std::string> inputs;
  std::map<std::string, RuleAttr> attributes;
  std::vector<RuleDim> shape;  // of outputs[0], where written
  bool has_shape = false;
  int line = 0;
  bool operator==(const RuleStatement&) const = default;
};

enum class RuleOrigin : uint8_t { kWritten, kGenerated };
// What the optimizer does with it: apply always (puts together what exporters take apart, and can
// only save work), keep as an alternative form to be chosen by cost, or match the operator's two
// inputs in either order (`commutative`; the rule says no more than op(x, y) = op(y, x)).
enum class RuleUse : uint8_t { kNormalize, kAlternative, kCommutative };
// The word a rule of this use begins with.
const char* RuleUseWord(RuleUse use);

struct Rule {
  std::string name;
  std::string reason;
  RuleOrigin origin = RuleOrigin::kWritten;
  RuleUse use = RuleUse::kNormalize;
  std::vector<RuleInput> inputs;
  std::vector<std::string> variables;
  std::vector<RuleStatement> source;
  std::vector<RuleStatement> target;
  std::string source_text;                   // "file:line"
  std::vector<std::string> Outputs() const;  // names defined on both sides, in source order
};

// All rules of a text. Errors are "file:line: ...".
absl::StatusOr<std::vector<Rule>> ParseRules(absl::string_view text, absl::string_view file);
std::string PrintRule(const Rule& rule);
// The rules Tandem comes with (substitutions/rules/*.rules, embedded).
const std::vector<Rule>& BuiltinRules();

// The two sides as graphs with representative extents (distinct primes a size, one dim a group),
// for the prover, which reads every size as a symbol. Variables become attribute strings "$eps"
// that stay symbols in the instances. Where a size used in an attribute ("$n") can be read off: a
// factor of a source tensor's dim.
struct RuleSizeRef {
  std::string tensor;
  int dim = 0;
  int factor = 0;
};
struct RuleGraphs {
  Graph source;
  Graph target;
  std::vector<std::string> outputs;
  std::map<std::string, RuleSizeRef> sizes;  // by the name used in "$..." attributes
};
absl::StatusOr<RuleGraphs> GraphsOf(const Rule& rule, const OperatorLibrary& operators);

}  // namespace tandem

#endif  // TANDEM_SUBSTITUTIONS_RULE_H_
