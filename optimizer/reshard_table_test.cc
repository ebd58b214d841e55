#include "optimizer/reshard_table.h"

#include <catch2/catch.hpp>

#include "pcg/layout/reshard.h"

namespace tandem {
namespace {

using P = AxisPlacement;

Mesh TwoAndMicroBatches(int64_t micro_batches) {
  Mesh mesh;
  mesh.axes = {{"x0", 2, false}, {"x1", 2, false}};
  if (micro_batches > 1) mesh.axes.push_back({"micro", micro_batches, true});
  return mesh;
}

// Every legal layout of a shape.
std::vector<Layout> Layouts(const FactoredShape& shape, const Mesh& mesh) {
  std::vector<Layout> all = {Layout::Replicated(mesh)};
  for (size_t a = 0; a < mesh.axes.size(); ++a) {
    const size_t count = all.size();
    for (size_t i = 0; i < count; ++i) {
      std::vector<P> placements = {P::Partial(Combiner::kSum)};
      for (size_t d = 0; d < shape.size(); ++d) {
        for (size_t f = 0; f < shape[d].size(); ++f) {
          placements.push_back(P::Split(static_cast<int>(d), static_cast<int>(f)));
        }
      }
      for (const P& p : placements) {
        Layout next = all[i];
        next.axes[a] = p;
        if (CheckLayout(shape, next, mesh).ok()) all.push_back(std::move(next));
      }
    }
  }
  return all;
}

// Lowering takes the steps of CheapestReshard; a table that knows of others promises what no
// Program can do.
void CheckAgrees(const Mesh& mesh, const FactoredShape& shape) {
  const Machine machine = *LoadMachine("dgx-a100");
  ReshardCosts costs(machine, mesh);
  const StepCost once = costs.pricer().AsStepCost();
  const int id = costs.InternShape(shape, 4);
  const std::vector<Layout> layouts = Layouts(shape, mesh);
  int reachable = 0, unreachable = 0;
  for (const Layout& from : layouts) {
    for (const Layout& to : layouts) {
      if (from == to) continue;
      const double seconds = costs.Seconds(id, costs.InternLayout(from), costs.InternLayout(to));
      const auto steps = CheapestReshard(shape, mesh, from, to, 4, once);
      INFO(ToString(from) << " to " << ToString(to));
      REQUIRE(steps.ok() == (seconds < ReshardCosts::kUnreachable));
      (steps.ok() ? reachable : unreachable) += 1;
      if (!steps.ok()) continue;
      double total = 0;
      for (const ReshardStep& step : *steps) {
        const auto bytes = [&](const Layout& layout) {
          return 4.0 * static_cast<double>(ElementCount(LocalShape(shape, layout, mesh)));
        };
        total += once(step, bytes(step.before), bytes(step.after)) *
                 static_cast<double>(RunsEachMicroBatch(step, mesh) ? mesh.MicroBatches() : 1);
      }
      REQUIRE(seconds <= total * (1 + 1e-9));
    }
  }
  CHECK(reachable > 0);
  CHECK((unreachable > 0) == (mesh.TemporalAxis() >= 0));
}

TEST_CASE("the table reaches what lowering reaches, and is no dearer") {
  CheckAgrees(TwoAndMicroBatches(1), {{8}, {4}});
  CheckAgrees(TwoAndMicroBatches(2), {{8}, {4}});
  CheckAgrees(TwoAndMicroBatches(2), {{2, 8}, {4}});
}

TEST_CASE("no value enters the loop over micro-batches again") {
  const Mesh mesh = TwoAndMicroBatches(2);
  ReshardCosts costs(*LoadMachine("dgx-a100"), mesh);
  const int shape = costs.InternShape({{8}, {4}}, 4);
  Layout in_loop = Layout::Replicated(mesh), wanted = Layout::Replicated(mesh);
  in_loop.axes[2] = P::Split(0, 0);
  wanted.axes[0] = wanted.axes[2] = P::Split(0, 0);
  CHECK(costs.Seconds(shape, costs.InternLayout(in_loop), costs.InternLayout(wanted)) ==
        ReshardCosts::kUnreachable);
}

TEST_CASE("a small value that can wait pays its share of a bundle") {
  const Mesh mesh = TwoAndMicroBatches(1);
  ReshardCosts costs(*LoadMachine("dgx-a100"), mesh);
  const FactoredShape small = {{64}}, large = {{1 << 26}};
  Layout partial = Layout::Replicated(mesh);
  partial.axes[0] = P::Partial(Combiner::kSum);
  const int from = costs.InternLayout(partial);
  const int to = costs.InternLayout(Layout::Replicated(mesh));
  const double alone = costs.Seconds(costs.InternShape(small, 4), from, to);
  const double shared = costs.Seconds(costs.InternShape(small, 4, /*waits=*/true), from, to);
  CHECK(shared > 0);
  CHECK(shared < alone / 100);
  CHECK(costs.Seconds(costs.InternShape(large, 4), from, to) ==
        costs.Seconds(costs.InternShape(large, 4, /*waits=*/true), from, to));
}

}  // namespace
}  // namespace tandem
