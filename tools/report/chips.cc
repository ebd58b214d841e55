#include "tools/report/chips.h"

#include <algorithm>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "tools/report/markup.h"

namespace tandem::report {
namespace {

constexpr int kAxisColours = 6;

void AppendDim(Chips& chips, const Factors& factors, int dim, const Layout& layout,
               const Mesh& mesh) {
  std::vector<std::vector<int>> split;
  bool any = false;
  for (size_t f = 0; f < factors.size(); ++f) {
    split.push_back(layout.SplitAxes(dim, static_cast<int>(f)));
    any |= !split.back().empty();
  }
  if (!any || factors.size() == 1) {
    int64_t extent = 1;
    for (int64_t f : factors) extent *= f;
    chips.push_back({Chip::Kind::kText, absl::StrCat(extent), ""});
    if (any) {
      for (int axis : split[0]) chips.push_back(AxisChip(mesh, axis));
    }
    return;
  }
  std::string text = "(";
  for (size_t f = 0; f < factors.size(); ++f) {
    absl::StrAppend(&text, f == 0 ? "" : "·", factors[f]);
    if (split[f].empty()) continue;
    chips.push_back({Chip::Kind::kText, text, ""});
    text.clear();
    for (int axis : split[f]) chips.push_back(AxisChip(mesh, axis));
  }
  chips.push_back({Chip::Kind::kText, text + ")", ""});
}

}  // namespace

bool Continues(const Chip& chip) {
  return chip.kind == Chip::Kind::kText &&
         (absl::StartsWith(chip.text, "·") || absl::StartsWith(chip.text, ")"));
}

std::string AxisClass(const Mesh& mesh, int axis) {
  if (axis < 0 || static_cast<size_t>(axis) >= mesh.axes.size()) return "axm";
  if (mesh.axes[static_cast<size_t>(axis)].temporal) return "axm";
  return absl::StrCat("ax", axis % kAxisColours);
}

Chip AxisChip(const Mesh& mesh, int axis) {
  const bool known = axis >= 0 && static_cast<size_t>(axis) < mesh.axes.size();
  return {Chip::Kind::kAxis, known ? mesh.axes[static_cast<size_t>(axis)].name : "?",
          AxisClass(mesh, axis)};
}

Chips ShapeChips(const FactoredShape& shape, const Layout& layout, const Mesh& mesh) {
  Chips chips;
  if (shape.empty()) chips.push_back({Chip::Kind::kMuted, "scalar", ""});
  for (size_t d = 0; d < shape.size(); ++d) {
    if (d > 0) chips.push_back({Chip::Kind::kMuted, "×", ""});
    AppendDim(chips, shape[d], static_cast<int>(d), layout, mesh);
  }
  for (size_t a = 0; a < layout.axes.size(); ++a) {
    if (layout.axes[a].kind != AxisPlacement::Kind::kPartial) continue;
    const Chip axis = AxisChip(mesh, static_cast<int>(a));
    chips.push_back(
        {Chip::Kind::kPartial,
         absl::StrCat("partial ", CombinerName(layout.axes[a].combiner), " ", axis.text),
         axis.axis_class});
  }
  return chips;
}

Chips StepChips(const Program& program, int instruction) {
  const Instruction& step = program.instructions[static_cast<size_t>(instruction)];
  Chips chips = {{Chip::Kind::kStep, StepKindName(step.step), ""}};
  for (int axis : step.axes) chips.push_back(AxisChip(program.mesh, axis));
  int64_t read = 0, written = 0;
  for (BufferId id : step.inputs) read += program.buffer(id).bytes;
  for (BufferId id : step.outputs) written += program.buffer(id).bytes;
  const int64_t bytes = std::max(read, written);
  if (step.kind == InstructionKind::kCollective && bytes > 0) {
    std::string text = Bytes(static_cast<double>(bytes));
    if (step.outputs.size() > 1) absl::StrAppend(&text, " of ", step.outputs.size(), " values");
    chips.push_back({Chip::Kind::kMuted, std::move(text), ""});
  }
  return chips;
}

std::string Html(const Chips& chips) {
  std::string out = "<span class=\"chips\">";
  for (const Chip& chip : chips) {
    const char* name = chip.kind == Chip::Kind::kStrong    ? "strong"
                       : chip.kind == Chip::Kind::kMuted   ? "muted"
                       : chip.kind == Chip::Kind::kAxis    ? "ax"
                       : chip.kind == Chip::Kind::kPartial ? "ax partial"
                       : chip.kind == Chip::Kind::kStep    ? "step"
                       : Continues(chip)                   ? "dim on"
                       : Continues(chip)                   ? "dim on"
                                                           : "dim";
    absl::StrAppend(&out, "<span class=\"", name, chip.axis_class.empty() ? "" : " ",
                    chip.axis_class, "\">", Escaped(chip.text), "</span>");
  }
  return out + "</span>";
}

std::string PlainText(const Chips& chips) {
  std::string out;
  for (const Chip& chip : chips) {
    if (chip.kind == Chip::Kind::kAxis || chip.kind == Chip::Kind::kPartial) {
      absl::StrAppend(&out, "[", chip.text, "]");
    } else {
      if (!out.empty() && !Continues(chip)) out += ' ';
      out += chip.text;
    }
  }
  return out;
}

int TextLength(const std::string& utf8) {
  return static_cast<int>(std::count_if(utf8.begin(), utf8.end(), [](char c) {
    return (static_cast<unsigned char>(c) & 0xc0) != 0x80;
  }));
}

}  // namespace tandem::report
