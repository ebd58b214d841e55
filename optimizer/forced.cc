#include "optimizer/forced.h"

#include <algorithm>
#include <memory>

#include "optimizer/batch_axis.h"
#include "pcg/instance/op_analysis.h"
#include "pcg/program/issue_order.h"

namespace tandem {
namespace {

using Kind = AxisPlacement::Kind;

bool IsContraction(const NodeClass& c) { return AsContraction(c.instance).has_value(); }

bool Divides(const NodeClass& c, const SplitRow& row, int64_t degree) {
  return row.size < 0 || c.instance.sizes[static_cast<size_t>(row.size)].extent % degree == 0;
}

}  // namespace

FollowedDim FollowDim(const Graph& graph, const NodeClasses& classes, int64_t degree, size_t dim,
                      int64_t micro_batches) {
  FollowedDim out;
  std::vector<AxisPlacement> placements(graph.tensors.size());
  for (TensorId id : graph.inputs) {
    const Tensor& t = graph.tensor(id);
    if (t.role != TensorRole::kInput || t.shape.size() <= dim) continue;
    const int factor = dim == 0 ? ExampleFactor(t, micro_batches) : 0;
    if (t.shape[dim][static_cast<size_t>(factor)] % degree == 0) {
      placements[id.index()] = AxisPlacement::Split(static_cast<int>(dim), factor);
    }
  }
  for (size_t n = 0; n < graph.nodes.size(); ++n) {
    const Node& node = graph.nodes[n];
    const NodeClass& c = classes.Of(NodeId(static_cast<int64_t>(n)));
    int best = -1, best_hits = 0;
    for (size_t r = 1; r < c.table.size(); ++r) {
      const SplitRow& row = c.table[r];
      if (row.size < 0 || !c.usable[r] || !Divides(c, row, degree)) continue;
      int hits = 0;
      bool fits = true;
      for (size_t i = 0; i < node.inputs.size(); ++i) {
        const AxisPlacement& have = placements[node.inputs[i].index()];
        if (have.kind != Kind::kSplit) continue;
        if (have == row.inputs[i]) ++hits;
        fits &= have == row.inputs[i] || row.inputs[i].kind == Kind::kReplicated;
      }
      if (fits && hits > best_hits) {
        best = static_cast<int>(r);
        best_hits = hits;
      }
    }
    out.rows.push_back(best);
    for (size_t k = 0; k < node.outputs.size(); ++k) {
      placements[node.outputs[k].index()] =
          best >= 0 && c.table[static_cast<size_t>(best)].outputs[k].kind == Kind::kSplit
              ? c.table[static_cast<size_t>(best)].outputs[k]
              : AxisPlacement::Replicated();
    }
  }
  return out;
}

absl::StatusOr<LayoutRestrictions> Restrict(const Graph& graph, const NodeClasses& classes,
                                            const Mesh& mesh, const std::vector<AxisKind>& kinds) {
  struct PerAxis {
    AxisKind kind = AxisKind::kFree;
    int64_t degree = 1;
    std::vector<int> batch;     // by node: row of the batch
    std::vector<int> sequence;  // by node
  };
  auto axes = std::make_shared<std::vector<PerAxis>>();
  for (size_t a = 0; a < mesh.axes.size(); ++a) {
    PerAxis axis;
    axis.kind = a < kinds.size() && !mesh.axes[a].temporal ? kinds[a] : AxisKind::kFree;
    const int64_t degree = mesh.axes[a].extent;
    axis.degree = degree;
    if (axis.kind == AxisKind::kData || axis.kind == AxisKind::kSharded) {
      absl::StatusOr<BatchAxis> split =
          SplitBatch(graph, classes, degree, false, mesh.MicroBatches());
      if (!split.ok()) return split.status();
      axis.batch = split->rows;
    } else if (axis.kind != AxisKind::kFree) {
      axis.batch = FollowDim(graph, classes, degree, 0, mesh.MicroBatches()).rows;
      axis.sequence = FollowDim(graph, classes, degree, 1, mesh.MicroBatches()).rows;
    }
    axes->push_back(std::move(axis));
  }
  auto graph_phases = std::make_shared<std::vector<Phase>>();
  for (const Node& n : graph.nodes) graph_phases->push_back(n.phase);
  auto late = std::make_shared<std::vector<bool>>(LateNodes(graph));
  LayoutRestrictions out;
  out.node = [axes, graph_phases, late, &classes](NodeId id, int axis, int row) {
    const PerAxis& a = (*axes)[static_cast<size_t>(axis)];
    const NodeClass& c = classes.Of(id);
    const size_t n = id.index();
    switch (a.kind) {
      case AxisKind::kFree:
        return true;
      case AxisKind::kData:
        // A gradient may be reduced before it is cast.
        return row == a.batch[n] || (row == 0 && (*late)[n]);
      case AxisKind::kSharded:
        // Nodes the batch does not reach (casts of weights, updates) are free to be split.
        return (*late)[n] || (*graph_phases)[n] == Phase::kUpdate || a.batch[n] == 0
                   ? true
                   : row == a.batch[n];
      case AxisKind::kTensor: {
        if (row != 0 && (row == a.batch[n] || row == a.sequence[n])) return false;
        if (row != 0 || !IsContraction(c) || (*graph_phases)[n] == Phase::kUpdate) return true;
        for (size_t r = 1; r < c.table.size(); ++r) {
          const int other = static_cast<int>(r);
          if (c.usable[r] && c.table[r].size >= 0 && Divides(c, c.table[r], a.degree) &&
              other != a.batch[n] && other != a.sequence[n])
            return false;
        }
        return true;
      }
      case AxisKind::kSequence:
        if (a.sequence[n] >= 0) return row == a.sequence[n];
        return row == 0 || row != a.batch[n];
    }
    return true;
  };
  out.source = [axes, &graph](TensorId id, const Layout& layout) {
    const Tensor& t = graph.tensor(id);
    for (size_t a = 0; a < axes->size(); ++a) {
      const AxisKind kind = (*axes)[a].kind;
      if (kind == AxisKind::kFree || t.role == TensorRole::kInput) continue;
      const bool split = layout.axes[a].kind == Kind::kSplit;
      if (kind != AxisKind::kSharded && kind != AxisKind::kTensor && split) return false;
    }
    return true;
  };
  return out;
}

}  // namespace tandem
