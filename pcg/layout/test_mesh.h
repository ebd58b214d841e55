// Meshes for tests.
#ifndef TANDEM_PCG_LAYOUT_TEST_MESH_H_
#define TANDEM_PCG_LAYOUT_TEST_MESH_H_

#include <cstdint>
#include <string>
#include <vector>

#include "pcg/layout/layout.h"

namespace tandem {

// Spatial axes x0, x1, ... of these degrees and, last, the temporal axis "micro" if there are
// micro-batches.
inline Mesh MeshOf(const std::vector<int64_t>& spatial, int64_t micro_batches = 0) {
  Mesh mesh;
  for (size_t i = 0; i < spatial.size(); ++i) {
    mesh.axes.push_back({"x" + std::to_string(i), spatial[i], false});
  }
  if (micro_batches > 0) mesh.axes.push_back({"micro", micro_batches, true});
  return mesh;
}

}  // namespace tandem

#endif  // TANDEM_PCG_LAYOUT_TEST_MESH_H_
