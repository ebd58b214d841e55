// Runs a plan's Programs with one thread a rank and brings back what they computed. The ranks'
// communicators are threads' (thread_communicator.h).
#ifndef TANDEM_RUNTIME_EXECUTION_H_
#define TANDEM_RUNTIME_EXECUTION_H_

#include <cstdint>
#include <functional>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "pcg/dtype.h"
#include "pcg/graph/graph.h"
#include "pcg/io/record.h"
#include "pcg/program/program.h"
#include "runtime/sources.h"

namespace tandem {

struct ExecutionOptions {
  int64_t steps = 1;
  DType dtype = DType::kF32;     // kF32 or kF64
  double timeout_seconds = 300;  // longest wait for another rank
  bool keep_results = false;     // bring back outputs and states
  bool record = false;           // spans of the last step
  // Before each instruction of a rank; step 0 is preparation. For tests: a rank that fails or
  // hangs.
  std::function<absl::Status(int rank, int64_t step, int instruction)> before_instruction;
};

// One rank's piece of a logical tensor of the graph.
struct ResultPiece {
  TensorId tensor;
  int64_t rank = 0;
  std::vector<int64_t> indices;  // logical, row-major
  std::vector<double> values;
};

struct ExecutionResult {
  std::vector<double> losses;  // by step, before the step's update; empty without a loss
  std::vector<ResultPiece> first_outputs;  // after step 1
  std::vector<ResultPiece> outputs;        // after the last step
  std::vector<ResultPiece> states;         // stored values after the last step
  std::vector<double> step_seconds;        // by step, of the slowest rank
  double prepare_seconds = 0;
  std::vector<int64_t> peak_bytes;  // by rank
  Record record;
};

// Errors name the rank and the instruction. Every device of the mesh must be in exactly one
// Program.
absl::StatusOr<ExecutionResult> Execute(const Graph& graph, const std::vector<Program>& programs,
                                        const Sources& sources, const ExecutionOptions& options);

}  // namespace tandem

#endif  // TANDEM_RUNTIME_EXECUTION_H_
