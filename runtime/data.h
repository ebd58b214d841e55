// Data given to a run: a folder laid out as ONNX's backend tests have it.
#ifndef TANDEM_RUNTIME_DATA_H_
#define TANDEM_RUNTIME_DATA_H_

#include <map>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "pcg/graph/graph.h"
#include "pcg/graph/interpreter.h"

namespace tandem {

struct RunData {
  std::map<std::string, HostTensor> inputs;  // by the graph's input name, "labels" among them
  std::map<int, HostTensor> outputs;         // by position among the model's outputs
};

// FOLDER/input_K.pb in the order of the inputs of `forward` (step inputs not counted),
// FOLDER/labels.pb for the input "labels" of `training`, FOLDER/output_K.pb; each an ONNX
// TensorProto. FOLDER may also be a case's folder: test_data_set_0 inside it is then taken, and
// labels.pb is looked for beside the data set, too. Errors name the file: unreadable, of a kind
// that is not read, not matching its own dims, an input missing or too many.
absl::StatusOr<RunData> ReadRunData(const std::string& folder, const Graph& forward,
                                    const Graph& training);

// One serialised TensorProto. `file` is used in messages.
absl::StatusOr<HostTensor> ParseTensorProto(const std::string& bytes, const std::string& file);

}  // namespace tandem

#endif  // TANDEM_RUNTIME_DATA_H_
