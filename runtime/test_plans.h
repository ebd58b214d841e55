// Small training jobs and ways to distribute them, for tests of whole runs.
#ifndef TANDEM_RUNTIME_TEST_PLANS_H_
#define TANDEM_RUNTIME_TEST_PLANS_H_

#include <map>
#include <random>
#include <stdexcept>
#include <string>
#include <utility>
#include <vector>

#include "pcg/autodiff/training.h"
#include "pcg/language/op_parser.h"
#include "pcg/layout/factor_table.h"
#include "pcg/layout/test_mesh.h"
#include "pcg/program/lower.h"
#include "pcg/program/plan.h"

namespace tandem {

template <typename T>
T Must(absl::StatusOr<T> value) {
  if (!value.ok()) throw std::runtime_error(value.status().ToString());
  return *std::move(value);
}

class ModelBuilder {
 public:
  Graph graph;
  explicit ModelBuilder(const std::string& name, int64_t batch) {
    graph.name = name;
    graph.batch = batch;
    graph.operators = BuiltinOperators();
  }
  TensorId Source(const std::string& name, const std::vector<int64_t>& shape, TensorRole role,
                  DType dtype = DType::kF32) {
    Tensor tensor;
    tensor.name = name;
    for (int64_t extent : shape) tensor.shape.push_back({extent});
    tensor.role = role;
    tensor.dtype = dtype;
    return graph.AddSource(std::move(tensor));
  }
  TensorId Input(const std::string& name, const std::vector<int64_t>& shape,
                 DType dtype = DType::kF32) {
    return Source(name, shape, TensorRole::kInput, dtype);
  }
  TensorId Weight(const std::string& name, const std::vector<int64_t>& shape) {
    return Source(name, shape, TensorRole::kParameter);
  }
  TensorId Apply(const std::string& name, const std::string& op, std::vector<TensorId> inputs,
                 Attributes attributes = {}) {
    Node node;
    node.name = name;
    node.op = op;
    node.inputs = std::move(inputs);
    node.attributes = std::move(attributes);
    return graph.node(Must(graph.AddNode(std::move(node)))).outputs[0];
  }
};

inline Graph MlpModel(int64_t batch = 12) {
  ModelBuilder b("mlp", batch);
  const TensorId x = b.Input("x", {batch, 6});
  const TensorId h = b.Apply("fc1", "linear", {x, b.Weight("w1", {6, 12}), b.Weight("b1", {12})});
  const TensorId a = b.Apply("act", "gelu", {h});
  b.graph.outputs = {b.Apply("fc2", "matmul", {a, b.Weight("w2", {12, 6})})};
  return b.graph;
}

inline Graph TransformerModel() {
  ModelBuilder b("transformer", 4);
  const TensorId ids = b.Input("ids", {4, 6}, DType::kI64);
  const TensorId x = b.Apply("embed", "embedding", {ids, b.Weight("table", {10, 8})});
  const TensorId n =
      b.Apply("norm", "layer_norm", {x, b.Weight("gamma", {8}), b.Weight("beta", {8})});
  const auto heads = [&](const std::string& name) {
    const TensorId p = b.Apply(name, "matmul", {n, b.Weight("w" + name, {8, 8})});
    const TensorId r =
        b.Apply(name + ".heads", "reshape", {p}, {{"shape", std::vector<int64_t>{4, 6, 2, 4}}});
    return b.Apply(name + ".t", "transpose", {r}, {{"perm", std::vector<int64_t>{0, 2, 1, 3}}});
  };
  const TensorId q = heads("q"), k = heads("k"), v = heads("v");
  const TensorId a = b.Apply("attention", "causal_attention", {q, k, v}, {{"scale", 0.5}});
  const TensorId t =
      b.Apply("back", "transpose", {a}, {{"perm", std::vector<int64_t>{0, 2, 1, 3}}});
  const TensorId m = b.Apply("merge", "reshape", {t}, {{"shape", std::vector<int64_t>{4, 6, 8}}});
  const TensorId r = b.Apply("residual", "add", {m, x});
  b.graph.outputs = {
      b.Apply("logits", "linear_t", {r, b.Weight("head", {10, 8}), b.Weight("bias", {10})})};
  return b.graph;
}

inline Graph ConvModel() {
  ModelBuilder b("conv", 4);
  const TensorId x = b.Input("image", {4, 4, 8, 8});
  const Attributes same = {{"pad_top", int64_t{1}},    {"pad_left", int64_t{1}},
                           {"pad_bottom", int64_t{1}}, {"pad_right", int64_t{1}},
                           {"stride_h", int64_t{2}},   {"absent", std::vector<int64_t>{2}}};
  const TensorId c = b.Apply("conv1", "conv2d", {x, b.Weight("f1", {8, 2, 3, 3})}, same);
  const TensorId mean = b.Apply("mean", "batch_mean", {c});
  const TensorId var = b.Apply("var", "batch_var", {c, mean});
  const TensorId n =
      b.Apply("norm", "batch_norm", {c, b.Weight("gamma", {8}), b.Weight("beta", {8}), mean, var});
  const TensorId r = b.Apply("relu", "relu", {n});
  const TensorId p = b.Apply("pool", "max_pool2d", {r},
                             {{"kernel_h", int64_t{2}},
                              {"kernel_w", int64_t{2}},
                              {"stride_h", int64_t{2}},
                              {"stride_w", int64_t{2}}});
  const TensorId g =
      b.Apply("mean_hw", "reduce_mean", {p}, {{"rank_c", int64_t{0}}, {"rank_r", int64_t{2}}});
  b.graph.outputs = {b.Apply("fc", "matmul", {g, b.Weight("w", {8, 4})})};
  return b.graph;
}

// A plan of the model as it is, without rewriting. The strategy is for plan.pcg.
inline Plan SerialPlan(const Graph& model, const std::string& optimizer) {
  Plan plan;
  plan.model = model.name;
  plan.forward = plan.rewritten_forward = model;
  plan.training.optimizer = optimizer;
  plan.training.lr = 0.05;
  plan.serial = Must(MakeTrainingGraph(model, plan.training));
  plan.pcg = plan.serial;
  const absl::Status status = PropagateFactors(plan.pcg);
  if (!status.ok()) throw std::runtime_error(status.ToString());
  return plan;
}

inline absl::Status Distribute(Plan& plan, const Strategy& strategy) {
  absl::StatusOr<Program> program = Lower(plan.pcg, strategy, BytesStepCost(strategy.mesh));
  if (!program.ok()) return program.status();
  plan.strategy = strategy;
  plan.programs = {*std::move(program)};
  return absl::OkStatus();
}

// One mesh axis follows the placements of the given sources through the graph: each node takes the
// row that its inputs' placements name, else computes everything everywhere. `sharded` stores every
// parameter and state split in its first dim, and updates the pieces (ZeRO).
inline void Follow(const Graph& graph, size_t axis,
                   const std::map<std::string, AxisPlacement>& from, bool sharded,
                   Strategy& strategy) {
  const int64_t degree = strategy.mesh.axes[axis].extent;
  const AxisPlacement first = AxisPlacement::Split(0, 0);
  std::vector<AxisPlacement> places(graph.tensors.size());
  std::vector<bool> split_state(graph.tensors.size(), false);
  for (size_t t = 0; t < graph.tensors.size(); ++t) {
    const Tensor& tensor = graph.tensors[t];
    if (tensor.producer.valid()) continue;
    if (const auto given = from.find(tensor.name); given != from.end()) {
      places[t] = strategy.sources[t].axes[axis] = given->second;
    }
    const bool state = tensor.role == TensorRole::kParameter || tensor.role == TensorRole::kState;
    if (!sharded || !state || tensor.shape.empty() || tensor.shape[0][0] % degree != 0) continue;
    strategy.sources[t].axes[axis] = first;
    split_state[t] = true;
  }
  for (size_t n = 0; n < graph.nodes.size(); ++n) {
    const Node& node = graph.nodes[n];
    const OpInstance op = Must(InstanceOf(graph, NodeId(static_cast<int64_t>(n))));
    const std::vector<SplitRow> table = FactorTable(op);
    const auto fits = [&](const SplitRow& row) {
      if (row.size < 0 || op.sizes[static_cast<size_t>(row.size)].extent % degree != 0)
        return false;
      for (size_t i = 0; i < node.inputs.size(); ++i) {
        const TensorId input = node.inputs[i];
        const bool update = node.phase == Phase::kUpdate;
        const Tensor& tensor = graph.tensor(input);
        if (update && split_state[input.index()] && !(row.inputs[i] == first)) return false;
        if (update && (tensor.producer.valid() || split_state[input.index()])) continue;
        if (!(row.inputs[i] == places[input.index()])) return false;
      }
      return true;
    };
    for (size_t r = 0; r < table.size(); ++r) {
      if (!fits(table[r])) continue;
      strategy.nodes[n].rows[axis] = static_cast<int>(r);
      for (size_t o = 0; o < node.outputs.size(); ++o) {
        AxisPlacement& place = places[node.outputs[o].index()];
        place = table[r].outputs[o];
        if (place.kind == AxisPlacement::Kind::kPartial) place = {};  // readers want it complete
      }
      break;
    }
  }
}

// Any row that divides, for every node and axis; any stored layout.
inline Strategy AnyStrategy(const Graph& graph, const Mesh& mesh, std::mt19937& random) {
  Strategy strategy = ReplicatedStrategy(graph, mesh);
  for (size_t n = 0; n < graph.nodes.size(); ++n) {
    const OpInstance op = Must(InstanceOf(graph, NodeId(static_cast<int64_t>(n))));
    const std::vector<SplitRow> table = FactorTable(op);
    for (size_t a = 0; a < mesh.axes.size(); ++a) {
      const int kept = strategy.nodes[n].rows[a];
      strategy.nodes[n].rows[a] = static_cast<int>(random() % table.size());
      // A row that wants partial inputs needs a producer that leaves them.
      const bool splits = table[static_cast<size_t>(strategy.nodes[n].rows[a])].size >= 0;
      if (!splits || !LayoutsOf(op, table, strategy.nodes[n], mesh).ok()) {
        strategy.nodes[n].rows[a] = kept;
      }
    }
  }
  for (size_t t = 0; t < graph.tensors.size(); ++t) {
    const Tensor& tensor = graph.tensors[t];
    if (tensor.producer.valid() || tensor.shape.empty()) continue;
    for (size_t a = 0; a < mesh.axes.size(); ++a) {
      if (mesh.axes[a].temporal || random() % 2 == 0) continue;
      Layout layout = strategy.sources[t];
      layout.axes[a] = AxisPlacement::Split(static_cast<int>(random() % tensor.shape.size()), 0);
      if (CheckLayout(tensor.shape, layout, mesh).ok()) strategy.sources[t] = layout;
    }
  }
  return strategy;
}

}  // namespace tandem

#endif  // TANDEM_RUNTIME_TEST_PLANS_H_
