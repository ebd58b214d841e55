#include "optimizer/reshard_table.h"

#include <algorithm>
#include <array>
#include <optional>
#include <queue>
#include <tuple>
#include <utility>

#include "optimizer/bundles.h"

namespace tandem {

ReshardCosts::ReshardCosts(const Machine& machine, const Mesh& mesh)
    : mesh_(mesh), pricer_(machine, mesh), cost_(pricer_.AsStepCost()) {}

int ReshardCosts::InternShape(const FactoredShape& shape, int64_t element_bytes, bool waits) {
  auto [it, fresh] = shape_ids_.emplace(std::make_tuple(shape, element_bytes, waits),
                                        static_cast<int>(shapes_.size()));
  if (fresh) shapes_.push_back({shape, element_bytes, waits, {}, {}, {}});
  return it->second;
}

int ReshardCosts::InternLayout(const Layout& layout) {
  auto [it, fresh] = layout_ids_.emplace(layout, static_cast<int>(layouts_.size()));
  if (fresh) layouts_.push_back(layout);
  return it->second;
}

double ReshardCosts::Seconds(int shape, int from, int to) {
  if (from == to) return 0;
  Shape& s = shapes_[static_cast<size_t>(shape)];
  auto it = s.from.find(from);
  const std::vector<double>& d = it != s.from.end() ? it->second : Distances(s, from);
  if (static_cast<size_t>(to) < d.size() && d[static_cast<size_t>(to)] < kUnreachable) {
    return d[static_cast<size_t>(to)];
  }
  return LayoutOf(to).IsPartial() ? MadePartial(shape, from, to) : kUnreachable;
}

double ReshardCosts::MadePartial(int shape, int from, int to) {
  const auto known = shapes_[static_cast<size_t>(shape)].made.find({from, to});
  if (known != shapes_[static_cast<size_t>(shape)].made.end()) return known->second;
  double seconds = kUnreachable;
  const std::optional<ReshardStep> last = MakesPartial(LayoutOf(from), LayoutOf(to), mesh_);
  if (last) {
    const double before = Seconds(shape, from, InternLayout(last->before));
    const Shape& s = shapes_[static_cast<size_t>(shape)];
    const double bytes = LocalBytes(s, last->after);
    if (before < kUnreachable) seconds = before + StepSeconds(s, *last, bytes, bytes);
  }
  shapes_[static_cast<size_t>(shape)].made.emplace(std::make_pair(from, to), seconds);
  return seconds;
}

double ReshardCosts::LocalBytes(const Shape& shape, const Layout& layout) const {
  return static_cast<double>(ElementCount(LocalShape(shape.shape, layout, mesh_)) *
                             shape.element_bytes);
}

const std::vector<ReshardCosts::Edge>& ReshardCosts::Edges(Shape& shape, int from) {
  const auto [it, fresh] = shape.edges.try_emplace(from);
  if (!fresh) return it->second;
  const Layout layout = layouts_[static_cast<size_t>(from)];  // interning moves them
  const double before = LocalBytes(shape, layout);
  for (const ReshardStep& step : StepsFrom(shape.shape, mesh_, layout)) {
    const bool temporal =
        std::find(step.axes.begin(), step.axes.end(), mesh_.TemporalAxis()) != step.axes.end();
    it->second.push_back({InternLayout(step.after),
                          StepSeconds(shape, step, before, LocalBytes(shape, step.after)),
                          temporal});
  }
  return it->second;
}

double ReshardCosts::StepSeconds(const Shape& shape, const ReshardStep& step, double before,
                                 double after) const {
  const double repeats =
      RunsEachMicroBatch(step, mesh_) ? static_cast<double>(mesh_.MicroBatches()) : 1;
  const bool bundled = step.kind == StepKind::kAllReduce || step.kind == StepKind::kReduceScatter ||
                       step.kind == StepKind::kAllGather;
  const double share = std::max(before, after) / static_cast<double>(kBundleBytes);
  if (!shape.waits || !bundled || share >= 1 || share <= 0) {
    return repeats * cost_(step, before, after);
  }
  return repeats * share * cost_(step, before / share, after / share);
}

// Dijkstra over layouts, each without and with a change of the temporal axis: it changes at most
// once, and straight to what is wanted (CheapestReshard), for no value enters the loop again.
const std::vector<double>& ReshardCosts::Distances(Shape& shape, int from) {
  std::array<std::vector<double>, 2> distance;  // by "the temporal axis has changed"
  const auto at = [&](int id, bool changed) -> double& {
    std::vector<double>& d = distance[changed ? 1 : 0];
    if (static_cast<size_t>(id) >= d.size()) d.resize(static_cast<size_t>(id) + 1, kUnreachable);
    return d[static_cast<size_t>(id)];
  };
  using Item = std::tuple<double, int, bool>;
  std::priority_queue<Item, std::vector<Item>, std::greater<>> queue;
  at(from, false) = 0;
  queue.emplace(0.0, from, false);
  while (!queue.empty()) {
    const auto [d, id, changed] = queue.top();
    queue.pop();
    if (d > at(id, changed)) continue;
    for (const Edge& edge : Edges(shape, id)) {
      if (edge.temporal && changed) continue;
      const double total = d + edge.seconds;
      const bool now = changed || edge.temporal;
      if (total < at(edge.to, now)) {
        at(edge.to, now) = total;
        queue.emplace(total, edge.to, now);
      }
    }
  }
  const int temporal = mesh_.TemporalAxis();
  const auto placed = [&](int id) {
    return temporal < 0 ? AxisPlacement::Replicated()
                        : LayoutOf(id).axes[static_cast<size_t>(temporal)];
  };
  std::vector<double> result(std::max(distance[0].size(), distance[1].size()), kUnreachable);
  for (size_t id = 0; id < result.size(); ++id) {
    const bool changed = placed(static_cast<int>(id)) != placed(from);
    result[id] = at(static_cast<int>(id), changed);
  }
  return shape.from.emplace(from, std::move(result)).first->second;
}

ReshardCosts& ReshardCache::Of(const Machine& machine, const Mesh& mesh) {
  std::vector<std::pair<int64_t, bool>> key;
  for (const MeshAxis& axis : mesh.axes) key.emplace_back(axis.extent, axis.temporal);
  std::unique_ptr<ReshardCosts>& costs = costs_[key];
  if (costs == nullptr) costs = std::make_unique<ReshardCosts>(machine, mesh);
  return *costs;
}

}  // namespace tandem
