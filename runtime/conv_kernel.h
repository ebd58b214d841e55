// Convolutions and their two gradients in float32 through oneDNN.
#ifndef TANDEM_RUNTIME_CONV_KERNEL_H_
#define TANDEM_RUNTIME_CONV_KERNEL_H_

#include <array>
#include <cstdint>
#include <memory>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"

namespace tandem {

// x: (batch, groups * in, x extents), f: (groups * out, in, taps), y: (batch, groups * out, y
// extents), each with its own strides. One to three spatial dims.
struct ConvShape {
  enum class Target : uint8_t { kY, kX, kF };
  Target target = Target::kY;
  int64_t batch = 1, groups = 1, in = 1, out = 1;
  struct Spatial {
    int64_t x = 1, taps = 1, y = 1;
    int64_t stride = 1, dilation = 1, pad = 0;  // pad: at the low end; the high end follows
    int64_t x_stride = 1, tap_stride = 1, y_stride = 1;  // in elements of the buffers
  };
  std::vector<Spatial> spatial;
  int64_t x_batch_stride = 1, x_channel_stride = 1;
  int64_t f_group_stride = 1, f_out_stride = 1, f_in_stride = 1;
  int64_t y_batch_stride = 1, y_channel_stride = 1;
};

class ConvKernel {
 public:
  virtual ~ConvKernel() = default;
  // Reads two of the buffers and writes the third, which shape.target names.
  virtual absl::Status Run(float* x, float* f, float* y) = 0;
  // Error if oneDNN has no such convolution (negative padding).
  static absl::StatusOr<std::unique_ptr<ConvKernel>> Prepare(const ConvShape& shape);
};

}  // namespace tandem

#endif  // TANDEM_RUNTIME_CONV_KERNEL_H_
