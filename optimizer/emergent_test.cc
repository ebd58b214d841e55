// Named parallel strategies are points of the search space, not code: here they appear in plans for
// plain models on preset machines, seen in the Program's collectives and placements.

#include <algorithm>
#include <catch2/catch.hpp>
#include <iostream>
#include <set>

#include "optimizer/optimize.h"
#include "optimizer/test_graphs.h"

namespace tandem {
namespace {

OptimizeResult PlanOrFail(const Graph& g, const std::string& machine, int64_t devices,
                          OptimizeOptions options = {}) {
  const auto m = LoadMachine(machine, {.nodes = std::nullopt, .devices = devices});
  if (!m.ok()) FAIL(m.status().message());
  options.training.precision = DType::kBF16;
  options.max_axes = 1;
  const auto r = Optimize(g, TrustingRules(), *m, options);
  if (!r.ok()) FAIL(r.status().message());
  for (const std::string& line : r->strategy_lines) std::cerr << line << "\n";
  return *r;
}

// The row that the node takes on axis 0, by its reason.
std::string RowOf(const OptimizeResult& r, NodeId id) {
  const auto instance = InstanceOf(r.best.pcg, id);
  if (!instance.ok()) FAIL(instance.status().message());
  return FactorTable(*instance)[static_cast<size_t>(r.best.strategy.nodes[id.index()].rows[0])]
      .reason;
}

std::vector<std::string> ForwardRows(const OptimizeResult& r, const std::string& op) {
  std::vector<std::string> rows;
  for (size_t n = 0; n < r.best.pcg.nodes.size(); ++n) {
    const Node& node = r.best.pcg.nodes[n];
    if (node.op == op && node.phase == Phase::kForward) {
      rows.push_back(RowOf(r, NodeId(static_cast<int64_t>(n))));
    }
  }
  return rows;
}

// Values that collectives of this kind carry, of tensors made in this phase.
int CollectivesOn(const OptimizeResult& r, StepKind kind, Phase phase) {
  int count = 0;
  for (const Instruction& i : r.best.program.instructions) {
    if (i.kind != InstructionKind::kCollective || i.step != kind) continue;
    for (BufferId output : i.outputs) {
      const NodeId producer = r.best.pcg.tensor(r.best.program.buffer(output).tensor).producer;
      count += producer.valid() && r.best.pcg.node(producer).phase == phase;
    }
  }
  return count;
}

TEST_CASE("column then row parallel layers, where weights are large and the batch is small") {
  const Graph g = MlpGraph(2048, 4096, 16384, 4096, 4, /*bias=*/false);
  const OptimizeResult r = PlanOrFail(g, "dgx-a100", 8);
  CHECK(ForwardRows(r, "matmul") ==
        std::vector<std::string>{"split n", "split k", "split n", "split k"});
  CHECK(CollectivesOn(r, StepKind::kReduceScatter, Phase::kForward) +
            CollectivesOn(r, StepKind::kAllReduce, Phase::kForward) >=
        2);
}

TEST_CASE("with biases as well: the bias of a row-parallel layer is kept by one device") {
  const Graph g = MlpGraph(2048, 4096, 16384, 4096, 4, /*bias=*/true);
  const OptimizeResult r = PlanOrFail(g, "dgx-a100", 8);
  CHECK(ForwardRows(r, "linear") == std::vector<std::string>{"split n", "split k, partial bias",
                                                             "split n", "split k, partial bias"});
  const auto& code = r.best.program.instructions;
  CHECK(std::count_if(code.begin(), code.end(), [](const Instruction& i) {
          return i.kind == InstructionKind::kLocal && i.step == StepKind::kKeepFirst;
        }) == 2);
}

TEST_CASE("a loss over many classes is taken in pieces, without gathering the logits") {
  const Graph g = MlpGraph(2048, 4096, 16384, 131072, 2, /*bias=*/false);
  const OptimizeResult r = PlanOrFail(g, "dgx-a100", 8);
  CHECK(ForwardRows(r, "row_max") == std::vector<std::string>{"split v"});
  CHECK(ForwardRows(r, "cross_entropy_sums") == std::vector<std::string>{"split v"});
  const auto maximum = [](const Instruction& i) {
    return i.kind == InstructionKind::kCollective && i.step == StepKind::kAllReduce &&
           i.combiner == Combiner::kMax;
  };
  const auto& code = r.best.program.instructions;
  CHECK(std::any_of(code.begin(), code.end(), maximum));
  for (const Instruction& i : code) {
    if (i.kind != InstructionKind::kCollective) continue;
    for (BufferId b : i.outputs) {
      const Tensor& t = r.best.pcg.tensor(r.best.program.buffer(b).tensor);
      CHECK_FALSE(
          (t.shape.size() == 2 && t.shape[0] == Factors{2048} && t.shape[1] == Factors{131072}));
    }
  }
}

TEST_CASE("sequence-parallel norms between a reduce-scatter and an all-gather") {
  const Graph g = TransformerGraph(1, 8192, 32, 128, 1024, 2, /*bias=*/false);
  OptimizeOptions options;
  options.memory_limit_bytes =
      PlanOrFail(g, "dgx-a100", 8).best.timeline.memory.peak_bytes * 9 / 10;
  const OptimizeResult r = PlanOrFail(g, "dgx-a100", 8, options);
  const std::vector<std::string> norms = ForwardRows(r, "layer_norm");
  CHECK(std::count(norms.begin(), norms.end(), "split b.1") >= 1);
  CHECK(CollectivesOn(r, StepKind::kReduceScatter, Phase::kForward) >= 1);
  CHECK(CollectivesOn(r, StepKind::kAllGather, Phase::kForward) >= 1);
}

TEST_CASE("optimizer state sharded over data-parallel devices") {
  const Graph g = TransformerGraph(64, 2048, 32, 128, 1024, 2, /*bias=*/false);
  const OptimizeResult r = PlanOrFail(g, "dgx-a100", 8);
  for (const std::string& row : ForwardRows(r, "matmul")) {
    CHECK((row == "split b.0"));
  }
  int split = 0, moments = 0;
  for (const StateUpdate& u : r.best.pcg.updates) {
    const Tensor& t = r.best.pcg.tensor(u.state);
    if (t.role != TensorRole::kState || ElementCount(t.shape) < 5'000'000) continue;
    ++moments;
    split += r.best.strategy.sources[u.state.index()].axes[0].kind == AxisPlacement::Kind::kSplit;
  }
  REQUIRE(moments > 0);
  CHECK(split == moments);
  // Each of those weights' gradients is scattered, each weight gathered.
  CHECK(CollectivesOn(r, StepKind::kReduceScatter, Phase::kBackward) >= moments / 2);
  CHECK(CollectivesOn(r, StepKind::kAllGather, Phase::kForward) >= moments / 4);
  CHECK(std::any_of(r.strategy_lines.begin(), r.strategy_lines.end(), [](const std::string& line) {
    return line.find("collectives: ") == 0 && line.find("reduce-scatter") != std::string::npos &&
           line.find("values)") != std::string::npos;
  }));
}

}  // namespace
}  // namespace tandem
