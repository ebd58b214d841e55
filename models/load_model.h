// Any model by its path or name: an ONNX file, a protobuf model (binary or text), or one of the
// zoo. What a file is, its content says.
#ifndef TANDEM_MODELS_LOAD_MODEL_H_
#define TANDEM_MODELS_LOAD_MODEL_H_

#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "models/onnx/importer.h"
#include "pcg/graph/graph.h"

namespace tandem {

// ImportOptions::operators are known to every model that is loaded. A protobuf model or one of the
// zoo has no symbolic dims; `global_batch` replaces the batch of a zoo model, and must be that of a
// protobuf model.
using LoadOptions = ImportOptions;

// `report` may be null. Errors name the file and say what to do.
absl::StatusOr<Graph> LoadModel(const std::string& path, const LoadOptions& options,
                                ImportReport* report);

}  // namespace tandem

#endif  // TANDEM_MODELS_LOAD_MODEL_H_
