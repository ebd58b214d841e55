// Following the batch through a reshape whose target is a constant of the file.
#ifndef TANDEM_MODELS_ONNX_BATCH_H_
#define TANDEM_MODELS_ONNX_BATCH_H_

#include <cstdint>
#include <optional>
#include <vector>

namespace tandem {

// Dims under two batches: dim d is from[d] with the one and to[d] with the other. Where they
// differ the dim is outer[d] * batch * rest, major to minor; outer 0 = not known.
struct BatchDims {
  std::vector<int64_t> from;
  std::vector<int64_t> to;
  std::vector<int64_t> outer;
  bool operator==(const BatchDims&) const = default;
};

// `target` under the batch `batch_from`; the result says what it is under `batch_to`. Nothing if
// the batch does not end up as a factor of one dim.
std::optional<BatchDims> MapReshape(const BatchDims& from, const std::vector<int64_t>& target,
                                    int64_t batch_from, int64_t batch_to);

}  // namespace tandem

#endif  // TANDEM_MODELS_ONNX_BATCH_H_
