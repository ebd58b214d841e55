// The verifier proves plans as they are, and finds planted errors, each at its instruction.

#include <algorithm>
#include <catch2/catch.hpp>
#include <functional>
#include <optional>

#include "models/zoo.h"
#include "optimizer/make_plan.h"
#include "optimizer/optimize.h"
#include "pcg/graph/graph_builder.h"
#include "pcg/layout/factor_table.h"
#include "pcg/program/lower.h"
#include "verifier/program/plan_proof.h"
#include "verifier/splits/split_proof.h"

namespace tandem {
namespace {

Plan MakeOrFail(const std::string& model, const std::string& force, int64_t ranks,
                std::vector<int64_t> mesh, int64_t micro_batches,
                const std::string& machine_name = "cpu") {
  static auto* prover = new SplitProver();
  const ProvedRuleSet rules({}, [](const OpInstance& instance, const SplitRow& row) {
    return IsProved(prover->Prove(instance, row));
  });
  const auto forward = ZooModel(model);
  if (!forward.ok()) FAIL(forward.status().message());
  const auto machine = LoadMachine(machine_name, {.nodes = std::nullopt, .devices = ranks});
  if (!machine.ok()) FAIL(machine.status().message());
  OptimizeOptions options;
  options.training.optimizer = "adam";
  options.force = force;
  options.mesh = std::move(mesh);
  options.micro_batches = micro_batches;
  options.baselines = false;
  const auto r = Optimize(*forward, rules, *machine, options);
  if (!r.ok()) FAIL(r.status().message());
  const auto plan = MakePlan(model, "", *forward, options, *r);
  if (!plan.ok()) FAIL(plan.status().message());
  return *plan;
}

const Plan& Mixed() {
  static const auto* plan = new Plan(MakeOrFail("bert-tiny", "mixed", 6, {3, 2}, 1));
  return *plan;
}
const Plan& Sharded() {
  static const auto* plan = new Plan(MakeOrFail("mlp", "fsdp", 4, {}, 1, "dgx-a100"));
  return *plan;
}
const Plan& Accumulating() {
  static const auto* plan = new Plan(MakeOrFail("mlp-tiny", "data", 2, {}, 3));
  return *plan;
}

using Predicate = std::function<bool(const Instruction&)>;

std::optional<int> FirstIndex(const Program& p, const Predicate& match) {
  for (size_t i = 0; i < p.instructions.size(); ++i) {
    if (match(p.instructions[i])) return static_cast<int>(i);
  }
  return std::nullopt;
}

// Plants an error at the first instruction that matches. `located`: the verifier must name that
// instruction, or for errors that show only where the value is used, some later one.
struct Fault {
  const char* name;
  const Plan& (*plan)();
  Predicate match;
  std::function<bool(Program&, int)> plant;  // false: not possible here
  bool exact = true;
};

bool IsStep(const Instruction& i, StepKind step) {
  return (i.kind == InstructionKind::kCollective || i.kind == InstructionKind::kLocal ||
          i.kind == InstructionKind::kLoop) &&
         i.step == step;
}

// Readers of a buffer from `from` on take another one.
void Redirect(Program& p, size_t from, BufferId old, BufferId fresh) {
  for (size_t i = from; i < p.instructions.size(); ++i) {
    for (BufferId& b : p.instructions[i].inputs) {
      if (b == old && p.instructions[i].kind != InstructionKind::kFree) b = fresh;
    }
  }
}

std::vector<Fault> Faults() {
  auto kernel = [](const char* op) {
    return [op](const Instruction& i) { return i.kind == InstructionKind::kKernel && i.op == op; };
  };
  auto step = [](StepKind kind) {
    return [kind](const Instruction& i) { return IsStep(i, kind); };
  };
  auto store = [](const Instruction& i) { return i.kind == InstructionKind::kStoreState; };
  std::vector<Fault> faults;
  for (StepKind kind : {StepKind::kAllReduce, StepKind::kAllGather}) {
    faults.push_back({"a collective is missing", Mixed, step(kind),
                      [](Program& p, int at) {
                        const Instruction gone = p.instructions[static_cast<size_t>(at)];
                        Redirect(p, static_cast<size_t>(at) + 1, gone.outputs[0], gone.inputs[0]);
                        p.instructions.erase(p.instructions.begin() + at);
                        return true;
                      },
                      false});
    faults.push_back(
        {"a collective is over the wrong group", Mixed,
         [kind](const Instruction& i) { return IsStep(i, kind) && i.axes.size() == 1; },
         [](Program& p, int at) {
           int& axis = p.instructions[static_cast<size_t>(at)].axes[0];
           axis = 1 - axis;
           return true;
         }});
  }
  faults.push_back({"all-reduce with the wrong operator", Mixed, step(StepKind::kAllReduce),
                    [](Program& p, int at) {
                      p.instructions[static_cast<size_t>(at)].combiner = Combiner::kMax;
                      return true;
                    }});
  faults.push_back({"reduce-scatter with the wrong operator", Sharded,
                    step(StepKind::kReduceScatter), [](Program& p, int at) {
                      p.instructions[static_cast<size_t>(at)].combiner = Combiner::kMin;
                      return true;
                    }});
  faults.push_back({"a reduce-scatter claimed to be an all-reduce", Sharded,
                    step(StepKind::kReduceScatter), [](Program& p, int at) {
                      p.instructions[static_cast<size_t>(at)].step = StepKind::kAllReduce;
                      return true;
                    }});
  faults.push_back({"an all-gather claimed to be an all-to-all", Mixed, step(StepKind::kAllGather),
                    [](Program& p, int at) {
                      p.instructions[static_cast<size_t>(at)].step = StepKind::kAllToAll;
                      return true;
                    }});
  faults.push_back(
      {"a wrong slice", Accumulating, step(StepKind::kUnstack), [](Program& p, int at) {
         p.instructions[static_cast<size_t>(at)].step = StepKind::kSlice;
         return true;
       }});
  faults.push_back({"a partial value is filled for another operator", Mixed,
                    step(StepKind::kKeepFirst), [](Program& p, int at) {
                      p.instructions[static_cast<size_t>(at)].combiner = Combiner::kMax;
                      return true;
                    }});
  faults.push_back({"every device keeps its share of a whole", Mixed, step(StepKind::kKeepFirst),
                    [](Program& p, int at) {
                      const Instruction gone = p.instructions[static_cast<size_t>(at)];
                      Redirect(p, static_cast<size_t>(at) + 1, gone.outputs[0], gone.inputs[0]);
                      p.instructions.erase(p.instructions.begin() + at);
                      return true;
                    },
                    false});
  faults.push_back({"swapped operands", Mixed, kernel("attention"), [](Program& p, int at) {
                      auto& in = p.instructions[static_cast<size_t>(at)].inputs;
                      std::swap(in[0], in[1]);
                      return true;
                    }});
  faults.push_back({"another attribute", Mixed, kernel("layer_norm"), [](Program& p, int at) {
                      p.instructions[static_cast<size_t>(at)].attributes["eps"] = 1e-3;
                      return true;
                    }});
  faults.push_back({"another operator", Mixed, kernel("gelu"), [](Program& p, int at) {
                      p.instructions[static_cast<size_t>(at)].op = "relu";
                      return true;
                    }});
  faults.push_back(
      {"a size is not split as claimed", Mixed, kernel("linear"), [](Program& p, int at) {
         bool any = false;
         for (auto& axes : p.instructions[static_cast<size_t>(at)].size_axes) {
           any |= !axes.empty();
           axes.clear();
         }
         return any;
       }});
  faults.push_back({"another size is split", Mixed, kernel("linear"), [](Program& p, int at) {
                      auto& sizes = p.instructions[static_cast<size_t>(at)].size_axes;
                      std::rotate(sizes.begin(), sizes.begin() + 1, sizes.end());
                      return true;
                    }});
  faults.push_back(
      {"another node of the same operator", Mixed, kernel("layer_norm"), [](Program& p, int at) {
         const NodeId mine = p.instructions[static_cast<size_t>(at)].node;
         for (const Instruction& i : p.instructions) {
           if (i.op == "layer_norm" && i.node != mine) {
             p.instructions[static_cast<size_t>(at)].node = i.node;
             return true;
           }
         }
         return false;
       }});
  faults.push_back({"a stale weight is stored", Sharded, store, [](Program& p, int at) {
                      auto& i = p.instructions[static_cast<size_t>(at)];
                      i.inputs[0] = i.outputs[0];
                      return true;
                    }});
  faults.push_back({"an update is stored twice", Sharded, store,
                    [](Program& p, int at) {
                      const Instruction copy = p.instructions[static_cast<size_t>(at)];
                      p.instructions.insert(p.instructions.begin() + at, copy);
                      return true;
                    },
                    false});
  faults.push_back({"an update is not stored", Sharded, store,
                    [](Program& p, int at) {
                      p.instructions.erase(p.instructions.begin() + at);
                      return true;
                    },
                    false});
  faults.push_back({"a read after the free", Sharded,
                    [](const Instruction& i) { return i.kind == InstructionKind::kFree; },
                    [](Program& p, int at) {
                      const Instruction free = p.instructions[static_cast<size_t>(at)];
                      int reader = -1;
                      for (int k = at - 1; k >= 0 && reader < 0; --k) {
                        for (BufferId b : p.instructions[static_cast<size_t>(k)].inputs) {
                          if (b == free.inputs[0]) reader = k;
                        }
                      }
                      if (reader < 0) return false;
                      p.instructions.erase(p.instructions.begin() + at);
                      p.instructions.insert(p.instructions.begin() + reader, free);
                      return true;
                    },
                    false});
  faults.push_back({"accumulation leaves the loop", Accumulating, step(StepKind::kAccumulate),
                    [](Program& p, int at) {
                      p.loop_end = at;
                      return true;
                    }});
  faults.push_back({"the loss is one device's part", Mixed,
                    [](const Instruction& i) { return i.kind == InstructionKind::kKernel; },
                    [](Program& p, int) {
                      for (size_t b = 0; b < p.buffers.size(); ++b) {
                        if (p.buffers[b].tensor == p.buffer(p.loss).tensor &&
                            p.buffers[b].layout.IsPartial()) {
                          p.loss = BufferId(static_cast<int64_t>(b));
                          return true;
                        }
                      }
                      return false;
                    },
                    false});
  const Predicate bundle = [](const Instruction& i) {
    return i.kind == InstructionKind::kCollective && i.outputs.size() > 1;
  };
  faults.push_back(
      {"two values of a bundle are exchanged", Sharded, bundle, [](Program& p, int at) {
         auto& out = p.instructions[static_cast<size_t>(at)].outputs;
         std::swap(out.front(), out.back());
         return true;
       }});
  faults.push_back(
      {"a bundle gives fewer values than it takes", Sharded, bundle, [](Program& p, int at) {
         p.instructions[static_cast<size_t>(at)].outputs.pop_back();
         return true;
       }});
  faults.push_back({"a value is left out of a bundle", Sharded, bundle,
                    [](Program& p, int at) {
                      p.instructions[static_cast<size_t>(at)].inputs.pop_back();
                      p.instructions[static_cast<size_t>(at)].outputs.pop_back();
                      return true;
                    },
                    false});
  faults.push_back({"a bundle is read before it is sent", Sharded, bundle,
                    [](Program& p, int at) {
                      const Instruction late = p.instructions[static_cast<size_t>(at)];
                      p.instructions.erase(p.instructions.begin() + at);
                      p.instructions.push_back(late);
                      return true;
                    },
                    false});
  faults.push_back({"a device is left out", Mixed, [](const Instruction&) { return true; },
                    [](Program& p, int) {
                      p.devices.pop_back();
                      return true;
                    },
                    false});
  return faults;
}

TEST_CASE("plans as they come are proved") {
  for (const Plan* plan : {&Mixed(), &Sharded(), &Accumulating()}) {
    const PlanVerdict v = VerifyPlan(*plan);
    for (const PlanFailure& f : v.failures) UNSCOPED_INFO(f.name << ": " << f.reason);
    CHECK(v.kind == PlanVerdict::Kind::kProved);
    CHECK(v.obligations > 100);
  }
}

TEST_CASE("planted errors are all caught, and located to the instruction") {
  int planted = 0;
  for (const Fault& fault : Faults()) {
    INFO(fault.name);
    Plan plan = fault.plan();
    Program& p = plan.programs[0];
    const std::optional<int> at = FirstIndex(p, fault.match);
    REQUIRE(at.has_value());
    REQUIRE(fault.plant(p, *at));
    ++planted;
    const PlanVerdict v = VerifyPlan(plan);
    CHECK(v.kind != PlanVerdict::Kind::kProved);
    REQUIRE_FALSE(v.failures.empty());
    if (fault.exact) {
      bool located = false;
      for (const PlanFailure& f : v.failures) located |= f.instruction == *at;
      CHECK(located);
    }
  }
  CHECK(planted >= 20);
}

TEST_CASE("a graph that is not the training graph of the model is refuted") {
  Plan plan = Sharded();
  plan.training.optimizer = "sgd";
  CHECK(VerifyPlan(plan).kind == PlanVerdict::Kind::kRefuted);
  Plan other = Sharded();
  for (Node& node : other.rewritten_forward.nodes) {
    if (node.op == "relu") node.op = "tanh";
  }
  CHECK(VerifyPlan(other).kind != PlanVerdict::Kind::kProved);
  Plan lossless = Sharded();
  lossless.rewritten_forward.loss.reset();
  CHECK(VerifyPlan(lossless).kind == PlanVerdict::Kind::kRefuted);
  Plan outputs = Sharded();
  outputs.training.outputs = !outputs.training.outputs;
  CHECK(VerifyPlan(outputs).kind == PlanVerdict::Kind::kRefuted);
  Plan none = Sharded();
  none.programs.clear();
  CHECK(VerifyPlan(none).kind != PlanVerdict::Kind::kProved);
}

// x * w + c: the product's sum and the constant c are shares of theirs, or the micro-batches'.
Plan ServesConstant(const Mesh& mesh, const std::string& product_row, const std::string& sum_row) {
  GraphBuilder b("constant", 4);
  const TensorId x = b.Input("x", {4, 8});
  const TensorId h = b.Named("h", "matmul", {x, b.Parameter("w", {8, 2})});
  Tensor c;
  c.name = "c";
  c.shape = {{4}, {2}};
  c.role = TensorRole::kConstant;
  c.values = {1, 2, 3, 4, 5, 6, 7, 8};
  const auto made = b.Finish({h});
  if (!made.ok()) FAIL(made.status().message());
  Plan plan;
  plan.forward = *made;
  Node sum;
  sum.name = "sum";
  sum.op = "add";
  sum.inputs = {h, plan.forward.AddSource(std::move(c))};
  const auto spec = BuiltinOperators().Get("add");
  if (!spec.ok() || !plan.forward.operators.Add(**spec).ok()) FAIL("no add");
  const auto id = plan.forward.AddNode(std::move(sum));
  if (!id.ok()) FAIL(id.status().message());
  plan.forward.outputs = {plan.forward.node(*id).outputs[0]};
  plan.training.loss = "none";
  plan.serial = plan.pcg = plan.rewritten_forward = plan.forward;
  plan.strategy = ReplicatedStrategy(plan.pcg, mesh);
  for (size_t n = 0; n < plan.pcg.nodes.size(); ++n) {
    const auto op = InstanceOf(plan.pcg, NodeId(static_cast<int64_t>(n)));
    if (!op.ok()) FAIL(op.status().message());
    const std::vector<SplitRow> table = FactorTable(*op);
    const std::string& wanted = n == 0 ? product_row : sum_row;
    const auto row = std::find_if(table.begin(), table.end(),
                                  [&](const SplitRow& r) { return r.reason == wanted; });
    INFO(wanted);
    REQUIRE(row != table.end());
    plan.strategy.nodes[n].rows = {static_cast<int>(row - table.begin())};
  }
  const auto program = Lower(plan.pcg, plan.strategy, BytesStepCost(mesh));
  if (!program.ok()) FAIL(program.status().message());
  plan.programs = {*program};
  return plan;
}

// The step that takes the constant to what its reader wants goes, and the constant claims to be
// that from the start.
void ClaimAtOnce(Plan& plan, StepKind kind) {
  Program& p = plan.programs[0];
  const std::optional<int> at = FirstIndex(p, [&](const Instruction& i) {
    return IsStep(i, kind) && i.name.find(" c") + 2 == i.name.size();
  });
  REQUIRE(at.has_value());
  const Instruction step = p.instructions[static_cast<size_t>(*at)];
  Buffer& c = p.buffers[step.inputs[0].index()];
  const Buffer& wanted = p.buffer(step.outputs[0]);
  c.layout = wanted.layout;
  c.local_shape = wanted.local_shape;
  p.instructions.erase(p.instructions.begin() + *at);
  p.loop_begin -= *at < p.loop_begin;
  p.loop_end -= *at < p.loop_end;
  Redirect(p, 0, step.outputs[0], step.inputs[0]);
  std::vector<Instruction> kept;
  for (Instruction& i : p.instructions) {
    auto& in = i.inputs;
    in.erase(std::remove(in.begin(), in.end(), step.outputs[0]), in.end());
    if (in.empty()) {
      const int index = static_cast<int>(kept.size());
      p.loop_begin -= index < p.loop_begin;
      p.loop_end -= index < p.loop_end;
    } else {
      kept.push_back(i);
    }
  }
  p.instructions = std::move(kept);
}

TEST_CASE("what comes from outside is whole, constants as well") {
  struct Case {
    MeshAxis axis;
    const char* product;
    const char* sum;
    StepKind step;
  };
  const std::vector<Case> cases = {
      {{"x0", 2, false}, "split k", "partial x,y", StepKind::kKeepFirst},
      {{"micro", 2, true}, "split m", "split d.0", StepKind::kUnstack},
  };
  for (const Case& c : cases) {
    Mesh mesh;
    mesh.axes = {c.axis};
    Plan plan = ServesConstant(mesh, c.product, c.sum);
    const PlanVerdict good = VerifyPlan(plan);
    for (const PlanFailure& f : good.failures) UNSCOPED_INFO(f.name << ": " << f.reason);
    CHECK(good.kind == PlanVerdict::Kind::kProved);
    ClaimAtOnce(plan, c.step);
    const PlanVerdict bad = VerifyPlan(plan);
    CHECK(bad.kind == PlanVerdict::Kind::kRefuted);
    REQUIRE(bad.failures.size() == 1);
    CHECK(bad.failures[0].reason.find("source c is partial or varies") != std::string::npos);
  }
}

}  // namespace
}  // namespace tandem
