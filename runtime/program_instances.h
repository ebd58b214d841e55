// The operator instances of a Program's kernels, and what an executor takes for granted.
#ifndef TANDEM_RUNTIME_PROGRAM_INSTANCES_H_
#define TANDEM_RUNTIME_PROGRAM_INSTANCES_H_

#include <memory>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "pcg/graph/graph.h"
#include "pcg/program/program.h"

namespace tandem {

// Made once for all ranks: by instruction, null where it is no kernel.
using ProgramInstances = std::vector<std::shared_ptr<const OpInstance>>;

// Errors: a kernel of no node, or with other operands or sizes than its node has. Says which
// instruction.
absl::StatusOr<ProgramInstances> InstancesOf(const Graph& graph, const Program& program);

// That whatever executes the Program stays inside its buffers: pieces have the sizes that layouts
// and operators give them, steps are between pieces of one shape, and all that nothing writes comes
// from outside. Not that the right values come out: the verifier says that. Indices are in range
// (as ProgramFromProto leaves them). Errors: InvalidArgument, with the buffer or instruction.
absl::Status CheckExecutable(const Graph& graph, const Program& program,
                             const ProgramInstances& instances);

}  // namespace tandem

#endif  // TANDEM_RUNTIME_PROGRAM_INSTANCES_H_
