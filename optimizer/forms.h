// The algebraic forms of a model: which alternative rules are applied where.
//
// All rules that put things together have fired in the normal form. An alternative rule fires at
// sites; sites of the same sizes are one *region*, whose sites are rewritten together, for what
// pays at one of them pays at all. A form is the set of regions that are rewritten.
#ifndef TANDEM_OPTIMIZER_FORMS_H_
#define TANDEM_OPTIMIZER_FORMS_H_

#include <functional>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "optimizer/node_classes.h"
#include "optimizer/optimize.h"
#include "pcg/graph/graph.h"
#include "substitutions/apply.h"

namespace tandem {

struct Form {
  std::set<int> regions;  // rewritten; empty in the normal form
  Graph forward;          // with the loss
  Graph training;         // of `forward`: backward and update as ordinary nodes
  NodeClasses classes;
  std::vector<RuleApplication> rules;  // those of the normal form first
};

class Forms {
 public:
  // Keeps references to all of them.
  Forms(const Graph& forward, const ProvedRuleSet& rules, const OptimizeOptions& options,
        const RowProofs& proofs)
      : forward_(forward), rules_(rules), options_(options), proofs_(proofs) {}

  // The normal form, then a form for each alternative rule that fires in it, rewritten wherever it
  // fires. Errors: what WithLoss and TrainLoss say of the model.
  absl::Status Make();
  // The form that differs from `form` in one region: its index, or none if it is there already.
  absl::StatusOr<std::optional<int>> With(int form, int region);
  // Classes anew, after the proofs have become strict.
  absl::Status Reclassify();

  int size() const { return static_cast<int>(forms_.size()); }
  const Form& at(int form) const { return forms_[static_cast<size_t>(form)]; }
  int regions() const { return static_cast<int>(regions_.size()); }
  // "merge_matmul_2 at 32 sites"
  std::string Describe(int region) const;

 private:
  struct Region {
    size_t rule = 0;  // of the rule set's entries
    Site site;
    int sites = 0;
  };
  absl::Status Add(Graph forward, std::vector<RuleApplication> rules, std::set<int> regions);
  absl::StatusOr<RewriteResult> Rewritten(const std::set<int>& regions) const;

  const Graph& forward_;
  const ProvedRuleSet& rules_;
  const OptimizeOptions& options_;
  const RowProofs& proofs_;
  std::vector<Form> forms_;
  std::vector<Region> regions_;
};

}  // namespace tandem

#endif  // TANDEM_OPTIMIZER_FORMS_H_
