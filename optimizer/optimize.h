// The search: forms of the algebra, mesh shapes, micro-batches, recomputation and layouts together,
// under the memory of the machine; baselines through the same lowering and timeline. Deterministic;
// budgets count solver steps, never seconds.
#ifndef TANDEM_OPTIMIZER_OPTIMIZE_H_
#define TANDEM_OPTIMIZER_OPTIMIZE_H_

#include <atomic>
#include <functional>
#include <map>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "optimizer/forced.h"
#include "pcg/graph/graph.h"
#include "pcg/layout/strategy.h"
#include "pcg/program/plan.h"
#include "pcg/program/program.h"
#include "simulator/machine.h"
#include "simulator/timeline.h"
#include "substitutions/apply.h"

namespace tandem {

struct OptimizeOptions {
  TrainingOptions training;
  bool serve = false;              // forward only
  int64_t memory_limit_bytes = 0;  // a device; 0 = what the machine has, less a reserve
  std::string force = "none";      // none, data, fsdp, tensor, sequence, mixed
  std::vector<int64_t> mesh;       // fixed mesh, or empty
  int64_t micro_batches = 0;       // fixed, or 0
  bool may_drop_outputs = true;    // of a training step, where they take memory that is needed
  int max_axes = 2;
  bool baselines = true;
  std::function<void(const std::string&)> progress;
  const std::atomic<bool>* cancel = nullptr;
};

// One evaluated plan: what Lower and SimulateProgram say of a strategy.
struct Evaluated {
  std::string name;
  Graph pcg;
  Strategy strategy;
  Program program;
  Timeline timeline;
  int form = 0;
  int64_t micro_batches = 1;
  int recomputed_blocks = 0;
  bool outputs = true;           // the training step gives the model's outputs
  int64_t bundle_bytes = 0;      // of collectives put together (bundle.h); 0 = each by itself
  double objective_seconds = 0;  // the search's own cost, no overlap
  double objective_bytes = 0;    // its own sum of what phases hand on, on a device
  double bound_seconds = 0;
  bool fits = false;
};

struct Baseline {
  bool applicable = false;
  std::string reason;  // why not, or what it is
  bool fits = false;
  double step_seconds = 0;
  int64_t peak_bytes = 0;
};

struct OptimizeResult {
  Evaluated best;
  Graph forward;  // the rewritten forward graph that `best` trains
  std::vector<RuleApplication> rules;
  std::map<std::string, Baseline> baselines;  // data_parallel, fsdp, best_uniform
  std::vector<std::string> strategy_lines;    // for people
  std::vector<std::string> notes;             // what limited the plan
  int64_t search_steps = 0;
  double model_flops = 0;  // of one step, contractions of the training graph
  double gap = 0;
};

// `forward` is the imported graph. Errors: InvalidArgument for bad input (a batch that cannot be
// trained), ResourceExhausted when no plan fits the memory: says by how much and what would help.
absl::StatusOr<OptimizeResult> Optimize(const Graph& forward, const ProvedRuleSet& rules,
                                        const Machine& machine, const OptimizeOptions& options);

}  // namespace tandem

#endif  // TANDEM_OPTIMIZER_OPTIMIZE_H_
