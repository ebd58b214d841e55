#include "optimizer/optimize.h"

#include <algorithm>
#include <atomic>
#include <catch2/catch.hpp>
#include <iostream>
#include <set>

#include "optimizer/batch_axis.h"
#include "optimizer/blocks.h"
#include "optimizer/recompute.h"
#include "optimizer/test_graphs.h"
#include "pcg/autodiff/training.h"
#include "pcg/graph/graph_builder.h"

namespace tandem {
namespace {

Machine LoadOrFail(const std::string& name, int64_t devices) {
  const auto m = LoadMachine(name, {.nodes = std::nullopt, .devices = devices});
  if (!m.ok()) FAIL(m.status().message());
  return *m;
}

OptimizeResult OptimizeOrFail(const Graph& g, const Machine& machine, OptimizeOptions options) {
  const auto r = Optimize(g, TrustingRules(), machine, options);
  if (!r.ok()) FAIL(r.status().message());
  return *r;
}

std::set<StepKind> Collectives(const Program& p) {
  std::set<StepKind> kinds;
  for (const Instruction& i : p.instructions) {
    if (i.kind == InstructionKind::kCollective) kinds.insert(i.step);
  }
  return kinds;
}

TEST_CASE("an MLP on two devices: never slower than the baselines, twice the same") {
  const Graph g = MlpGraph(64, 256, 512, 16, 3);
  const Machine machine = LoadOrFail("dgx-a100", 2);
  OptimizeOptions options;
  options.training.precision = DType::kBF16;
  const OptimizeResult a = OptimizeOrFail(g, machine, options);
  CHECK(a.best.fits);
  CHECK(a.gap >= 0);
  REQUIRE(a.baselines.size() == 3);
  for (const auto& [name, b] : a.baselines) {
    INFO(name << " " << b.reason);
    CHECK(b.applicable);
    if (b.fits) CHECK(a.best.timeline.step_seconds <= b.step_seconds);
  }
  const OptimizeResult b = OptimizeOrFail(g, machine, options);
  CHECK(a.best.program == b.best.program);
  CHECK(a.best.strategy == b.best.strategy);
}

TEST_CASE("where a baseline is the fastest, the bound is still one of all that was searched") {
  const Graph g = MlpGraph(512, 784, 4096, 10, 3);
  OptimizeOptions options;
  const OptimizeResult with = OptimizeOrFail(g, LoadOrFail("cpu", 4), options);
  REQUIRE(with.best.name == "best_uniform");
  options.baselines = false;
  const OptimizeResult without = OptimizeOrFail(g, LoadOrFail("cpu", 4), options);
  CHECK(with.best.bound_seconds <= without.best.bound_seconds);
}

TEST_CASE("forced data parallelism reduces gradients and splits nothing else") {
  const Graph g = MlpGraph(64, 256, 512, 16, 3);
  OptimizeOptions options;
  options.force = "data";
  options.baselines = false;
  const OptimizeResult r = OptimizeOrFail(g, LoadOrFail("dgx-a100", 4), options);
  CHECK(Collectives(r.best.program) == std::set<StepKind>{StepKind::kAllReduce});
}

TEST_CASE("a transformer block is planned on eight devices") {
  const Graph g = TransformerGraph(16, 128, 8, 64, 1000, 2);
  OptimizeOptions options;
  options.training.precision = DType::kBF16;
  options.progress = [](const std::string& line) { std::cerr << line << "\n"; };
  const OptimizeResult r = OptimizeOrFail(g, LoadOrFail("dgx-a100", 8), options);
  CHECK(r.best.fits);
  for (const auto& [name, b] : r.baselines) {
    INFO(name << " " << b.reason);
    CHECK(b.applicable);
    if (b.fits) CHECK(r.best.timeline.step_seconds <= b.step_seconds);
  }
}

TEST_CASE("a split without a proof is in no plan, and only what a plan uses is proved") {
  const Graph g = MlpGraph(4096, 1024, 4096, 16, 3);
  const Machine machine = LoadOrFail("dgx-a100", 2);
  OptimizeOptions options;
  std::set<std::pair<std::string, int>> asked;
  const ProvedRuleSet all({}, [&](const OpInstance& op, const SplitRow& row) {
    asked.emplace(op.op, row.size);
    return true;
  });
  const auto trusting = Optimize(g, all, machine, options);
  REQUIRE(trusting.ok());
  std::set<int> used;
  for (const NodeStrategy& node : trusting->best.strategy.nodes) {
    used.insert(node.rows.begin(), node.rows.end());
  }
  REQUIRE(*used.rbegin() > 0);
  std::set<std::pair<std::string, int>> there;
  for (size_t n = 0; n < trusting->best.pcg.nodes.size(); ++n) {
    const auto op = InstanceOf(trusting->best.pcg, NodeId(static_cast<int64_t>(n)));
    REQUIRE(op.ok());
    for (const SplitRow& row : FactorTable(*op)) there.emplace(op->op, row.size);
  }
  CHECK(!asked.empty());
  CHECK(asked.size() < there.size());
  const ProvedRuleSet nothing({}, [](const OpInstance&, const SplitRow&) { return false; });
  options.baselines = false;
  const auto none = Optimize(g, nothing, machine, options);
  REQUIRE(none.ok());
  for (const NodeStrategy& node : none->best.strategy.nodes) {
    for (int row : node.rows) CHECK(row == 0);
  }
  CHECK(none->best.timeline.step_seconds >= trusting->best.timeline.step_seconds);
  CHECK(none->best.bound_seconds <= none->best.objective_seconds);
}

TEST_CASE("the bound is below the cost of every plan, of more memory too") {
  const Graph g = MlpGraph(64, 256, 512, 16, 3);
  const Machine machine = LoadOrFail("dgx-a100", 4);
  OptimizeOptions options;
  options.baselines = false;
  options.mesh = {4};
  const OptimizeResult free = OptimizeOrFail(g, machine, options);
  for (const char* force : {"data", "fsdp", "tensor"}) {
    options.force = force;
    const OptimizeResult forced = OptimizeOrFail(g, machine, options);
    INFO(force);
    CHECK(free.best.bound_seconds <= forced.best.objective_seconds);
    CHECK(forced.best.bound_seconds >= free.best.bound_seconds - 1e-6);
  }
}

TEST_CASE("what cannot be planned is said") {
  const Graph g = MlpGraph(64, 256, 512, 16, 3);
  const Machine machine = LoadOrFail("dgx-a100", 2);
  OptimizeOptions options;
  options.memory_limit_bytes = 100000;
  const auto small = Optimize(g, TrustingRules(), machine, options);
  REQUIRE_FALSE(small.ok());
  CHECK(small.status().code() == absl::StatusCode::kResourceExhausted);
  CHECK_THAT(std::string(small.status().message()),
             Catch::Contains("short by") && Catch::Contains("What helps"));
  options.memory_limit_bytes = 0;
  options.force = "magic";
  const auto magic = Optimize(g, TrustingRules(), machine, options);
  REQUIRE_FALSE(magic.ok());
  CHECK_THAT(std::string(magic.status().message()), Catch::Contains("magic"));
  options.force = "data";
  const auto odd = Optimize(MlpGraph(63, 256, 512, 16, 3), TrustingRules(), machine, options);
  REQUIRE_FALSE(odd.ok());
  CHECK_THAT(std::string(odd.status().message()), Catch::Contains("62 and 64"));
  options.force = "none";
  options.baselines = false;
  const auto noted = OptimizeOrFail(MlpGraph(63, 256, 512, 16, 3), machine, options);
  REQUIRE_FALSE(noted.notes.empty());
  CHECK(noted.notes.back() ==
        "batch 63 does not divide over 2 devices; the nearest that do: 62 and 64");
}

TEST_CASE("an interrupted search says so, and gives the plan that it has") {
  const Graph g = MlpGraph(64, 256, 512, 16, 3);
  const Machine machine = LoadOrFail("dgx-a100", 8);
  std::atomic<bool> cancel{true};
  OptimizeOptions options;
  options.cancel = &cancel;
  const auto none = Optimize(g, TrustingRules(), machine, options);
  REQUIRE_FALSE(none.ok());
  CHECK(absl::IsCancelled(none.status()));
  CHECK_THAT(std::string(none.status().message()), Catch::Contains("before a plan"));
  cancel = false;
  options.progress = [&](const std::string& line) {
    if (line.rfind("mesh ", 0) == 0) cancel = true;  // after the first plan
  };
  const OptimizeResult some = OptimizeOrFail(g, machine, options);
  CHECK(some.best.fits);
  for (const auto& [name, b] : some.baselines) CHECK(b.reason == "the search was interrupted");
}

// A small memory: first the outputs go, then the step is cut up.
TEST_CASE("outputs are kept where there is memory for them, and only there") {
  const Graph g = MlpGraph(4096, 256, 256, 16384, 2);
  const auto machine = LoadMachine("dgx-a100", {.nodes = std::nullopt, .devices = 2});
  REQUIRE(machine.ok());
  OptimizeOptions options;
  options.baselines = false;
  const auto plenty = Optimize(g, TrustingRules(), *machine, options);
  REQUIRE(plenty.ok());
  CHECK(plenty->best.outputs);
  CHECK(plenty->best.pcg.outputs.size() == 1);
  options.memory_limit_bytes = plenty->best.timeline.memory.peak_bytes * 45 / 100;
  const auto tight = Optimize(g, TrustingRules(), *machine, options);
  if (!tight.ok()) FAIL(tight.status().message());
  CHECK_FALSE(tight->best.outputs);
  CHECK(tight->best.pcg.outputs.empty());
  CHECK(tight->best.pcg.loss.has_value());
  CHECK(tight->best.timeline.memory.peak_bytes <= options.memory_limit_bytes);
  CHECK(std::any_of(tight->notes.begin(), tight->notes.end(), [](const std::string& note) {
    return note.find("--outputs keep") != std::string::npos;
  }));
  // Asked for, they stay, and nothing that fits is as fast.
  options.may_drop_outputs = false;
  const auto kept = Optimize(g, TrustingRules(), *machine, options);
  CHECK((!kept.ok() || kept->best.outputs));
  CHECK((!kept.ok() || kept->best.timeline.step_seconds >= tight->best.timeline.step_seconds));
}

// On 4 x 2 two micro-batches of 4 examples are none, on 2 x 4 they need too much.
TEST_CASE("a mesh that cannot be used does not hide that the others need more memory") {
  const Graph g = TransformerGraph(4, 16, 4, 32, 64, 2);
  OptimizeOptions options;
  options.baselines = false;
  options.force = "mixed";
  options.memory_limit_bytes = 1 << 10;
  bool recomputed = false;
  options.progress = [&](const std::string& line) {
    recomputed |= line.find("2 micro-batches") != std::string::npos &&
                  line.find(" blocks recomputed") != std::string::npos &&
                  line.find(" 0 of ") == std::string::npos;
  };
  const auto r = Optimize(g, TrustingRules(), LoadOrFail("dgx-a100", 8), options);
  REQUIRE_FALSE(r.ok());
  CHECK(r.status().code() == absl::StatusCode::kResourceExhausted);
  CHECK(recomputed);
}

TEST_CASE("without a loss the outputs are all there is, and no memory is too small for that") {
  const Graph g = MlpGraph(4096, 256, 256, 16384, 2);
  OptimizeOptions options;
  options.baselines = false;
  options.training.loss = "none";
  options.memory_limit_bytes = 1 << 20;  // less than the outputs alone
  const auto none = Optimize(g, TrustingRules(), LoadOrFail("dgx-a100", 2), options);
  REQUIRE_FALSE(none.ok());
  CHECK(none.status().code() == absl::StatusCode::kResourceExhausted);
  options.memory_limit_bytes = 0;
  const OptimizeResult plenty = OptimizeOrFail(g, LoadOrFail("dgx-a100", 2), options);
  CHECK(plenty.best.outputs);
  CHECK(plenty.best.pcg.outputs.size() == 1);
}

TEST_CASE("micro-batches of one example leave a data axis nothing to split, and say so") {
  const Graph g = MlpGraph(4, 64, 64, 8, 2);
  OptimizeOptions options;
  options.baselines = false;
  options.micro_batches = 4;
  for (const char* force : {"data", "fsdp", "none"}) {
    INFO(force);
    options.force = force;
    const OptimizeResult one = OptimizeOrFail(g, LoadOrFail("dgx-a100", 1), options);
    CHECK(one.best.micro_batches == 4);
  }
  options.force = "data";
  const auto two = Optimize(g, TrustingRules(), LoadOrFail("dgx-a100", 2), options);
  REQUIRE_FALSE(two.ok());
  CHECK(two.status().ToString().find("a micro-batch of 1 of input") != std::string::npos);
}

// The gradients of a batch's statistics are sums over the devices of few numbers, and reach every
// example: they are reduced before they are spread, not after.
TEST_CASE("data parallelism reduces the gradients of statistics, not of activations") {
  GraphBuilder m("norm", 64);
  const TensorId x = m.Input("x", {64, 32, 4});
  const TensorId h = m.Op("mul", {x, m.Parameter("scale", {32, 4})});
  const TensorId mean = m.Op("batch_mean", {h});
  const TensorId var = m.Op("batch_var", {h, mean});
  const TensorId y =
      m.Op("batch_norm", {h, m.Parameter("gamma", {32}), m.Parameter("beta", {32}), mean, var});
  const auto g = m.Finish({y});
  if (!g.ok()) FAIL(g.status().message());
  const auto machine = LoadMachine("dgx-a100", {.nodes = std::nullopt, .devices = 4});
  REQUIRE(machine.ok());
  OptimizeOptions options;
  options.force = "data";
  options.baselines = false;
  const auto r = Optimize(*g, TrustingRules(), *machine, options);
  if (!r.ok()) FAIL(r.status().message());
  int collectives = 0;
  for (const Instruction& code : r->best.program.instructions) {
    if (code.kind != InstructionKind::kCollective) continue;
    for (BufferId input : code.inputs) {
      const Tensor& t = r->best.pcg.tensor(r->best.program.buffer(input).tensor);
      CAPTURE(t.name);
      ++collectives;
      CHECK(ElementCount(t.shape) <= 32 * 4);
    }
  }
  CHECK(collectives > 2);
}

TEST_CASE("what cannot fit is told by its least need, without a search") {
  const Graph g = MlpGraph(64, 4096, 4096, 4096, 4);
  const auto machine = LoadMachine("dgx-a100", {.nodes = std::nullopt, .devices = 2});
  REQUIRE(machine.ok());
  OptimizeOptions options;
  options.memory_limit_bytes = 100 << 20;  // parameters, moments and gradients alone are more
  std::vector<std::string> lines;
  options.progress = [&](const std::string& line) { lines.push_back(line); };
  const auto r = Optimize(g, TrustingRules(), *machine, options);
  REQUIRE_FALSE(r.ok());
  CHECK(r.status().code() == absl::StatusCode::kResourceExhausted);
  CHECK(std::string(r.status().message()).find("short by") != std::string::npos);
  CHECK(std::any_of(lines.begin(), lines.end(), [](const std::string& line) {
    return line.find("every layout needs at least") != std::string::npos;
  }));
}

TEST_CASE("recomputation makes activations again, and working copies of weights if asked") {
  const Graph g = TransformerGraph(8, 16, 2, 8, 32, 2);
  TrainingOptions how;
  how.precision = DType::kBF16;
  Graph forward = g;
  AssignBlocks(forward);
  const auto training = MakeTrainingGraph(forward, how);
  REQUIRE(training.ok());
  const std::set<int> blocks = RecomputableBlocks(*training);
  REQUIRE(blocks.size() >= 2);
  for (const bool weights : {false, true}) {
    const auto again = WithRecompute(*training, blocks, weights);
    REQUIRE(again.ok());
    int activations = 0, copies = 0;
    for (const Node& node : again->nodes) {
      if (node.origin != "recompute") continue;
      (node.name.find("bf16") == std::string::npos ? activations : copies) += 1;
    }
    CHECK(activations > 10);
    CHECK((copies > 0) == weights);
  }
}

TEST_CASE("micro-batches are a factor of their own wherever the batch flows") {
  const Graph g = MlpGraph(24, 8, 8, 4, 2);
  TrainingOptions how;
  auto training = MakeTrainingGraph(g, how);
  REQUIRE(training.ok());
  REQUIRE(PropagateFactors(*training).ok());
  const auto cut = WithMicroBatches(*training, 4);
  REQUIRE(cut.ok());
  int batched = 0;
  for (size_t t = 0; t < cut->tensors.size(); ++t) {
    const FactoredShape& shape = cut->tensors[t].shape;
    CHECK(PlainShape(shape) == PlainShape(training->tensors[t].shape));
    if (shape.empty() || PlainShape(shape)[0] != 24) continue;
    CHECK(shape[0] == Factors{4, 6});
    ++batched;
  }
  CHECK(batched > 5);
  CHECK(ExampleFactor(cut->tensor(cut->inputs[0]), 4) == 1);
  CHECK(ExampleFactor(training->tensor(training->inputs[0]), 4) == 0);
  // What does not divide stays as it is, and is refused where it is split.
  CHECK(WithMicroBatches(*training, 5)->tensors == training->tensors);
}

}  // namespace
}  // namespace tandem
