// Axes of strided loops over dense buffers: merging, copying. Strides are in elements.
#ifndef TANDEM_RUNTIME_STRIDED_H_
#define TANDEM_RUNTIME_STRIDED_H_

#include <array>
#include <cstddef>
#include <cstdint>
#include <vector>

namespace tandem {

// One loop: its extent and its stride in each of up to three buffers (0 where it does not move).
struct Axis {
  int64_t extent = 1;
  std::array<int64_t, 3> strides = {0, 0, 0};
};

// Drops axes of extent 1 and merges neighbours that are one axis in every buffer. The order (outer
// to inner) is by descending stride in buffer `by`, where axes move in it.
std::vector<Axis> MergedAxes(std::vector<Axis> axes, int by);

int64_t Elements(const std::vector<Axis>& axes);

// Calls f(offset 0, offset 1, offset 2) for every point, the last axis innermost.
template <typename F>
void ForEachPoint(const std::vector<Axis>& axes, F f) {
  std::vector<int64_t> index(axes.size(), 0);
  std::array<int64_t, 3> at = {0, 0, 0};
  for (int64_t n = Elements(axes); n > 0; --n) {
    f(at[0], at[1], at[2]);
    for (size_t d = axes.size(); d-- > 0;) {
      for (size_t b = 0; b < 3; ++b) at[b] += axes[d].strides[b];
      if (++index[d] < axes[d].extent) break;
      for (size_t b = 0; b < 3; ++b) at[b] -= axes[d].extent * axes[d].strides[b];
      index[d] = 0;
    }
  }
}

// to[point by `to_buffer`] = from[point by `from_buffer`].
template <typename T>
void CopyStrided(const std::vector<Axis>& axes, const T* from, size_t from_buffer, T* to,
                 size_t to_buffer) {
  if (axes.empty()) {
    *to = *from;
    return;
  }
  const std::vector<Axis> outer(axes.begin(), axes.end() - 1);
  const int64_t extent = axes.back().extent;
  const int64_t from_stride = axes.back().strides[from_buffer];
  const int64_t to_stride = axes.back().strides[to_buffer];
  ForEachPoint(outer, [&](int64_t x, int64_t y, int64_t z) {
    const std::array<int64_t, 3> at = {x, y, z};
    const T* source = from + at[from_buffer];
    T* target = to + at[to_buffer];
    for (int64_t i = 0; i < extent; ++i) target[i * to_stride] = source[i * from_stride];
  });
}

}  // namespace tandem

#endif  // TANDEM_RUNTIME_STRIDED_H_
