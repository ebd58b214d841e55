// The reference interpreter: evaluates operator instances and graphs in float64 straight from the
// equations, with the loop nests of loop_nest.h.
#ifndef TANDEM_PCG_GRAPH_INTERPRETER_H_
#define TANDEM_PCG_GRAPH_INTERPRETER_H_

#include <map>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "pcg/graph/graph.h"
#include "pcg/instance/op_instance.h"
#include "pcg/kernel/loop_nest.h"

namespace tandem {

// A dense tensor of doubles, row-major (integers and booleans are exact doubles).
struct HostTensor {
  std::vector<int64_t> shape;
  std::vector<double> data;
};

// Evaluates all outputs. Inputs in instance order. Reads out of range without an `else` are errors.
absl::StatusOr<std::vector<HostTensor>> Evaluate(const OpInstance& instance,
                                                 const std::vector<const HostTensor*>& inputs,
                                                 const PieceOfOp& piece = {});

// Evaluates a whole graph from its sources; returns the value of every tensor asked for.
absl::StatusOr<std::map<TensorId, HostTensor>> EvaluateGraph(
    const Graph& graph, const std::map<TensorId, HostTensor>& sources,
    const std::vector<TensorId>& wanted);

}  // namespace tandem

#endif  // TANDEM_PCG_GRAPH_INTERPRETER_H_
