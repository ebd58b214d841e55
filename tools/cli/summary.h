// summary.json and the table that `optimize` prints.
#ifndef TANDEM_TOOLS_CLI_SUMMARY_H_
#define TANDEM_TOOLS_CLI_SUMMARY_H_

#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "optimizer/optimize.h"
#include "simulator/machine.h"
#include "simulator/timeline.h"

namespace tandem::cli {

// Fraction of the machine's peak that the model's FLOPs use, for the plan's precision.
double Mfu(const OptimizeResult& result, const Machine& machine, DType precision,
           double step_seconds);

// "1.43x slower", "1.20x faster", "as fast" where two digits behind the point show no difference.
std::string SpeedText(double seconds, double than_seconds);

// Seconds of a step by what the device does, as Breakdown has them; the entries sum to the step.
nlohmann::ordered_json BreakdownJson(const Breakdown& breakdown);

nlohmann::ordered_json SummaryJson(const OptimizeResult& result, const Machine& machine,
                                   const TrainingOptions& training);
std::string SummaryTable(const OptimizeResult& result, const Machine& machine,
                         const TrainingOptions& training);

}  // namespace tandem::cli

#endif  // TANDEM_TOOLS_CLI_SUMMARY_H_
