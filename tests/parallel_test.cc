// Every kind of parallelism computes what the serial model computes: plans for 1, 2, 3, 4, 6 and 8
// ranks, as searched and with the kind fixed, executed on the CPU in float64 and compared with the
// reference interpreter on the serial training graph: losses, outputs and updated weights of three
// steps, |a - b| <= 1e-10 (1 + |b|).

#include <catch2/catch.hpp>

#include "models/zoo.h"
#include "optimizer/make_plan.h"
#include "optimizer/optimize.h"
#include "runtime/run.h"
#include "verifier/splits/split_proof.h"

namespace tandem {
namespace {

// The zoo's operators are whole already: no rewrite rules, and rows of factor tables as proved.
const ProvedRuleSet& Rules() {
  static auto* prover = new SplitProver();
  static const auto* rules =
      new ProvedRuleSet({}, [](const OpInstance& instance, const SplitRow& row) {
        return IsProved(prover->Prove(instance, row));
      });
  return *rules;
}

struct Case {
  std::string model;
  std::string optimizer;
  std::string force;
  int64_t ranks;
  int64_t micro_batches = 0;
};

absl::StatusOr<Plan> PlanOf(const Case& c) {
  absl::StatusOr<Graph> forward = ZooModel(c.model);
  if (!forward.ok()) return forward.status();
  absl::StatusOr<Machine> machine = LoadMachine("cpu", {.nodes = std::nullopt, .devices = c.ranks});
  if (!machine.ok()) return machine.status();
  OptimizeOptions options;
  options.training.optimizer = c.optimizer;
  options.training.precision = DType::kF64;
  options.training.lr = 0.05;
  options.force = c.force;
  options.micro_batches = c.micro_batches;
  options.baselines = false;
  absl::StatusOr<OptimizeResult> r = Optimize(*forward, Rules(), *machine, options);
  if (!r.ok()) return r.status();
  return MakePlan(c.model, "", *forward, options, *r);
}

void RunAndCompare(const Case& c) {
  INFO(c.model << ", " << c.optimizer << ", " << c.force << ", " << c.ranks << " ranks, "
               << c.micro_batches << " micro-batches");
  const absl::StatusOr<Plan> plan = PlanOf(c);
  if (!plan.ok()) FAIL(plan.status().message());
  RunOptions run;
  run.ranks = c.ranks;
  run.steps = 3;
  run.dtype = DType::kF64;
  run.check = true;
  const absl::StatusOr<RunResult> result = RunPlan(*plan, run);
  if (!result.ok()) FAIL(result.status().message());
  INFO("worst: " << result->worst);
  CHECK(result->losses.size() == 3);
  CHECK(result->equal);
}

void AllRanks(const std::string& model, const std::string& optimizer) {
  for (int64_t ranks : {1, 2, 3, 4, 6, 8}) {
    for (const char* force : {"none", "data", "fsdp", "tensor", "sequence", "mixed"}) {
      if (ranks == 1 && std::string(force) != "none") continue;
      RunAndCompare({model, optimizer, force, ranks});
    }
  }
}

TEST_CASE("MLP, SGD") { AllRanks("mlp-tiny", "sgd"); }
TEST_CASE("MLP, Adam") { AllRanks("mlp-tiny", "adam"); }
TEST_CASE("ResNet, SGD") { AllRanks("resnet-tiny", "sgd"); }
TEST_CASE("ResNet, Adam") { AllRanks("resnet-tiny", "adam"); }
TEST_CASE("BERT, SGD") { AllRanks("bert-tiny", "sgd"); }
TEST_CASE("BERT, Adam") { AllRanks("bert-tiny", "adam"); }

TEST_CASE("gradient accumulation over micro-batches") {
  for (const char* model : {"mlp-tiny", "bert-tiny"}) {
    RunAndCompare({model, "adam", "none", 2, 3});
    RunAndCompare({model, "adam", "data", 4, 2});
  }
}

TEST_CASE("batch statistics cannot be accumulated over micro-batches, and that is said") {
  const absl::StatusOr<Plan> plan = PlanOf({"resnet-tiny", "sgd", "none", 2, 2});
  REQUIRE_FALSE(plan.ok());
  CHECK_THAT(std::string(plan.status().message()), Catch::Contains("bn1"));
}

TEST_CASE("a batch that does not divide is said, with the nearest that do") {
  const absl::StatusOr<Plan> plan = PlanOf({"mlp-tiny", "sgd", "data", 5});
  REQUIRE_FALSE(plan.ok());
  CHECK_THAT(std::string(plan.status().message()), Catch::Contains("20 and 25"));
}

TEST_CASE("a stale weight is noticed by the comparison with the serial model") {
  absl::StatusOr<Plan> plan = PlanOf({"mlp-tiny", "sgd", "data", 2});
  if (!plan.ok()) FAIL(plan.status().message());
  for (Instruction& i : plan->programs[0].instructions) {
    if (i.kind != InstructionKind::kStoreState) continue;
    i.inputs[0] = i.outputs[0];  // stores the old value
    break;
  }
  RunOptions run;
  run.steps = 3;
  run.dtype = DType::kF64;
  run.check = true;
  const absl::StatusOr<RunResult> result = RunPlan(*plan, run);
  CHECK((!result.ok() || !result->equal));
}

}  // namespace
}  // namespace tandem
