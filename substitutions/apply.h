// Finding where rules fire, and rewriting.
#ifndef TANDEM_SUBSTITUTIONS_APPLY_H_
#define TANDEM_SUBSTITUTIONS_APPLY_H_

#include <functional>
#include <map>
#include <set>
#include <string>
#include <tuple>
#include <vector>

#include "absl/status/statusor.h"
#include "pcg/graph/graph.h"
#include "pcg/layout/factor_table.h"
#include "pcg/program/plan.h"
#include "substitutions/rule.h"

namespace tandem {

// Rules that the verifier has proved. Only the holder of verdicts makes one (tools, tests); the
// optimizer can do no more than read it.
class ProvedRuleSet {
 public:
  struct Entry {
    Rule rule;
    std::string certificate;  // hash of what was proved
  };
  // Whether a row of an instance's factor table is proved. Answers are looked up or proved by
  // whoever made the set.
  using RowProved = std::function<bool(const OpInstance&, const SplitRow&)>;

  ProvedRuleSet() = default;
  ProvedRuleSet(std::vector<Entry> entries, RowProved row_proved)
      : entries_(std::move(entries)), row_proved_(std::move(row_proved)) {
    for (const Entry& e : entries_) {
      if (e.rule.use == RuleUse::kCommutative) commutative_.insert(e.rule.source[0].op);
    }
  }
  const std::vector<Entry>& entries() const { return entries_; }
  // Operators whose two inputs a proved rule exchanges.
  const std::set<std::string>& commutative() const { return commutative_; }
  // Row 0, "replicate", needs no proof: every device runs the operator itself.
  bool IsProved(const OpInstance& instance, const SplitRow& row) const {
    return row_proved_ && row_proved_(instance, row);
  }

 private:
  std::vector<Entry> entries_;
  std::set<std::string> commutative_;
  RowProved row_proved_;
};

// Where a rule's source lies in a graph.
struct Match {
  std::map<std::string, TensorId> tensors;  // rule tensor -> graph tensor (inputs and inner)
  std::vector<NodeId> nodes;                // one a source statement
  std::map<std::string, int64_t> sizes;     // single sizes
  std::map<std::string, std::vector<int64_t>> groups;
  std::map<std::string, AttrValue> variables;
};

// Matches in topological order of their last node. Operators in `commutative` match with their two
// inputs in either order.
std::vector<Match> FindMatches(const Graph& graph, const Rule& rule,
                               const std::set<std::string>& commutative);

// What matches of one rule bind: equal for those that a rewriting changes alike.
using Site = std::tuple<std::map<std::string, int64_t>, std::map<std::string, std::vector<int64_t>>,
                        std::map<std::string, AttrValue>>;
Site SiteOf(const Match& match);

struct RewriteResult {
  Graph graph;
  std::vector<RuleApplication> applications;
};

// Rewrites all non-overlapping matches of one rule (of those that `where` accepts, if given).
// Tensors that keep their meaning keep their name (outputs of the rule, everything outside); new
// inner tensors get fresh names. Nodes that nothing needs any more are removed.
absl::StatusOr<RewriteResult> ApplyEverywhere(const Graph& graph, const ProvedRuleSet::Entry& entry,
                                              const std::set<std::string>& commutative,
                                              const std::function<bool(const Match&)>& where = {});

// Applies all kNormalize rules, in order, again and again until none fires. Terminates: at most
// `max_passes`.
absl::StatusOr<RewriteResult> Normalize(const Graph& graph, const ProvedRuleSet& rules,
                                        int max_passes = 50);

}  // namespace tandem

#endif  // TANDEM_SUBSTITUTIONS_APPLY_H_
