// Runs a Program on all devices of its mesh in lock step, in one thread and in float64: the oracle
// of lowering's own tests and of every executor's. Slow and simple by intent.
#ifndef TANDEM_PCG_PROGRAM_PROGRAM_INTERPRETER_H_
#define TANDEM_PCG_PROGRAM_PROGRAM_INTERPRETER_H_

#include <map>

#include "absl/status/statusor.h"
#include "pcg/graph/graph.h"
#include "pcg/graph/interpreter.h"
#include "pcg/program/program.h"

namespace tandem {

// `sources`: logical values of inputs, parameters and states (constants come from the graph).
// Returns the logical values of the outputs, of the loss, and of every stored state after the step
// (under the state's own id), put together from the devices' pieces.
// Errors: an instruction that reads a buffer not written or already freed, a buffer that is never
// freed, copies that differ between devices.
absl::StatusOr<std::map<TensorId, HostTensor>> ExecuteProgram(
    const Graph& graph, const Program& program, const std::map<TensorId, HostTensor>& sources);

}  // namespace tandem

#endif  // TANDEM_PCG_PROGRAM_PROGRAM_INTERPRETER_H_
