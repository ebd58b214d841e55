#include "pcg/autodiff/training.h"

#include <catch2/catch.hpp>
#include <cmath>
#include <stdexcept>

#include "absl/strings/str_cat.h"
#include "pcg/autodiff/autodiff.h"
#include "pcg/autodiff/loss.h"
#include "pcg/graph/interpreter.h"
#include "pcg/language/op_parser.h"

namespace tandem {
namespace {

Graph Empty() {
  Graph graph;
  graph.name = "test";
  graph.operators = BuiltinOperators();
  return graph;
}

TensorId Source(Graph& graph, const std::string& name, const std::vector<int64_t>& shape,
                TensorRole role, DType dtype = DType::kF32) {
  Tensor tensor;
  tensor.name = name;
  for (int64_t extent : shape) tensor.shape.push_back({extent});
  tensor.role = role;
  tensor.dtype = dtype;
  return graph.AddSource(std::move(tensor));
}

TensorId Apply(Graph& graph, const std::string& name, const std::string& op,
               std::vector<TensorId> inputs, Attributes attributes = {}, int block = -1) {
  Node node;
  node.name = name;
  node.op = op;
  node.inputs = std::move(inputs);
  node.attributes = std::move(attributes);
  node.block = block;
  auto id = graph.AddNode(std::move(node));
  if (!id.ok()) throw std::runtime_error(std::string(id.status().message()));
  return graph.node(*id).outputs[0];
}

const Attributes kLastAxis = {{"rank_c", int64_t{0}}};

// x[4, 3] -> tanh(x w1 + b1) w2 -> softmax over 3 classes.
Graph Mlp(bool softmax = true) {
  Graph g = Empty();
  const TensorId x = Source(g, "x", {4, 3}, TensorRole::kInput);
  const TensorId w1 = Source(g, "w1", {3, 5}, TensorRole::kParameter);
  const TensorId b1 = Source(g, "b1", {5}, TensorRole::kParameter);
  const TensorId w2 = Source(g, "w2", {5, 3}, TensorRole::kParameter);
  const TensorId h = Apply(g, "fc1", "linear", {x, w1, b1}, {}, 0);
  const TensorId a = Apply(g, "act", "tanh", {h}, {}, 0);
  const TensorId z = Apply(g, "fc2", "matmul", {a, w2}, {}, 1);
  g.outputs = {softmax ? Apply(g, "probabilities", "softmax", {z}, kLastAxis) : z};
  return g;
}

Graph Training(const Graph& forward, const TrainingOptions& options) {
  auto graph = MakeTrainingGraph(forward, options);
  if (!graph.ok()) throw std::runtime_error(std::string(graph.status().message()));
  absl::Status status = CheckGraph(*graph);
  if (!status.ok()) throw std::runtime_error(std::string(status.message()));
  return *std::move(graph);
}

std::string ErrorOf(const Graph& forward, const TrainingOptions& options) {
  auto graph = MakeTrainingGraph(forward, options);
  return graph.ok() ? "" : std::string(graph.status().message());
}

TrainingOptions With(const std::string& optimizer, const std::string& loss = "cross-entropy") {
  TrainingOptions options;
  options.optimizer = optimizer;
  options.loss = loss;
  return options;
}

TensorId Named(const Graph& graph, const std::string& name) {
  for (size_t t = 0; t < graph.tensors.size(); ++t) {
    if (graph.tensors[t].name == name) return TensorId(static_cast<int64_t>(t));
  }
  throw std::runtime_error("no tensor " + name);
}

const Node& NodeNamed(const Graph& graph, const std::string& name) {
  for (const Node& node : graph.nodes) {
    if (node.name == name) return node;
  }
  throw std::runtime_error("no node " + name);
}

double Pseudo(size_t i) { return 0.8 * std::sin(1.7 * static_cast<double>(i) + 0.3); }

std::map<TensorId, HostTensor> Sources(const Graph& graph, double lr) {
  std::map<TensorId, HostTensor> values;
  for (size_t t = 0; t < graph.tensors.size(); ++t) {
    const Tensor& tensor = graph.tensors[t];
    if (tensor.producer.valid()) continue;
    HostTensor value{PlainShape(tensor.shape), {}};
    for (int64_t i = 0; i < ElementCount(tensor.shape); ++i) {
      const auto k = static_cast<size_t>(i);
      const bool zero = tensor.initializer == "constant(0)";
      value.data.push_back(tensor.name == "labels" && !IsFloat(tensor.dtype)
                               ? static_cast<double>((k * 2 + 1) % 3)
                           : tensor.name == "lr"   ? lr
                           : tensor.name == "step" ? 1
                           : zero                  ? 0
                                                   : Pseudo(k + 10 * t));
    }
    values[TensorId(static_cast<int64_t>(t))] = std::move(value);
  }
  return values;
}

// Losses of `steps` steps, taken before each update.
std::vector<double> Losses(const Graph& graph, double lr, int steps) {
  std::map<TensorId, HostTensor> sources = Sources(graph, lr);
  std::vector<TensorId> wanted = {*graph.loss};
  for (const StateUpdate& u : graph.updates) wanted.push_back(u.next);
  std::vector<double> losses;
  for (int s = 0; s < steps; ++s) {
    auto values = EvaluateGraph(graph, sources, wanted);
    if (!values.ok()) throw std::runtime_error(std::string(values.status().message()));
    losses.push_back(values->at(*graph.loss).data[0]);
    for (const StateUpdate& u : graph.updates) sources[u.state] = values->at(u.next);
    for (auto& [id, value] : sources) {
      if (graph.tensor(id).name == "step") value.data[0] += 1;
    }
  }
  return losses;
}

// The same network written by hand.
struct HandMlp {
  std::vector<double> x, w1, b1, w2;
  std::vector<int> labels;
  explicit HandMlp(const Graph& graph) {
    const auto sources = Sources(graph, 0);
    const auto of = [&](const char* name) { return sources.at(Named(graph, name)).data; };
    x = of("x"), w1 = of("w1"), b1 = of("b1"), w2 = of("w2");
    for (double label : of("labels")) labels.push_back(static_cast<int>(label));
  }
  double Step(double lr) {
    std::vector<double> g1(15), gb(5), g2(15);
    double loss = 0;
    for (size_t r = 0; r < 4; ++r) {
      double h[5], z[3], p[3], total = 0;
      for (size_t j = 0; j < 5; ++j) {
        double s = b1[j];
        for (size_t i = 0; i < 3; ++i) s += x[r * 3 + i] * w1[i * 5 + j];
        h[j] = std::tanh(s);
      }
      for (size_t c = 0; c < 3; ++c) {
        z[c] = 0;
        for (size_t j = 0; j < 5; ++j) z[c] += h[j] * w2[j * 3 + c];
        total += std::exp(z[c]);
      }
      const auto label = static_cast<size_t>(labels[r]);
      loss += (std::log(total) - z[label]) / 4;
      for (size_t c = 0; c < 3; ++c) p[c] = (std::exp(z[c]) / total - (c == label)) / 4;
      for (size_t j = 0; j < 5; ++j) {
        double back = 0;
        for (size_t c = 0; c < 3; ++c) {
          g2[j * 3 + c] += h[j] * p[c];
          back += w2[j * 3 + c] * p[c];
        }
        back *= 1 - h[j] * h[j];
        gb[j] += back;
        for (size_t i = 0; i < 3; ++i) g1[i * 5 + j] += x[r * 3 + i] * back;
      }
    }
    for (size_t k = 0; k < 15; ++k) w1[k] -= lr * g1[k], w2[k] -= lr * g2[k];
    for (size_t k = 0; k < 5; ++k) b1[k] -= lr * gb[k];
    return loss;
  }
};

TEST_CASE("Five steps of SGD on an MLP are those of the same network written by hand") {
  for (const bool softmax : {false, true}) {
    const Graph graph = Training(Mlp(softmax), With("sgd"));
    HandMlp hand(graph);
    const std::vector<double> losses = Losses(graph, 0.5, 5);
    for (int s = 0; s < 5; ++s) {
      CHECK(losses[static_cast<size_t>(s)] == Approx(hand.Step(0.5)).epsilon(1e-12));
    }
    CHECK(losses[4] < losses[0]);
  }
}

TEST_CASE("Every optimizer lowers the loss, and keeps its moments as state") {
  for (const auto& [optimizer, moments] : std::vector<std::pair<std::string, int>>{
           {"sgd", 0}, {"momentum", 1}, {"adam", 2}, {"adamw", 2}, {"lamb", 2}}) {
    INFO(optimizer);
    const Graph graph = Training(Mlp(), With(optimizer));
    CHECK(graph.updates.size() == static_cast<size_t>(3 * (1 + moments)));
    const std::vector<double> losses = Losses(graph, 0.02, 6);
    CHECK(losses.back() < losses.front());
    if (moments > 0) CHECK(graph.tensor(Named(graph, "w1.v")).role == TensorRole::kState);
    if (moments == 0) CHECK_THROWS(Named(graph, "step"));
  }
}

TEST_CASE("A trailing softmax is folded into the loss and stays an output") {
  const Graph folded = Training(Mlp(), With("sgd"));
  CHECK(folded.outputs == std::vector<TensorId>{Named(folded, "probabilities")});
  CHECK(NodeNamed(folded, "loss").inputs[0] == Named(folded, "fc2"));
  CHECK(folded.inputs.size() == 3);  // x, labels, lr
  const Tensor& labels = folded.tensor(Named(folded, "labels"));
  CHECK(labels.dtype == DType::kI64);
  CHECK(PlainShape(labels.shape) == std::vector<int64_t>{4});
  // No node differentiates the softmax.
  for (const Node& node : folded.nodes)
    CHECK(node.name.find("probabilities.grad") == std::string::npos);
  // Over another axis it is part of the model.
  Graph other = Mlp(false);
  other.outputs = {Apply(other, "p", "softmax", {other.outputs[0]}, {{"rank_c", int64_t{1}}})};
  CHECK(NodeNamed(Training(other, With("sgd")), "loss").inputs[0] == other.outputs[0]);
}

TEST_CASE("Backward nodes have the forward node's block and stable names") {
  const Graph graph = Training(Mlp(), With("sgd"));
  CHECK(NodeNamed(graph, "fc1.grad.1").block == 0);
  CHECK(NodeNamed(graph, "fc1.grad.1").phase == Phase::kBackward);
  CHECK(NodeNamed(graph, "fc2.grad.0").block == 1);
  CHECK(NodeNamed(graph, "act.grad").block == 0);
  CHECK(NodeNamed(graph, "w1.update").phase == Phase::kUpdate);
  CHECK(NodeNamed(graph, "w1.update").block == 0);
  // Nothing is computed for the data, which is not trained.
  CHECK_THROWS(NodeNamed(graph, "fc1.grad.0"));
  const Graph again = Training(Mlp(), With("sgd"));
  CHECK(again.nodes == graph.nodes);
  CHECK(again.tensors == graph.tensors);
}

TEST_CASE("Every use of a tensor adds to its gradient") {
  Graph g = Empty();
  const TensorId w = Source(g, "w", {3}, TensorRole::kParameter);
  const TensorId x = Source(g, "x", {3}, TensorRole::kInput);
  const TensorId a = Apply(g, "a", "mul", {w, w}, {}, 2);
  const TensorId b = Apply(g, "b", "mul", {a, x}, {}, 2);
  const TensorId c = Apply(g, "c", "add", {b, a}, {}, 2);
  const TensorId d = Apply(g, "d", "mul", {c, w}, {}, 2);
  const TensorId loss = Apply(g, "loss", "mean_all", {d});
  auto gradients = AddGradients(g, loss, {w, x});
  REQUIRE(gradients.ok());
  REQUIRE(CheckGraph(g).ok());
  const std::map<TensorId, HostTensor> sources = {{w, {{3}, {0.5, -1, 2}}}, {x, {{3}, {1, 2, 3}}}};
  auto values = EvaluateGraph(g, sources, *gradients);
  REQUIRE(values.ok());
  for (size_t i = 0; i < 3; ++i) {  // loss = mean(w^3 (x + 1))
    const double w_i = sources.at(w).data[i], x_i = sources.at(x).data[i];
    CHECK(values->at((*gradients)[0]).data[i] == Approx(w_i * w_i * (x_i + 1)));
    CHECK(values->at((*gradients)[1]).data[i] == Approx(w_i * w_i * w_i / 3));
  }
  for (const Node& node : g.nodes) {
    if (node.name.find(".grad_sum") != std::string::npos) CHECK(node.block == 2);
  }
}

TEST_CASE("Gradients stop where nothing flows") {
  Graph g = Empty();
  const TensorId w = Source(g, "w", {3}, TensorRole::kParameter);
  const TensorId u = Source(g, "u", {3}, TensorRole::kParameter);
  const TensorId unused = Source(g, "unused", {3}, TensorRole::kParameter);
  const TensorId rounded = Apply(g, "rounded", "floor", {u});
  const TensorId s = Apply(g, "s", "add", {w, rounded});
  const TensorId side = Apply(g, "side", "exp", {unused});
  const TensorId loss = Apply(g, "loss", "mean_all", {s});
  g.outputs = {loss, side};
  Graph copy = g;
  auto gradients = AddGradients(copy, loss, {w, u, unused});
  REQUIRE(gradients.ok());
  CHECK((*gradients)[0].valid());
  CHECK_FALSE((*gradients)[1].valid());
  CHECK_FALSE((*gradients)[2].valid());
  const Graph training = Training(g, With("sgd", "output"));
  CHECK(training.updates.size() == 1);
  CHECK(training.tensor(u).role == TensorRole::kState);
  CHECK(training.tensor(unused).role == TensorRole::kState);
  CHECK(training.tensor(unused).note.find("not trained") != std::string::npos);
}

// A block of a language model: tied embedding, norms, fused QKV taken apart, attention, gated MLP.
Graph TinyLanguageModel() {
  using Ints = std::vector<int64_t>;
  Graph g = Empty();
  const auto weight = [&](const char* name, Ints shape) {
    return Source(g, name, shape, TensorRole::kParameter);
  };
  const TensorId ids = Source(g, "labels_in", {2, 3}, TensorRole::kInput, DType::kI64);
  const TensorId table = weight("table", {5, 4});
  TensorId x = Apply(g, "embed", "embedding", {ids, table});
  const TensorId n1 = Apply(g, "norm1", "layer_norm", {x, weight("g1", {4}), weight("c1", {4})});
  const TensorId qkv =
      Apply(g, "qkv", "linear", {n1, weight("wqkv", {4, 12}), weight("bqkv", {12})});
  std::vector<TensorId> heads;
  for (int64_t part = 0; part < 3; ++part) {
    const std::string name = absl::StrCat("part", part);
    const TensorId slice =
        Apply(g, name, "slice", {qkv},
              {{"rank_c", int64_t{0}}, {"start", part * 4}, {"size", int64_t{4}}});
    const TensorId split = Apply(g, name + "s", "reshape", {slice}, {{"shape", Ints{2, 3, 2, 2}}});
    heads.push_back(Apply(g, name + "t", "transpose", {split}, {{"perm", Ints{0, 2, 1, 3}}}));
  }
  const TensorId a = Apply(g, "attention", "causal_attention", heads, {{"scale", 0.7}});
  const TensorId t = Apply(g, "merge", "transpose", {a}, {{"perm", Ints{0, 2, 1, 3}}});
  const TensorId m = Apply(g, "merged", "reshape", {t}, {{"shape", Ints{2, 3, 4}}});
  x = Apply(g, "residual1", "add", {x, Apply(g, "out", "matmul", {m, weight("wo", {4, 4})})});
  const TensorId n2 = Apply(g, "norm2", "rms_norm", {x, weight("g2", {4})});
  const TensorId gate = Apply(g, "gate", "matmul", {n2, weight("wg", {4, 6})});
  const TensorId up = Apply(g, "up", "matmul", {n2, weight("wu", {4, 6})});
  const TensorId f = Apply(g, "act", "swiglu", {gate, up});
  x = Apply(g, "residual2", "add", {x, Apply(g, "down", "matmul", {f, weight("wd", {6, 4})})});
  g.outputs = {Apply(g, "head", "linear_t", {x, table}, {{"absent", Ints{2}}})};
  return g;
}

TEST_CASE("A language model's gradients agree with central differences of its loss") {
  const Graph graph = Training(TinyLanguageModel(), With("sgd"));
  std::map<TensorId, HostTensor> sources = Sources(graph, 1.0);
  for (double& id : sources[Named(graph, "labels_in")].data) id = std::floor((id + 0.8) * 3);
  std::vector<TensorId> wanted;
  for (const StateUpdate& u : graph.updates) wanted.push_back(u.next);
  REQUIRE(wanted.size() == 10);
  auto values = EvaluateGraph(graph, sources, wanted);
  REQUIRE(values.ok());
  for (const StateUpdate& u : graph.updates) {
    INFO(graph.tensor(u.state).name);
    HostTensor& w = sources[u.state];
    for (size_t k = 0; k < w.data.size(); k += 3) {
      const double x = w.data[k], h = 1e-5;
      const auto loss = [&](double at) {
        w.data[k] = at;
        return EvaluateGraph(graph, sources, {*graph.loss})->at(*graph.loss).data[0];
      };
      const double difference = (loss(x + h) - loss(x - h)) / (2 * h);
      w.data[k] = x;
      CHECK(x - values->at(u.next).data[k] == Approx(difference).margin(1e-8));  // lr is 1
    }
  }
}

TEST_CASE("Errors of differentiation name node and operator") {
  Graph g = Empty();
  REQUIRE(g.operators.AddText("operator wrap(x[n]) -> y[n] { y[i] = x[i] % 2 }", "user").ok());
  const TensorId w = Source(g, "w", {3}, TensorRole::kParameter);
  const TensorId y = Apply(g, "wrapped", "wrap", {w});
  const TensorId loss = Apply(g, "loss", "mean_all", {y});
  Graph copy = g;
  auto gradients = AddGradients(copy, loss, {w});
  REQUIRE_FALSE(gradients.ok());
  CHECK(gradients.status().message().find("node 'wrapped' (wrap)") != std::string::npos);
  CHECK_FALSE(AddGradients(copy, y, {w}).ok());  // three losses
  const TensorId ids = Source(copy, "ids", {3}, TensorRole::kInput, DType::kI64);
  CHECK_FALSE(AddGradients(copy, loss, {ids}).ok());
}

TEST_CASE("Half precision trains fp32 masters through a cast at the start") {
  TrainingOptions options = With("adamw");
  options.precision = DType::kBF16;
  options.freeze = {"^b1$"};
  const Graph graph = Training(Mlp(), options);
  for (size_t n : {0, 2}) {
    CHECK(graph.nodes[n].op == "cast");
    CHECK(graph.nodes[n + 1].op == "identity");  // where the pieces of a copy can be gathered
    CHECK(graph.nodes[n + 1].inputs == graph.nodes[n].outputs);
  }
  CHECK(graph.nodes[4].phase == Phase::kForward);
  CHECK(graph.nodes[4].op != "cast");
  CHECK(graph.tensor(Named(graph, "w1")).dtype == DType::kF32);
  CHECK(graph.tensor(Named(graph, "w1.bf16")).dtype == DType::kBF16);
  CHECK(graph.tensor(Named(graph, "b1")).dtype == DType::kBF16);
  CHECK(graph.tensor(Named(graph, "b1")).role == TensorRole::kState);
  CHECK(graph.tensor(Named(graph, "fc1")).dtype == DType::kBF16);
  CHECK(graph.tensor(Named(graph, "w1.m")).dtype == DType::kF32);
  CHECK(graph.tensor(*graph.loss).dtype == DType::kF32);
  CHECK(graph.tensor(Named(graph, "fc1.grad.1")).dtype == DType::kBF16);
  CHECK(graph.tensor(NodeNamed(graph, "w1.update").inputs[3]).dtype == DType::kF32);
  CHECK(NodeNamed(graph, "w1.bf16").block == 0);
  for (const StateUpdate& u : graph.updates) {
    CHECK(graph.tensor(u.state).dtype == graph.tensor(u.next).dtype);
  }
  // The meaning does not change: in float64 the casts are copies.
  options.precision = DType::kF64;
  CHECK(Losses(graph, 0.02, 3) == Losses(Training(Mlp(), options), 0.02, 3));
}

TEST_CASE("Precision alone changes types only") {
  auto graph = WithPrecision(Mlp(), DType::kF16);
  REQUIRE(graph.ok());
  CHECK(graph->nodes == Mlp().nodes);
  for (const Tensor& tensor : graph->tensors) CHECK(tensor.dtype == DType::kF16);
  CHECK_FALSE(WithPrecision(Mlp(), DType::kI32).ok());
  TrainingOptions none = With("none", "none");
  CHECK(MakeTrainingGraph(Mlp(), none)->nodes == Mlp().nodes);
}

TEST_CASE("Regular expressions choose what is trained") {
  Graph forward = Mlp();
  forward.tensors[Named(forward, "w2").index()].role = TensorRole::kState;
  TrainingOptions options = With("sgd");
  CHECK(Training(forward, options).updates.size() == 2);
  options.train = {"w2"};
  CHECK(Training(forward, options).updates.size() == 3);
  options.freeze = {"w"};
  const Graph both = Training(forward, options);
  REQUIRE(both.updates.size() == 2);  // b1, and w2 for all that
  CHECK(both.tensor(Named(both, "w1")).note == "frozen");
}

TEST_CASE("The model's own state updates stay") {
  Graph g = Mlp(false);
  const TensorId running = Source(g, "running", {5}, TensorRole::kState);
  const TensorId mean = Apply(g, "mean", "batch_mean", {Named(g, "act")});
  g.updates = {
      {running, Apply(g, "average", "running_average", {running, mean}, {{"momentum", 0.9}})}};
  TrainingOptions options = With("sgd");
  options.precision = DType::kBF16;
  const Graph graph = Training(g, options);
  CHECK(graph.updates.size() == 4);
  CHECK(graph.updates[0].state == running);
  CHECK(graph.tensor(running).dtype == DType::kF32);
  options.train = {"running"};
  CHECK(ErrorOf(g, options).find("updated by the model itself") != std::string::npos);
}

TEST_CASE("A loss in the parts that a rule made: they are wide, and the gradients are the same") {
  TrainingOptions options = With("sgd");
  const Graph forward = Mlp();
  const auto whole = WithLoss(forward, options);
  REQUIRE(whole.ok());
  Graph apart = *whole;
  const Node loss = apart.nodes.back();
  REQUIRE(loss.op == "cross_entropy");
  apart.nodes.pop_back();
  apart.tensors.pop_back();
  const auto add = [&](const char* op, std::vector<TensorId> inputs, const char* name) {
    const auto spec = BuiltinOperators().Get(op);
    REQUIRE(spec.ok());
    REQUIRE(apart.operators.Add(**spec).ok());
    Node node;
    node.name = name;
    node.op = op;
    node.inputs = std::move(inputs);
    node.origin = "apart";
    const auto id = apart.AddNode(std::move(node), {});
    if (!id.ok()) FAIL(id.status().message());
    return apart.node(*id).outputs;
  };
  const TensorId m = add("row_max", {loss.inputs[0]}, "m")[0];
  const auto sums = add("cross_entropy_sums", {loss.inputs[0], m, loss.inputs[1]}, "sums");
  apart.loss = add("cross_entropy_of_sums", {sums[0], m, sums[1]}, "loss")[0];
  const auto one = TrainLoss(*whole, options), other = TrainLoss(apart, options);
  if (!other.ok()) FAIL(other.status().message());
  REQUIRE(one.ok());
  const std::vector<double> a = Losses(*one, 0.5, 4), b = Losses(*other, 0.5, 4);
  for (size_t i = 0; i < a.size(); ++i) CHECK(a[i] == Approx(b[i]).epsilon(1e-12));

  options.precision = DType::kBF16;
  const auto mixed = TrainLoss(apart, options);
  REQUIRE(mixed.ok());
  for (TensorId t : {m, sums[0], sums[1], *apart.loss}) {
    CHECK(mixed->tensor(t).dtype == DType::kF32);
  }
  CHECK(mixed->tensor(loss.inputs[0]).dtype == DType::kBF16);
  // Without a loss there is nothing to train for.
  CHECK_FALSE(TrainLoss(forward, options).ok());
}

TEST_CASE("The other losses") {
  const Graph mse = Training(Mlp(), With("sgd", "mse"));
  CHECK(PlainShape(mse.tensor(Named(mse, "labels")).shape) == std::vector<int64_t>{4, 3});
  const std::vector<double> losses = Losses(mse, 0.1, 4);
  CHECK(losses.back() < losses.front());
  Graph g = Mlp(false);
  const TensorId z = g.outputs[0];
  g.outputs = {Apply(g, "total", "reduce_sum", {Apply(g, "z2", "square", {z})},
                     {{"rank_c", int64_t{0}}, {"rank_r", int64_t{2}}})};
  const Graph output = Training(g, With("sgd", "output"));
  CHECK(output.loss == g.outputs[0]);
  CHECK(output.inputs.size() == 2);  // x, lr
  Graph kept = Mlp(false);
  kept.outputs = {Apply(kept, "r", "reshape", {Apply(kept, "m", "mean_all", {kept.outputs[0]})},
                        {{"shape", std::vector<int64_t>{1}}})};
  CHECK(Training(kept, With("sgd", "output")).updates.size() == 3);
}

TEST_CASE("Options that make no sense are refused, with the remedy") {
  CHECK(ErrorOf(Mlp(), With("adamx")).find("there are sgd, momentum") != std::string::npos);
  CHECK(ErrorOf(Mlp(), With("sgd", "hinge")).find("there are cross-entropy") != std::string::npos);
  CHECK(ErrorOf(Mlp(), With("sgd", "output")).find("12 elements") != std::string::npos);
  TrainingOptions options = With("sgd");
  options.freeze = {"("};
  CHECK(ErrorOf(Mlp(), options).find("not a regular expression") != std::string::npos);
  options.freeze = {"nothing_like_it"};
  CHECK(ErrorOf(Mlp(), options).find("matches no parameter") != std::string::npos);
  options.freeze = {"."};
  CHECK(ErrorOf(Mlp(), options).find("no parameter on a path") != std::string::npos);
  options = With("sgd");
  options.precision = DType::kBool;
  CHECK(ErrorOf(Mlp(), options).find("not a float type") != std::string::npos);
  Graph none = Mlp();
  none.outputs.clear();
  CHECK(ErrorOf(none, With("sgd")).find("no float output") != std::string::npos);
  Graph scalar = Mlp();
  scalar.outputs = {Apply(scalar, "m", "mean_all", {scalar.outputs[0]})};
  CHECK(ErrorOf(scalar, With("sgd")).find("has no classes") != std::string::npos);
}

}  // namespace
}  // namespace tandem
