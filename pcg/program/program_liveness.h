// When each buffer of a Program is last needed.
#ifndef TANDEM_PCG_PROGRAM_PROGRAM_LIVENESS_H_
#define TANDEM_PCG_PROGRAM_PROGRAM_LIVENESS_H_

#include <vector>

#include "pcg/program/program.h"

namespace tandem {

// Buffers that are never freed: sources' stored values, outputs, the loss, and what kStoreState
// keeps.
std::vector<bool> KeptBuffers(const Program& program);

// Inserts kFree after the last use of every other buffer; for one that outlives a micro-batch (made
// before the loop, or by kLoop) and is last used inside, right after the loop. Adjusts the loop's
// bounds. The Program must have no kFree yet.
void AddFrees(Program& program);

}  // namespace tandem

#endif  // TANDEM_PCG_PROGRAM_PROGRAM_LIVENESS_H_
