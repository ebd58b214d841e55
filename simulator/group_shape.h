// How a communication group lies in a machine: how many of its ranks share a unit of each level of
// links, and how many such groups use a unit's port at the same time. This is all that the price of
// a collective needs to know of placement.
#ifndef TANDEM_SIMULATOR_GROUP_SHAPE_H_
#define TANDEM_SIMULATOR_GROUP_SHAPE_H_

#include <array>
#include <cstdint>

#include "absl/status/statusor.h"
#include "absl/types/span.h"
#include "simulator/machine.h"

namespace tandem {

inline constexpr int kMaxLinkLevels = 4;

// Of all the groups that one set of mesh axes makes, the least favourable figures. A group of one
// rank has one unit everywhere.
struct GroupShape {
  struct Level {
    int units = 1;  // Units of the level below (devices at level 0) that the group has in one unit
                    // of this one.
    int ranks_per_unit = 1;  // Fewest ranks of a group in one of those.
    int concurrent = 1;      // Most groups that leave the same one of those through this level.
    friend bool operator==(const Level&, const Level&) = default;
  };
  int ranks = 1;
  // Every group has `units` units wherever it is: the collective can be taken apart level by level.
  bool uniform = true;
  std::array<Level, kMaxLinkLevels> at;
  friend bool operator==(const GroupShape&, const GroupShape&) = default;
};

// The groups of the mesh axes in `group_axes`: devices first_device, first_device + 1, ... are the
// points of the mesh in row-major order (the last axis varies fastest), and two devices are in the
// same group when they differ only in those axes. All groups are taken to communicate at the same
// time. InvalidArgument for an extent below one, an axis that is not there or is named twice, and a
// mesh that does not fit into the machine.
absl::StatusOr<GroupShape> MeshGroupShape(const Machine& machine,
                                          absl::Span<const int64_t> mesh_extents,
                                          absl::Span<const int> group_axes,
                                          int64_t first_device = 0);

// The same for groups given by their devices, which may differ in size: the price of the worst.
absl::StatusOr<GroupShape> ExplicitGroupShape(const Machine& machine,
                                              absl::Span<const std::vector<int64_t>> groups);

}  // namespace tandem

#endif  // TANDEM_SIMULATOR_GROUP_SHAPE_H_
