#include "optimizer/describe.h"

#include <algorithm>
#include <map>
#include <set>
#include <utility>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "pcg/instance/op_analysis.h"
#include "pcg/layout/factor_table.h"
#include "pcg/plural.h"

namespace tandem {
namespace {

// "linear: x0 splits b.0, x1 splits n" for one node.
std::string NodeLine(const Graph& graph, const Strategy& strategy, size_t n) {
  const Node& node = graph.nodes[n];
  absl::StatusOr<OpInstance> instance = InstanceOf(graph, NodeId(static_cast<int64_t>(n)));
  if (!instance.ok()) return "";
  const std::vector<SplitRow> table = FactorTable(*instance);
  std::vector<std::string> parts;
  for (size_t a = 0; a < strategy.mesh.axes.size(); ++a) {
    if (strategy.mesh.axes[a].temporal || strategy.mesh.axes[a].extent == 1) continue;
    const int row = strategy.nodes[n].rows[a];
    if (row == 0 || static_cast<size_t>(row) >= table.size()) continue;
    const SplitRow& r = table[static_cast<size_t>(row)];
    parts.push_back(absl::StrCat(strategy.mesh.axes[a].name, " ", r.reason));
  }
  return absl::StrCat(node.op, ": ", parts.empty() ? "replicated" : absl::StrJoin(parts, ", "));
}

bool Heavy(const Graph& graph, size_t n) {
  absl::StatusOr<OpInstance> instance = InstanceOf(graph, NodeId(static_cast<int64_t>(n)));
  if (!instance.ok()) return false;
  const OpCost cost =
      AnalyzeOp(*instance, {}, std::vector<int64_t>(static_cast<size_t>(instance->num_inputs), 4),
                std::vector<int64_t>(static_cast<size_t>(instance->num_outputs), 4));
  return cost.contraction_flops > 0;
}

// What is stored: the training graph names an optimizer's moments after the parameter; other states
// are the model's own, such as running statistics.
std::string WhatOf(const Tensor& tensor) {
  if (tensor.role == TensorRole::kParameter) return "parameter";
  return absl::EndsWith(tensor.name, ".m") || absl::EndsWith(tensor.name, ".v") ? "optimizer state"
                                                                                : "other state";
}

}  // namespace

std::vector<std::string> DescribeStrategy(const Graph& graph, const Strategy& strategy) {
  std::map<int, std::vector<std::string>> by_block;
  for (size_t n = 0; n < graph.nodes.size(); ++n) {
    if (graph.nodes[n].phase != Phase::kForward || !Heavy(graph, n)) continue;
    by_block[graph.nodes[n].block].push_back(NodeLine(graph, strategy, n));
  }
  std::vector<std::string> lines;
  std::string previous;
  int first = 0, last = 0;
  auto flush = [&] {
    if (previous.empty()) return;
    lines.push_back(first == last ? absl::StrCat("block ", first, ": ", previous)
                                  : absl::StrCat("blocks ", first, "-", last, ": ", previous));
  };
  for (const auto& [block, nodes] : by_block) {
    std::vector<std::string> distinct;
    for (const std::string& line : nodes) {
      if (std::find(distinct.begin(), distinct.end(), line) == distinct.end()) {
        distinct.push_back(line);
      }
    }
    const std::string text = absl::StrJoin(distinct, "; ");
    if (text == previous) {
      last = block;
      continue;
    }
    flush();
    previous = text;
    first = last = block;
  }
  flush();
  std::map<std::pair<std::string, std::string>, int> stored;  // by what it is and its layout
  for (const StateUpdate& u : graph.updates) {
    std::vector<std::string> axes;
    const Layout& l = strategy.sources[u.state.index()];
    for (size_t a = 0; a < l.axes.size(); ++a) {
      const MeshAxis& axis = strategy.mesh.axes[a];
      if (l.axes[a].kind == AxisPlacement::Kind::kSplit && axis.extent > 1) {
        axes.push_back(axis.name);
      }
    }
    ++stored[{WhatOf(graph.tensor(u.state)),
              axes.empty() ? "replicated" : "split over " + absl::StrJoin(axes, ", ")}];
  }
  std::vector<std::string> parts;
  for (const auto& [what, count] : stored) {
    parts.push_back(absl::StrCat(Plural(count, what.first), " ", what.second));
  }
  if (!parts.empty()) lines.push_back(absl::StrCat("stored: ", absl::StrJoin(parts, "; ")));
  return lines;
}

std::string DescribeCollectives(const Program& program) {
  struct Count {
    int64_t collectives = 0, values = 0;
  };
  std::map<std::string, Count> counts;
  for (const Instruction& code : program.instructions) {
    if (code.kind != InstructionKind::kCollective) continue;
    Count& count = counts[StepKindName(code.step)];
    ++count.collectives;
    count.values += static_cast<int64_t>(code.outputs.size());
  }
  std::vector<std::string> parts;
  for (const auto& [kind, count] : counts) {
    parts.push_back(absl::StrCat(count.collectives, " ", kind));
    if (count.values > count.collectives) {
      absl::StrAppend(&parts.back(), " (", count.values, " values)");
    }
  }
  return parts.empty() ? "" : absl::StrCat("collectives: ", absl::StrJoin(parts, ", "));
}

std::vector<std::string> Limits(const Graph& graph, const Strategy& strategy) {
  std::vector<std::string> notes;
  for (size_t a = 0; a < strategy.mesh.axes.size(); ++a) {
    if (strategy.mesh.axes[a].temporal || strategy.mesh.axes[a].extent == 1) continue;
    std::map<std::string, int> idle;
    for (size_t n = 0; n < graph.nodes.size(); ++n) {
      if (strategy.nodes[n].rows[a] == 0 && Heavy(graph, n)) ++idle[graph.nodes[n].op];
    }
    for (const auto& [op, count] : idle) {
      notes.push_back(absl::StrCat("axis ", strategy.mesh.axes[a].name, " of ",
                                   strategy.mesh.axes[a].extent, " devices is idle in ",
                                   Plural(count, op + " node"), ": every device repeats the work"));
    }
  }
  return notes;
}

}  // namespace tandem
