// The logical graph: tensors and operator applications, serial meaning. A parallel computation
// graph is a Graph together with a Strategy (strategy.h), which says how each node is split.
//
// Invariants (CheckGraph): ids are positions; nodes are in topological order; each tensor has at
// most one producer; every node's operator is in `operators`; shapes agree with inference.
#ifndef TANDEM_PCG_GRAPH_GRAPH_H_
#define TANDEM_PCG_GRAPH_GRAPH_H_

#include <map>
#include <optional>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "pcg/dtype.h"
#include "pcg/ids.h"
#include "pcg/instance/op_instance.h"
#include "pcg/language/op_parser.h"

namespace tandem {

enum class TensorRole : uint8_t {
  kActivation,  // produced by a node
  kInput,       // a batch input (data, labels)
  kParameter,   // trained; the stored (master) value
  kState,       // other state: optimizer moments, running statistics, frozen weights
  kConstant,    // small known values, in `values`
  kStepInput,   // learning rate, step number: scalars given by the runtime each step
};

enum class Phase : uint8_t { kForward, kBackward, kUpdate };

struct Tensor {
  std::string name;  // unique in the graph, stable across rewrites where the meaning is the same
  DType dtype = DType::kF32;
  FactoredShape shape;
  TensorRole role = TensorRole::kActivation;
  NodeId producer;  // invalid for sources
  int producer_output = 0;
  std::vector<double> values;  // kConstant; also kParameter/kState when the file had them inside
  std::string external;        // "file:offset:length" of weights not loaded, or ""
  std::string initializer;     // how a run makes it when no values: "normal(0.02)", "constant(1)"
  std::string note;            // what it was taken for, and why (models show)
  bool operator==(const Tensor&) const = default;
};

struct Node {
  std::string name;  // unique; stable
  std::string op;    // in Graph::operators
  Attributes attributes;
  std::vector<TensorId> inputs;  // present inputs only; attribute "absent" lists missing ones
  std::vector<TensorId> outputs;
  Phase phase = Phase::kForward;
  int block = -1;      // repeated region this belongs to (layer number), -1 = none
  std::string origin;  // the rule or pass that made it, or "" (imported)
  bool operator==(const Node&) const = default;
};

// A state tensor and the tensor that becomes its value after the step.
struct StateUpdate {
  TensorId state;
  TensorId next;
  bool operator==(const StateUpdate&) const = default;
};

struct Graph {
  std::string name;
  OperatorLibrary operators;
  std::vector<Tensor> tensors;
  std::vector<Node> nodes;
  std::vector<TensorId> inputs;      // kInput and kStepInput, in order (model inputs, then labels)
  std::vector<TensorId> outputs;     // the model's own outputs
  std::optional<TensorId> loss;      // scalar, training graphs
  std::vector<StateUpdate> updates;  // training graphs
  int64_t batch = 0;                 // global batch the graph is built for; 0 = none

  const Tensor& tensor(TensorId id) const { return tensors[id.index()]; }
  const Node& node(NodeId id) const { return nodes[id.index()]; }

  TensorId AddSource(Tensor tensor);  // input, parameter, state, constant
  // Instantiates the operator, infers output shapes, appends node and output tensors
  // ("<name>" or "<name>:k"), dtype of each output as given or that of the first input.
  absl::StatusOr<NodeId> AddNode(Node node, const std::vector<DType>& output_dtypes = {});
  std::vector<std::vector<NodeId>> Readers() const;  // per tensor
};

// The node's instance under the graph's (factored) tensor shapes.
absl::StatusOr<OpInstance> InstanceOf(const Graph& graph, NodeId node);

// Propagates factors through all nodes (reshapes, slices at multiples, plain indices) until nothing
// changes, so that every split that survives a reshape is visible as a factor. Plain shapes stay.
absl::Status PropagateFactors(Graph& graph);

// All invariants above, and no cycle, no zero dim; errors name node and tensor.
absl::Status CheckGraph(const Graph& graph);

// Removes nodes and sources that reach no output, loss or update; keeps order and names.
Graph Pruned(const Graph& graph);

}  // namespace tandem

#endif  // TANDEM_PCG_GRAPH_GRAPH_H_
