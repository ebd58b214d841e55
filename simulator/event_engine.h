// Tasks on in-order streams, with dependencies, launch times and contention: when each starts and
// ends. Stream 0 computes, the others communicate. While a computation and a communication run at
// the same time, both are slowed by 1 + contention, so that overlapping a with b seconds takes
// max(a, b) + contention * min(a, b).
#ifndef TANDEM_SIMULATOR_EVENT_ENGINE_H_
#define TANDEM_SIMULATOR_EVENT_ENGINE_H_

#include <vector>

namespace tandem {

struct Task {
  int stream = 0;
  double work_seconds = 0;    // alone
  double launch_seconds = 0;  // not before
  std::vector<int> after;     // tasks that end before this one starts; all of lower index
  double start_seconds = 0;   // results
  double end_seconds = 0;
};

struct EngineTotals {
  double end_seconds = 0;
  // These five are disjoint and sum to end_seconds.
  double compute = 0;                // stream 0 busy, no other
  double communication_hidden = 0;   // stream 0 busy, and another
  double communication_exposed = 0;  // another busy, stream 0 not
  double host = 0;                   // nothing runs, and a launch is what is waited for
  double idle = 0;
};

// Fills the results in. Tasks of one stream run in order of index.
EngineTotals RunTasks(std::vector<Task>& tasks, int streams, double contention);

}  // namespace tandem

#endif  // TANDEM_SIMULATOR_EVENT_ENGINE_H_
