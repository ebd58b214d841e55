// When each instruction of a Program runs, given what each costs: a compute stream, one
// communication stream a level of links, and the host that launches in issue order. An instruction
// waits for its launch, for what wrote its inputs, for readers of what it overwrites, and for its
// stream; collectives keep to their windows (liveness.h). Computing and communicating at once slows
// both (Machine::overlap_contention). Without asynchronous communication everything is in order.
#ifndef TANDEM_SIMULATOR_SCHEDULE_H_
#define TANDEM_SIMULATOR_SCHEDULE_H_

#include <map>
#include <string>
#include <vector>

#include "pcg/io/record.h"
#include "pcg/program/program.h"
#include "simulator/liveness.h"
#include "simulator/machine.h"

namespace tandem {

// Time of each instruction alone on its stream, once.
struct InstructionCost {
  double seconds = 0;
  int level = -1;        // of links, for collectives; -1 on the compute stream
  std::string category;  // kernel or collective kind; "view"; empty for what runs nothing (free)
  double contraction_flops = 0;
};

// Seconds; the five of the first group are disjoint and sum to the step.
struct Breakdown {
  double compute = 0;                             // compute stream busy, no communication beside it
  double communication_hidden = 0;                // both busy
  double communication_exposed = 0;               // compute idle, waiting for communication
  double host = 0;                                // both idle, waiting for a launch
  double idle = 0;                                // the rest
  std::map<std::string, double> compute_by_kind;  // by kernel kind
  std::map<std::string, double> communication_by_collective;  // busy time
};

struct Timeline {
  double step_seconds = 0;
  Breakdown breakdown;
  MemoryReport memory;
  double flops_per_device = 0;  // executed, contractions
  Record record;                // of device 0; empty unless asked for
};

struct TimelineOptions {
  bool record = false;
  // Micro-batches that are simulated one by one; the rest take as long as the last of them. Of
  // these the first two and the last are recorded.
  int simulated_micro_batches = 8;
};

// The timeline of a Program whose instructions cost that; one entry each.
Timeline SimulateCosts(const Program& program, const std::vector<InstructionCost>& costs,
                       const Machine& machine, const TimelineOptions& options = {});

}  // namespace tandem

#endif  // TANDEM_SIMULATOR_SCHEDULE_H_
