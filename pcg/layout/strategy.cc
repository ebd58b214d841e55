#include "pcg/layout/strategy.h"

#include "absl/strings/str_cat.h"

namespace tandem {

absl::StatusOr<NodeLayouts> LayoutsOf(const OpInstance& instance,
                                      const std::vector<SplitRow>& table,
                                      const NodeStrategy& strategy, const Mesh& mesh) {
  const auto error = [&](const std::string& what) {
    return absl::InvalidArgumentError(absl::StrCat("operator ", instance.op, ": ", what));
  };
  if (strategy.rows.size() != mesh.axes.size()) {
    return error(absl::StrCat("the strategy has ", strategy.rows.size(), " rows, the mesh ",
                              mesh.axes.size(), " axes; give one row an axis"));
  }
  NodeLayouts layouts;
  layouts.inputs.assign(static_cast<size_t>(instance.num_inputs), Layout::Replicated(mesh));
  layouts.outputs.assign(static_cast<size_t>(instance.num_outputs), Layout::Replicated(mesh));
  layouts.size_axes.assign(instance.sizes.size(), {});
  std::vector<int64_t> left;
  for (const SizeVar& size : instance.sizes) left.push_back(size.extent);
  for (size_t a = 0; a < mesh.axes.size(); ++a) {
    const int index = strategy.rows[a];
    if (index < 0 || static_cast<size_t>(index) >= table.size()) {
      return error(absl::StrCat("row ", index, " on axis ", mesh.axes[a].name,
                                ", but the factor table has ", table.size(), " rows"));
    }
    const SplitRow& row = table[static_cast<size_t>(index)];
    for (size_t i = 0; i < row.inputs.size(); ++i) layouts.inputs[i].axes[a] = row.inputs[i];
    for (size_t o = 0; o < row.outputs.size(); ++o) layouts.outputs[o].axes[a] = row.outputs[o];
    if (row.size < 0) continue;
    int64_t& extent = left[static_cast<size_t>(row.size)];
    if (mesh.axes[a].extent <= 0 || extent % mesh.axes[a].extent != 0) {
      return error(absl::StrCat("\"", row.reason, "\" on axis ", mesh.axes[a].name, ": degree ",
                                mesh.axes[a].extent, " does not divide the remaining extent ",
                                extent, "; choose a divisor or replicate"));
    }
    extent /= mesh.axes[a].extent;
    layouts.size_axes[static_cast<size_t>(row.size)].push_back(static_cast<int>(a));
  }
  for (int t = 0; t < instance.num_inputs + instance.num_outputs; ++t) {
    const bool in = t < instance.num_inputs;
    const auto at = static_cast<size_t>(in ? t : t - instance.num_inputs);
    const absl::Status status =
        CheckLayout(instance.ShapeOf(t), in ? layouts.inputs[at] : layouts.outputs[at], mesh);
    if (!status.ok()) {
      return error(absl::StrCat(in ? "input " : "output ",
                                instance.tensors[static_cast<size_t>(t)].name, ": ",
                                std::string(status.message())));
    }
  }
  return layouts;
}

Strategy ReplicatedStrategy(const Graph& graph, const Mesh& mesh) {
  Strategy strategy;
  strategy.mesh = mesh;
  strategy.nodes.assign(graph.nodes.size(), NodeStrategy{std::vector<int>(mesh.axes.size(), 0)});
  strategy.sources.assign(graph.tensors.size(), Layout::Replicated(mesh));
  return strategy;
}

}  // namespace tandem
