// Messages of the dual, kept from one solve for the start of another.
#ifndef OPTIMIZER_SOLVER_MESSAGES_H_
#define OPTIMIZER_SOLVER_MESSAGES_H_

#include <vector>

#include "absl/status/status.h"
#include "optimizer/solver/model.h"
#include "optimizer/solver/problem.h"

namespace tandem::solver {

// For edge e, to[2 * e] has an entry for each state of i and to[2 * e + 1] one for each state of j.
// Any numbers give a valid bound; good ones give a tight one. Of edges that join the same pair, the
// sum counts.
struct Messages {
  std::vector<std::vector<double>> to;
};

// InvalidArgument unless there is one entry for each state of each edge's ends.
absl::Status ValidateMessages(const Problem& problem, const Messages& messages);

// Into and out of the flat layout of Model::message_first. Need valid messages of the compiled
// problem.
std::vector<double> PackMessages(const Problem& problem, const CompiledProblem& compiled,
                                 const Messages& messages);
Messages UnpackMessages(const Problem& problem, const CompiledProblem& compiled,
                        const std::vector<double>& flat);

}  // namespace tandem::solver

#endif  // OPTIMIZER_SOLVER_MESSAGES_H_
