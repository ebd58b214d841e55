#include <catch2/catch.hpp>
#include <random>
#include <vector>

#include "pcg/autodiff/training.h"
#include "pcg/program/lower.h"
#include "pcg/program/lowering_fixture.h"

namespace tandem {
namespace {

// Random rows for every node, random stored layouts, random relays.
Strategy AnyStrategy(const Graph& graph, const Mesh& mesh, std::mt19937& rng) {
  const auto pick = [&](size_t n) { return static_cast<int>(rng() % n); };
  Strategy strategy = ReplicatedStrategy(graph, mesh);
  for (size_t n = 0; n < graph.nodes.size(); ++n) {
    const OpInstance instance = *InstanceOf(graph, NodeId(static_cast<int64_t>(n)));
    const std::vector<SplitRow> table = FactorTable(instance);
    for (int& row : strategy.nodes[n].rows) {
      row = pick(table.size());
      const auto layouts = LayoutsOf(instance, table, strategy.nodes[n], mesh);
      // Partial inputs must have been left by the producer; keep those for a test of their own.
      if (!layouts.ok() || table[static_cast<size_t>(row)].size < 0) row = 0;
    }
  }
  const auto any = [&](const FactoredShape& shape) {
    Layout layout = Layout::Replicated(mesh);
    for (size_t a = 0; a < mesh.axes.size() && !shape.empty(); ++a) {
      const int d = pick(shape.size());
      layout.axes[a] = AxisPlacement::Split(d, pick(shape[static_cast<size_t>(d)].size()));
      if (mesh.axes[a].temporal || pick(2) == 0 || !CheckLayout(shape, layout, mesh).ok()) {
        layout.axes[a] = AxisPlacement::Replicated();
      }
    }
    return layout;
  };
  for (size_t t = 0; t < graph.tensors.size(); ++t) {
    const FactoredShape& shape = graph.tensors[t].shape;
    if (!graph.tensors[t].producer.valid()) strategy.sources[t] = any(shape);
    if (pick(4) != 0) continue;  // at most one relay a tensor
    strategy.relays.push_back({TensorId(static_cast<int64_t>(t)),
                               pick(2) == 0 ? Phase::kForward : Phase::kBackward, any(shape),
                               pick(2) == 0});
  }
  return strategy;
}

// Lowers and runs under random strategies; returns how many could be lowered.
int RunRandom(Graph graph, unsigned seed, int rounds) {
  REQUIRE(PropagateFactors(graph).ok());
  std::mt19937 rng(seed);
  int lowered = 0;
  for (int round = 0; round < rounds; ++round) {
    const Mesh mesh = MeshOf(rng() % 2 == 0 ? std::vector<int64_t>{2} : std::vector<int64_t>{2, 2},
                             rng() % 2 == 0 ? 0 : 2);
    const Strategy strategy = AnyStrategy(graph, mesh, rng);
    const auto program = Lower(graph, strategy, BytesStepCost(mesh));
    if (!program.ok()) {
      CAPTURE(program.status());
      REQUIRE(mesh.TemporalAxis() >= 0);  // the loop is the only reason
      continue;
    }
    ++lowered;
    CAPTURE(round, Steps(*program));
    CheckRuns(graph, *program, seed + static_cast<unsigned>(round));
  }
  return lowered;
}

TEST_CASE("Any strategy of a training step computes the serial graph") {
  const MlpStep mlp;
  CHECK(RunRandom(mlp.graph, 17, 150) > 60);
}

TEST_CASE("Any strategy of a transformer's operators computes the serial graph") {
  TestGraph b;
  const TensorId ids = b.Input("ids", {{4}, {4}}, DType::kI64);
  const TensorId labels = b.Input("labels", {{4}, {4}}, DType::kI64);
  const TensorId table = b.Weight("table", {{4}, {4, 2}});
  const TensorId x = b.Node("x", "embedding", {ids, table});
  const TensorId n =
      b.Node("n", "layer_norm", {x, b.Weight("gamma", {{4, 2}}), b.Weight("beta", {{4, 2}})});
  const TensorId q = b.Node("q", "matmul", {n, b.Weight("wq", {{8}, {8}})});
  const TensorId s =
      b.Node("s", "softmax", {q}, Phase::kForward, {{"rank_c", AttrValue(int64_t{0})}});
  const TensorId d = b.Node("d", "dropout", {s}, Phase::kForward,
                            {{"ratio", AttrValue(0.25)}, {"seed", AttrValue(int64_t{9})}});
  const TensorId r = b.Node("r", "add", {d, x});
  const TensorId m = b.Node(
      "m", "causal_mask", {}, Phase::kForward,
      {{"rows", AttrValue(int64_t{4})}, {"cols", AttrValue(int64_t{8})}, {"low", AttrValue(-1.0)}});
  const TensorId e = b.Node("e", "add", {r, m});
  b.graph.loss = b.Node("loss", "cross_entropy",
                        {b.Node("logits", "matmul", {e, b.Weight("wo", {{8}, {4}})}), labels});
  b.graph.outputs = {e, s};
  CHECK(RunRandom(b.graph, 23, 120) > 50);
}

TEST_CASE("Any strategy of a derived training graph computes the serial graph") {
  TestGraph b;
  const TensorId ids = b.Input("ids", {{4}, {2}}, DType::kI64);
  const TensorId x = b.Node("x", "embedding", {ids, b.Weight("table", {{4}, {4}})});
  const TensorId n =
      b.Node("n", "layer_norm", {x, b.Weight("gamma", {{4}}), b.Weight("beta", {{4}})});
  const TensorId q = b.Node("q", "matmul", {n, b.Weight("wq", {{4}, {4}})});
  const TensorId k = b.Node("k", "matmul", {n, b.Weight("wk", {{4}, {4}})});
  const TensorId a =
      b.Node("a", "causal_attention", {q, k, n}, Phase::kForward, {{"scale", AttrValue(0.5)}});
  const TensorId r = b.Node("r", "add", {a, x});
  b.graph.outputs = {b.Node("logits", "matmul", {r, b.Weight("wo", {{4}, {4}})})};
  b.graph.batch = 4;
  TrainingOptions options;
  options.optimizer = "adamw";
  absl::StatusOr<Graph> training = MakeTrainingGraph(b.graph, options);
  INFO(training.status());
  REQUIRE(training.ok());
  CHECK(RunRandom(*training, 41, 60) > 20);
}

TEST_CASE("Any strategy of convolutions, pooling and movement computes the serial graph") {
  TestGraph b;
  const TensorId x = b.Input("x", {{4}, {4}, {6}, {6}});
  const TensorId f = b.Weight("f", {{4}, {4}, {3}, {3}});
  const TensorId c = b.Node("c", "conv2d", {x, f}, Phase::kForward,
                            {{"pad_top", AttrValue(int64_t{1})},
                             {"pad_left", AttrValue(int64_t{1})},
                             {"pad_bottom", AttrValue(int64_t{1})},
                             {"pad_right", AttrValue(int64_t{1})},
                             {"absent", AttrValue(std::vector<int64_t>{2})}});
  const TensorId mean = b.Node("mean", "batch_mean", {c});
  const TensorId p = b.Node("p", "max_pool2d", {c}, Phase::kForward,
                            {{"kernel_h", AttrValue(int64_t{2})},
                             {"kernel_w", AttrValue(int64_t{2})},
                             {"stride_h", AttrValue(int64_t{2})},
                             {"stride_w", AttrValue(int64_t{2})}});
  const TensorId t = b.Node("t", "transpose", {p}, Phase::kForward,
                            {{"perm", AttrValue(std::vector<int64_t>{0, 2, 3, 1})}});
  const TensorId u = b.Node("u", "reshape", {t}, Phase::kForward,
                            {{"shape", AttrValue(std::vector<int64_t>{4, 36})}});
  b.graph.outputs = {
      mean, u,
      b.Node("v", "reduce_max", {u}, Phase::kForward,
             {{"rank_a", AttrValue(int64_t{1})}, {"rank_r", AttrValue(int64_t{1})}})};
  CHECK(RunRandom(b.graph, 31, 60) > 25);
}

}  // namespace
}  // namespace tandem
