// Small collectives put together, so that their latency is paid once: gradients that are ready
// early wait for later ones (and are reduced together before the first is used), weights that are
// needed late are gathered with earlier ones.
#ifndef TANDEM_PCG_PROGRAM_BUNDLE_H_
#define TANDEM_PCG_PROGRAM_BUNDLE_H_

#include <cstdint>

#include "pcg/program/program.h"

namespace tandem {

// The Program with collectives of the same step, mesh axes, combiner and element type joined, until
// one moves at least `bundle_bytes` (the larger of what it reads and writes); larger ones stay as
// they are. A reduction moves back at most to the first instruction that reads its result, a gather
// forward at most to the last that writes its operand; none crosses the ends of the micro-batch
// loop. One whose result is read as soon as its operand is there keeps its place and its size.
// Every value keeps its buffer. Zero bytes: the Program as it is.
Program Bundled(const Program& program, int64_t bundle_bytes);

}  // namespace tandem

#endif  // TANDEM_PCG_PROGRAM_BUNDLE_H_
