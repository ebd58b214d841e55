#include "optimizer/make_plan.h"

#include "pcg/autodiff/training.h"

namespace tandem {

absl::StatusOr<Plan> MakePlan(const std::string& model, const std::string& machine,
                              const Graph& forward, const OptimizeOptions& options,
                              const OptimizeResult& result) {
  Plan plan;
  plan.model = model;
  plan.machine = machine;
  plan.training = options.training;
  plan.training.outputs = options.training.outputs && result.best.outputs;
  plan.forward = forward;
  absl::StatusOr<Graph> serial = options.serve ? WithPrecision(forward, options.training.precision)
                                               : MakeTrainingGraph(forward, plan.training);
  if (!serial.ok()) return serial.status();
  plan.serial = *std::move(serial);
  plan.rewritten_forward = result.forward;
  plan.pcg = result.best.pcg;
  plan.rules = result.rules;
  plan.strategy = result.best.strategy;
  plan.programs = {result.best.program};
  return plan;
}

}  // namespace tandem
