#include "pcg/layout/reshard.h"

#include <algorithm>
#include <catch2/catch.hpp>
#include <cmath>
#include <limits>
#include <map>
#include <random>
#include <string>

#include "pcg/layout/step_data.h"
#include "pcg/layout/test_mesh.h"

namespace tandem {
namespace {

using P = AxisPlacement;
using Kind = AxisPlacement::Kind;

// One value per device and micro-batch: buffers[device][micro].
class Devices {
 public:
  Devices(FactoredShape shape, Mesh mesh) : shape_(std::move(shape)), mesh_(std::move(mesh)) {}

  int64_t Elements() const {
    int64_t n = 1;
    for (const Factors& dim : shape_) {
      for (int64_t f : dim) n *= f;
    }
    return n;
  }
  std::vector<int64_t> Coords(int64_t device, int64_t micro) const {
    std::vector<int64_t> coords = mesh_.Coordinates(device);
    if (mesh_.TemporalAxis() >= 0) coords[static_cast<size_t>(mesh_.TemporalAxis())] = micro;
    return coords;
  }

  static double Logical(int64_t i) { return 3.0 + static_cast<double>(i * 7 % 101); }
  // Shares over the partial axes: for sum they add up to the logical value, for max one reaches it.
  double Share(const Layout& layout, const std::vector<int64_t>& coords, int64_t i) const {
    int64_t shares = 1;
    int64_t mine = 0;
    Combiner combiner = Combiner::kSum;
    for (size_t a = 0; a < layout.axes.size(); ++a) {
      if (layout.axes[a].kind != Kind::kPartial) continue;
      combiner = layout.axes[a].combiner;
      mine = mine * mesh_.axes[a].extent + coords[a];
      shares *= mesh_.axes[a].extent;
    }
    const bool last = mine == shares - 1;
    if (combiner == Combiner::kMax) return i % shares == mine ? Logical(i) : -1.0 - mine;
    if (!last) return static_cast<double>(mine + 1) * 1000;
    return Logical(i) - 1000.0 * static_cast<double>(shares * (shares - 1) / 2);
  }

  void Fill(const Layout& layout) {
    buffers_.assign(static_cast<size_t>(mesh_.Devices()), {});
    for (int64_t d = 0; d < mesh_.Devices(); ++d) {
      for (int64_t t = 0; t < mesh_.MicroBatches(); ++t) {
        std::vector<double>& local = buffers_[static_cast<size_t>(d)].emplace_back();
        const std::vector<int64_t> coords = Coords(d, t);
        for (int64_t i : PieceIndices(shape_, layout, mesh_, coords)) {
          local.push_back(Share(layout, coords, i));
        }
      }
    }
  }

  // Every device runs the step in every micro-batch; a value of the whole step is kept in each.
  void Run(const ReshardStep& step) {
    const bool spatial = step.kind != StepKind::kAccumulate && step.kind != StepKind::kStack &&
                         step.kind != StepKind::kUnstack;
    std::vector<std::vector<std::vector<double>>> next(buffers_.size());
    for (int64_t d = 0; d < mesh_.Devices(); ++d) {
      const std::vector<int64_t> group =
          spatial ? mesh_.Group(d, step.axes) : std::vector<int64_t>{d};
      Combiner combiner = Combiner::kSum;
      for (int a : step.axes) {
        for (const Layout* side : {&step.before, &step.after}) {
          const AxisPlacement& p = side->axes[static_cast<size_t>(a)];
          if (p.kind == Kind::kPartial) combiner = p.combiner;
        }
      }
      std::vector<double> target;
      for (int64_t t = 0; t < mesh_.MicroBatches(); ++t) {
        const std::vector<int64_t> coords = Coords(d, t);
        const size_t size = PieceIndices(shape_, step.after, mesh_, coords).size();
        const bool kept =
            t > 0 && (step.kind == StepKind::kAccumulate || step.kind == StepKind::kStack);
        const bool made = step.kind == StepKind::kKeepFirst;
        if (!kept) target.assign(size, made ? Neutral(combiner) : std::nan(""));
        std::vector<int> written(size, made && coords != Coords(group[0], t) ? 1 : 0);
        for (const BlockCopy& block : StepCopies(shape_, mesh_, step, coords)) {
          const int64_t sender = group.at(static_cast<size_t>(block.rank));
          const std::vector<double>& source =
              buffers_[static_cast<size_t>(sender)][static_cast<size_t>(t)];
          ForEachElement(block, [&](int64_t from, int64_t to) {
            double& slot = target.at(static_cast<size_t>(to));
            const double value = source.at(static_cast<size_t>(from));
            const bool first = !kept && written.at(static_cast<size_t>(to)) == 0;
            slot = first || !Combines(step.kind) ? value : Combine(combiner, slot, value);
            ++written[static_cast<size_t>(to)];
          });
        }
        if (step.kind != StepKind::kStack) {
          const int times = spatial && Combines(step.kind) ? static_cast<int>(group.size()) : 1;
          REQUIRE(std::all_of(written.begin(), written.end(), [&](int w) { return w == times; }));
        }
        next[static_cast<size_t>(d)].push_back(target);
      }
      if (step.kind == StepKind::kAccumulate || step.kind == StepKind::kStack) {
        for (auto& each : next[static_cast<size_t>(d)]) each = target;  // valid after the loop
      }
    }
    buffers_ = std::move(next);
  }

