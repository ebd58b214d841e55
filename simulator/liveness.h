// Peak memory of a Program on one device, by kind, from the lives of its buffers in issue order.
//
// Parameters, states and constants live all the step. Other buffers live from the instruction that
// writes them to their kFree; an accumulator of the micro-batch loop from the loop's start. A value
// stored back to a state (kStoreState) takes the state's own memory where nothing reads the old
// state after the new value is written.
// Where communication runs beside computation, a collective may be early (its result is held before
// it is issued) and late (its input is held after it was freed), each by at most a window of bytes.
// The timeline keeps to the same windows, so that what is counted here is never exceeded there.
#ifndef TANDEM_SIMULATOR_LIVENESS_H_
#define TANDEM_SIMULATOR_LIVENESS_H_

#include <cstdint>
#include <map>
#include <string>
#include <vector>

#include "pcg/program/program.h"

namespace tandem {

// Bytes of one device at its peak.
struct MemoryReport {
  int64_t peak_bytes = 0;
  int peak_instruction = -1;  // at whose issue the peak is first reached
  // At the peak: "parameters", "optimizer_state", "gradients", "activations", "inputs",
  // "constants", "communication" (results of collectives) sum to the peak.
  std::map<std::string, int64_t> at_peak;
  int64_t resident_bytes = 0;       // parameters, states and constants
  std::vector<int64_t> live_bytes;  // at the issue of each instruction
};

// How far each collective may be early and late. Positions are instructions of the Program.
struct CollectiveWindow {
  int instruction = 0;
  int earliest = 0;  // It may start once all instructions before this one are done.
  int latest = 0;    // No kernel from this one on starts before it is done.
};

// In issue order. `window_bytes` zero: a collective starts when it is issued and is done before the
// next instruction starts. Else earliest is the first position from which the collectives up to
// this one write no more than the window (and one collective may always be early by itself, up to
// where its input is there), latest the first up to which those from this one on read more than it.
std::vector<CollectiveWindow> CollectiveWindows(const Program& program, int64_t window_bytes);

// The largest buffer of a collective, at least 64 MiB: the largest may be under way beside the one
// that is in use.
int64_t DefaultWindowBytes(const Program& program);

// `views`, by instruction (empty: none): its output is its input's memory under another shape.
MemoryReport PeakMemory(const Program& program, int64_t window_bytes,
                        const std::vector<bool>& views = {});

}  // namespace tandem

#endif  // TANDEM_SIMULATOR_LIVENESS_H_
