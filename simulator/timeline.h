// The event-driven timeline of a Program: what one device of the class would do, when. Costs come
// from the graph's operators and the machine, the order from schedule.h, memory from liveness.h.
#ifndef TANDEM_SIMULATOR_TIMELINE_H_
#define TANDEM_SIMULATOR_TIMELINE_H_

#include <vector>

#include "absl/status/statusor.h"
#include "pcg/graph/graph.h"
#include "pcg/program/program.h"
#include "simulator/machine.h"
#include "simulator/schedule.h"

namespace tandem {

// Errors: an instruction that does not fit the graph or has no operands.
absl::StatusOr<std::vector<InstructionCost>> CostsOf(const Graph& pcg, const Program& program,
                                                     const Machine& machine);

// `pcg` is the graph whose nodes the Program executes. Errors: an instruction that does not fit it.
absl::StatusOr<Timeline> SimulateProgram(const Graph& pcg, const Program& program,
                                         const Machine& machine,
                                         const TimelineOptions& options = {});

}  // namespace tandem

#endif  // TANDEM_SIMULATOR_TIMELINE_H_
