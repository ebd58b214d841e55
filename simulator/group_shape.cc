#include "simulator/group_shape.h"

#include <algorithm>
#include <map>
#include <set>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"

namespace tandem {
namespace {

using Groups = std::vector<std::vector<int64_t>>;

// Devices of one unit of the level below `level`.
std::vector<int64_t> Strides(const Machine& machine) {
  std::vector<int64_t> strides = {1};
  for (const LinkLevel& level : machine.levels) {
    if (level.extent != 0) strides.push_back(strides.back() * level.extent);
  }
  strides.resize(machine.levels.size());
  return strides;
}

GroupShape::Level ShapeAtLevel(const Groups& groups, int64_t stride, int64_t parent_stride) {
  GroupShape::Level result;
  std::map<int64_t, int> leaving;  // By unit.
  int fewest = 0;
  for (const std::vector<int64_t>& group : groups) {
    std::map<int64_t, int> ranks_in;                // By unit.
    std::map<int64_t, std::set<int64_t>> units_in;  // By parent.
    for (int64_t device : group) {
      ++ranks_in[device / stride];
      units_in[parent_stride == 0 ? 0 : device / parent_stride].insert(device / stride);
    }
    for (const auto& [parent, units] : units_in) {
      result.units = std::max(result.units, static_cast<int>(units.size()));
      if (units.size() < 2) continue;
      for (int64_t unit : units) {
        ++leaving[unit];
        const int ranks = ranks_in[unit];
        fewest = fewest == 0 ? ranks : std::min(fewest, ranks);
      }
    }
  }
  for (const auto& [unit, count] : leaving) result.concurrent = std::max(result.concurrent, count);
  result.ranks_per_unit = std::max(fewest, 1);
  return result;
}

GroupShape ShapeOfGroups(const Machine& machine, const Groups& groups) {
  GroupShape shape;
  size_t smallest = groups.empty() ? 1 : groups[0].size();
  for (const auto& group : groups) {
    shape.ranks = std::max(shape.ranks, static_cast<int>(group.size()));
    smallest = std::min(smallest, group.size());
  }
  const std::vector<int64_t> strides = Strides(machine);
  int64_t product = 1;
  for (size_t level = 0; level < strides.size(); ++level) {
    const int64_t parent = level + 1 < strides.size() ? strides[level + 1] : 0;
    shape.at[level] = ShapeAtLevel(groups, strides[level], parent);
    product *= shape.at[level].units;
  }
  // The units are the most that any group has anywhere, so they multiply to the ranks only where
  // all are alike.
  shape.uniform = product == shape.ranks && smallest == static_cast<size_t>(shape.ranks);
  return shape;
}

}  // namespace

absl::StatusOr<GroupShape> MeshGroupShape(const Machine& machine,
                                          absl::Span<const int64_t> mesh_extents,
                                          absl::Span<const int> group_axes, int64_t first_device) {
  const std::string mesh = absl::StrCat("mesh (", absl::StrJoin(mesh_extents, ", "), ")");
  int64_t devices = 1;
  for (int64_t extent : mesh_extents) {
    if (extent < 1)
      return absl::InvalidArgumentError(absl::StrCat(mesh, " has an extent below one"));
    if (extent > machine.devices / devices)
      devices = machine.devices + int64_t{1};
    else
      devices *= extent;
    if (devices > machine.devices) break;
  }
  if (first_device < 0 || devices > machine.devices - first_device) {
    return absl::InvalidArgumentError(absl::StrCat(mesh, " from device ", first_device,
                                                   " on does not fit into the ", machine.devices,
                                                   " devices of ", machine.name));
  }
  std::vector<bool> in_group(mesh_extents.size(), false);
  for (int axis : group_axes) {
    if (axis < 0 || axis >= static_cast<int>(mesh_extents.size())) {
      return absl::InvalidArgumentError(absl::StrCat(mesh, " has no axis ", axis));
    }
    if (in_group[axis])
      return absl::InvalidArgumentError(
          absl::StrCat("axis ", axis, " of ", mesh, " is named twice"));
    in_group[axis] = true;
  }
  // Key: the coordinates on the axes outside the group.
  std::map<int64_t, std::vector<int64_t>> by_key;
  for (int64_t point = 0; point < devices; ++point) {
    int64_t rest = point, key = 0, weight = 1;
    for (int axis = static_cast<int>(mesh_extents.size()) - 1; axis >= 0; --axis) {
      const int64_t coordinate = rest % mesh_extents[axis];
      rest /= mesh_extents[axis];
      if (!in_group[axis]) key += coordinate * weight;
      weight *= mesh_extents[axis];
    }
    by_key[key].push_back(first_device + point);
  }
  Groups groups;
  for (auto& [key, group] : by_key) groups.push_back(std::move(group));
  return ShapeOfGroups(machine, groups);
}

absl::StatusOr<GroupShape> ExplicitGroupShape(const Machine& machine,
                                              absl::Span<const std::vector<int64_t>> groups) {
  for (const std::vector<int64_t>& group : groups) {
    std::set<int64_t> seen;
    for (int64_t device : group) {
      if (device < 0 || device >= machine.devices) {
        return absl::InvalidArgumentError(absl::StrCat("device ", device, " is not one of the ",
                                                       machine.devices, " devices of ",
                                                       machine.name));
      }
      if (!seen.insert(device).second) {
        return absl::InvalidArgumentError(
            absl::StrCat("device ", device, " is twice in one group"));
      }
    }
  }
  return ShapeOfGroups(machine, Groups(groups.begin(), groups.end()));
}

}  // namespace tandem
