#include "optimizer/reshard_table.h"

#include <queue>
#include <utility>

namespace tandem {

ReshardCosts::ReshardCosts(const Machine& machine, const Mesh& mesh)
    : mesh_(mesh), pricer_(machine, mesh), cost_(pricer_.AsStepCost()) {}

int ReshardCosts::InternShape(const FactoredShape& shape, int64_t element_bytes) {
  auto [it, fresh] =
      shape_ids_.emplace(std::make_pair(shape, element_bytes), static_cast<int>(shapes_.size()));
  if (fresh) shapes_.push_back({shape, element_bytes, {}});
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

const std::vector<double>& ReshardCosts::Distances(Shape& shape, int from) {
  std::vector<double> distance;
  auto at = [&](int id) -> double& {
    if (static_cast<size_t>(id) >= distance.size()) {
      distance.resize(static_cast<size_t>(id) + 1, kUnreachable);
    }
    return distance[static_cast<size_t>(id)];
  };
  auto bytes = [&](const Layout& layout) {
    return static_cast<double>(ElementCount(LocalShape(shape.shape, layout, mesh_)) *
                               shape.element_bytes);
  };
  using Item = std::pair<double, int>;
  std::priority_queue<Item, std::vector<Item>, std::greater<>> queue;
  at(from) = 0;
  queue.push({0, from});
  while (!queue.empty()) {
    const auto [d, id] = queue.top();
    queue.pop();
    if (d > distance[static_cast<size_t>(id)]) continue;
    const Layout layout = layouts_[static_cast<size_t>(id)];
    const double before = bytes(layout);
    for (const ReshardStep& step : StepsFrom(shape.shape, mesh_, layout)) {
      const int next = InternLayout(step.after);
      const double total = d + cost_(step, before, bytes(step.after));
      if (total < at(next)) {
        at(next) = total;
        queue.push({total, next});
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
