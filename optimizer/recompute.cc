#include "optimizer/recompute.h"

#include <functional>
#include <vector>

#include "absl/strings/str_cat.h"

namespace tandem {
namespace {

// Tensors saved inside a block for its backward pass: made by a forward node of the block, read by
// a backward node, and by no forward node of another block.
std::vector<bool> SavedInside(const Graph& g, const std::set<int>& blocks) {
  const std::vector<std::vector<NodeId>> readers = g.Readers();
  std::vector<bool> saved(g.tensors.size(), false);
  std::set<int32_t> outputs;
  for (TensorId t : g.outputs) outputs.insert(t.value);
  for (size_t i = 0; i < g.tensors.size(); ++i) {
    const NodeId p = g.tensors[i].producer;
    if (!p.valid() || g.node(p).phase != Phase::kForward) continue;
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
  for (const Node& node : training.nodes) all.insert(node.block);
  const std::vector<bool> saved = SavedInside(training, all);
  for (size_t i = 0; i < saved.size(); ++i) {
    if (saved[i]) useful.insert(training.node(training.tensors[i].producer).block);
  }
  return useful;
}

absl::StatusOr<Graph> WithRecompute(const Graph& training, const std::set<int>& blocks) {
  if (blocks.empty()) return training;
  const std::vector<bool> saved = SavedInside(training, blocks);
  Graph out;
  out.name = training.name;
  out.operators = training.operators;
  out.batch = training.batch;
  std::vector<TensorId> map(training.tensors.size());    // as first computed
  std::vector<TensorId> again(training.tensors.size());  // the recomputed copy
  for (size_t i = 0; i < training.tensors.size(); ++i) {
    if (!training.tensors[i].producer.valid()) map[i] = out.AddSource(training.tensors[i]);
  }
  auto add = [&](const Node& node, bool copy, const std::vector<TensorId>& inputs) -> absl::Status {
    Node fresh = node;
    std::vector<DType> dtypes;
    for (TensorId t : node.outputs) dtypes.push_back(training.tensor(t).dtype);
    fresh.inputs = inputs;
    fresh.outputs.clear();
    if (copy) {
      fresh.name = absl::StrCat(node.name, ".recompute");
      fresh.phase = Phase::kBackward;
      fresh.origin = "recompute";
    }
    absl::StatusOr<NodeId> id = out.AddNode(std::move(fresh), dtypes);
    if (!id.ok()) return id.status();
    for (size_t k = 0; k < node.outputs.size(); ++k) {
      const TensorId t = out.node(*id).outputs[k];
      const Tensor& was = training.tensor(node.outputs[k]);
      out.tensors[t.index()].name = copy ? absl::StrCat(was.name, ".recompute") : was.name;
      out.tensors[t.index()].shape = was.shape;
      (copy ? again : map)[node.outputs[k].index()] = t;
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
                          training.node(p).block == node.block;
      // What is kept anyway (read elsewhere, a model output) need not be made again.
      bool kept = !inside;
      if (inside && !saved[in.index()]) {
        kept = false;
        for (TensorId o : training.outputs) kept |= o == in;
      }
      if (!kept) {
        if (absl::Status s = recompute(in); !s.ok()) return s;
      }
      inputs.push_back(kept ? map[in.index()] : again[in.index()]);
    }
    return add(node, true, inputs);
  };
  for (const Node& node : training.nodes) {
    std::vector<TensorId> inputs;
    for (TensorId in : node.inputs) {
      if (node.phase == Phase::kBackward && saved[in.index()]) {
        if (absl::Status s = recompute(in); !s.ok()) return s;
        inputs.push_back(again[in.index()]);
      } else {
        inputs.push_back(map[in.index()]);
      }
    }
    if (absl::Status s = add(node, false, inputs); !s.ok()) return s;
  }
  out.inputs.clear();  // AddSource lists them, in another order
  for (TensorId t : training.inputs) out.inputs.push_back(map[t.index()]);
  for (TensorId t : training.outputs) out.outputs.push_back(map[t.index()]);
  if (training.loss) out.loss = map[training.loss->index()];
  for (const StateUpdate& u : training.updates) {
    out.updates.push_back({map[u.state.index()], map[u.next.index()]});
  }
  return out;
}

}  // namespace tandem
