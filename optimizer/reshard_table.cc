#include "optimizer/reshard_table.h"

#include <algorithm>
#include <queue>
#include <utility>

#include "optimizer/bundles.h"

namespace tandem {

ReshardCosts::ReshardCosts(const Machine& machine, const Mesh& mesh)
    : mesh_(mesh), pricer_(machine, mesh), cost_(pricer_.AsStepCost()) {}

int ReshardCosts::InternShape(const FactoredShape& shape, int64_t element_bytes, bool waits) {
  auto [it, fresh] = shape_ids_.emplace(std::make_tuple(shape, element_bytes, waits),
                                        static_cast<int>(shapes_.size()));
  if (fresh) shapes_.push_back({shape, element_bytes, waits, {}, {}});
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
  return static_cast<size_t>(to) < d.size() ? d[static_cast<size_t>(to)] : kUnreachable;
}

const std::vector<ReshardCosts::Edge>& ReshardCosts::Edges(Shape& shape, int from) {
  const auto [it, fresh] = shape.edges.try_emplace(from);
  if (!fresh) return it->second;
  const auto bytes = [&](const Layout& layout) {
    return static_cast<double>(ElementCount(LocalShape(shape.shape, layout, mesh_)) *
                               shape.element_bytes);
  };
  const Layout layout = layouts_[static_cast<size_t>(from)];  // interning moves them
  const double before = bytes(layout);
  for (const ReshardStep& step : StepsFrom(shape.shape, mesh_, layout)) {
    it->second.push_back(
        {InternLayout(step.after), StepSeconds(shape, step, before, bytes(step.after))});
  }
  return it->second;
}

double ReshardCosts::StepSeconds(const Shape& shape, const ReshardStep& step, double before,
                                 double after) const {
  const bool bundled = step.kind == StepKind::kAllReduce || step.kind == StepKind::kReduceScatter ||
                       step.kind == StepKind::kAllGather;
  const double share = std::max(before, after) / static_cast<double>(kBundleBytes);
  if (!shape.waits || !bundled || share >= 1 || share <= 0) return cost_(step, before, after);
  return share * cost_(step, before / share, after / share);
}

const std::vector<double>& ReshardCosts::Distances(Shape& shape, int from) {
  std::vector<double> distance;
  auto at = [&](int id) -> double& {
    if (static_cast<size_t>(id) >= distance.size()) {
      distance.resize(static_cast<size_t>(id) + 1, kUnreachable);
    }
    return distance[static_cast<size_t>(id)];
  };
  using Item = std::pair<double, int>;
  std::priority_queue<Item, std::vector<Item>, std::greater<>> queue;
  at(from) = 0;
  queue.push({0, from});
  while (!queue.empty()) {
    const auto [d, id] = queue.top();
    queue.pop();
    if (d > distance[static_cast<size_t>(id)]) continue;
    for (const Edge& edge : Edges(shape, id)) {
      const double total = d + edge.seconds;
      if (total < at(edge.to)) {
        at(edge.to) = total;
        queue.push({total, edge.to});
      }
    }
  }
  return shape.from.emplace(from, std::move(distance)).first->second;
}

ReshardCosts& ReshardCache::Of(const Machine& machine, const Mesh& mesh) {
  std::vector<std::pair<int64_t, bool>> key;
  for (const MeshAxis& axis : mesh.axes) key.emplace_back(axis.extent, axis.temporal);
  std::unique_ptr<ReshardCosts>& costs = costs_[key];
  if (costs == nullptr) costs = std::make_unique<ReshardCosts>(machine, mesh);
  return *costs;
}

}  // namespace tandem
