// The parallel computation graph in Graphviz's language: every node with its shape and layout,
// clustered by block, every arrow with the collectives on it.
#ifndef TANDEM_TOOLS_REPORT_DOT_H_
#define TANDEM_TOOLS_REPORT_DOT_H_

#include <string>

#include "absl/status/statusor.h"
#include "pcg/program/plan.h"

namespace tandem {

// Of the plan's first Program. Same plan, same bytes. InvalidArgument: a plan without Programs.
absl::StatusOr<std::string> PlanDot(const Plan& plan);

}  // namespace tandem

#endif  // TANDEM_TOOLS_REPORT_DOT_H_
