// The event-driven timeline of a Program: what one device of the class would do, when. A compute
// stream, one communication stream a level of links, and the host that launches; overlap with
// contention; memory by liveness, in the order of execution.
#ifndef TANDEM_SIMULATOR_TIMELINE_H_
#define TANDEM_SIMULATOR_TIMELINE_H_

#include <map>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "pcg/graph.h"
#include "pcg/program.h"
#include "pcg/record.h"
#include "simulator/machine.h"

namespace tandem {

// Seconds; the four of the first group sum to the step.
struct Breakdown {
  double compute = 0;                // compute stream busy
  double communication_exposed = 0;  // compute idle, waiting for communication
  double host = 0;                   // both idle, waiting for a launch
  double idle = 0;                   // the rest
  // Of what ran behind compute.
  double communication_hidden = 0;
  std::map<std::string, double> compute_by_kind;               // by kernel kind
  std::map<std::string, double> communication_by_collective;   // busy time
};

// Bytes of one device at its peak.
struct MemoryReport {
  int64_t peak_bytes = 0;
  int peak_instruction = -1;
  // At the peak: "parameters", "optimizer_state", "gradients", "activations", "inputs",
  // "constants", "communication" sum to the peak.
  std::map<std::string, int64_t> at_peak;
  int64_t resident_bytes = 0;  // held between steps
};

struct Timeline {
  double step_seconds = 0;
  Breakdown breakdown;
  MemoryReport memory;
  double flops_per_device = 0;              // executed, contractions
  Record record;                            // of device 0; empty unless asked for
};

struct TimelineOptions {
  bool record = false;
};

// `pcg` is the graph whose nodes the Program executes. Errors: an instruction that does not fit it.
absl::StatusOr<Timeline> SimulateProgram(const Graph& pcg, const Program& program,
                                         const Machine& machine,
                                         const TimelineOptions& options = {});

}  // namespace tandem

#endif  // TANDEM_SIMULATOR_TIMELINE_H_
