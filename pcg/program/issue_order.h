// The order in which a Program issues the nodes of a graph, so that communication has computation
// to run beside. Devices compute in issue order; a node that waits for a collective holds up all
// that come after it.
#ifndef TANDEM_PCG_PROGRAM_ISSUE_ORDER_H_
#define TANDEM_PCG_PROGRAM_ISSUE_ORDER_H_

#include <vector>

#include "pcg/graph/graph.h"

namespace tandem {

// By node: only updates of states depend on it, and it is an update or hands a gradient on element
// by element (its cast). What such a node reads can be brought to it long before it runs.
std::vector<bool> LateNodes(const Graph& graph);

// By node: it is a forward node that depends on parameters, states and constants only.
std::vector<bool> NodesOfStoredValues(const Graph& graph);

// All nodes, topologically. As in the graph, but
// - a forward node that depends on stored values only (the working copy of a weight) comes just
//   before its first reader, so that its result is held no longer than needed; unless `sent`, by
//   node, says that its result is communicated before it is read: then it stays where it is, early
//   enough for the collective to run beside computation;
// - what only hands a gradient on comes right after what makes it, so that neither the gradient nor
//   its reduction waits;
// - those of `late`, by node, come after all others, each as soon as its operands are there.
std::vector<NodeId> IssueOrder(const Graph& graph, const std::vector<bool>& sent,
                               const std::vector<bool>& late);

}  // namespace tandem

#endif  // TANDEM_PCG_PROGRAM_ISSUE_ORDER_H_
