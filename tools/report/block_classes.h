// A graph of thousands of nodes as a few pictures: the nodes of one phase and block are one
// picture, and blocks that do the same (operators, layouts, collectives; sizes may differ) share
// theirs. What a block has beside a repeated one (a head after the last layer) becomes a picture of
// its own.
#ifndef TANDEM_TOOLS_REPORT_BLOCK_CLASSES_H_
#define TANDEM_TOOLS_REPORT_BLOCK_CLASSES_H_

#include <string>
#include <vector>

#include "pcg/graph/graph.h"
#include "pcg/program/program.h"
#include "tools/report/flow.h"

namespace tandem::report {

struct BlockClass {
  Phase phase = Phase::kForward;
  std::vector<int> blocks;    // ascending; -1 = nodes of no block
  std::vector<NodeId> nodes;  // of the first of them, in order
  bool rest = false;          // what the block has beside a repeated part
  bool sizes_differ = false;  // between the blocks; those of the first are shown
};

// Whether each node only prepares weights or constants (casts, concatenations of parameters): these
// are shown with the weights, not as nodes.
std::vector<bool> PreparedNodes(const Graph& pcg);

// In order of execution. Nodes that the Program does not execute are left out.
std::vector<BlockClass> BlockClasses(const Graph& pcg, const Program& program, const Flow& flow,
                                     const std::vector<bool>& prepared, Phase phase);

// "1-22, 24".
std::string BlockRanges(const std::vector<int>& blocks);

}  // namespace tandem::report

#endif  // TANDEM_TOOLS_REPORT_BLOCK_CLASSES_H_
