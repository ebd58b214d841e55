// Extents of base sizes from the dims of inputs: plain ones, then parts of dims, then broadcasts.
#include <set>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "pcg/instance/op_sizes.h"

namespace tandem {
namespace {

class ExtentSolver {
 public:
  ExtentSolver(const OpSpec& spec, SizeTable& table) : spec_(spec), table_(table) {}

  absl::Status Run() {
    absl::Status status = PlainExtents();
    if (status.ok()) status = TupleExtents();
    if (status.ok()) status = BroadcastExtents();
    return status;
  }

 private:
  absl::Status Error(absl::string_view message) const { return OpError(spec_, message); }
  BaseSize& Base(int id) { return table_.bases[static_cast<size_t>(id)]; }

  template <typename Visit>
  absl::Status ForEachInputDim(Visit visit) {
    for (size_t i = 0; i < spec_.inputs.size(); ++i) {
      size_t position = 0;
      for (size_t d = 0; d < table_.inputs[i].dims.size(); ++d) {
        for (OperandDim& dim : table_.inputs[i].dims[d]) {
          absl::Status status =
              visit(spec_.inputs[i].dims[d], dim, PlaceOf(spec_.inputs[i], position));
          if (!status.ok()) return status;
          ++position;
        }
      }
    }
    return absl::OkStatus();
  }

  absl::Status PlainExtents() {
    return ForEachInputDim(
        [this](const DimSpec& spec_dim, OperandDim& dim, const std::string& place) {
          if (spec_dim.broadcast || dim.bases.size() != 1) return absl::OkStatus();
          return SetExtent(spec_, table_, dim.bases[0], ProductOf(dim.given), place);
        });
  }

  // One dim of (g, c) may tell c only after another has told g: repeat while something is learnt.
  absl::Status TupleExtents() {
    for (bool learnt = true; learnt;) {
      learnt = false;
      absl::Status status =
          ForEachInputDim([&](const DimSpec&, OperandDim& dim, const std::string& place) {
            return dim.bases.size() < 2 ? absl::OkStatus() : TupleExtent(dim, place, learnt);
          });
      if (!status.ok()) return status;
    }
    return absl::OkStatus();
  }

  absl::Status TupleExtent(const OperandDim& dim, const std::string& place, bool& learnt) {
    int64_t rest = ProductOf(dim.given);
    int open = -1;
    std::vector<std::string> names;
    for (int base : dim.bases) {
      names.push_back(Base(base).name);
      if (Base(base).extent < 0) {
        if (open >= 0) return absl::OkStatus();  // two unknown parts: perhaps another dim tells
        open = base;
      } else if (rest % Base(base).extent != 0) {
        return Error(absl::StrCat(place, " is ", ProductOf(dim.given), ", not a multiple of ",
                                  Base(base).name, " = ", Base(base).extent, " (from ",
                                  Base(base).known_from, ")"));
      } else {
        rest /= Base(base).extent;
      }
    }
    if (open >= 0) {
      learnt = true;
      return SetExtent(spec_, table_, open, rest, place);
    }
    if (rest == 1) return absl::OkStatus();
    return Error(absl::StrCat(place, " is ", ProductOf(dim.given), ", but (",
                              absl::StrJoin(names, ", "), ") has ", ProductOf(dim.given) / rest,
                              " elements"));
  }

  absl::Status BroadcastExtents() {
    std::set<int> open;  // sizes that only broadcast dims tell: the largest wins
    absl::Status status =
        ForEachInputDim([&](const DimSpec& spec_dim, OperandDim& dim, const std::string& place) {
          if (!spec_dim.broadcast) return absl::OkStatus();
          BaseSize& base = Base(dim.bases[0]);
          const int64_t extent = ProductOf(dim.given);
          if (base.extent < 0) open.insert(dim.bases[0]);
          if (open.count(dim.bases[0]) != 0 && base.extent <= 1) {
            base.extent = extent;
            base.known_from = place;
          } else if (extent != 1 && extent != base.extent) {
            return Error(absl::StrCat(place, " (", base.name, ") is ", extent, ", but ", base.name,
                                      " is ", base.extent, " from ", base.known_from,
                                      "; 1 would repeat"));
          }
          return absl::OkStatus();
        });
    if (!status.ok()) return status;
    return ForEachInputDim([&](const DimSpec& spec_dim, OperandDim& dim, const std::string&) {
      dim.unit = spec_dim.broadcast && ProductOf(dim.given) == 1 && Base(dim.bases[0]).extent != 1;
      return absl::OkStatus();
    });
  }

  const OpSpec& spec_;
  SizeTable& table_;
};

}  // namespace

int64_t ProductOf(const Factors& factors) {
  int64_t product = 1;
  for (int64_t factor : factors) product *= factor;
  return product;
}

std::string PlaceOf(const OperandSpec& operand, size_t dim) {
  return absl::StrCat("dim ", dim, " of '", operand.name, "'");
}

absl::Status SetExtent(const OpSpec& spec, SizeTable& table, int id, int64_t extent,
                       const std::string& place) {
  BaseSize& base = table.bases[static_cast<size_t>(id)];
  if (extent < 1) {
    return OpError(spec,
                   absl::StrCat(place, " (", base.name, ") is ", extent, "; extents are positive"));
  }
  if (base.extent == extent) return absl::OkStatus();
  if (base.extent >= 0) {
    return OpError(spec, absl::StrCat(place, " (", base.name, ") is ", extent, ", but ", base.name,
                                      " is ", base.extent, " from ", base.known_from));
  }
  base.extent = extent;
  base.known_from = place;
  return absl::OkStatus();
}

absl::Status SolveInputExtents(const OpSpec& spec, SizeTable& table) {
  return ExtentSolver(spec, table).Run();
}

}  // namespace tandem
