#include "optimizer/batch_axis.h"

#include <algorithm>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"

namespace tandem {
namespace {

using Kind = AxisPlacement::Kind;

// Cost of feeding a tensor placed `have` to a row that wants `want`; negative = impossible.
int Mismatch(const AxisPlacement& have, const AxisPlacement& want) {
  if (have == want) return 0;
  if (have.kind == Kind::kReplicated && want.kind == Kind::kSplit) return 1;      // take a slice
  if (have.kind == Kind::kPartial && want.kind == Kind::kReplicated) return 100;  // complete it
  if (have.kind == Kind::kPartial && want.kind == Kind::kSplit) return 110;
  return -1;
}

// Cost of handing on a partial value that becomes larger on the way (a statistic's gradient that is
// spread over the examples): it is completed later, and there is more of it.
int Grows(const Graph& graph, const Node& node, const SplitRow& row) {
  int64_t before = 0, after = 0;
  for (size_t i = 0; i < node.inputs.size(); ++i) {
    if (row.inputs[i].kind != Kind::kPartial) continue;
    before = std::max(before, ElementCount(graph.tensor(node.inputs[i]).shape));
  }
  for (size_t k = 0; k < node.outputs.size(); ++k) {
    if (row.outputs[k].kind != Kind::kPartial) continue;
    after = std::max(after, ElementCount(graph.tensor(node.outputs[k]).shape));
  }
  return before > 0 && after > before ? 200 : 0;
}

bool IsBatchInput(const Graph& graph, const Tensor& t) {
  if (t.role != TensorRole::kInput || t.shape.empty()) return false;
  int64_t extent = 1;
  for (int64_t f : t.shape[0]) extent *= f;
  return graph.batch <= 0 || extent == graph.batch;
}

// Micro-batches of one example each: no factor counts the examples of one.
bool SingleExamples(const Tensor& input, int64_t micro_batches) {
  return micro_batches > 1 && input.shape[0] == Factors{micro_batches};
}

}  // namespace

absl::StatusOr<Graph> WithMicroBatches(const Graph& graph, int64_t micro_batches) {
  Graph out = graph;
  if (micro_batches <= 1) return out;
  for (TensorId id : out.inputs) {
    Tensor& t = out.tensors[id.index()];
    if (!IsBatchInput(out, t)) continue;
    Factors& batch = t.shape[0];
    if (batch[0] == micro_batches) continue;
    if (batch[0] % micro_batches != 0) return graph;
    batch[0] /= micro_batches;
    batch.insert(batch.begin(), micro_batches);
  }
  if (absl::Status s = PropagateFactors(out); !s.ok()) return s;
  return out;
}

int ExampleFactor(const Tensor& input, int64_t micro_batches) {
  const Factors& batch = input.shape[0];
  return micro_batches > 1 && batch.size() > 1 && batch[0] == micro_batches ? 1 : 0;
}

absl::StatusOr<BatchAxis> SplitBatch(const Graph& graph, const NodeClasses& classes, int64_t degree,
                                     bool temporal, int64_t micro_batches) {
  BatchAxis out;
  out.placements.resize(graph.tensors.size());
  bool any = false;
  for (TensorId id : graph.inputs) {
    const Tensor& t = graph.tensor(id);
    if (!IsBatchInput(graph, t)) continue;
    const int factor = temporal ? 0 : ExampleFactor(t, micro_batches);
    const bool single = !temporal && SingleExamples(t, micro_batches);
    const int64_t examples = single ? 1 : t.shape[0][static_cast<size_t>(factor)];
    if (examples % degree != 0) {
      return absl::InvalidArgumentError(absl::StrCat(
          factor > 0 || single ? "a micro-batch of " : "batch ", examples, " of input ", t.name,
          " does not divide into ", degree, " pieces; ", NearestThatDivide(examples, degree)));
    }
    if (!single) out.placements[id.index()] = AxisPlacement::Split(0, factor);
    any = true;
  }
  if (!any) {
    return absl::InvalidArgumentError(
        absl::StrCat("graph ", graph.name, " has no input with a batch dimension"));
  }
  for (size_t n = 0; n < graph.nodes.size(); ++n) {
    const Node& node = graph.nodes[n];
    const NodeClass& c = classes.Of(NodeId(static_cast<int64_t>(n)));
    int best = -1, best_cost = 0;
    for (size_t r = 0; r < c.table.size(); ++r) {
      const SplitRow& row = c.table[r];
      if (!c.usable[r]) continue;
      if (row.size >= 0 && c.instance.sizes[static_cast<size_t>(row.size)].extent % degree != 0) {
        continue;
      }
      int cost = 0;
      bool completes = false, splits = false, all_replicated = true;
      for (size_t i = 0; i < node.inputs.size() && cost >= 0; ++i) {
        const AxisPlacement& have = out.placements[node.inputs[i].index()];
        const int m = Mismatch(have, row.inputs[i]);
        cost = m < 0 ? -1 : cost + m;
        completes |= have.kind == Kind::kPartial && row.inputs[i].kind != Kind::kPartial;
        splits |= have.kind == Kind::kSplit;
        all_replicated &= have.kind == Kind::kReplicated;
      }
      if (cost < 0) continue;
      if (!temporal) cost += Grows(graph, node, row);
      if (temporal && completes && (splits || row.size >= 0)) continue;
      if (all_replicated && r != 0) continue;  // nothing of the batch here
      if (best < 0 || cost < best_cost) {
        best = static_cast<int>(r);
        best_cost = cost;
      }
    }
    if (best < 0) {
      return absl::FailedPreconditionError(
          absl::StrCat("node ", node.name, " (", node.op,
                       ") mixes the examples of a batch, so the batch cannot be split there",
                       temporal ? " into micro-batches; use one micro-batch" : ""));
    }
    const SplitRow& row = c.table[static_cast<size_t>(best)];
    bool varies = row.size >= 0;
    for (size_t k = 0; k < node.outputs.size(); ++k) {
      out.placements[node.outputs[k].index()] = row.outputs[k];
      varies |= row.outputs[k].kind != Kind::kReplicated;
    }
    for (const AxisPlacement& p : row.inputs) varies |= p.kind != Kind::kReplicated;
    out.rows.push_back(best);
    out.varies.push_back(varies);
  }
  return out;
}

std::string NearestThatDivide(int64_t batch, int64_t pieces) {
  return absl::StrCat(
      "the nearest that do: ", batch < pieces ? "" : absl::StrCat(batch / pieces * pieces, " and "),
      (batch / pieces + 1) * pieces);
}

}  // namespace tandem
