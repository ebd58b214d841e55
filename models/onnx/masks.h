// What is known of the rows of a mask that is a formula of its indices.
#ifndef TANDEM_MODELS_ONNX_MASKS_H_
#define TANDEM_MODELS_ONNX_MASKS_H_

#include "models/onnx/context.h"

namespace tandem {

// Every row along the last axis of a known mask has an element above minus infinity; for conditions
// (`as_condition`), an element that is true (or, inverted, false).
bool EveryRowHas(OnnxContext& c, const OnnxValue& mask, double finite_where, bool as_condition);

}  // namespace tandem

#endif  // TANDEM_MODELS_ONNX_MASKS_H_
