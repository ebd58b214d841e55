#include "pcg/layout/reshard.h"

#include <algorithm>
#include <queue>

#include "absl/strings/str_cat.h"

namespace tandem {
namespace {

using Kind = AxisPlacement::Kind;

struct Place {
  int dim = 0;
  int factor = 0;
  AxisPlacement Split() const { return AxisPlacement::Split(dim, factor); }
};

std::vector<Place> PlacesOf(const FactoredShape& shape) {
  std::vector<Place> places;
  for (size_t d = 0; d < shape.size(); ++d) {
    for (size_t f = 0; f < shape[d].size(); ++f) {
      places.push_back({static_cast<int>(d), static_cast<int>(f)});
    }
  }
  return places;
}

int64_t Degree(const Mesh& mesh, const std::vector<int>& axes) {
  int64_t degree = 1;
  for (int a : axes) degree *= mesh.axes[static_cast<size_t>(a)].extent;
  return degree;
}

// All non-empty subsets, in order of their bit patterns, each ascending.
std::vector<std::vector<int>> Subsets(const std::vector<int>& axes) {
  std::vector<std::vector<int>> subsets;
  for (size_t bits = 1; bits < size_t{1} << axes.size(); ++bits) {
    std::vector<int> subset;
    for (size_t i = 0; i < axes.size(); ++i) {
      if ((bits >> i & 1) != 0) subset.push_back(axes[i]);
    }
    subsets.push_back(std::move(subset));
  }
  return subsets;
}

class Stepper {
 public:
  Stepper(const FactoredShape& shape, const Mesh& mesh, const Layout& from)
      : shape_(shape), mesh_(mesh), from_(from), places_(PlacesOf(shape)) {}

  std::vector<ReshardStep> Steps() {
    std::vector<int> replicated;
    std::vector<int> partial;
    for (size_t a = 0; a < mesh_.axes.size(); ++a) {
      if (mesh_.axes[a].temporal) continue;
      if (from_.axes[a].kind == Kind::kReplicated) replicated.push_back(static_cast<int>(a));
      if (from_.axes[a].kind == Kind::kPartial) partial.push_back(static_cast<int>(a));
    }
    for (int a : replicated) AddSplits(StepKind::kSlice, {a});
    for (const std::vector<int>& axes : Subsets(partial)) {
      Add(StepKind::kAllReduce, axes, AxisPlacement::Replicated());
      AddSplits(StepKind::kReduceScatter, axes);
    }
    for (const Place& place : places_) {
      // Any number of the least significant axes.
      const std::vector<int> split = from_.SplitAxes(place.dim, place.factor);
      for (size_t first = 0; first < split.size(); ++first) {
        const std::vector<int> axes(split.begin() + static_cast<std::ptrdiff_t>(first),
                                    split.end());
        if (mesh_.axes[static_cast<size_t>(axes.back())].temporal) continue;
        Add(StepKind::kAllGather, axes, AxisPlacement::Replicated());
        AddSplits(StepKind::kAllToAll, axes);
      }
    }
    AddTemporal();
    return std::move(steps_);
  }

 private:
  void Add(StepKind kind, const std::vector<int>& axes, AxisPlacement placement) {
    ReshardStep step{kind, axes, from_, from_};
    for (int a : axes) step.after.axes[static_cast<size_t>(a)] = placement;
    steps_.push_back(std::move(step));
  }

  // The axes come to split a place where they are the least significant and divide what is left.
  void AddSplits(StepKind kind, const std::vector<int>& axes) {
    for (const Place& place : places_) {
      if (from_.axes[static_cast<size_t>(axes[0])] == place.Split()) continue;
      const std::vector<int> split = from_.SplitAxes(place.dim, place.factor);
      if (!split.empty() && split.back() > axes.front()) continue;
      const int64_t extent =
          shape_[static_cast<size_t>(place.dim)][static_cast<size_t>(place.factor)];
      if (extent / Degree(mesh_, split) % Degree(mesh_, axes) != 0) continue;
      Add(kind, axes, place.Split());
    }
  }

