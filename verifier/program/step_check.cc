#include "verifier/program/step_check.h"

#include <algorithm>
#include <vector>

#include "absl/strings/str_cat.h"

namespace tandem {
namespace {

using Kind = AxisPlacement::Kind;

// Axes that split (dim, factor) in `layout` beside those in `axes`, and lie inside (after) any of
// them: if there are some, taking `axes` away would tear pieces apart.
bool InnermostOn(const Layout& layout, int dim, int factor, const std::vector<int>& axes) {
  const int first = axes.front();
  for (int a : layout.SplitAxes(dim, factor)) {
    if (a > first && std::find(axes.begin(), axes.end(), a) == axes.end()) return false;
  }
  return true;
}

}  // namespace

void CheckStep(const Graph& pcg, const Mesh& mesh, const Instruction& ins, const Buffer& in,
               const Buffer& out, CheckLog& log) {
  log.Check(pcg.tensor(in.tensor).shape == pcg.tensor(out.tensor).shape,
            "changes the factors of the tensor");
  for (size_t a = 0; a < mesh.axes.size(); ++a) {
    const bool moved =
        std::find(ins.axes.begin(), ins.axes.end(), static_cast<int>(a)) != ins.axes.end();
    if (!moved) {
      log.Check(in.layout.axes[a] == out.layout.axes[a],
                absl::StrCat("the claim changes along mesh axis ", mesh.axes[a].name,
                             ", which it is not over"));
    }
  }
  const bool local_kind = ins.step == StepKind::kSlice || ins.step == StepKind::kUnstack ||
                          ins.step == StepKind::kKeepFirst;
  const bool loop_kind = ins.step == StepKind::kAccumulate || ins.step == StepKind::kStack;
  log.Check(ins.kind == (local_kind  ? InstructionKind::kLocal
                         : loop_kind ? InstructionKind::kLoop
                                     : InstructionKind::kCollective),
            "the step is executed by another kind of instruction");
  const bool on_time = loop_kind || ins.step == StepKind::kUnstack;
  for (int a : ins.axes) {
    log.Check((a == mesh.TemporalAxis()) == on_time,
              absl::StrCat(StepKindName(ins.step), " over mesh axis ",
                           mesh.axes[static_cast<size_t>(a)].name, " is not possible"));
  }
  auto uniform = [&](const Layout& layout, absl::string_view which) -> const AxisPlacement* {
    const AxisPlacement& first = layout.axes[static_cast<size_t>(ins.axes[0])];
    for (int a : ins.axes) {
      if (!log.Check(layout.axes[static_cast<size_t>(a)] == first,
                     absl::StrCat("its axes are not alike ", which))) {
        return nullptr;
      }
    }
    return &first;
  };
  const AxisPlacement* before = uniform(in.layout, "before");
  const AxisPlacement* after = uniform(out.layout, "after");
  if (before == nullptr || after == nullptr) return;
  auto from = [&](Kind kind) {
    return log.Check(
        before->kind == kind,
        absl::StrCat(StepKindName(ins.step), " of a value that is ", ToString(in.layout)));
  };
  auto to = [&](Kind kind) {
    return log.Check(after->kind == kind,
                     absl::StrCat(StepKindName(ins.step), " cannot give ", ToString(out.layout)));
  };
  auto innermost = [&](const Layout& layout, const AxisPlacement& p) {
    log.Check(InnermostOn(layout, p.dim, p.factor, ins.axes),
              "pieces of other mesh axes lie inside those it moves");
  };
  auto combines = [&] {
    log.Check(before->combiner == ins.combiner,
              "combines with another operator than the partial value needs");
  };
  switch (ins.step) {
    case StepKind::kAllGather:
    case StepKind::kStack:
      if (from(Kind::kSplit) && to(Kind::kReplicated)) innermost(in.layout, *before);
      break;
    case StepKind::kAllReduce:
    case StepKind::kAccumulate:
      if (from(Kind::kPartial) && to(Kind::kReplicated)) combines();
      break;
    case StepKind::kReduceScatter:
      if (from(Kind::kPartial) && to(Kind::kSplit)) {
        combines();
        innermost(out.layout, *after);
      }
      break;
    case StepKind::kAllToAll:
      if (from(Kind::kSplit) && to(Kind::kSplit)) {
        innermost(in.layout, *before);
        innermost(out.layout, *after);
      }
      break;
    case StepKind::kSlice:
    case StepKind::kUnstack:
      if (from(Kind::kReplicated) && to(Kind::kSplit)) innermost(out.layout, *after);
      break;
    case StepKind::kKeepFirst:
      if (from(Kind::kReplicated) && to(Kind::kPartial)) {
        log.Check(
            after->combiner == ins.combiner,
            "fills with the neutral element of another operator than the claim combines with");
      }
      break;
  }
}

}  // namespace tandem
