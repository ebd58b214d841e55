// Copying a graph node by node, for passes that change some nodes on the way: names, types, notes
// and the order of inputs stay, unless the pass says otherwise.
#ifndef TANDEM_PCG_GRAPH_GRAPH_COPY_H_
#define TANDEM_PCG_GRAPH_GRAPH_COPY_H_

#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "pcg/graph/attributes_text.h"
#include "pcg/graph/graph.h"

namespace tandem {

class GraphCopy {
 public:
  // Factors of dims: as inferred from the copied inputs, or those of the original.
  enum class Factors : uint8_t { kInferred, kKept };
  // Starts with the sources of `from`, which outlives the copy.
  GraphCopy(const Graph& from, Factors factors);

  Graph& graph() { return to_; }
  // Where a tensor of the original is in the copy; invalid while it is not. A pass that computes it
  // in its own way says so by setting it.
  TensorId& At(TensorId original) { return map_[original.index()]; }

  // Appends a node of the original, its inputs where At() says.
  absl::Status Add(const Node& node);
  // ... as `copy` says: a node of the copy, but for its outputs. The outputs take types and notes
  // of the original's, and names with `suffix`. At() is not told.
  absl::StatusOr<NodeId> AddAs(const Node& node, Node copy, const std::string& suffix);

  // The original's inputs, outputs, loss and updates, all of which are in the copy by now.
  Graph Finish();

 private:
  const Graph& from_;
  const Factors factors_;
  Graph to_;
  std::vector<TensorId> map_;
};

}  // namespace tandem

#endif  // TANDEM_PCG_GRAPH_GRAPH_COPY_H_