  void AddTemporal() {
    const int t = mesh_.TemporalAxis();
    if (t < 0) return;
    switch (from_.axes[static_cast<size_t>(t)].kind) {
      case Kind::kReplicated:
        AddSplits(StepKind::kUnstack, {t});
        return;
      case Kind::kSplit:
        Add(StepKind::kStack, {t}, AxisPlacement::Replicated());
        return;
      case Kind::kPartial:
        Add(StepKind::kAccumulate, {t}, AxisPlacement::Replicated());
        return;
    }
  }

  const FactoredShape& shape_;
  const Mesh& mesh_;
  const Layout& from_;
  const std::vector<Place> places_;
  std::vector<ReshardStep> steps_;
};

double LocalBytes(const FactoredShape& shape, const Layout& layout, const Mesh& mesh,
                  int64_t element_bytes) {
  double bytes = static_cast<double>(element_bytes);
  for (const Factors& dim : LocalShape(shape, layout, mesh)) {
    for (int64_t f : dim) bytes *= static_cast<double>(f);
  }
  return bytes;
}

// May the search take this step on its way to `to`?
bool Useful(const ReshardStep& step, int temporal, const Layout& to) {
  for (int a : step.axes) {
    const AxisPlacement& p = step.after.axes[static_cast<size_t>(a)];
    if (a == temporal && p != to.axes[static_cast<size_t>(a)]) return false;
    // A partial that is wanted must stay.
    if (to.axes[static_cast<size_t>(a)].kind == Kind::kPartial) return false;
  }
  return true;
}

struct Reached {
  double cost = 0;
  int steps = 0;
  int64_t order = 0;  // of discovery
  std::optional<ReshardStep> last;
};

}  // namespace

const char* StepKindName(StepKind kind) {
  switch (kind) {
    case StepKind::kSlice:
      return "slice";
    case StepKind::kAllGather:
      return "all-gather";
    case StepKind::kAllReduce:
      return "all-reduce";
    case StepKind::kReduceScatter:
      return "reduce-scatter";
    case StepKind::kAllToAll:
      return "all-to-all";
    case StepKind::kAccumulate:
      return "accumulate";
    case StepKind::kStack:
      return "stack";
    case StepKind::kUnstack:
      return "unstack";
    case StepKind::kKeepFirst:
      return "keep-first";
  }
  return "?";
}

bool RunsEachMicroBatch(const ReshardStep& step, const Mesh& mesh) {
  const int temporal = mesh.TemporalAxis();
  return temporal >= 0 &&
         (step.before.axes[static_cast<size_t>(temporal)].kind != Kind::kReplicated ||
          step.kind == StepKind::kUnstack);
}

std::vector<ReshardStep> StepsFrom(const FactoredShape& shape, const Mesh& mesh,
                                   const Layout& from) {
  return Stepper(shape, mesh, from).Steps();
}

absl::StatusOr<std::vector<ReshardStep>> CheapestReshard(const FactoredShape& shape,
                                                         const Mesh& mesh, const Layout& from,
                                                         const Layout& to, int64_t element_bytes,
                                                         const StepCost& cost) {
  for (const Layout* layout : {&from, &to}) {
    if (absl::Status status = CheckLayout(shape, *layout, mesh); !status.ok()) return status;
  }
  if (std::optional<ReshardStep> last = MakesPartial(from, to, mesh)) {
    auto steps = CheapestReshard(shape, mesh, from, last->before, element_bytes, cost);
    if (steps.ok()) steps->push_back(*std::move(last));
    return steps;
  }
  const int temporal = mesh.TemporalAxis();
  if (temporal >= 0 && to.axes[static_cast<size_t>(temporal)].kind == Kind::kPartial &&
      from.axes[static_cast<size_t>(temporal)] != to.axes[static_cast<size_t>(temporal)]) {
    return absl::InvalidArgumentError(absl::StrCat(
        "no steps from ", ToString(from), " to ", ToString(to),
        ": a value is never made partial over the micro-batches; want it replicated or split"));
  }
  // Dijkstra over layouts; equal costs go to fewer steps, then to the earlier discovered.
  std::map<Layout, Reached> reached;
  using Entry = std::tuple<double, int, int64_t, Layout>;
  std::priority_queue<Entry, std::vector<Entry>, std::greater<Entry>> open;
  int64_t order = 0;
  reached[from] = {};
  open.emplace(0.0, 0, 0, from);
  while (!open.empty()) {
    const auto [so_far, count, at, layout] = open.top();
    open.pop();
    if (layout == to) break;
    if (reached[layout].order != at) continue;
    const double before = LocalBytes(shape, layout, mesh, element_bytes);
    for (ReshardStep& step : StepsFrom(shape, mesh, layout)) {
      if (!Useful(step, temporal, to)) continue;
      const double after = LocalBytes(shape, step.after, mesh, element_bytes);
      const bool each = RunsEachMicroBatch(step, mesh);
      const double total =
          so_far + cost(step, before, after) * static_cast<double>(each ? mesh.MicroBatches() : 1);
      const auto known = reached.find(step.after);
      if (known != reached.end() &&
          std::tie(known->second.cost, known->second.steps) <= std::make_tuple(total, count + 1)) {
        continue;
      }
      Layout next = step.after;
      reached[next] = {total, count + 1, ++order, std::move(step)};
      open.emplace(total, count + 1, order, std::move(next));
    }
  }
  if (reached.find(to) == reached.end()) {
    return absl::InvalidArgumentError(
        absl::StrCat("no steps from ", ToString(from), " to ", ToString(to),
                     " within the loop over micro-batches: a split cannot change while the "
                     "temporal axis is nested in it, nor a temporal split move; give the "
                     "micro-batches a factor of their own"));
  }
  std::vector<ReshardStep> steps;
  for (Layout at = to; at != from;) {
    steps.push_back(*reached[at].last);
    at = steps.back().before;
  }
  std::reverse(steps.begin(), steps.end());
  return steps;
}

std::optional<ReshardStep> MakesPartial(const Layout& from, const Layout& to, const Mesh& mesh) {
  ReshardStep step{StepKind::kKeepFirst, {}, to, to};
  for (size_t a = 0; a < to.axes.size(); ++a) {
    if (to.axes[a].kind != Kind::kPartial || from.axes[a] == to.axes[a]) continue;
    if (mesh.axes[a].temporal) return std::nullopt;
    step.axes.push_back(static_cast<int>(a));
    step.before.axes[a] = AxisPlacement::Replicated();
  }
  if (step.axes.empty()) return std::nullopt;
  return step;
}

StepCost BytesStepCost(const Mesh& mesh) {
  return [mesh](const ReshardStep& step, double before, double after) {
    const double ranks = static_cast<double>(Degree(mesh, step.axes));
    const double others = (ranks - 1) / ranks;  // ring algorithms
    switch (step.kind) {
      case StepKind::kAllGather:
        return 1 + others * after;
      case StepKind::kAllReduce:
        return 1 + 2 * others * before;
      case StepKind::kReduceScatter:
      case StepKind::kAllToAll:
        return 1 + others * before;
      case StepKind::kSlice:
      case StepKind::kAccumulate:
      case StepKind::kStack:
      case StepKind::kUnstack:
      case StepKind::kKeepFirst:
        return 0.0;
    }
    return 0.0;
  };
}

absl::StatusOr<std::vector<ReshardStep>> Resharder::Cheapest(const FactoredShape& shape,
                                                             const Layout& from, const Layout& to,
                                                             int64_t element_bytes) {
  if (from == to) return std::vector<ReshardStep>{};
  Key key{shape, element_bytes, from, to};
  const auto known = known_.find(key);
  if (known != known_.end()) return known->second;
  auto steps = CheapestReshard(shape, mesh_, from, to, element_bytes, cost_);
  known_.emplace(std::move(key), steps);
  return steps;
}

}  // namespace tandem
