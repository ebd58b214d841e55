#include <algorithm>
#include <array>
#include <iterator>
#include <map>
#include <utility>
#include <vector>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "tools/report/chips.h"
#include "tools/report/flow.h"
#include "tools/report/markup.h"
#include "tools/report/picture.h"
#include "tools/report/sections.h"

namespace tandem::report {
namespace {

constexpr size_t kMostStored = 24;
constexpr char kNoMoves[] = "<span class=\"muted\">–</span>";
constexpr int kMostHops = 5;  // of a gradient between its kernel and the update

// Links that a group along this axis uses: devices are numbered row-major over the spatial axes.
std::string Links(const Mesh& mesh, size_t axis, const Machine& machine) {
  if (mesh.axes[axis].temporal) return "the same devices, one after the other";
  int64_t stride = 1;
  for (size_t a = axis + 1; a < mesh.axes.size(); ++a) {
    if (!mesh.axes[a].temporal) stride *= mesh.axes[a].extent;
  }
  const int64_t span = stride * mesh.axes[axis].extent;
  const int64_t node = std::max(1, machine.devices_per_node);
  const std::string inner = machine.levels.empty() ? "" : machine.levels.front().name;
  const std::string outer = machine.levels.empty() ? "" : machine.levels.back().name;
  if (span <= node) return absl::StrCat("inside a node", inner.empty() ? "" : ", " + inner);
  if (stride >= node) return absl::StrCat("across nodes", outer.empty() ? "" : ", " + outer);
  return absl::StrCat("inside and across nodes", outer.empty() ? "" : ", " + outer);
}

std::string AxesTable(const ReportData& data) {
  const Program& program = data.program();
  if (program.mesh.axes.empty()) return "<p class=\"none\">One device, nothing is split.</p>\n";
  std::vector<int> split(program.mesh.axes.size(), 0), collectives(program.mesh.axes.size(), 0);
  int kernels = 0;
  for (const Instruction& instruction : program.instructions) {
    std::vector<int> axes;
    if (instruction.kind == InstructionKind::kKernel) {
      ++kernels;
      for (const std::vector<int>& of_size : instruction.size_axes) {
        axes.insert(axes.end(), of_size.begin(), of_size.end());
      }
    } else if (instruction.kind == InstructionKind::kCollective) {
      axes = instruction.axes;
    }
    std::sort(axes.begin(), axes.end());
    axes.erase(std::unique(axes.begin(), axes.end()), axes.end());
    auto& counts = instruction.kind == InstructionKind::kKernel ? split : collectives;
    for (int a : axes) {
      if (a >= 0 && static_cast<size_t>(a) < counts.size()) ++counts[static_cast<size_t>(a)];
    }
  }
  std::string out =
      "<div class=\"scroll\"><table><thead><tr><th>Axis</th><th class=\"num\">Extent</th>"
      "<th>Where</th><th class=\"num\">Kernels it splits</th><th class=\"num\">Collectives over it"
      "</th></tr></thead><tbody>\n";
  for (size_t a = 0; a < program.mesh.axes.size(); ++a) {
    absl::StrAppend(
        &out, "<tr><th scope=\"row\">", Html({AxisChip(program.mesh, static_cast<int>(a))}),
        "</th><td class=\"num\">", program.mesh.axes[a].extent, "</td><td>",
        Escaped(Links(program.mesh, a, *data.machine)), "</td><td class=\"num\">", split[a], " of ",
        kernels, "</td><td class=\"num\">", collectives[a], "</td></tr>\n");
  }
  return out + "</tbody></table></div>\n";
}

// One kind of stored tensor: where it lies, and what its value goes through in a step.
struct Stored {
  int count = 0;
  double bytes = 0;        // on all devices together, once each
  double local_bytes = 0;  // on one device
  std::string example;
};

std::string MovesOf(const Program& program, const std::vector<int>& steps) {
  std::map<std::string, int> seen;
  std::string out;
  for (int i : steps) {
    const Instruction& step = program.instructions[static_cast<size_t>(i)];
    if (!IsMove(step)) continue;
    Chips chips = {{Chip::Kind::kStep, StepKindName(step.step), ""}};
    for (int axis : step.axes) chips.push_back(AxisChip(program.mesh, axis));
    const std::string html = Html(chips);
    if (++seen[html] == 1) absl::StrAppend(&out, html, " ");
  }
  return out.empty() ? kNoMoves : out;
}

// Layout without extents: "dim 0 [x0]".
std::string LayoutText(const Layout& layout, const Mesh& mesh) {
  std::map<std::pair<int, int>, Chips> dims;
  for (size_t a = 0; a < layout.axes.size() && a < mesh.axes.size(); ++a) {
    const AxisPlacement& p = layout.axes[a];
    if (p.kind != AxisPlacement::Kind::kSplit) continue;
    Chips& chips = dims[{p.dim, p.factor}];
    if (chips.empty()) chips.push_back({Chip::Kind::kText, absl::StrCat("dim ", p.dim), ""});
    chips.push_back(AxisChip(mesh, static_cast<int>(a)));
  }
  if (dims.empty()) return "<span class=\"muted\">on every device</span>";
  std::string out;
  for (const auto& [dim, chips] : dims) absl::StrAppend(&out, Html(chips), " ");
  return out;
}

// What a state is, for people: the training graph names an optimizer's moments after the parameter.
std::string WhatOf(const Tensor& tensor) {
  if (tensor.role == TensorRole::kParameter) return "parameters";
  return absl::EndsWith(tensor.name, ".m") || absl::EndsWith(tensor.name, ".v") ? "optimizer state"
                                                                                : "other state";
}

// Whether a node passes its input on, in another type or shape: gradients go through such nodes on
// their way to the update.
bool PassesOn(const std::string& op) {
  static const char* const kOps[] = {"cast",    "slice",     "pad",   "add",
                                     "reshape", "transpose", "scale", "identity"};
  return std::any_of(std::begin(kOps), std::end(kOps), [&](const char* o) { return op == o; });
}

// Steps of a gradient from where it was computed to the update.
void AppendGradientSteps(const Graph& pcg, const Flow& flow, const Operand& operand, int depth,
                         std::vector<int>& steps) {
  if (operand.producer.valid() && depth > 0 && PassesOn(pcg.node(operand.producer).op)) {
    for (const Operand& input : flow.nodes[operand.producer.index()].inputs) {
      AppendGradientSteps(pcg, flow, input, depth - 1, steps);
    }
  }
  steps.insert(steps.end(), operand.steps.begin(), operand.steps.end());
}

std::string StoredTable(const ReportData& data) {
  const Graph& pcg = data.plan->pcg;
  const Program& program = data.program();
  const Flow flow = FlowOf(pcg, program);
  const std::vector<bool> prepared = PreparedNodes(pcg);
  // By state buffer: how it is first read, and how its gradient and its new value move.
  std::map<BufferId, std::vector<int>> used, stored_by;
  std::map<BufferId, std::vector<int>> gradient;
  for (size_t n = 0; n < flow.nodes.size(); ++n) {
    std::vector<int> moved;
    BufferId parameter;
    for (const Operand& operand : flow.nodes[n].inputs) {
      const Origin origin = OriginOf(program, flow, prepared, operand);
      if (pcg.nodes[n].phase != Phase::kUpdate) {
        if (!prepared[n] && origin.stored.valid()) used.emplace(origin.stored, origin.steps);
        continue;
      }
      if (!operand.producer.valid() && origin.source.valid() &&
          pcg.tensor(origin.source).role == TensorRole::kParameter) {
        parameter = origin.stored;
      } else if (operand.producer.valid()) {
        AppendGradientSteps(pcg, flow, operand, kMostHops, moved);
      }
    }
    if (parameter.valid()) gradient.emplace(parameter, moved);
  }
  for (const auto& [state, operand] : flow.stores) stored_by.emplace(state, operand.steps);
  std::map<std::vector<std::string>, Stored> kinds;
  std::vector<std::vector<std::string>> order;
  for (BufferId id : program.states) {
    if (!id.valid() || id.index() >= program.buffers.size()) continue;
    const Buffer& buffer = program.buffer(id);
    const Tensor& tensor = pcg.tensor(buffer.tensor);
    const std::vector<std::string> key = {
        absl::StrCat(WhatOf(tensor), ", ", DTypeName(buffer.dtype)),
        LayoutText(buffer.layout, program.mesh), MovesOf(program, used[id]),
        MovesOf(program, gradient[id]), MovesOf(program, stored_by[id])};
    const auto [it, added] = kinds.emplace(key, Stored{});
    if (added) order.push_back(key);
    Stored& kind = it->second;
    if (kind.count++ == 0) kind.example = tensor.name;
    kind.local_bytes += static_cast<double>(buffer.bytes);
    kind.bytes += static_cast<double>(ElementCount(tensor.shape) * DTypeBytes(buffer.dtype));
  }
  if (order.empty()) return "";
  std::stable_sort(order.begin(), order.end(), [&](const auto& a, const auto& b) {
    return kinds[a].local_bytes > kinds[b].local_bytes;
  });
  const std::array<const char*, 5> names = {"", "Stored split by", "Before use", "Gradient",
                                            "New value"};
  // Columns of moves that nothing makes are left out.
  const auto shown = [&](size_t c) {
    return c == 1 || std::any_of(order.begin(), order.end(),
                                 [&](const auto& key) { return key[c] != kNoMoves; });
  };
  std::string out =
      "<h3>What is stored, and what it goes through in a step</h3>\n<div class=\"scroll\"><table>"
      "<thead><tr><th>What</th><th class=\"num\">Tensors</th><th class=\"num\">Together</th>"
      "<th class=\"num\">On a device</th>";
  for (size_t c = 1; c < names.size(); ++c) {
    if (shown(c)) absl::StrAppend(&out, "<th>", names[c], "</th>");
  }
  out += "</tr></thead><tbody>\n";
  for (size_t k = 0; k < order.size() && k < kMostStored; ++k) {
    const Stored& kind = kinds[order[k]];
    absl::StrAppend(&out, "<tr title=\"for example ", Escaped(kind.example),
                    "\"><th scope=\"row\">", Escaped(order[k][0]), "</th><td class=\"num\">",
                    kind.count, "</td><td class=\"num\">", Bytes(kind.bytes),
                    "</td><td class=\"num\">", Bytes(kind.local_bytes), "</td>");
    for (size_t c = 1; c < order[k].size(); ++c) {
      if (shown(c)) absl::StrAppend(&out, "<td>", order[k][c], "</td>");
    }
    out += "</tr>\n";
  }
  out += "</tbody></table></div>\n";
  if (order.size() > kMostStored) {
    absl::StrAppend(&out, "<p class=\"hint\">", order.size() - kMostStored,
                    " further kinds are not listed.</p>\n");
  }
  return out;
}

}  // namespace

std::string StrategySection(const ReportData& data) {
  std::string out = AxesTable(data);
  const auto lines = data.summary.find("strategy");
  if (lines != data.summary.end() && lines->is_array() && !lines->empty()) {
    out += "<ul class=\"strategy\">\n";
    for (const auto& line : *lines) {
      if (line.is_string()) {
        absl::StrAppend(&out, "<li>", Escaped(line.get<std::string>()), "</li>\n");
      }
    }
    out += "</ul>\n";
  }
  return Section("strategy", "How it is distributed", out + StoredTable(data));
}

}  // namespace tandem::report
