// What the values of an initialiser say about it. Internal to the importer.
#ifndef TANDEM_MODELS_ONNX_LAWS_H_
#define TANDEM_MODELS_ONNX_LAWS_H_

#include <cstdint>
#include <vector>

namespace tandem {

bool AllEqual(const std::vector<double>& values);
// Values that follow a law of their indices, as exporters store positions, masks and rotary tables:
// an arithmetic or geometric sequence, a triangle, sinusoids down the rows. Constants are none.
bool FollowsItsIndices(const std::vector<int64_t>& shape, const std::vector<double>& values);
// Some value is what masks add: minus infinity, NaN, or the lowest number of a type.
bool LooksLikeMask(const std::vector<double>& values);

}  // namespace tandem

#endif  // TANDEM_MODELS_ONNX_LAWS_H_
