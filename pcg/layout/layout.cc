#include "pcg/layout/layout.h"

#include <algorithm>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"

namespace tandem {
namespace {

bool Contains(const std::vector<int>& values, int value) {
  return std::find(values.begin(), values.end(), value) != values.end();
}

}  // namespace

int64_t Mesh::Devices() const {
  int64_t devices = 1;
  for (const MeshAxis& axis : axes) {
    if (!axis.temporal) devices *= axis.extent;
  }
  return devices;
}

int64_t Mesh::MicroBatches() const {
  const int axis = TemporalAxis();
  return axis < 0 ? 1 : axes[static_cast<size_t>(axis)].extent;
}

int Mesh::TemporalAxis() const {
  for (size_t a = 0; a < axes.size(); ++a) {
    if (axes[a].temporal) return static_cast<int>(a);
  }
  return -1;
}

std::vector<int64_t> Mesh::Coordinates(int64_t device) const {
  std::vector<int64_t> coordinates(axes.size(), 0);
  for (size_t a = axes.size(); a-- > 0;) {
    if (axes[a].temporal) continue;
    coordinates[a] = device % axes[a].extent;
    device /= axes[a].extent;
  }
  return coordinates;
}

std::vector<int64_t> Mesh::Group(int64_t device, const std::vector<int>& group_axes) const {
  const std::vector<int64_t> here = Coordinates(device);
  std::vector<int64_t> group = {0};
  for (size_t a = 0; a < axes.size(); ++a) {
    if (axes[a].temporal) continue;
    std::vector<int64_t> next;
    const bool varies = Contains(group_axes, static_cast<int>(a));
    next.reserve(group.size() * static_cast<size_t>(varies ? axes[a].extent : 1));
    for (int64_t prefix : group) {
      for (int64_t c = varies ? 0 : here[a]; c < (varies ? axes[a].extent : here[a] + 1); ++c) {
        next.push_back(prefix * axes[a].extent + c);
      }
    }
    group = std::move(next);
  }
  return group;
}

Layout Layout::Replicated(const Mesh& mesh) {
  Layout layout;
  layout.axes.assign(mesh.axes.size(), AxisPlacement::Replicated());
  return layout;
}

std::vector<int> Layout::SplitAxes(int dim, int factor) const {
  std::vector<int> split;
  for (size_t a = 0; a < axes.size(); ++a) {
    if (axes[a] == AxisPlacement::Split(dim, factor)) split.push_back(static_cast<int>(a));
  }
  return split;
}

bool Layout::IsPartial() const {
  return std::any_of(axes.begin(), axes.end(), [](const AxisPlacement& p) {
    return p.kind == AxisPlacement::Kind::kPartial;
  });
}

FactoredShape LocalShape(const FactoredShape& shape, const Layout& layout, const Mesh& mesh) {
  FactoredShape local = shape;
  for (size_t a = 0; a < layout.axes.size(); ++a) {
    const AxisPlacement& p = layout.axes[a];
    if (p.kind != AxisPlacement::Kind::kSplit) continue;
    local[static_cast<size_t>(p.dim)][static_cast<size_t>(p.factor)] /= mesh.axes[a].extent;
  }
  return local;
}

absl::Status CheckLayout(const FactoredShape& shape, const Layout& layout, const Mesh& mesh) {
  if (layout.axes.size() != mesh.axes.size()) {
    return absl::InvalidArgumentError(
        absl::StrCat("layout ", ToString(layout), " has ", layout.axes.size(),
                     " axes, the mesh has ", mesh.axes.size(), "; give one placement an axis"));
  }
  FactoredShape rest = shape;
  const AxisPlacement* partial = nullptr;
  for (size_t a = 0; a < layout.axes.size(); ++a) {
    const AxisPlacement& p = layout.axes[a];
    const MeshAxis& axis = mesh.axes[a];
    const auto error = [&](const std::string& what) {
      return absl::InvalidArgumentError(
          absl::StrCat("layout ", ToString(layout), ", axis ", axis.name, ": ", what));
    };
    if (p.kind == AxisPlacement::Kind::kPartial) {
      if (partial != nullptr && partial->combiner != p.combiner) {
        return error(absl::StrCat("partial(", CombinerName(p.combiner), ") beside partial(",
                                  CombinerName(partial->combiner), "); reduce one of them first"));
      }
      partial = &p;
    }
    if (p.kind != AxisPlacement::Kind::kSplit) continue;
    if (p.dim < 0 || static_cast<size_t>(p.dim) >= rest.size()) {
      return error(absl::StrCat("splits dim ", p.dim, " of a tensor of rank ", rest.size()));
    }
    Factors& factors = rest[static_cast<size_t>(p.dim)];
    if (p.factor < 0 || static_cast<size_t>(p.factor) >= factors.size()) {
      return error(absl::StrCat("splits factor ", p.factor, " of dim ", p.dim, ", which has ",
                                factors.size(), " (", absl::StrJoin(factors, ","), ")"));
    }
    int64_t& extent = factors[static_cast<size_t>(p.factor)];
    if (axis.extent <= 0 || extent % axis.extent != 0) {
      return error(absl::StrCat("degree ", axis.extent, " does not divide the remaining extent ",
                                extent, " of dim ", p.dim,
                                "; use a divisor or leave the axis replicated"));
    }
    extent /= axis.extent;
  }
  return absl::OkStatus();
}

absl::StatusOr<Layout> Refactored(const Layout& layout, const FactoredShape& from,
                                  const FactoredShape& to, const Mesh& mesh) {
  if (from == to) return layout;
  Layout result = layout;
  for (AxisPlacement& p : result.axes) {
    if (p.kind != AxisPlacement::Kind::kSplit) continue;
    const Factors& before = from[static_cast<size_t>(p.dim)];
    const Factors& after = to[static_cast<size_t>(p.dim)];
    int64_t wanted = 1;
    for (int f = 0; f < p.factor; ++f) wanted *= before[static_cast<size_t>(f)];
    // The last factor that starts there: those before it have one element.
    int found = -1;
    int64_t prefix = 1;
    for (size_t f = 0; f < after.size(); ++f) {
      if (prefix == wanted) found = static_cast<int>(f);
      prefix *= after[f];
    }
    if (found < 0) {
      return absl::InvalidArgumentError(absl::StrCat(
          "layout ", ToString(layout), ": no factor of dim ", p.dim, " (",
          absl::StrJoin(after, ","), ") starts where factor ", p.factor, " of (",
          absl::StrJoin(before, ","), ") does; propagate factors through the graph first"));
    }
    p.factor = found;
  }
  if (absl::Status status = CheckLayout(to, result, mesh); !status.ok()) return status;
  return result;
}

std::string ToString(const Layout& layout) {
  return absl::StrJoin(layout.axes, ",", [](std::string* out, const AxisPlacement& p) {
    switch (p.kind) {
      case AxisPlacement::Kind::kReplicated:
        absl::StrAppend(out, "R");
        return;
      case AxisPlacement::Kind::kSplit:
        absl::StrAppend(out, "S(", p.dim);
        if (p.factor != 0) absl::StrAppend(out, ".", p.factor);
        absl::StrAppend(out, ")");
        return;
      case AxisPlacement::Kind::kPartial:
        absl::StrAppend(out, "P(", CombinerName(p.combiner), ")");
        return;
    }
  });
}

std::vector<int64_t> PieceIndices(const FactoredShape& shape, const Layout& layout,
                                  const Mesh& mesh, const std::vector<int64_t>& coords) {
  // One factor at a time, major to minor: offsets so far times the logical extent, plus the piece.
  std::vector<int64_t> offsets = {0};
  for (size_t d = 0; d < shape.size(); ++d) {
    for (size_t f = 0; f < shape[d].size(); ++f) {
      int64_t piece = 0;
      int64_t local = shape[d][f];
      for (int a : layout.SplitAxes(static_cast<int>(d), static_cast<int>(f))) {
        const int64_t degree = mesh.axes[static_cast<size_t>(a)].extent;
        piece = piece * degree + coords[static_cast<size_t>(a)];
        local /= degree;
      }
      std::vector<int64_t> next;
      next.reserve(offsets.size() * static_cast<size_t>(local));
      for (int64_t prefix : offsets) {
        for (int64_t i = 0; i < local; ++i) {
          next.push_back(prefix * shape[d][f] + piece * local + i);
        }
      }
      offsets = std::move(next);
    }
  }
  return offsets;
}

}  // namespace tandem