  // The buffers are what the layout says: combined over the partial axes, the logical pieces.
  void Check(const Layout& layout) const {
    std::map<std::vector<int64_t>, std::vector<double>> combined;  // by the other coordinates
    for (int64_t d = 0; d < mesh_.Devices(); ++d) {
      for (int64_t t = 0; t < mesh_.MicroBatches(); ++t) {
        std::vector<int64_t> key = Coords(d, t);
        Combiner combiner = Combiner::kSum;
        for (size_t a = 0; a < key.size(); ++a) {
          if (layout.axes[a].kind != Kind::kPartial) continue;
          combiner = layout.axes[a].combiner;
          key[a] = 0;
        }
        const std::vector<double>& local = buffers_[static_cast<size_t>(d)][static_cast<size_t>(t)];
        const auto [it, fresh] = combined.emplace(key, local);
        REQUIRE(it->second.size() == local.size());
        if (fresh) continue;
        for (size_t i = 0; i < local.size(); ++i) {
          it->second[i] = Combine(combiner, it->second[i], local[i]);
        }
      }
    }
    for (const auto& [coords, values] : combined) {
      const std::vector<int64_t> indices = PieceIndices(shape_, layout, mesh_, coords);
      REQUIRE(indices.size() == values.size());
      for (size_t i = 0; i < values.size(); ++i) REQUIRE(values[i] == Logical(indices[i]));
    }
  }

