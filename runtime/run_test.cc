#include "runtime/run.h"

#include <atomic>
#include <catch2/catch.hpp>
#include <chrono>
#include <cmath>
#include <functional>
#include <thread>

#include "pcg/program/program_interpreter.h"
#include "runtime/check.h"
#include "runtime/execution.h"
#include "runtime/test_plans.h"

namespace tandem {
namespace {

const AxisPlacement kFirst = AxisPlacement::Split(0, 0), kSecond = AxisPlacement::Split(1, 0);

RunOptions Checked(int64_t steps = 3) {
  RunOptions options;
  options.steps = steps;
  options.check = true;
  options.timeout_seconds = 60;
  return options;
}

void CheckEqual(const Plan& plan, int64_t steps = 3) {
  const auto result = RunPlan(plan, Checked(steps));
  INFO(result.status());
  REQUIRE(result.ok());
  CAPTURE(result->worst);
  CHECK(result->equal);
  CHECK(*result->max_abs_difference_from_serial < 1e-9);
  CHECK(result->losses.size() == static_cast<size_t>(steps));
  for (double loss : result->losses) CHECK(std::isfinite(loss));
  CHECK(result->ranks == plan.programs[0].mesh.Devices());
  CHECK(result->peak_bytes > 0);
}

std::map<std::string, int> Collectives(const Plan& plan) {
  std::map<std::string, int> counts;
  for (const Instruction& code : plan.programs[0].instructions) {
    if (code.kind == InstructionKind::kCollective) ++counts[StepKindName(code.step)];
  }
  return counts;
}

Plan MlpPlan(const std::vector<int64_t>& spatial, const std::string& how,
             const std::string& optimizer = "sgd", int64_t micro_batches = 0) {
  Plan plan = SerialPlan(MlpModel(), optimizer);
  Strategy strategy = ReplicatedStrategy(plan.pcg, MeshOf(spatial, micro_batches));
  const std::map<std::string, AxisPlacement> data = {{"x", kFirst}, {"labels", kFirst}};
  const std::map<std::string, AxisPlacement> tensor = {
      {"w1", kSecond},  {"b1", kFirst},    {"w2", kFirst},   {"w1.m", kSecond}, {"b1.m", kFirst},
      {"w2.m", kFirst}, {"w1.v", kSecond}, {"b1.v", kFirst}, {"w2.v", kFirst}};
  for (size_t a = 0; a < spatial.size(); ++a) {
    const char kind = how[a];
    Follow(plan.pcg, a, kind == 't' ? tensor : data, kind == 'z', strategy);
  }
  const absl::Status status = Distribute(plan, strategy);
  INFO(status);
  REQUIRE(status.ok());
  return plan;
}

TEST_CASE("Data, tensor and sharded MLPs train as the serial graph does, on 1 to 6 ranks") {
  const std::string optimizer = GENERATE("sgd", "adam", "adamw");
  for (int64_t ranks : {1, 2, 3, 6}) {
    for (const char* how : {"d", "t", "z"}) {
      CAPTURE(ranks, how, optimizer);
      const Plan plan = MlpPlan({ranks}, how, optimizer);
      CheckEqual(plan);
      if (ranks == 1) continue;
      const auto counts = Collectives(plan);
      CHECK(counts.count("all-reduce") == 1);
      // ZeRO: gradients are reduce-scattered, weights gathered.
      CHECK((counts.count("reduce-scatter") > 0 && counts.count("all-gather") > 0) ==
            (how[0] == 'z'));
    }
  }
}

TEST_CASE("Mixed parallelism on two axes") {
  for (const char* how : {"dt", "td", "zt", "dz", "dd"}) {
    CAPTURE(how);
    CheckEqual(MlpPlan({2, 2}, how, "adam"));
  }
}

// Runs random strategies; how many could be lowered.
int CheckRandom(const Graph& model, const std::string& optimizer, unsigned seed, int rounds,
                bool micro_batches) {
  Plan plan = SerialPlan(model, optimizer);
  std::mt19937 random(seed);
  const std::vector<std::vector<int64_t>> meshes = {{2}, {4}, {2, 2}, {3}, {2, 3}};
  int done = 0;
  for (int round = 0; round < rounds; ++round) {
    const Mesh mesh =
        MeshOf(meshes[random() % meshes.size()], micro_batches && random() % 2 == 0 ? 2 : 0);
    const Strategy strategy = AnyStrategy(plan.pcg, mesh, random);
    if (!Distribute(plan, strategy).ok()) continue;
    CAPTURE(round, seed);
    CheckEqual(plan, 2);
    ++done;
  }
  return done;
}

TEST_CASE(
    "Any strategy of an MLP, a transformer and a convolutional net trains as the serial graph") {
  CHECK(CheckRandom(MlpModel(), "adam", 1, 12, true) > 5);
  CHECK(CheckRandom(TransformerModel(), "adamw", 2, 10, true) > 3);
  CHECK(CheckRandom(ConvModel(), "momentum", 3, 8, false) > 3);
}

TEST_CASE("Gradient accumulation over micro-batches") {
  Plan plan = SerialPlan(MlpModel(), "adam");
  Strategy strategy = ReplicatedStrategy(plan.pcg, MeshOf({2}, 3));
  Follow(plan.pcg, 0, {{"x", kFirst}, {"labels", kFirst}}, true, strategy);
  // The temporal axis follows the batch, too; sources themselves are stored whole.
  Follow(plan.pcg, 1, {{"x", kFirst}, {"labels", kFirst}}, false, strategy);
  for (Layout& layout : strategy.sources) layout.axes[1] = {};
  for (size_t n = 0; n < plan.pcg.nodes.size(); ++n) {
    if (plan.pcg.nodes[n].phase == Phase::kUpdate) strategy.nodes[n].rows[1] = 0;
  }
  const absl::Status status = Distribute(plan, strategy);
  INFO(status);
  REQUIRE(status.ok());
  REQUIRE(plan.programs[0].loop_end > plan.programs[0].loop_begin);
  CheckEqual(plan);
}

TEST_CASE("An output that is a parameter has the value that the step began with") {
  Graph model = MlpModel();
  for (size_t t = 0; t < model.tensors.size(); ++t) {
    if (model.tensors[t].name == "w1") model.outputs.push_back(TensorId(static_cast<int64_t>(t)));
  }
  REQUIRE(model.outputs.size() == 2);
  Plan plan = SerialPlan(model, "sgd");
  REQUIRE(Distribute(plan, ReplicatedStrategy(plan.pcg, MeshOf({2}))).ok());
  CheckEqual(plan, 1);
  CheckEqual(plan, 3);
}

TEST_CASE("A run equals the lock-step interpreter of Programs") {
  const Plan plan = MlpPlan({2, 2}, "dt", "sgd");
  const Sources sources = Must(Sources::Create({&plan.pcg}, 5, 0.1, {}));
  ExecutionOptions options;
  options.dtype = DType::kF64;
  options.keep_results = true;
  const ExecutionResult run = Must(Execute(plan.pcg, plan.programs, sources, options));
  std::map<TensorId, HostTensor> values;
  for (size_t t = 0; t < plan.pcg.tensors.size(); ++t) {
    if (plan.pcg.tensors[t].producer.valid()) continue;
    values[TensorId(static_cast<int64_t>(t))] = sources.Whole(plan.pcg.tensors[t], 1);
  }
  const auto expected = Must(ExecuteProgram(plan.pcg, plan.programs[0], values));
  CHECK(run.losses[0] == Approx(expected.at(*plan.pcg.loss).data[0]).epsilon(1e-14));
  for (const auto* pieces : {&run.outputs, &run.states}) {
    REQUIRE_FALSE(pieces->empty());
    for (const ResultPiece& piece : *pieces) {
      for (size_t i = 0; i < piece.values.size(); ++i) {
        CHECK(piece.values[i] ==
              Approx(expected.at(piece.tensor).data[static_cast<size_t>(piece.indices[i])])
                  .epsilon(1e-12));
      }
    }
  }
}

TEST_CASE("Two runs give the same bytes, and another seed gives others") {
  const Plan plan = MlpPlan({3}, "z", "adam");
  RunOptions options;
  options.steps = 4;
  const RunResult a = Must(RunPlan(plan, options)), b = Must(RunPlan(plan, options));
  CHECK(a.losses == b.losses);
  CHECK(a.dtype == DType::kF32);
  options.seed = 2;
  CHECK(Must(RunPlan(plan, options)).losses != a.losses);
  // The loss goes down, and fp32 is near fp64.
  CHECK(a.losses[3] < a.losses[0]);
  options.seed = 1;
  options.dtype = DType::kF64;
  const RunResult wide = Must(RunPlan(plan, options));
  CHECK(wide.dtype == DType::kF64);
  CHECK(wide.losses[3] == Approx(a.losses[3]).epsilon(1e-5));
  CHECK(wide.losses != a.losses);
}

TEST_CASE("Spans are recorded, and fewer bytes a rank where states are split") {
  const Plan whole = MlpPlan({4}, "d", "adam"), split = MlpPlan({4}, "z", "adam");
  const RunResult a = Must(RunPlan(whole, RunOptions())), b = Must(RunPlan(split, RunOptions()));
  CHECK(b.peak_bytes < a.peak_bytes);
  std::map<std::string, int> categories;
  for (const Span& span : a.record.spans) {
    CHECK(span.end_seconds >= span.start_seconds);
    CHECK((span.stream == Stream::kCommunication) ==
          (whole.programs[0].instructions[static_cast<size_t>(span.instruction)].kind ==
           InstructionKind::kCollective));
    ++categories[span.category];
  }
  CHECK(categories["gemm"] > 0);
  CHECK(categories["all-reduce"] > 0);
  CHECK(a.step_seconds > 0);
}

// --- What must be noticed.

void Plant(const std::function<bool(Plan&)>& fault, const Plan& good) {
  Plan plan = good;
  REQUIRE(fault(plan));
  const auto result = RunPlan(plan, Checked());
  if (!result.ok()) return;  // also noticed
  CAPTURE(result->worst);
  CHECK_FALSE(result->equal);
  CHECK(*result->max_abs_difference_from_serial > 1e-6);
}

Instruction* Find(Plan& plan, const std::function<bool(const Instruction&)>& wanted) {
  for (Instruction& code : plan.programs[0].instructions) {
    if (wanted(code)) return &code;
  }
  return nullptr;
}

TEST_CASE("Planted faults are noticed by the check") {
  const Plan zero = MlpPlan({2, 2}, "zt", "adam");
  const auto collective = [](StepKind kind) {
    return [kind](const Instruction& code) {
      return code.kind == InstructionKind::kCollective && code.step == kind;
    };
  };
  SECTION("another combiner") {
    Plant(
        [&](Plan& plan) {
          Instruction* code = Find(plan, collective(StepKind::kReduceScatter));
          if (code != nullptr) code->combiner = Combiner::kMax;
          return code != nullptr;
        },
        zero);
  }
  SECTION("over the wrong axis") {
    Plant(
        [&](Plan& plan) {
          Instruction* code = Find(plan, collective(StepKind::kAllReduce));
          if (code != nullptr) code->axes = {1 - code->axes[0]};
          return code != nullptr;
        },
        zero);
  }
  SECTION("a stale weight") {
    Plant(
        [&](Plan& plan) {
          Instruction* code = Find(
              plan, [](const Instruction& c) { return c.kind == InstructionKind::kStoreState; });
          if (code != nullptr) code->inputs[0] = code->outputs[0];
          return code != nullptr;
        },
        zero);
  }
  SECTION("a missing sum: the copy takes the place of the all-reduce") {
    Plant(
        [&](Plan& plan) {
          Instruction* code = Find(plan, collective(StepKind::kAllReduce));
          if (code == nullptr) return false;
          code->kind = InstructionKind::kLocal;
          code->step = StepKind::kSlice;
          return true;
        },
        MlpPlan({2}, "d"));
  }
  SECTION("a wrong slice: the pieces of a split are swapped") {
    Plant(
        [&](Plan& plan) {
          // The first rank's rows come from the second's place and the other way round.
          for (Buffer& buffer : plan.programs[0].buffers) {
            if (plan.pcg.tensor(buffer.tensor).name != "labels") continue;
            buffer.layout.axes[0].dim = 0;
            buffer.layout.axes[0].kind = AxisPlacement::Kind::kReplicated;
            buffer.layout.axes[1] = kFirst;
            return true;
          }
          return false;
        },
        MlpPlan({2, 2}, "dt"));
  }
  SECTION("swapped operands") {
    Plant(
        [&](Plan& plan) {
          Instruction* code = Find(plan, [](const Instruction& c) { return c.op == "adam"; });
          if (code != nullptr) std::swap(code->inputs[1], code->inputs[2]);
          return code != nullptr;
        },
        zero);
  }
}

TEST_CASE("A rank that fails, hangs or runs out of memory ends the run with its name") {
  const Plan plan = MlpPlan({3}, "d");
  const Sources sources = Must(Sources::Create({&plan.pcg}, 5, 0.1, {}));
  ExecutionOptions options;
  options.steps = 3;
  int kernel = 0;
  while (plan.programs[0].instructions[static_cast<size_t>(kernel)].name != "fc2") ++kernel;
  const std::string at = "instruction " + std::to_string(kernel) + " 'fc2' of step 2";
  const auto message = [&] {
    const auto run = Execute(plan.pcg, plan.programs, sources, options);
    REQUIRE_FALSE(run.ok());
    return run.status().ToString();
  };
  SECTION("fails") {
    options.before_instruction = [&](int rank, int64_t step, int i) {
      return rank == 1 && step == 2 && i == kernel ? absl::DataLossError("bit flip")
                                                   : absl::OkStatus();
    };
    CHECK(message() == "DATA_LOSS: rank 1 at " + at + ": bit flip");
  }
  SECTION("hangs") {
    options.timeout_seconds = 0.2;
    options.before_instruction = [&](int rank, int64_t step, int i) {
      if (rank == 2 && step == 2 && i == kernel) {
        std::this_thread::sleep_for(std::chrono::milliseconds(1000));
      }
      return absl::OkStatus();
    };
    const std::string text = message();
    CHECK(text.find("DEADLINE_EXCEEDED") == 0);
    CHECK(text.find("rank 2 at " + at) != std::string::npos);
  }
  SECTION("throws") {
    options.before_instruction = [&](int rank, int64_t, int) -> absl::Status {
      if (rank == 0) throw std::bad_alloc();
      return absl::OkStatus();
    };
    CHECK(message().find("out of memory") != std::string::npos);
  }
}

TEST_CASE("Wrong numbers of ranks, steps, types and back ends are refused") {
  const Plan plan = MlpPlan({2}, "d");
  const auto error = [&](const std::function<void(RunOptions&)>& change) {
    RunOptions options;
    change(options);
    const auto result = RunPlan(plan, options);
    REQUIRE_FALSE(result.ok());
    return result.status().ToString();
  };
  CHECK(error([](RunOptions& o) { o.ranks = 3; }).find("give --ranks 2") != std::string::npos);
  CHECK(error([](RunOptions& o) { o.steps = 0; }).find("at least 1") != std::string::npos);
  CHECK(error([](RunOptions& o) { o.dtype = DType::kI64; }).find("int64") != std::string::npos);
  CHECK(error([](RunOptions& o) { o.backend = "tpu"; }).find("'tpu'") != std::string::npos);
  CHECK(error([](RunOptions& o) { o.backend = "cuda"; }).find("--backend cpu") !=
        std::string::npos);
  CHECK(error([](RunOptions& o) { o.data_folder = "/no/such"; }).find("/no/such") !=
        std::string::npos);
  RunOptions right;
  right.ranks = 2;
  CHECK(RunPlan(plan, right).ok());
  Plan none = plan;
  none.programs.clear();
  CHECK_FALSE(RunPlan(none, right).ok());
  Plan twice = plan;
  twice.programs.push_back(plan.programs[0]);
  CHECK_FALSE(RunPlan(twice, right).ok());
  Plan missing = plan;
  missing.programs[0].devices = {0};
  CHECK(RunPlan(missing, right).status().ToString().find("device 1") != std::string::npos);
}

TEST_CASE("A Program that frees what it needs says which instruction needs it") {
  Plan plan = MlpPlan({2}, "d");
  auto& instructions = plan.programs[0].instructions;
  Instruction early;
  early.kind = InstructionKind::kFree;
  for (size_t i = 0; i < instructions.size(); ++i) {
    if (instructions[i].name != "act") continue;
    early.inputs = {instructions[i].outputs[0]};
    instructions.insert(instructions.begin() + static_cast<std::ptrdiff_t>(i) + 1, early);
    break;
  }
  const auto result = RunPlan(plan, RunOptions());
  REQUIRE_FALSE(result.ok());
  CHECK(result.status().ToString().find("needs buffer 'act'") != std::string::npos);
  CHECK(absl::IsFailedPrecondition(result.status()));  // the plan's fault, not ours
}

TEST_CASE("A Program that cannot be executed is refused by name before anything runs") {
  const Plan good = MlpPlan({2}, "d");
  struct Damage {
    std::string says;
    std::function<void(Plan&, Program&)> damage;
  };
  const auto kernel = [](const Instruction& c) { return c.name == "act"; };
  const auto reduce = [](const Instruction& c) { return c.step == StepKind::kAllReduce; };
  const auto store = [](const Instruction& c) { return c.kind == InstructionKind::kStoreState; };
  const std::vector<Damage> all = {
      {"'act': is a kernel of no node",
       [&](Plan& plan, Program&) { Find(plan, kernel)->node = NodeId(); }},
      {"'act': has axes for 0 sizes",
       [&](Plan& plan, Program&) { Find(plan, kernel)->size_axes.clear(); }},
      {"'act': has 2 inputs and 1 outputs, the operator 1 and 1",
       [&](Plan& plan, Program&) {
         Instruction* code = Find(plan, kernel);
         code->inputs.push_back(code->inputs[0]);
       }},
      {"'act': x has 144 elements, buffer 'fc1' has 72",
       [&](Plan& plan, Program&) {
         for (std::vector<int>& axes : Find(plan, kernel)->size_axes) axes.clear();
       }},
      {"buffer 'act': has another shape than its layout says",
       [&](Plan& plan, Program& p) {
         p.buffers[Find(plan, kernel)->outputs[0].index()].local_shape = {{12}, {12}};
       }},
      {"buffer 'act': layout S(7)",
       [&](Plan& plan, Program& p) {
         p.buffers[Find(plan, kernel)->outputs[0].index()].layout.axes[0].dim = 7;
       }},
      {"buffer 'act': is of no tensor",
       [&](Plan& plan, Program& p) {
         p.buffers[Find(plan, kernel)->outputs[0].index()].tensor = TensorId();
       }},
      {"buffer 'act': nothing writes it",
       [&](Plan& plan, Program&) { Find(plan, kernel)->kind = InstructionKind::kFree; }},
      {"all-reduce is executed by another kind of instruction",
       [&](Plan& plan, Program&) { Find(plan, reduce)->kind = InstructionKind::kLocal; }},
      {"keep-first is executed by another kind of instruction",
       [&](Plan& plan, Program&) { Find(plan, reduce)->step = StepKind::kKeepFirst; }},
      {"unstack without micro-batches",
       [&](Plan& plan, Program&) {
         Instruction* code = Find(plan, reduce);
         code->kind = InstructionKind::kLocal;
         code->step = StepKind::kUnstack;
       }},
      {"stack without micro-batches",
       [&](Plan& plan, Program&) {
         Instruction* code = Find(plan, reduce);
         code->kind = InstructionKind::kLoop;
         code->step = StepKind::kStack;
       }},
      {"has not one output for each input",
       [&](Plan& plan, Program&) { Find(plan, reduce)->inputs.clear(); }},
      {"which has another shape",
       [&](Plan& plan, Program&) { Find(plan, reduce)->inputs = Find(plan, kernel)->outputs; }},
      {"has not one input and output",
       [&](Plan& plan, Program&) { Find(plan, store)->inputs.clear(); }},
  };
  for (const Damage& one : all) {
    Plan plan = good;
    one.damage(plan, plan.programs[0]);
    const absl::Status status = RunPlan(plan, RunOptions()).status();
    INFO(one.says << " | " << status);
    CHECK(absl::IsInvalidArgument(status));
    CHECK(status.ToString().find(one.says) != std::string::npos);
    CHECK(status.ToString().find("see tandem verify") != std::string::npos);
  }
}

TEST_CASE("What a step has to leave behind and does not is missed by name") {
  const Plan good = MlpPlan({2}, "d");
  Instruction last;
  last.kind = InstructionKind::kFree;
  const auto error = [&](BufferId gone) {
    Plan plan = good;
    last.inputs = {gone};
    plan.programs[0].instructions.push_back(last);
    return RunPlan(plan, RunOptions()).status();
  };
  for (BufferId gone : {good.programs[0].loss, good.programs[0].outputs[0]}) {
    const absl::Status status = error(gone);
    INFO(status);
    CHECK(absl::IsFailedPrecondition(status));
    CHECK(status.ToString().find("needs buffer '" + good.programs[0].buffer(gone).name + "'") !=
          std::string::npos);
  }
  const absl::Status stored = error(good.programs[0].states[0]);
  CHECK(stored.ToString().find("whose stored value the next step needs") != std::string::npos);
  CHECK(absl::IsFailedPrecondition(stored));
}

TEST_CASE("bf16 plans run in fp32 and say so; check runs in fp64 and says so") {
  Plan plan = MlpPlan({2}, "d");
  plan.training.precision = DType::kBF16;
  RunResult result = Must(RunPlan(plan, RunOptions()));
  CHECK(result.dtype == DType::kF32);
  REQUIRE_FALSE(result.notes.empty());
  CHECK(result.notes.back().find("bf16") != std::string::npos);
  RunOptions options = Checked(1);
  options.dtype = DType::kF32;
  result = Must(RunPlan(plan, options));
  CHECK(result.dtype == DType::kF64);
  CHECK(result.notes.back().find("fp64") != std::string::npos);
}

}  // namespace
}  // namespace tandem
