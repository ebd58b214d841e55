#include "optimizer/forms.h"

#include <algorithm>
#include <catch2/catch.hpp>
#include <map>

#include "absl/strings/str_cat.h"
#include "optimizer/optimize.h"
#include "optimizer/test_graphs.h"
#include "pcg/graph/graph_builder.h"

namespace tandem {
namespace {

// `pairs` of contractions [rows, k] x [k, n] that share an input, all of which feed the output.
struct Pairs {
  int count;
  int64_t rows, k, n;
};

Graph GraphOf(const std::vector<Pairs>& all) {
  GraphBuilder m("pairs", 8);
  TensorId total;
  int number = 0;
  for (const Pairs& pairs : all) {
    for (int i = 0; i < pairs.count; ++i, ++number) {
      const auto name = [&](const char* what) { return absl::StrCat("layer.", number, ".", what); };
      const TensorId x = m.Input(absl::StrCat("x", number), {8, pairs.rows / 8, pairs.k});
      const TensorId a = m.Op("matmul", {x, m.Parameter(name("a"), {pairs.k, pairs.n})});
      const TensorId b = m.Op("matmul", {x, m.Parameter(name("b"), {pairs.k, pairs.n})});
      const TensorId sum =
          m.Op("reduce_mean_keep", {m.Op("mul", {a, b})}, {{"rank_c", int64_t{1}}});
      const TensorId one = m.Op("reduce_mean_keep", {sum}, {{"rank_c", int64_t{0}}});
      total = total.valid() ? m.Op("add", {total, one}) : one;
    }
  }
  const auto graph = m.Finish({total});
  if (!graph.ok()) FAIL(graph.status().message());
  return *graph;
}

int Count(const Graph& g, const std::string& op) {
  return static_cast<int>(
      std::count_if(g.nodes.begin(), g.nodes.end(), [&](const Node& n) { return n.op == op; }));
}

TEST_CASE("a form for each alternative, and its regions one by one") {
  const Graph g = GraphOf({{2, 64, 32, 16}, {3, 64, 32, 48}});
  const ProvedRuleSet rules = TrustingRules();
  OptimizeOptions options;
  options.serve = true;
  const RowProofs proofs(rules);
  Forms forms(g, rules, options, proofs);
  REQUIRE(forms.Make().ok());
  REQUIRE(forms.size() == 2);
  REQUIRE(forms.regions() == 2);
  CHECK(forms.Describe(0) == "merge_matmul_2 at 2 sites");
  CHECK(forms.Describe(1) == "merge_matmul_2 at 3 sites");
  CHECK(Count(forms.at(0).forward, "matmul") == 10);
  CHECK(Count(forms.at(1).forward, "matmul") == 5);

  const auto first = forms.With(0, 0);
  REQUIRE((first.ok() && *first));
  CHECK(forms.at(**first).regions == std::set<int>{0});
  CHECK(Count(forms.at(**first).forward, "matmul") == 8);
  CHECK(Count(forms.at(**first).forward, "concat") == 2);
  CHECK(forms.at(**first).rules.size() == forms.at(0).rules.size() + 2);
  // The same form twice, from either side, is none.
  const auto again = forms.With(0, 0);
  REQUIRE(again.ok());
  CHECK_FALSE(*again);
  const auto back = forms.With(**first, 0);
  REQUIRE(back.ok());
  CHECK_FALSE(*back);
  const auto all = forms.With(**first, 1);
  REQUIRE(all.ok());
  CHECK_FALSE(*all);
  const auto other = forms.With(1, 0);
  REQUIRE((other.ok() && *other));
  CHECK(Count(forms.at(**other).forward, "matmul") == 7);
}

TEST_CASE("a graph in which no alternative fires has one form") {
  const Graph g = MlpGraph(8, 16, 32, 4, 3);
  const ProvedRuleSet rules = TrustingRules();
  OptimizeOptions options;
  options.serve = true;
  const RowProofs proofs(rules);
  Forms forms(g, rules, options, proofs);
  REQUIRE(forms.Make().ok());
  CHECK(forms.size() == 1);
  CHECK(forms.regions() == 0);
  // The loss is part of a form that is trained, and has an alternative of its own.
  OptimizeOptions training;
  Forms trained(g, rules, training, proofs);
  REQUIRE(trained.Make().ok());
  CHECK(trained.size() == 2);
  CHECK(Count(trained.at(0).forward, "cross_entropy") == 1);
  CHECK(Count(trained.at(1).forward, "cross_entropy_of_sums") == 1);
  CHECK(trained.at(1)
            .forward.node(trained.at(1).forward.tensor(*trained.at(1).forward.loss).producer)
            .block == -1);
}

// Merging reads a large input once instead of twice; where the weights are all there is, putting
// them together costs more than it saves.
TEST_CASE("each region takes the form that pays there") {
  const Graph g = GraphOf({{3, 1 << 19, 512, 8}, {2, 8, 8192, 8192}});
  const auto machine = LoadMachine("dgx-a100", {.nodes = std::nullopt, .devices = 1});
  REQUIRE(machine.ok());
  OptimizeOptions options;
  options.serve = true;
  options.baselines = false;
  const auto r = Optimize(g, TrustingRules(), *machine, options);
  if (!r.ok()) FAIL(r.status().message());
  CHECK(Count(r->forward, "matmul") == 3 + 4);
  CHECK(std::count_if(r->rules.begin(), r->rules.end(), [](const RuleApplication& a) {
          return a.rule == "merge_matmul_2" && a.gain_seconds > 0;
        }) == 3);
}

}  // namespace
}  // namespace tandem