 private:
  FactoredShape shape_;
  Mesh mesh_;
  std::vector<std::vector<std::vector<double>>> buffers_;
};

struct Random {
  std::mt19937 rng;
  explicit Random(unsigned seed) : rng(seed) {}
  int Pick(int n) { return static_cast<int>(rng() % static_cast<unsigned>(n)); }
  Mesh AnyMesh() {
    std::vector<int64_t> spatial(static_cast<size_t>(1 + Pick(3)));
    for (int64_t& e : spatial) e = 1 + Pick(3);
    return MeshOf(spatial, Pick(2) == 0 ? 0 : 1 + Pick(3));
  }
  FactoredShape AnyShape() {
    FactoredShape shape(static_cast<size_t>(1 + Pick(2)));
    for (Factors& dim : shape) {
      for (int f = Pick(2); f >= 0; --f) dim.push_back(std::vector<int64_t>{1, 2, 6, 12}[Pick(4)]);
    }
    return shape;
  }
  Layout AnyLayout(const FactoredShape& shape, const Mesh& mesh, bool partial) {
    Layout layout = Layout::Replicated(mesh);
    const Combiner combiner = Pick(2) == 0 ? Combiner::kSum : Combiner::kMax;
    for (P& p : layout.axes) {
      const int d = Pick(static_cast<int>(shape.size()));
      const int kind = Pick(3);
      if (kind == 0) p = P::Split(d, Pick(static_cast<int>(shape[static_cast<size_t>(d)].size())));
      if (kind == 1 && partial) p = P::Partial(combiner);
      if (!CheckLayout(shape, layout, mesh).ok()) p = P::Replicated();
    }
    return layout;
  }
};

TEST_CASE("Every step that is offered moves the right elements on every device") {
  Random random(11);
  std::map<StepKind, int> seen;
  for (int round = 0; round < 250; ++round) {
    const Mesh mesh = random.AnyMesh();
    const FactoredShape shape = random.AnyShape();
    const Layout from = random.AnyLayout(shape, mesh, true);
    for (const ReshardStep& step : StepsFrom(shape, mesh, from)) {
      CAPTURE(StepKindName(step.kind), ToString(from), ToString(step.after));
      REQUIRE(step.before == from);
      REQUIRE(CheckLayout(shape, step.after, mesh).ok());
      for (size_t a = 0; a < mesh.axes.size(); ++a) {
        const bool named = std::count(step.axes.begin(), step.axes.end(), static_cast<int>(a)) > 0;
        REQUIRE((step.before.axes[a] != step.after.axes[a]) == named);
      }
      Devices devices(shape, mesh);
      devices.Fill(from);
      devices.Check(from);
      devices.Run(step);
      devices.Check(step.after);
      ++seen[step.kind];
    }
  }
  CHECK(seen.size() == 8);
  for (const auto& [kind, count] : seen) CHECK(count > 20);
}

TEST_CASE("A sequence arrives, and none is cheaper") {
  Random random(5);
  int reached = 0;
  for (int round = 0; round < 200; ++round) {
    const Mesh mesh = random.AnyMesh();
    const FactoredShape shape = random.AnyShape();
    const Layout from = random.AnyLayout(shape, mesh, true);
    const Layout to = random.AnyLayout(shape, mesh, round % 2 == 1);
    CAPTURE(ToString(from), ToString(to));
    const auto steps = CheapestReshard(shape, mesh, from, to, 4, BytesStepCost(mesh));
    const int t = mesh.TemporalAxis();
    if (!steps.ok()) {
      // Only the loop over micro-batches can make it impossible.
      REQUIRE((t >= 0 && to.axes.back().kind != Kind::kReplicated));
      continue;
    }
    ++reached;
    Devices devices(shape, mesh);
    devices.Fill(from);
    Layout at = from;
    double total = 0;
    const StepCost cost_of = BytesStepCost(mesh);
    const auto bytes = [&](const Layout& layout) {
      int64_t n = 4;
      for (const Factors& dim : LocalShape(shape, layout, mesh)) {
        for (int64_t f : dim) n *= f;
      }
      return static_cast<double>(n);
    };
    for (const ReshardStep& step : *steps) {
      REQUIRE(step.before == at);
      devices.Run(step);
      at = step.after;
      total += cost_of(step, bytes(step.before), bytes(step.after)) *
               static_cast<double>(RunsEachMicroBatch(step, mesh) ? mesh.MicroBatches() : 1);
    }
    REQUIRE(at == to);
    devices.Check(to);
    if (t >= 0 || MakesPartial(from, to, mesh)) continue;
    // Bellman-Ford over everything reachable.
    std::map<Layout, double> best = {{from, 0}};
    for (bool changed = true; changed;) {
      changed = false;
      const std::map<Layout, double> now = best;
      for (const auto& [layout, cost] : now) {
        for (const ReshardStep& step : StepsFrom(shape, mesh, layout)) {
          const double c = cost + cost_of(step, bytes(layout), bytes(step.after));
          const auto it = best.find(step.after);
          if (it != best.end() && it->second <= c + 1e-9) continue;
          best[step.after] = c;
          changed = true;
        }
      }
    }
    REQUIRE(total == Approx(best.at(to)));
  }
  CHECK(reached > 150);
}

std::string Path(const FactoredShape& shape, const Mesh& mesh, const Layout& from,
                 const Layout& to) {
  const auto steps = CheapestReshard(shape, mesh, from, to, 4, BytesStepCost(mesh));
  if (!steps.ok()) return "error: " + std::string(steps.status().message());
  std::string text;
  for (const ReshardStep& step : *steps) {
    text += std::string(StepKindName(step.kind)) + " " + ToString(step.after) + "; ";
  }
  return text;
}

TEST_CASE("The usual collectives come out by themselves") {
  const Mesh mesh = MeshOf({2, 2});
  const FactoredShape shape = {{8}, {8}};
  const P r = P::Replicated(), s0 = P::Split(0, 0), s1 = P::Split(1, 0),
          sum = P::Partial(Combiner::kSum);
  CHECK(Path(shape, mesh, {{r, s0}}, {{r, s0}}).empty());
  CHECK(Path(shape, mesh, {{r, r}}, {{s0, s0}}) == "slice S(0),R; slice S(0),S(0); ");
  CHECK(Path(shape, mesh, {{sum, r}}, {{s0, r}}) == "reduce-scatter S(0),R; ");
  CHECK(Path(shape, mesh, {{s0, r}}, {{s1, r}}) == "all-to-all S(1),R; ");
  CHECK(Path(shape, mesh, {{sum, sum}}, {{r, r}}) == "all-reduce R,R; ");
  CHECK(Path(shape, mesh, {{s0, s0}}, {{r, r}}) == "all-gather R,R; ");
  // The idle axis helps.
  CHECK(Path({{64}}, MeshOf({4, 2}), {{sum, r}}, {{r, r}}) ==
        "slice P(sum),S(0); all-reduce R,S(0); all-gather R,R; ");
  // The outer axis cannot be gathered under the inner one, so both are.
  CHECK(Path({{8}}, mesh, {{s0, s0}}, {{r, s0}}) == "all-gather R,R; slice R,S(0); ");
}

TEST_CASE("Accumulation before the reduce: once, not once a micro-batch") {
  const Mesh mesh = MeshOf({2}, 4);
  const P r = P::Replicated(), s0 = P::Split(0, 0), sum = P::Partial(Combiner::kSum);
  CHECK(Path({{8}}, mesh, {{sum, sum}}, {{r, r}}) == "accumulate P(sum),R; all-reduce R,R; ");
  CHECK(Path({{8}}, mesh, {{sum, sum}}, {{s0, r}}) ==
        "accumulate P(sum),R; reduce-scatter S(0),R; ");
  CHECK(Path({{8}}, mesh, {{s0, r}}, {{s0, s0}}) == "unstack S(0),S(0); ");
  CHECK(Path({{8}}, mesh, {{s0, s0}}, {{s0, r}}) == "stack S(0),R; ");
}

TEST_CASE("A partial value that is wanted is made last, on the axes that lack it") {
  const Mesh mesh = MeshOf({2, 2}, 3);
  const P r = P::Replicated(), s0 = P::Split(0, 0), sum = P::Partial(Combiner::kSum),
          max = P::Partial(Combiner::kMax);
  CHECK(Path({{12}}, mesh, {{r, r, r}}, {{sum, r, r}}) == "keep-first P(sum),R,R; ");
  CHECK(Path({{12}}, mesh, {{r, r, r}}, {{sum, sum, r}}) == "keep-first P(sum),P(sum),R; ");
  CHECK(Path({{12}}, mesh, {{r, sum, r}}, {{sum, sum, r}}) == "keep-first P(sum),P(sum),R; ");
  CHECK(Path({{12}}, mesh, {{s0, r, r}}, {{sum, r, r}}) ==
        "all-gather R,R,R; keep-first P(sum),R,R; ");
  CHECK(Path({{12}}, mesh, {{sum, r, r}}, {{max, r, r}}) ==
        "all-reduce R,R,R; keep-first P(max),R,R; ");
  CHECK(Path({{12}}, mesh, {{r, r, s0}}, {{sum, r, s0}}) == "keep-first P(sum),R,S(0); ");
}

TEST_CASE("What no step can do is an error with a remedy") {
  const Mesh mesh = MeshOf({2}, 2);
  const P r = P::Replicated(), s0 = P::Split(0, 0), s1 = P::Split(1, 0), f1 = P::Split(0, 1),
          sum = P::Partial(Combiner::kSum);
  CHECK_THAT(Path({{8}}, mesh, {{r, r}}, {{r, sum}}), Catch::Contains("over the micro-batches"));
  CHECK_THAT(Path({{8}}, mesh, {{s0, r}}, {{sum, sum}}), Catch::Contains("over the micro-batches"));
  CHECK_THAT(Path({{8}}, mesh, {{s0, r}}, {{P::Split(1, 0), r}}), Catch::Contains("rank 1"));
  // Gathering the batch inside the loop: not where the micro-batches are nested in the same factor,
  CHECK_THAT(Path({{8}, {8}}, mesh, {{s0, s0}}, {{s1, s0}}),
             Catch::Contains("a factor of their own"));
  CHECK_THAT(Path({{8}, {8}}, mesh, {{r, s0}}, {{r, s1}}), Catch::Contains("error"));
  // but with a factor of their own.
  CHECK(Path({{2, 4}, {8}}, mesh, {{f1, s0}}, {{s1, s0}}) == "all-to-all S(1),S(0); ");
}

TEST_CASE("Blocks contiguous on both sides are one extent") {
  const Mesh mesh = MeshOf({2});
  const ReshardStep outer = {StepKind::kAllGather, {0}, {{P::Split(0, 0)}}, {{P::Replicated()}}};
  const std::vector<BlockCopy> whole = StepCopies({{4}, {3, 2}}, mesh, outer, {0});
  REQUIRE(whole.size() == 2);
  CHECK(whole[1] == BlockCopy{1, 0, 12, {12}, {1}, {1}});
  const ReshardStep inner = {StepKind::kAllGather, {0}, {{P::Split(1, 0)}}, {{P::Replicated()}}};
  CHECK(StepCopies({{4}, {6}}, mesh, inner, {0})[1] == BlockCopy{1, 0, 3, {4, 3}, {3, 1}, {6, 1}});
}

TEST_CASE("A resharder answers as the search does, errors too") {
  const Mesh mesh = MeshOf({2}, 2);
  const P r = P::Replicated();
  Resharder resharder(mesh, BytesStepCost(mesh));
  for (int twice = 0; twice < 2; ++twice) {
    const auto steps = resharder.Cheapest({{8}}, {{P::Split(0, 0), r}}, {{r, r}}, 4);
    REQUIRE(steps.ok());
    CHECK(steps->size() == 1);
    CHECK_FALSE(resharder.Cheapest({{8}}, {{r, r}}, {{r, P::Partial(Combiner::kSum)}}, 4).ok());
  }
}

}  // namespace
}  // namespace tandem
