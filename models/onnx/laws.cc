#include "models/onnx/laws.h"

#include <algorithm>
#include <cmath>
#include <functional>

#include "models/onnx/readers.h"

namespace tandem {
namespace {

// x[p+1] + x[p-1] is the same multiple of x[p] all the way down each column.
bool Sinusoids(const std::vector<int64_t>& shape, const std::vector<double>& values) {
  const auto columns = static_cast<size_t>(shape.back());
  const size_t rows = values.size() / columns;
  if (shape.size() < 2 || rows < 6 || columns < 2) return false;
  for (double value : values) {
    if (!(std::fabs(value) <= 1.0001)) return false;
  }
  bool moves = false;
  for (size_t j = 0; j < columns; ++j) {
    // The multiple by least squares, then the residual.
    double xy = 0, xx = 0;
    for (size_t p = 1; p + 1 < rows; ++p) {
      const double x = values[p * columns + j];
      xy += x * (values[(p + 1) * columns + j] + values[(p - 1) * columns + j]);
      xx += x * x;
    }
    if (xx == 0) return false;
    const double multiple = xy / xx;
    moves = moves || std::fabs(multiple - 2) > 1e-3;
    for (size_t p = 1; p + 1 < rows; ++p) {
      const double residual = values[(p + 1) * columns + j] + values[(p - 1) * columns + j] -
                              multiple * values[p * columns + j];
      if (std::fabs(residual) > 2e-4) return false;
    }
  }
  return moves;
}

}  // namespace

bool AllEqual(const std::vector<double>& values) {
  return std::adjacent_find(values.begin(), values.end(), std::not_equal_to<>()) == values.end();
}

bool FollowsItsIndices(const std::vector<int64_t>& shape, const std::vector<double>& values) {
  if (values.size() < 4 || AllEqual(values)) return false;
  const size_t n = values.size();
  if (WideDims(shape) == 1) {
    const double step = values[1] - values[0];
    bool arithmetic = true, geometric = values[0] == 1 && values[1] > 0 && values[1] < 1;
    for (size_t i = 1; i < n; ++i) {
      arithmetic = arithmetic && values[i] == values[0] + step * static_cast<double>(i);
      geometric = geometric && std::fabs(values[i] / values[i - 1] / values[1] - 1) < 1e-4;
    }
    return arithmetic || geometric;
  }
  if (Sinusoids(shape, values)) return true;
  // A triangle of two values over the last two dims.
  const int64_t columns = shape.back(), rows = shape[shape.size() - 2];
  if (rows < 2 || columns < 2) return false;
  const double inside = values[static_cast<size_t>((rows - 1) * columns)],
               outside = values[static_cast<size_t>(columns - 1)];
  if (inside == outside) return false;
  for (size_t i = 0; i < n; ++i) {
    const int64_t j = static_cast<int64_t>(i) % columns,
                  row = static_cast<int64_t>(i) / columns % rows;
    if (values[i] != (j <= row ? inside : outside)) return false;
  }
  return true;
}

bool LooksLikeMask(const std::vector<double>& values) {
  return std::any_of(values.begin(), values.end(),
                     [](double value) { return !std::isfinite(value) || value <= -1e30; });
}

}  // namespace tandem
