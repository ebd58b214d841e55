// Where a Program's kernels take their operands from: for each input of each node, what produced
// the value and the steps (collectives, local copies, accumulations) that brought it to the layout
// it is read in. Read off the Program alone.
#ifndef TANDEM_TOOLS_REPORT_FLOW_H_
#define TANDEM_TOOLS_REPORT_FLOW_H_

#include <utility>
#include <vector>

#include "pcg/graph/graph.h"
#include "pcg/program/program.h"

namespace tandem::report {

struct Operand {
  TensorId tensor;
  NodeId producer;         // invalid: a source of the graph
  std::vector<int> steps;  // instructions, from the producer's buffer to `read`
  BufferId made;           // as its producer, or the source, has it
  BufferId read;           // as the kernel reads it
  // Whether a step of it communicates or sums over micro-batches.
  bool Moves(const Program& program) const;
};

struct NodeFlow {
  int instruction = -1;  // -1: the Program does not execute the node
  std::vector<Operand> inputs;
  std::vector<BufferId> outputs;
};

struct Flow {
  std::vector<NodeFlow> nodes;  // by NodeId
  std::vector<int> writer;      // by BufferId: instruction, -1 for sources
  // By producing NodeId: who reads it, as (reader, position among its inputs).
  std::vector<std::vector<std::pair<NodeId, int>>> readers;
  // Buffers stored to the states at the end: (state's buffer, operand).
  std::vector<std::pair<BufferId, Operand>> stores;
};

// Ids that are out of range are skipped: a report of a damaged plan is for others to refuse.
Flow FlowOf(const Graph& pcg, const Program& program);

const char* PhaseName(Phase phase);

// Whether an instruction is a collective or an accumulation over micro-batches.
bool IsMove(const Instruction& instruction);

}  // namespace tandem::report

#endif  // TANDEM_TOOLS_REPORT_FLOW_H_
