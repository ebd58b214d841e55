#include "tools/report/dot.h"

#include <map>
#include <set>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "tools/report/chips.h"
#include "tools/report/flow.h"

namespace tandem {
namespace {

using report::Flow;
using report::NodeFlow;
using report::Operand;

std::string Quoted(const std::string& text) {
  std::string out = "\"";
  for (char c : text) {
    if (c == '\n') {
      out += "\\n";
    } else if (static_cast<unsigned char>(c) < 0x20) {
      out += ' ';
    } else {
      if (c == '"' || c == '\\') out += '\\';
      out += c;
    }
  }
  return out + "\"";
}

const char* PhaseColour(Phase phase) {
  switch (phase) {
    case Phase::kForward:
      return "#dbe9fb";
    case Phase::kBackward:
      return "#fbe7cf";
    case Phase::kUpdate:
      return "#ece2da";
  }
  return "#ffffff";
}

class DotWriter {
 public:
  DotWriter(const Graph& pcg, const Program& program)
      : pcg_(pcg), program_(program), flow_(report::FlowOf(pcg, program)) {}

  std::string Write(const std::string& name) {
    out_ = absl::StrCat("digraph ", Quoted(name),
                        " {\n  rankdir=TB;\n  node [shape=box, style=filled, fontname=monospace, "
                        "fontsize=10];\n  edge [fontname=monospace, fontsize=9];\n  label=",
                        Quoted(MeshText()), ";\n");
    std::map<int, std::vector<size_t>> blocks;
    for (size_t n = 0; n < pcg_.nodes.size(); ++n) blocks[pcg_.nodes[n].block].push_back(n);
    for (const auto& [block, nodes] : blocks) {
      if (block >= 0) {
        absl::StrAppend(&out_, "  subgraph cluster_", block, " {\n  label=\"block ", block,
                        "\";\n");
      }
      for (size_t n : nodes) AddNode(n);
      if (block >= 0) out_ += "  }\n";
    }
    for (size_t n = 0; n < pcg_.nodes.size(); ++n) {
      for (const Operand& operand : flow_.nodes[n].inputs) AddArrow(n, operand);
    }
    return out_ + "}\n";
  }

 private:
  std::string MeshText() const {
    std::string text = "mesh";
    for (const MeshAxis& axis : program_.mesh.axes) {
      absl::StrAppend(&text, " ", axis.name, "=", axis.extent);
    }
    return text;
  }

  std::string BufferText(BufferId id) const {
    const Buffer& buffer = program_.buffer(id);
    return report::PlainText(
        report::ShapeChips(pcg_.tensor(buffer.tensor).shape, buffer.layout, program_.mesh));
  }

  void AddNode(size_t n) {
    const Node& node = pcg_.nodes[n];
    std::string label = absl::StrCat(node.op, "\n", node.name);
    for (BufferId output : flow_.nodes[n].outputs) {
      absl::StrAppend(&label, "\n", BufferText(output));
    }
    absl::StrAppend(&out_, "  n", n, " [label=", Quoted(label), ", fillcolor=\"",
                    PhaseColour(node.phase), "\"];\n");
  }

  void AddArrow(size_t to, const Operand& operand) {
    if (!operand.tensor.valid()) return;
    std::string from = absl::StrCat("n", operand.producer.value);
    if (!operand.producer.valid()) {
      from = absl::StrCat("t", operand.tensor.value);
      if (sources_.insert(operand.tensor).second) {
        const std::string label =
            absl::StrCat(pcg_.tensor(operand.tensor).name, "\n", BufferText(operand.made));
        absl::StrAppend(&out_, "  ", from,
                        " [shape=ellipse, fillcolor=white, label=", Quoted(label), "];\n");
      }
    }
    std::string label;
    for (int step : operand.steps) {
      if (!report::IsMove(program_.instructions[static_cast<size_t>(step)])) continue;
      absl::StrAppend(&label, label.empty() ? "" : "\n",
                      report::PlainText(report::StepChips(program_, step)));
    }
    absl::StrAppend(&out_, "  ", from, " -> n", to);
    if (!label.empty()) {
      absl::StrAppend(&out_, " [color=\"#cf4a32\", fontcolor=\"#cf4a32\", label=", Quoted(label),
                      "]");
    }
    out_ += ";\n";
  }

  const Graph& pcg_;
  const Program& program_;
  const Flow flow_;
  std::set<TensorId> sources_;
  std::string out_;
};

}  // namespace

absl::StatusOr<std::string> PlanDot(const Plan& plan) {
  if (plan.programs.empty()) {
    return absl::InvalidArgumentError(
        absl::StrCat("the plan of model '", plan.model,
                     "' has no Program to draw: make it again with tandem optimize"));
  }
  return DotWriter(plan.pcg, plan.programs[0]).Write(plan.model);
}

}  // namespace tandem
