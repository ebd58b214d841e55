// Inputs and initialisers of an ONNX file: which dim is the batch, and what each initialiser is
// taken for - a parameter, frozen state, or a formula of its indices. Internal to the importer.
#ifndef TANDEM_MODELS_ONNX_SOURCES_H_
#define TANDEM_MODELS_ONNX_SOURCES_H_

#include "absl/status/status.h"
#include "models/onnx/context.h"

namespace tandem {

// Binds symbolic dims, finds the batch, adds the inputs to the graph.
absl::Status AddInputs(OnnxContext& c);
// Sorts the initialisers into weights and known values.
absl::Status AddInitializers(OnnxContext& c);

}  // namespace tandem

#endif  // TANDEM_MODELS_ONNX_SOURCES_H_
