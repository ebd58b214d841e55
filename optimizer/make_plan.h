// The result of a search as a plan that can be stored, run, simulated and verified.
#ifndef TANDEM_OPTIMIZER_MAKE_PLAN_H_
#define TANDEM_OPTIMIZER_MAKE_PLAN_H_

#include <string>

#include "absl/status/statusor.h"
#include "optimizer/optimize.h"
#include "pcg/program/plan.h"

namespace tandem {

// `model`: as the user gave it. `machine`: the machine's text. The summary is left empty.
absl::StatusOr<Plan> MakePlan(const std::string& model, const std::string& machine,
                              const Graph& forward, const OptimizeOptions& options,
                              const OptimizeResult& result);

}  // namespace tandem

#endif  // TANDEM_OPTIMIZER_MAKE_PLAN_H_
