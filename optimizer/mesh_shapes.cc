#include "optimizer/mesh_shapes.h"

#include <algorithm>

#include "absl/strings/str_cat.h"

namespace tandem {
namespace {

// Cutting the device numbering at `inner` (devices per piece) must not straddle nodes.
bool Aligned(int64_t inner, int64_t per_node) {
  return inner <= per_node ? per_node % inner == 0 : inner % per_node == 0;
}

}  // namespace

std::vector<std::vector<int64_t>> MeshShapes(int64_t devices, int64_t devices_per_node,
                                             int max_axes) {
  if (devices <= 1) return {{1}};
  const int64_t per_node = std::min(devices, devices_per_node);
  std::vector<int64_t> divisors;
  for (int64_t d = 2; d <= devices; ++d) {
    if (devices % d == 0) divisors.push_back(d);
  }
  std::vector<std::vector<int64_t>> shapes = {{devices}};
  if (max_axes >= 2) {
    for (int64_t b : divisors) {
      if (b < devices && Aligned(b, per_node)) shapes.push_back({devices / b, b});
    }
  }
  if (max_axes >= 3) {
    for (int64_t b : divisors) {
      for (int64_t c : divisors) {
        if (b * c >= devices || devices % (b * c) != 0) continue;
        if (Aligned(c, per_node) && Aligned(b * c, per_node)) {
          shapes.push_back({devices / (b * c), b, c});
        }
      }
    }
  }
  // The mesh whose inner axis is one node first among equals: it is most often the best.
  std::stable_sort(shapes.begin(), shapes.end(), [&](const auto& x, const auto& y) {
    if (x.size() != y.size()) return x.size() < y.size();
    return (x.back() == per_node) > (y.back() == per_node);
  });
  return shapes;
}

Mesh MakeMesh(const std::vector<int64_t>& extents, int64_t micro_batches) {
  Mesh mesh;
  for (size_t i = 0; i < extents.size(); ++i) {
    mesh.axes.push_back({absl::StrCat("x", i), extents[i], false});
  }
  if (micro_batches > 1) mesh.axes.push_back({"micro", micro_batches, true});
  return mesh;
}

std::vector<int64_t> SpatialExtents(const Mesh& mesh) {
  std::vector<int64_t> extents;
  for (const MeshAxis& axis : mesh.axes) {
    if (!axis.temporal) extents.push_back(axis.extent);
  }
  return extents;
}

}  // namespace tandem
