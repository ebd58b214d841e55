// Is the distributed run right? Its losses, outputs and stored states against the reference
// interpreter on the serial graph, from the same sources, in float64.
#ifndef TANDEM_RUNTIME_CHECK_H_
#define TANDEM_RUNTIME_CHECK_H_

#include <cstdint>
#include <map>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "pcg/graph/graph.h"
#include "pcg/graph/interpreter.h"
#include "runtime/execution.h"
#include "runtime/sources.h"

namespace tandem {

struct SerialRun {
  std::vector<double> losses;                // by step, before its update
  std::vector<HostTensor> outputs;           // of the last step's forward pass
  std::map<std::string, HostTensor> states;  // by name, after the last step
};

// `steps` training steps of the graph by the reference interpreter.
absl::StatusOr<SerialRun> RunSerially(const Graph& graph, const Sources& sources, int64_t steps);

// |a - b| <= tolerance (1 + |b|) is equality up to reassociation in float64.
constexpr double kCheckTolerance = 1e-10;

struct Comparison {
  double max_abs_difference = 0;     // infinite where one of the two is not a number
  double max_scaled_difference = 0;  // |a - b| / (1 + |b|)
  bool equal = true;
  std::string worst;     // "w1[17] on rank 2: 0.5, serially 0.25"
  int64_t compared = 0;  // values
};

// Every rank's copy of every piece is compared. `graph`: of the execution. A state that the serial
// graph does not have, or one that was not compared, is an error.
absl::StatusOr<Comparison> CompareWithSerial(const Graph& graph, const ExecutionResult& result,
                                             const SerialRun& serial);

// Outputs of the first forward pass against given ones, by position.
absl::StatusOr<Comparison> CompareOutputs(const Graph& graph, const ExecutionResult& result,
                                          const std::map<int, HostTensor>& expected);

}  // namespace tandem

#endif  // TANDEM_RUNTIME_CHECK_H_
