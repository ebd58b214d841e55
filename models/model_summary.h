// What a model contains, as `tandem models show` says it.
#ifndef TANDEM_MODELS_MODEL_SUMMARY_H_
#define TANDEM_MODELS_MODEL_SUMMARY_H_

#include <cstdint>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "models/onnx/importer.h"
#include "pcg/graph/graph.h"

namespace tandem {

struct ModelSummary {
  struct Port {
    std::string name;
    std::string dtype;
    std::vector<int64_t> shape;
  };
  int64_t nodes = 0;
  int64_t parameters = 0;  // trained and frozen; statistics and tables are none
  int64_t trainable_parameters = 0;
  int64_t parameter_bytes = 0;
  double forward_flops = 0;  // 2 per multiply-add, contractions only
  std::vector<Port> inputs;
  std::vector<Port> outputs;
  std::vector<UnsupportedOp> unsupported;
  std::vector<std::string> notes;
};

// Of a forward graph. `report` may be null.
absl::StatusOr<ModelSummary> Summarize(const Graph& graph, const ImportReport* report);
// Of a model that could not be imported: what the report knows.
ModelSummary SummarizeReport(const ImportReport& report);

// The keys of `tandem models show --json`.
std::string ToJson(const ModelSummary& summary);

}  // namespace tandem

#endif  // TANDEM_MODELS_MODEL_SUMMARY_H_
