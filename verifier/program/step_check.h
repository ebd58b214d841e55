// The definitions of the steps that move values between devices and micro-batches, as obligations:
// what must hold of the layouts before and after, so that the step turns the one into the other.
#ifndef TANDEM_VERIFIER_PROGRAM_STEP_CHECK_H_
#define TANDEM_VERIFIER_PROGRAM_STEP_CHECK_H_

#include "pcg/graph/graph.h"
#include "pcg/program/program.h"
#include "verifier/program/check_log.h"

namespace tandem {

// Of a collective, local or loop instruction over at least one mesh axis that takes the value of
// `in` to `out`. That both claim the same tensor is the caller's to check.
void CheckStep(const Graph& pcg, const Mesh& mesh, const Instruction& ins, const Buffer& in,
               const Buffer& out, CheckLog& log);

}  // namespace tandem

#endif  // TANDEM_VERIFIER_PROGRAM_STEP_CHECK_H_
