#include "optimizer/optimize.h"

#include <atomic>
#include <catch2/catch.hpp>
#include <iostream>
#include <set>

#include "optimizer/test_graphs.h"

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

}  // namespace
}  // namespace tandem
