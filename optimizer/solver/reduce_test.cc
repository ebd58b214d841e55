#include "optimizer/solver/reduce.h"

#include <algorithm>
#include <catch2/catch.hpp>
#include <random>

#include "optimizer/solver/eliminate.h"
#include "optimizer/solver/random_problem.h"

namespace tandem::solver {
namespace {

double Optimum(const Model& model) {
  const EliminationOrder order = FindBestOrder(model, 1e30);
  return Eliminate(model, order, EliminationBudget()).value().value;
}

Problem Sample(int seed) {
  std::mt19937 random(seed);
  RandomOptions options;
  options.shape = seed % 2 == 0 ? Shape::kRandom : Shape::kGrid;
  options.nodes = 6 + seed % 4;
  options.most_states = 6;
  options.coarse = seed % 3 == 0;
  return RandomProblem(options, random);
}

}  // namespace

TEST_CASE("dominance keeps an optimal plan") {
  size_t dropped = 0;
  for (int seed = 0; seed < 100; ++seed) {
    CAPTURE(seed);
    const CompiledProblem compiled = Compile(Sample(seed), 0.0);
    const KeptStates kept = DropDominated(compiled.model, 10);
    for (int32_t k = 0; k < compiled.model.size(); ++k) {
      REQUIRE(!kept[k].empty());
      CHECK(std::is_sorted(kept[k].begin(), kept[k].end()));
      dropped += compiled.model.states(k) - kept[k].size();
    }
    CHECK(Optimum(Restrict(compiled.model, kept)) == Approx(Optimum(compiled.model)).margin(1e-12));
  }
  CHECK(dropped > 100);
}

TEST_CASE("of two equal states the lower stays") {
  Problem p;
  Node node;
  node.unary = p.AddVector({2e-3, 1e-3, 1e-3});
  p.AddNode(node);
  const CompiledProblem compiled = Compile(p, 0.0);
  CHECK(DropDominated(compiled.model, 10) == KeptStates{{1}});
}

TEST_CASE("a state that is better in some context is not dominated") {
  Problem p;
  Node node;
  node.unary = p.AddVector({0, 0});
  p.AddNode(node);
  p.AddNode(node);
  p.AddEdge(0, 1, p.AddTable({2, 2, {1e-3, 2e-3, 2e-3, 1e-3}}));
  const CompiledProblem compiled = Compile(p, 0.0);
  CHECK(DropDominated(compiled.model, 10) == KeptStates{{0, 1}, {0, 1}});
}

TEST_CASE("fixing by the bound keeps every plan better than the incumbent") {
  size_t dropped = 0;
  for (int seed = 0; seed < 100; ++seed) {
    CAPTURE(seed);
    const CompiledProblem compiled = Compile(Sample(seed), 0.0);
    Dual dual(compiled.model);
    DualOptions options;
    options.max_sweeps = 3;
    dual.Run(options);
    const KeptStates kept = FixByBound(compiled.model, dual, dual.upper());
    for (int32_t k = 0; k < compiled.model.size(); ++k) {
      CHECK(std::count(kept[k].begin(), kept[k].end(), dual.plan()[k]) == 1);
      dropped += compiled.model.states(k) - kept[k].size();
    }
    const Model kernel = Restrict(compiled.model, kept);
    CHECK(Optimum(kernel) == Approx(Optimum(compiled.model)).margin(1e-9));
    CHECK(CellsAfter(compiled.model, kept) == kernel.Cells());
    // The kept messages still bound the kernel.
    Dual again(kernel);
    again.SetMessages(RestrictMessages(compiled.model, kept, dual.messages()));
    CHECK(again.lower() >= dual.lower() - 1e-9);
    CHECK(again.lower() <= Optimum(kernel) + 1e-9);
  }
  CHECK(dropped > 100);
}

}  // namespace tandem::solver
