#include "optimizer/forms.h"

#include <algorithm>
#include <iterator>
#include <map>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "optimizer/blocks.h"
#include "pcg/autodiff/loss.h"
#include "pcg/autodiff/training.h"

namespace tandem {

absl::Status Forms::Add(Graph forward, std::vector<RuleApplication> rules, std::set<int> regions) {
  Form form;
  AssignBlocks(forward);
  form.regions = std::move(regions);
  form.forward = std::move(forward);
  form.rules = std::move(rules);
  absl::StatusOr<Graph> training = options_.serve
                                       ? WithPrecision(form.forward, options_.training.precision)
                                       : TrainLoss(form.forward, options_.training);
  if (!training.ok()) return training.status();
  form.training = *std::move(training);
  if (absl::Status s = PropagateFactors(form.training); !s.ok()) return s;
  absl::StatusOr<NodeClasses> classes = ClassifyNodes(form.training, proofs_);
  if (!classes.ok()) return classes.status();
  form.classes = *std::move(classes);
  forms_.push_back(std::move(form));
  return absl::OkStatus();
}

absl::Status Forms::Make() {
  absl::StatusOr<Graph> with_loss =
      options_.serve ? forward_ : WithLoss(forward_, options_.training);
  if (!with_loss.ok()) return with_loss.status();
  absl::StatusOr<RewriteResult> normal = Normalize(*with_loss, rules_);
  if (!normal.ok()) return normal.status();
  if (options_.progress) {
    options_.progress(absl::StrFormat("%d nodes, %d after rules",
                                      static_cast<int>(forward_.nodes.size()),
                                      static_cast<int>(normal->graph.nodes.size())));
  }
  const Graph& graph = normal->graph;
  std::vector<std::set<int>> uniform;
  for (size_t rule = 0; rule < rules_.entries().size(); ++rule) {
    if (rules_.entries()[rule].rule.use != RuleUse::kAlternative) continue;
    std::map<Site, int> by_site;  // region
    std::set<std::pair<int, std::set<NodeId>>> seen;
    std::set<int> all;
    for (const Match& match :
         FindMatches(graph, rules_.entries()[rule].rule, rules_.commutative())) {
      const auto [it, fresh] = by_site.emplace(SiteOf(match), regions());
      if (fresh) regions_.push_back({rule, it->first, 0});
      // Inputs in another order make another match, of the same nodes.
      if (seen.emplace(it->second, std::set<NodeId>(match.nodes.begin(), match.nodes.end()))
              .second) {
        ++regions_[static_cast<size_t>(it->second)].sites;
      }
      all.insert(it->second);
    }
    if (!all.empty()) uniform.push_back(std::move(all));
  }
  if (absl::Status s = Add(std::move(normal->graph), std::move(normal->applications), {});
      !s.ok()) {
    return s;
  }
  for (std::set<int>& regions : uniform) {
    absl::StatusOr<RewriteResult> r = Rewritten(regions);
    if (!r.ok()) return r.status();
    if (absl::Status s = Add(std::move(r->graph), std::move(r->applications), std::move(regions));
        !s.ok()) {
      return s;
    }
  }
  return absl::OkStatus();
}

absl::StatusOr<RewriteResult> Forms::Rewritten(const std::set<int>& regions) const {
  RewriteResult all;
  all.graph = forms_[0].forward;
  all.applications = forms_[0].rules;
  std::map<size_t, std::set<Site>> sites;  // by rule, in the rules' order
  for (int r : regions) {
    const Region& region = regions_[static_cast<size_t>(r)];
    sites[region.rule].insert(region.site);
  }
  for (const auto& [rule, keys] : sites) {
    absl::StatusOr<RewriteResult> step =
        ApplyEverywhere(all.graph, rules_.entries()[rule], rules_.commutative(),
                        [&keys = keys](const Match& m) { return keys.count(SiteOf(m)) > 0; });
    if (!step.ok()) return step.status();
    all.graph = std::move(step->graph);
    all.applications.insert(all.applications.end(),
                            std::make_move_iterator(step->applications.begin()),
                            std::make_move_iterator(step->applications.end()));
  }
  return all;
}

absl::StatusOr<std::optional<int>> Forms::With(int form, int region) {
  std::set<int> regions = at(form).regions;
  if (!regions.insert(region).second) regions.erase(region);
  for (const Form& f : forms_) {
    if (f.regions == regions) return std::optional<int>();
  }
  absl::StatusOr<RewriteResult> r = Rewritten(regions);
  if (!r.ok()) return r.status();
  if (absl::Status s = Add(std::move(r->graph), std::move(r->applications), std::move(regions));
      !s.ok()) {
    return s;
  }
  return std::optional<int>(size() - 1);
}

absl::Status Forms::Reclassify() {
  for (Form& form : forms_) {
    absl::StatusOr<NodeClasses> again = ClassifyNodes(form.training, proofs_);
    if (!again.ok()) return again.status();
    form.classes = *std::move(again);
  }
  return absl::OkStatus();
}

std::string Forms::Describe(int region) const {
  const Region& r = regions_[static_cast<size_t>(region)];
  return absl::StrCat(rules_.entries()[r.rule].rule.name, " at ", r.sites,
                      r.sites == 1 ? " site" : " sites");
}

}  // namespace tandem
