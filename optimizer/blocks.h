// Which repeated region (layer) of the model a node belongs to, for recomputation, windows of the
// search, and the report. Read off the parameters' names: "encoder.layer.3.attention..." and
// "layer1.0.conv1..." are blocks; everything takes the latest block it depends on.
#ifndef TANDEM_OPTIMIZER_BLOCKS_H_
#define TANDEM_OPTIMIZER_BLOCKS_H_

#include <string>

#include "pcg/graph/graph.h"

namespace tandem {

// The prefix of a parameter's name up to its first numbered component; empty if none.
std::string BlockPrefix(const std::string& parameter);

// Sets Node::block of a forward graph: 0 before the first numbered block, then 1, 2, ... in order
// of appearance. Blocks never decrease along an edge. What only the loss needs is in none: -1.
void AssignBlocks(Graph& forward);

}  // namespace tandem

#endif  // TANDEM_OPTIMIZER_BLOCKS_H_
