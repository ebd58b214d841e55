// The picture of one class of blocks, before it has coordinates: boxes of rows of chips, and
// arrows. Nodes carry their operator, shape and layout, and the weights they read; collectives are
// boxes on the arrows; what comes from and goes to other blocks are ports.
#ifndef TANDEM_TOOLS_REPORT_PICTURE_H_
#define TANDEM_TOOLS_REPORT_PICTURE_H_

#include <string>
#include <utility>
#include <vector>

#include "pcg/graph/graph.h"
#include "pcg/program/program.h"
#include "tools/report/block_classes.h"
#include "tools/report/chips.h"
#include "tools/report/flow.h"

namespace tandem::report {

struct Box {
  enum class Kind : uint8_t { kNode, kHeavy, kChain, kPort, kMove };
  Kind kind = Kind::kNode;
  std::vector<Chips> rows;
  std::string hint;  // shown when pointed at
};

struct Picture {
  std::vector<Box> boxes;
  std::vector<std::pair<int, int>> arrows;
  std::string prefix;  // of all node names, left out of the boxes
  size_t nodes = 0;    // of the graph that it shows
};

// Pictures of more nodes than this show chains of light operators as one box.
inline constexpr size_t kMostSingleNodes = 40;

Picture PictureOf(const Graph& pcg, const Program& program, const Flow& flow,
                  const std::vector<bool>& prepared, const BlockClass& block);

// A source tensor behind an operand, through the nodes that prepare it, with all steps on the way.
struct Origin {
  TensorId source;         // the first of them
  int others = 0;          // further sources
  BufferId stored;         // the source's buffer
  std::vector<int> steps;  // collectives and accumulations only
};
Origin OriginOf(const Program& program, const Flow& flow, const std::vector<bool>& prepared,
                const Operand& operand);

}  // namespace tandem::report

#endif  // TANDEM_TOOLS_REPORT_PICTURE_H_
