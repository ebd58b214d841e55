// Runs a plan: `tandem run`.
#ifndef TANDEM_RUNTIME_RUN_H_
#define TANDEM_RUNTIME_RUN_H_

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "pcg/dtype.h"
#include "pcg/io/record.h"
#include "pcg/program/plan.h"

namespace tandem {

struct RunOptions {
  std::string backend = "cpu";  // cpu, cuda
  int64_t ranks = 0;            // 0: the plan's number of devices; else it must be that
  int64_t steps = 1;
  std::optional<DType> dtype;  // fp32 or fp64 is what runs on a CPU; default: the plan's
  uint64_t seed = 1;
  std::optional<double> lr;      // default: the plan's
  std::string data_folder;       // data.h; empty: seeded data
  bool check = false;            // compare with the serial graph (in float64)
  double timeout_seconds = 300;  // longest wait for another rank
};

struct RunResult {
  int64_t ranks = 0;
  int64_t steps = 0;
  DType dtype = DType::kF32;   // what was computed in
  std::vector<double> losses;  // by step, before its update
  // --check: over losses, outputs and every stored state; `equal`: |a - b| <= 1e-10 (1 + |b|) for
  // all.
  std::optional<double> max_abs_difference_from_serial;
  bool equal = true;
  std::string worst;  // where the largest difference is, with both values
  std::optional<double> outputs_max_abs_difference;  // --data with outputs
  double step_seconds = 0;  // median, the first step left out where there are more
  double prepare_seconds = 0;
  int64_t peak_bytes = 0;          // of the rank that needs most
  Record record;                   // of the last step
  std::vector<std::string> notes;  // what was taken for granted, for people
};

// Errors are the user's (wrong number of ranks, data that do not fit: InvalidArgument or NotFound)
// or a rank's (with its number and instruction).
absl::StatusOr<RunResult> RunPlan(const Plan& plan, const RunOptions& options);

}  // namespace tandem

#endif  // TANDEM_RUNTIME_RUN_H_
