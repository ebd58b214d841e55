#include "runtime/strided.h"

#include <algorithm>

namespace tandem {

std::vector<Axis> MergedAxes(std::vector<Axis> axes, int by) {
  const auto at = static_cast<size_t>(by);
  axes.erase(std::remove_if(axes.begin(), axes.end(), [](const Axis& a) { return a.extent == 1; }),
             axes.end());
  std::stable_sort(axes.begin(), axes.end(),
                   [&](const Axis& a, const Axis& b) { return a.strides[at] > b.strides[at]; });
  std::vector<Axis> merged;
  for (const Axis& axis : axes) {
    bool one = !merged.empty();
    for (size_t b = 0; one && b < 3; ++b) {
      one = merged.back().strides[b] == axis.strides[b] * axis.extent;
    }
    if (one) {
      merged.back().extent *= axis.extent;
      merged.back().strides = axis.strides;
    } else {
      merged.push_back(axis);
    }
  }
  return merged;
}

int64_t Elements(const std::vector<Axis>& axes) {
  int64_t elements = 1;
  for (const Axis& axis : axes) elements *= axis.extent;
  return elements;
}

}  // namespace tandem
