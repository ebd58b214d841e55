// Small plans for the tests of the report.
#ifndef TANDEM_TOOLS_REPORT_REPORT_TEST_PLAN_H_
#define TANDEM_TOOLS_REPORT_REPORT_TEST_PLAN_H_

#include <string>

#include "pcg/program/plan.h"
#include "simulator/machine.h"

namespace tandem {

struct TestPlanOptions {
  int blocks = 3;             // each linear, gelu, linear; a head follows the last
  std::string name = "mlp";   // of the model; a prefix of all node names too
  int64_t devices = 4;        // one mesh axis "x0"
  int64_t micro_batches = 1;  // more: forward only
  bool train = true;
  bool tensor_parallel = false;  // weights split instead of the batch
  bool sharded = false;          // parameters are stored split, and gathered for each use
};

Machine TestMachine(int64_t devices);
// A plan that went through MakeTrainingGraph and Lower, with a rule application.
Plan TestPlan(const TestPlanOptions& options = {});
// A summary with every key that `optimize` writes.
std::string TestSummary();

}  // namespace tandem

#endif  // TANDEM_TOOLS_REPORT_REPORT_TEST_PLAN_H_
