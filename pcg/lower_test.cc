#include "pcg/lower.h"

#include <algorithm>
#include <catch2/catch.hpp>
#include <cmath>
#include <map>
#include <random>
#include <string>

#include "pcg/bundle.h"
#include "pcg/interpreter.h"
#include "pcg/program_interpreter.h"
#include "pcg/training.h"

namespace tandem {
namespace {

using P = AxisPlacement;

Mesh MeshOf(const std::vector<int64_t>& spatial, int64_t micro_batches = 0) {
  Mesh mesh;
  for (size_t i = 0; i < spatial.size(); ++i) {
    mesh.axes.push_back({"x" + std::to_string(i), spatial[i], false});
  }
  if (micro_batches > 0) mesh.axes.push_back({"micro", micro_batches, true});
  return mesh;
}

// Backward operators, written out so that lowering is tested on its own.
constexpr char kBackward[] = R"(
operator matmul_tn(a[k, m], b[k, n]) -> out[m, n] { out[i, j] = sum(p: k) a[p, i] * b[p, j] }
operator matmul_nt(a[m, k], b[n, k]) -> out[m, n] { out[i, j] = sum(p: k) a[i, p] * b[j, p] }
operator relu_grad(x[d..], dy[d..]) -> dx[d..] { dx[i] = select(x[i] > 0, dy[i], 0) }
operator mse_grad(p[d..], t[d..]) -> dp[d..] { dp[i] = 2 * (p[i] - t[i]) / size(d) }
)";

class Builder {
 public:
  Graph graph;
  Builder() {
    for (const auto& [name, spec] : BuiltinOperators().specs()) {
      REQUIRE(graph.operators.Add(spec).ok());
    }
    REQUIRE(graph.operators.AddText(kBackward, "backward.ops").ok());
  }
  TensorId Source(const std::string& name, FactoredShape shape, TensorRole role,
                  DType dtype = DType::kF32) {
    Tensor tensor;
    tensor.name = name;
    tensor.shape = std::move(shape);
    tensor.role = role;
    tensor.dtype = dtype;
    const TensorId id = graph.AddSource(std::move(tensor));
    if (role == TensorRole::kInput || role == TensorRole::kStepInput) graph.inputs.push_back(id);
    return id;
  }
  TensorId Input(const std::string& name, FactoredShape shape, DType dtype = DType::kF32) {
    return Source(name, std::move(shape), TensorRole::kInput, dtype);
  }
  TensorId Weight(const std::string& name, FactoredShape shape) {
    return Source(name, std::move(shape), TensorRole::kParameter);
  }
  TensorId Node(const std::string& name, const std::string& op, std::vector<TensorId> inputs,
                Phase phase = Phase::kForward, Attributes attributes = {}) {
    tandem::Node node;
    node.name = name;
    node.op = op;
    node.inputs = std::move(inputs);
    node.phase = phase;
    node.attributes = std::move(attributes);
    absl::StatusOr<NodeId> id = graph.AddNode(std::move(node));
    INFO(id.status());
    REQUIRE(id.ok());
    return graph.node(*id).outputs[0];
  }
};

struct Mlp : Builder {
  TensorId x = Input("x", {{8}, {6}}), t = Input("t", {{8}, {4}});
  TensorId w1 = Weight("w1", {{6}, {12}}), w2 = Weight("w2", {{12}, {4}});
  TensorId lr = Source("lr", {}, TensorRole::kStepInput);
  TensorId h = Node("h", "matmul", {x, w1});
  TensorId a = Node("a", "relu", {h});
  TensorId y = Node("y", "matmul", {a, w2});
  TensorId loss = Node("loss", "mse", {y, t});
  TensorId dy = Node("dy", "mse_grad", {y, t}, Phase::kBackward);
  TensorId dw2 = Node("dw2", "matmul_tn", {a, dy}, Phase::kBackward);
  TensorId da = Node("da", "matmul_nt", {dy, w2}, Phase::kBackward);
  TensorId dh = Node("dh", "relu_grad", {h, da}, Phase::kBackward);
  TensorId dw1 = Node("dw1", "matmul_tn", {x, dh}, Phase::kBackward);
  TensorId w2n = Node("w2n", "sgd", {w2, dw2, lr}, Phase::kUpdate);
  TensorId w1n = Node("w1n", "sgd", {w1, dw1, lr}, Phase::kUpdate);
  Mlp() {
    graph.name = "mlp";
    graph.outputs = {y};
    graph.loss = loss;
    graph.updates = {{w1, w1n}, {w2, w2n}};
  }
};

// Gives nodes their rows by the rows' reasons.
struct Plan {
  const Graph& graph;
  Strategy strategy;
  Plan(const Graph& g, const Mesh& mesh) : graph(g), strategy(ReplicatedStrategy(g, mesh)) {}
  void Row(const std::string& node, size_t axis, const std::string& reason) {
    for (size_t n = 0; n < graph.nodes.size(); ++n) {
      if (graph.nodes[n].name != node) continue;
      const auto table = FactorTable(*InstanceOf(graph, NodeId(static_cast<int64_t>(n))));
      for (size_t r = 0; r < table.size(); ++r) {
        if (table[r].reason == reason) {
          strategy.nodes[n].rows[axis] = static_cast<int>(r);
          return;
        }
      }
    }
    FAIL("node " << node << " has no row " << reason);
  }
  void Store(TensorId tensor, size_t axis, int dim) {
    strategy.sources[tensor.index()].axes[axis] = P::Split(dim, 0);
  }
  absl::StatusOr<Program> Lowered() const {
    return Lower(graph, strategy, BytesStepCost(strategy.mesh));
  }
};

void DataParallel(Plan& plan, size_t axis) {
  for (const char* node : {"h", "y"}) plan.Row(node, axis, "split m");
  for (const char* node : {"a", "loss", "dy", "dh"}) plan.Row(node, axis, "split d.0");
  plan.Row("da", axis, "split m");
  for (const char* node : {"dw1", "dw2"}) plan.Row(node, axis, "split k");
}

bool IsStep(const Instruction& code) {
  return code.kind == InstructionKind::kCollective || code.kind == InstructionKind::kLocal ||
         code.kind == InstructionKind::kLoop;
}
// Names of collectives, local steps and loop steps in order; "|" at the loop's bounds.
std::string Steps(const Program& program) {
  std::string text;
  for (size_t i = 0; i < program.instructions.size(); ++i) {
    const bool bound =
        static_cast<int>(i) == program.loop_begin || static_cast<int>(i) == program.loop_end;
    if (bound && program.mesh.TemporalAxis() >= 0) text += "| ";
    if (IsStep(program.instructions[i])) text += program.instructions[i].name + "; ";
  }
  return text;
}

HostTensor Values(const Tensor& tensor, std::mt19937& rng) {
  // Second moments and step numbers are positive.
  const bool positive = tensor.role == TensorRole::kState || tensor.role == TensorRole::kStepInput;
  HostTensor value;
  value.shape = PlainShape(tensor.shape);
  for (int64_t i = 0; i < ElementCount(tensor.shape); ++i) {
    const double x = static_cast<double>(rng() % 2001) / 500;
    value.data.push_back(!IsFloat(tensor.dtype) ? static_cast<double>(rng() % 4)
                         : positive             ? x + 0.5
                                                : x - 2);
  }
  return value;
}

// The Program's outputs, loss and new states are the serial graph's; bundled, too.
void CheckRunsAsItIs(const Graph& graph, const Program& program, unsigned seed) {
  std::mt19937 rng(seed);
  std::map<TensorId, HostTensor> sources;
  for (size_t t = 0; t < graph.tensors.size(); ++t) {
    if (graph.tensors[t].producer.valid()) continue;
    sources[TensorId(static_cast<int64_t>(t))] = Values(graph.tensors[t], rng);
  }
  std::vector<std::pair<TensorId, TensorId>> wanted;  // result, serial tensor
  for (TensorId output : graph.outputs) wanted.emplace_back(output, output);
  if (graph.loss) wanted.emplace_back(*graph.loss, *graph.loss);
  for (const StateUpdate& u : graph.updates) wanted.emplace_back(u.state, u.next);
  std::vector<TensorId> serial;
  for (const auto& [result, tensor] : wanted) serial.push_back(tensor);
  const auto expected = EvaluateGraph(graph, sources, serial);
  INFO(expected.status());
  REQUIRE(expected.ok());
  const auto actual = ExecuteProgram(graph, program, sources);
  INFO(actual.status());
  REQUIRE(actual.ok());
  REQUIRE(actual->size() == wanted.size());
  for (const auto& [result, tensor] : wanted) {
    CAPTURE(graph.tensor(tensor).name);
    const HostTensor& a = actual->at(result);
    const HostTensor& e = expected->at(tensor);
    REQUIRE(a.shape == e.shape);
    for (size_t i = 0; i < a.data.size(); ++i) {
      if (a.data[i] == e.data[i]) continue;
      REQUIRE(std::abs(a.data[i] - e.data[i]) <= 1e-9 * (1 + std::abs(e.data[i])));
    }
  }
}

void CheckRuns(const Graph& graph, const Program& program, unsigned seed = 1) {
  CheckRunsAsItIs(graph, program, seed);
  CheckRunsAsItIs(graph, Bundled(program, 1 << 20), seed);
}

TEST_CASE("One device: kernels and frees, no communication") {
  Mlp mlp;
  const Plan plan(mlp.graph, MeshOf({1}));
  const auto program = plan.Lowered();
  REQUIRE(program.ok());
  CHECK(Steps(*program).empty());
  CHECK(program->loop_begin == program->loop_end);
  CHECK(program->states.size() == 2);
  CheckRuns(mlp.graph, *program);
}

TEST_CASE("Data parallelism: one all-reduce a gradient, as soon as it is there, and the loss") {
  Mlp mlp;
  Plan plan(mlp.graph, MeshOf({2}));
  DataParallel(plan, 0);
  plan.Store(mlp.x, 0, 0);
  plan.Store(mlp.t, 0, 0);
  const auto program = plan.Lowered();
  REQUIRE(program.ok());
  CHECK(Steps(*program) == "all-reduce loss; all-reduce dw2; all-reduce dw1; ");
  // dw2's comes before da's kernel.
  const auto named = [&](const std::string& name) {
    return std::find_if(program->instructions.begin(), program->instructions.end(),
                        [&](const Instruction& code) { return code.name == name; });
  };
  CHECK(named("all-reduce dw2") < named("da"));
  CheckRuns(mlp.graph, *program);
}

TEST_CASE("Column then row split: one all-reduce of the activation") {
  Mlp mlp;
  Plan plan(mlp.graph, MeshOf({2}));
  plan.Row("h", 0, "split n");
  plan.Row("a", 0, "split d.1");
  plan.Row("y", 0, "split k");
  plan.Row("da", 0, "split n");
  plan.Row("dh", 0, "split d.1");
  plan.Row("dw1", 0, "split n");
  plan.Row("dw2", 0, "split m");
  plan.Row("w1n", 0, "split d.1");
  plan.Row("w2n", 0, "split d.0");
  plan.Store(mlp.w1, 0, 1);
  plan.Store(mlp.w2, 0, 0);
  const auto program = plan.Lowered();
  REQUIRE(program.ok());
  // Once for the loss, once in the backward phase: each phase makes its own copy,
  CHECK(Steps(*program) == "all-reduce y; all-reduce y; ");
  CheckRuns(mlp.graph, *program);
}

TEST_CASE("ZeRO: stored slices are gathered once a phase, gradients reduce-scattered") {
  Mlp mlp;
  Plan plan(mlp.graph, MeshOf({2}));
  DataParallel(plan, 0);
  for (const char* node : {"w1n", "w2n"}) plan.Row(node, 0, "split d.0");
  for (TensorId t : {mlp.x, mlp.t, mlp.w1, mlp.w2}) plan.Store(t, 0, 0);
  const auto program = plan.Lowered();
  REQUIRE(program.ok());
  CHECK(Steps(*program) ==
        "all-gather w1; all-gather w2; all-reduce loss; reduce-scatter dw2; all-gather w2; "
        "reduce-scatter dw1; ");
  // The gathered copy of the forward is freed before the backward makes its own.
  int held = 0;
  int most = 0;
  for (const Instruction& code : program->instructions) {
    if (code.name == "all-gather w2" || code.name == "all-gather w1") most = std::max(most, ++held);
    if (code.kind != InstructionKind::kFree) continue;
    for (BufferId b : code.inputs) {
      const TensorId t = program->buffer(b).tensor;
      held -= t == mlp.w1 || t == mlp.w2;
    }
  }
  CHECK(most == 1);
  CHECK(held == 0);
  CheckRuns(mlp.graph, *program);
}

TEST_CASE("Gradient accumulation is the reduce over the temporal axis") {
  Mlp mlp;
  Plan plan(mlp.graph, MeshOf({2}, 2));
  DataParallel(plan, 0);
  DataParallel(plan, 1);
  plan.Store(mlp.x, 0, 0);
  plan.Store(mlp.t, 0, 0);
  SECTION("whole weights: reduced once, after the last micro-batch") {
    const auto program = plan.Lowered();
    REQUIRE(program.ok());
    CHECK(Steps(*program) ==
          "| unstack x; stack y; unstack t; accumulate loss; unstack t; accumulate dw2; "
          "unstack x; accumulate dw1; | all-reduce loss; all-reduce dw2; all-reduce dw1; ");
    CheckRuns(mlp.graph, *program);
  }
  SECTION("stored slices: gathered in every micro-batch, or once where a relay says so") {
    for (const char* node : {"w1n", "w2n"}) plan.Row(node, 0, "split d.0");
    for (TensorId t : {mlp.w1, mlp.w2}) plan.Store(t, 0, 0);
    const Layout whole = Layout::Replicated(plan.strategy.mesh);
    plan.strategy.relays = {{mlp.w2, Phase::kForward, whole, true},
                            {mlp.w2, Phase::kBackward, whole, false}};
    const auto program = plan.Lowered();
    REQUIRE(program.ok());
    CHECK(Steps(*program) ==
          "all-gather w2; | unstack x; all-gather w1; stack y; unstack t; accumulate loss; "
          "unstack t; accumulate dw2; all-gather w2; unstack x; accumulate dw1; | "
          "all-reduce loss; reduce-scatter dw2; reduce-scatter dw1; ");
    CheckRuns(mlp.graph, *program);
  }
}

TEST_CASE("A relay is made once for the readers of its phase") {
  Builder b;
  const TensorId x = b.Input("x", {{8}, {4}});
  const TensorId w = b.Weight("w", {{4}, {4}});
  b.graph.outputs = {b.Node("p", "matmul", {x, w}), b.Node("q", "matmul", {x, w})};
  Plan plan(b.graph, MeshOf({2, 2}));
  plan.Store(w, 0, 0);
  plan.Store(w, 1, 1);
  plan.Row("p", 0, "split n");
  plan.strategy.relays = {{w, Phase::kForward, Layout::Replicated(plan.strategy.mesh)}};
  const auto program = plan.Lowered();
  REQUIRE(program.ok());
  CHECK(Steps(*program) == "all-gather w; all-gather w; slice w; ");
  CheckRuns(b.graph, *program);
}

TEST_CASE("A piece of a constant is an activation: only the constant itself is known everywhere") {
  Builder b;
  const TensorId x = b.Input("x", {{8}}), c = b.Source("c", {{8}}, TensorRole::kConstant);
  b.graph.tensors[c.index()].values.assign(8, 0.5);
  b.graph.outputs = {b.Node("y", "relu", {b.Node("sum", "sub", {x, c})})};
  Plan plan(b.graph, MeshOf({2}));
  plan.Row("sum", 0, "split d.0");
  plan.Row("y", 0, "split d.0");
  const auto program = plan.Lowered();
  REQUIRE(program.ok());
  CHECK(Steps(*program) == "slice x; slice c; ");
  int known = 0;
  for (const Buffer& buffer : program->buffers) known += buffer.role == BufferRole::kConstant;
  CHECK(known == 1);
}

TEST_CASE("What cannot be lowered is refused, with the node and a remedy") {
  Mlp mlp;
  const auto message = [](const Plan& plan) {
    return std::string(plan.Lowered().status().message());
  };
  SECTION("a value of the whole batch wanted in the loop") {
    Builder b;
    const TensorId x = b.Input("x", {{8}, {4}});
    const TensorId mean = b.Node("mean", "batch_mean", {x});
    b.graph.outputs = {b.Node("var", "batch_var", {x, mean})};
    Plan plan(b.graph, MeshOf({2}, 2));
    plan.Row("mean", 1, "split n");
    plan.Row("var", 1, "split n");
    CHECK_THAT(message(plan), Catch::Contains("\"var\"") && Catch::Contains("\"mean\"") &&
                                  Catch::Contains("micro-batch"));
    plan.strategy.nodes[0].rows[1] = 0;  // the mean of the whole batch before the loop
    const auto program = plan.Lowered();
    REQUIRE(program.ok());
    CheckRuns(b.graph, *program);
  }
  SECTION("degree that does not divide") {
    Plan plan(mlp.graph, MeshOf({5}));
    plan.Row("h", 0, "split m");
    CHECK_THAT(message(plan), Catch::Contains("\"h\"") && Catch::Contains("degree 5"));
  }
  SECTION("row out of range") {
    Plan plan(mlp.graph, MeshOf({2}));
    plan.strategy.nodes[1].rows[0] = 99;
    CHECK_THAT(message(plan), Catch::Contains("\"a\"") && Catch::Contains("row 99"));
  }
  SECTION("a partial input that nobody can make") {
    Plan plan(mlp.graph, MeshOf({2}));
    plan.Row("h", 0, "partial lhs");
    CHECK_THAT(message(plan), Catch::Contains("\"x\"") && Catch::Contains("partial"));
  }
  SECTION("a source stored by micro-batch") {
    Plan plan(mlp.graph, MeshOf({2}, 2));
    plan.Store(mlp.x, 1, 0);
    CHECK_THAT(message(plan), Catch::Contains("\"x\"") && Catch::Contains("source"));
  }
  SECTION("a stored layout that does not divide") {
    Plan plan(mlp.graph, MeshOf({5}));
    plan.Store(mlp.w1, 0, 1);
    CHECK_THAT(message(plan), Catch::Contains("\"w1\"") && Catch::Contains("degree 5"));
  }
  SECTION("two relays of one tensor in one phase") {
    Plan plan(mlp.graph, MeshOf({2}));
    plan.strategy.relays.assign(2,
                                {mlp.h, Phase::kForward, Layout::Replicated(plan.strategy.mesh)});
    CHECK_THAT(message(plan), Catch::Contains("second relay"));
  }
  SECTION("a strategy of another graph") {
    Plan plan(mlp.graph, MeshOf({2}));
    plan.strategy.nodes.pop_back();
    CHECK_THAT(message(plan), Catch::Contains("the strategy is for"));
  }
}

TEST_CASE("The interpreter of Programs does not believe a Program that is wrong") {
  Mlp mlp;
  Plan plan(mlp.graph, MeshOf({2}));
  DataParallel(plan, 0);
  auto program = *plan.Lowered();
  std::mt19937 rng(3);
  std::map<TensorId, HostTensor> sources;
  for (TensorId t : {mlp.x, mlp.t, mlp.w1, mlp.w2, mlp.lr}) {
    sources[t] = Values(mlp.graph.tensor(t), rng);
  }
  REQUIRE(ExecuteProgram(mlp.graph, program, sources).ok());
  const auto find = [&](InstructionKind kind) {
    return std::find_if(program.instructions.begin(), program.instructions.end(),
                        [&](const Instruction& code) { return code.kind == kind; });
  };
  SECTION("a reduction left out") {
    const auto all_reduce =
        std::find_if(program.instructions.begin(), program.instructions.end(),
                     [](const Instruction& code) { return code.name == "all-reduce dw2"; });
    REQUIRE(all_reduce != program.instructions.end());
    for (Instruction& code : program.instructions) {
      for (BufferId& b : code.inputs) {
        if (b == all_reduce->outputs[0]) b = all_reduce->inputs[0];
      }
    }
    CHECK_FALSE(ExecuteProgram(mlp.graph, program, sources).ok());
  }
  SECTION("freed too early") {
    std::rotate(program.instructions.begin(), find(InstructionKind::kFree),
                find(InstructionKind::kFree) + 1);
    CHECK_FALSE(ExecuteProgram(mlp.graph, program, sources).ok());
  }
  SECTION("never freed") {
    program.instructions.erase(find(InstructionKind::kFree));
    CHECK_THAT(std::string(ExecuteProgram(mlp.graph, program, sources).status().message()),
               Catch::Contains("never freed"));
  }
  SECTION("a source missing") {
    sources.erase(mlp.w2);
    CHECK_THAT(std::string(ExecuteProgram(mlp.graph, program, sources).status().message()),
               Catch::Contains("\"w2\""));
  }
}

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
      layout.axes[a] = P::Split(d, pick(shape[static_cast<size_t>(d)].size()));
      if (mesh.axes[a].temporal || pick(2) == 0 || !CheckLayout(shape, layout, mesh).ok()) {
        layout.axes[a] = P::Replicated();
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
  const Mlp mlp;
  CHECK(RunRandom(mlp.graph, 17, 150) > 60);
}

TEST_CASE("Any strategy of a transformer's operators computes the serial graph") {
  Builder b;
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
  Builder b;
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
  Builder b;
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
