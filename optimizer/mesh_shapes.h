// The device meshes worth trying: every way to write the number of devices as up to three axes,
// major to minor, whose inner axes fill a node.
#ifndef TANDEM_OPTIMIZER_MESH_SHAPES_H_
#define TANDEM_OPTIMIZER_MESH_SHAPES_H_

#include <cstdint>
#include <vector>

#include "pcg/layout/layout.h"

namespace tandem {

// One-axis meshes first, then two, then three (up to `max_axes`); all divisors, not powers of two
// only. An axis either stays inside a node or is a whole number of nodes.
std::vector<std::vector<int64_t>> MeshShapes(int64_t devices, int64_t devices_per_node,
                                             int max_axes);

// Axes named x0, x1, ...; with micro_batches > 1 a temporal axis "micro" last.
Mesh MakeMesh(const std::vector<int64_t>& extents, int64_t micro_batches);

// The spatial axes' extents: what MakeMesh was given.
std::vector<int64_t> SpatialExtents(const Mesh& mesh);

}  // namespace tandem

#endif  // TANDEM_OPTIMIZER_MESH_SHAPES_H_
