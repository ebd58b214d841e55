// Mesh and layouts: how one logical tensor lies on the devices.
//
// A mesh is a list of axes; device number = row-major coordinate over the *spatial* axes. At most
// one axis is temporal: micro-batches, executed one after the other by the same devices. Gradient
// accumulation is then the reduce over that axis, and needs no mechanism of its own.
//
// A layout gives each mesh axis exactly one placement: replicated, split (one factor of one dim) or
// partial. Where several axes split one factor, lower axis numbers are more significant: with axes
// a < b of degrees A, B a factor of extent E is (A, B, E/(A*B)).
#ifndef TANDEM_PCG_LAYOUT_LAYOUT_H_
#define TANDEM_PCG_LAYOUT_LAYOUT_H_

#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "pcg/instance/op_instance.h"
#include "pcg/layout/factor_table.h"

namespace tandem {

struct MeshAxis {
  std::string name;  // "x0", "x1", ..., "micro"
  int64_t extent = 1;
  bool temporal = false;
  bool operator==(const MeshAxis&) const = default;
};

struct Mesh {
  std::vector<MeshAxis> axes;    // spatial axes first, major to minor; a temporal one last
  int64_t Devices() const;       // product of the spatial extents
  int64_t MicroBatches() const;  // extent of the temporal axis, 1 if none
  int TemporalAxis() const;      // index or -1
  // Coordinates of a device along the spatial axes (temporal entries 0).
  std::vector<int64_t> Coordinates(int64_t device) const;
  // Devices that share all spatial coordinates with `device` except those of `axes`, in order of
  // those coordinates (row-major by axis number).
  std::vector<int64_t> Group(int64_t device, const std::vector<int>& axes) const;
  bool operator==(const Mesh&) const = default;
};

struct Layout {
  std::vector<AxisPlacement> axes;  // one a mesh axis
  static Layout Replicated(const Mesh& mesh);
  // Axes that split this factor, major to minor.
  std::vector<int> SplitAxes(int dim, int factor) const;
  bool IsPartial() const;
  bool operator==(const Layout&) const = default;
  auto operator<=>(const Layout&) const = default;
};

// Local factored shape of one piece (temporal splits included: the piece of one micro-batch).
FactoredShape LocalShape(const FactoredShape& shape, const Layout& layout, const Mesh& mesh);
// Splits name existing factors, degrees divide extents, partial combiners do not mix.
absl::Status CheckLayout(const FactoredShape& shape, const Layout& layout, const Mesh& mesh);
// The same pieces on other factors of the same dims: a split of the first of (12) by 3 is a split
// of the first of (3, 4). Error if `to` has no factor that starts there and takes the degrees.
absl::StatusOr<Layout> Refactored(const Layout& layout, const FactoredShape& from,
                                  const FactoredShape& to, const Mesh& mesh);
// "R,S(0),S(2.1),P(sum)" per axis; for people.
std::string ToString(const Layout& layout);
// Flat offsets (in the logical tensor, row-major) of the local piece's elements in order, for the
// device coordinates `coords` (one entry a mesh axis, temporal included). Test and runtime helper.
std::vector<int64_t> PieceIndices(const FactoredShape& shape, const Layout& layout,
                                  const Mesh& mesh, const std::vector<int64_t>& coords);

}  // namespace tandem

#endif  // TANDEM_PCG_LAYOUT_LAYOUT_H_
