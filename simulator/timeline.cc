#include "simulator/timeline.h"

#include <utility>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "simulator/program_cost.h"

namespace tandem {
namespace {

absl::Status Misfit(const Program& program, size_t i, absl::string_view what) {
  return absl::InvalidArgumentError(
      absl::StrCat("instruction ", i, " '", program.instructions[i].name, "' ", what));
}

std::vector<DType> TypesOf(const Program& program, const std::vector<BufferId>& buffers) {
  std::vector<DType> types;
  for (BufferId id : buffers) types.push_back(program.buffer(id).dtype);
  return types;
}

absl::StatusOr<InstructionCost> KernelCost(const Graph& pcg, const Program& program, size_t i,
                                           const Machine& machine) {
  const Instruction& instruction = program.instructions[i];
  if (!instruction.node.valid() || instruction.node.index() >= pcg.nodes.size()) {
    return Misfit(
        program, i,
        absl::StrCat("names node ", instruction.node.value, ", which the graph does not have"));
  }
  absl::StatusOr<OpInstance> instance = InstanceOf(pcg, instruction.node);
  if (!instance.ok()) return instance.status();
  if (instruction.inputs.size() != static_cast<size_t>(instance->num_inputs) ||
      instruction.outputs.size() != static_cast<size_t>(instance->num_outputs) ||
      instruction.size_axes.size() > instance->sizes.size()) {
    return Misfit(program, i, absl::StrCat("does not have the operands of ", instance->op));
  }
  std::vector<int64_t> extents;
  for (size_t s = 0; s < instance->sizes.size(); ++s) {
    int64_t extent = instance->sizes[s].extent;
    if (s < instruction.size_axes.size()) {
      for (int axis : instruction.size_axes[s]) {
        if (axis < 0 || static_cast<size_t>(axis) >= program.mesh.axes.size()) {
          return Misfit(program, i, absl::StrCat("splits by axis ", axis, " of the mesh"));
        }
        extent /= program.mesh.axes[static_cast<size_t>(axis)].extent;
      }
    }
    extents.push_back(extent);
  }
  const NodeCost cost =
      CostOfNode(machine, *instance, extents, TypesOf(program, instruction.inputs),
                 TypesOf(program, instruction.outputs));
  const std::string category(cost.seconds > 0 ? KernelKindName(cost.kind) : "view");
  return InstructionCost{cost.seconds, -1, category, cost.contraction_flops};
}

}  // namespace

absl::StatusOr<std::vector<InstructionCost>> CostsOf(const Graph& pcg, const Program& program,
                                                     const Machine& machine) {
  if (program.mesh.Devices() > machine.devices) {
    return absl::InvalidArgumentError(absl::StrCat("the Program is for ", program.mesh.Devices(),
                                                   " devices, ", machine.name, " has ",
                                                   machine.devices, ": ask for that many"));
  }
  const StepPricer pricer(machine, program.mesh);
  std::vector<InstructionCost> costs;
  for (size_t i = 0; i < program.instructions.size(); ++i) {
    const Instruction& instruction = program.instructions[i];
    switch (instruction.kind) {
      case InstructionKind::kKernel: {
        absl::StatusOr<InstructionCost> cost = KernelCost(pcg, program, i, machine);
        if (!cost.ok()) return cost.status();
        costs.push_back(*std::move(cost));
        break;
      }
      case InstructionKind::kCollective:
      case InstructionKind::kLocal:
      case InstructionKind::kLoop: {
        if (instruction.inputs.empty() || instruction.outputs.empty()) {
          return Misfit(program, i, "has no operands");
        }
        for (int axis : instruction.axes) {
          if (axis < 0 || static_cast<size_t>(axis) >= program.mesh.axes.size()) {
            return Misfit(program, i, absl::StrCat("is over axis ", axis, " of the mesh"));
          }
        }
        double before = 0, after = 0;
        for (BufferId id : instruction.inputs) {
          before += static_cast<double>(program.buffer(id).bytes);
        }
        for (BufferId id : instruction.outputs) {
          after += static_cast<double>(program.buffer(id).bytes);
        }
        const bool collective = instruction.kind == InstructionKind::kCollective;
        costs.push_back({pricer.Seconds(instruction.step, instruction.axes, before, after),
                         collective ? pricer.Level(instruction.axes) : -1,
                         StepKindName(instruction.step), 0});
        break;
      }
      case InstructionKind::kFree:
      case InstructionKind::kStoreState:
        costs.push_back({});
        break;
    }
  }
  return costs;
}

absl::StatusOr<Timeline> SimulateProgram(const Graph& pcg, const Program& program,
                                         const Machine& machine, const TimelineOptions& options) {
  absl::StatusOr<std::vector<InstructionCost>> costs = CostsOf(pcg, program, machine);
  if (!costs.ok()) return costs.status();
  return SimulateCosts(program, *costs, machine, options);
}

}  // namespace tandem
