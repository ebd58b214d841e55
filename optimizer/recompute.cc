#include "optimizer/recompute.h"

#include <functional>
#include <vector>

#include "absl/strings/str_cat.h"
#include "pcg/graph/graph_copy.h"
#include "pcg/program/issue_order.h"

namespace tandem {
namespace {

// Tensors saved inside a block for its backward pass: made by a forward node of the block, read by
// a backward node, and by no forward node of another block; the working copies of weights only if
// `weights`.
std::vector<bool> SavedInside(const Graph& g, const std::set<int>& blocks, bool weights) {
  const std::vector<std::vector<NodeId>> readers = g.Readers();
  const std::vector<bool> stored =
      weights ? std::vector<bool>(g.nodes.size(), false) : NodesOfStoredValues(g);
  std::vector<bool> saved(g.tensors.size(), false);
  std::set<int32_t> outputs;
  for (TensorId t : g.outputs) outputs.insert(t.value);
  for (size_t i = 0; i < g.tensors.size(); ++i) {
    const NodeId p = g.tensors[i].producer;
    if (!p.valid() || g.node(p).phase != Phase::kForward || stored[p.index()]) continue;
    const int block = g.node(p).block;
    if (blocks.count(block) == 0 || outputs.count(static_cast<int32_t>(i))) continue;
    bool backward = false, elsewhere = false;
    for (NodeId r : readers[i]) {
      backward |= g.node(r).phase == Phase::kBackward;
      elsewhere |= g.node(r).phase == Phase::kForward && g.node(r).block != block;
    }
    saved[i] = backward && !elsewhere;
  }
  return saved;
}

}  // namespace

std::set<int> RecomputableBlocks(const Graph& training) {
  std::set<int> all, useful;
  for (const Node& node : training.nodes) {
    if (node.block >= 0) all.insert(node.block);
  }
  const std::vector<bool> saved = SavedInside(training, all, /*weights=*/false);
  for (size_t i = 0; i < saved.size(); ++i) {
    if (saved[i]) useful.insert(training.node(training.tensors[i].producer).block);
  }
  return useful;
}

absl::StatusOr<Graph> WithRecompute(const Graph& training, const std::set<int>& blocks,
                                    bool weights) {
  if (blocks.empty()) return training;
  const std::vector<bool> saved = SavedInside(training, blocks, weights);
  const std::vector<bool> stored =
      weights ? std::vector<bool>(training.nodes.size(), false) : NodesOfStoredValues(training);
  GraphCopy copy(training, GraphCopy::Factors::kKept);
  std::vector<TensorId> again(training.tensors.size());  // of what is computed a second time
  auto add = [&](const Node& node, const std::vector<TensorId>& inputs,
                 bool repeated) -> absl::Status {
    Node fresh = node;
    fresh.inputs = inputs;
    if (repeated) {
      fresh.name = absl::StrCat(node.name, ".recompute");
      fresh.phase = Phase::kBackward;
      fresh.origin = "recompute";
    }
    absl::StatusOr<NodeId> id = copy.AddAs(node, std::move(fresh), repeated ? ".recompute" : "");
    if (!id.ok()) return id.status();
    for (size_t k = 0; k < node.outputs.size(); ++k) {
      const TensorId t = copy.graph().node(*id).outputs[k];
      (repeated ? again[node.outputs[k].index()] : copy.At(node.outputs[k])) = t;
    }
    return absl::OkStatus();
  };
  // Recomputes a tensor, and before it what it needs inside its block.
  std::function<absl::Status(TensorId)> recompute = [&](TensorId t) -> absl::Status {
    if (again[t.index()].valid()) return absl::OkStatus();
    const Node& node = training.node(training.tensor(t).producer);
    std::vector<TensorId> inputs;
    for (TensorId in : node.inputs) {
      const NodeId p = training.tensor(in).producer;
      const bool inside = p.valid() && training.node(p).phase == Phase::kForward &&
                          training.node(p).block == node.block && !stored[p.index()];
      // What is kept anyway (read elsewhere, a model output) need not be made again.
      bool kept = !inside;
      if (inside && !saved[in.index()]) {
        kept = false;
        for (TensorId o : training.outputs) kept |= o == in;
      }
      if (!kept) {
        if (absl::Status s = recompute(in); !s.ok()) return s;
      }
      inputs.push_back(kept ? copy.At(in) : again[in.index()]);
    }
    return add(node, inputs, true);
  };
  for (const Node& node : training.nodes) {
    std::vector<TensorId> inputs;
    for (TensorId in : node.inputs) {
      if (node.phase == Phase::kBackward && saved[in.index()]) {
        if (absl::Status s = recompute(in); !s.ok()) return s;
        inputs.push_back(again[in.index()]);
      } else {
        inputs.push_back(copy.At(in));
      }
    }
    if (absl::Status s = add(node, inputs, false); !s.ok()) return s;
  }
  return copy.Finish();
}

}  // namespace tandem
