#include "pcg/kernel/loop_nest.h"

#include <optional>
#include <utility>

#include "absl/strings/str_cat.h"
#include "pcg/kernel/block_kernel.h"
#include "pcg/kernel/contraction.h"
#include "pcg/kernel/nest_ir.h"

namespace tandem {

struct NestProgram {
  std::string op;
  NestStages stages;
  struct Kernel {
    std::optional<ContractionKernel> contraction;
    BlockKernel block;
  };
  std::vector<Kernel> kernels;
};

absl::StatusOr<LoopNest> LoopNest::Compile(const OpInstance& instance, const PieceOfOp& piece) {
  auto stages = BuildStages(instance, piece);
  if (!stages.ok()) return stages.status();
  auto program = std::make_shared<NestProgram>();
  program->op = instance.op;
  program->stages = *std::move(stages);
  for (const NestStage& stage : program->stages.stages) {
    NestProgram::Kernel kernel;
    kernel.contraction = CompileContraction(program->stages, stage);
    if (!kernel.contraction.has_value()) kernel.block = CompileBlockKernel(program->stages, stage);
    program->kernels.push_back(std::move(kernel));
  }
  LoopNest nest;
  for (const NestTensor& tensor : program->stages.tensors) {
    if (tensor.kind == NestTensor::Kind::kInput) nest.input_elements_.push_back(tensor.elements);
    if (tensor.kind == NestTensor::Kind::kOutput) nest.output_elements_.push_back(tensor.elements);
  }
  nest.program_ = std::move(program);
  return nest;
}

template <typename T>
absl::Status LoopNest::Run(const std::vector<const T*>& inputs,
                           const std::vector<T*>& outputs) const {
  if (inputs.size() != input_elements_.size() || outputs.size() != output_elements_.size()) {
    return absl::InvalidArgumentError(absl::StrCat(
        "operator '", program_->op, "' has ", input_elements_.size(), " input(s) and ",
        output_elements_.size(), " output(s), not ", inputs.size(), " and ", outputs.size()));
  }
  std::vector<std::vector<T>> temporaries;
  std::vector<T*> arrays;
  for (const NestTensor& tensor : program_->stages.tensors) {
    const size_t slot = static_cast<size_t>(tensor.slot);
    switch (tensor.kind) {
      case NestTensor::Kind::kInput:
        arrays.push_back(const_cast<T*>(inputs[slot]));  // stages write only what is not an input
        break;
      case NestTensor::Kind::kOutput:
        arrays.push_back(outputs[slot]);
        break;
      case NestTensor::Kind::kTemporary:
        temporaries.emplace_back(static_cast<size_t>(tensor.elements));
        arrays.push_back(temporaries.back().data());
        break;
    }
  }
  for (const NestProgram::Kernel& kernel : program_->kernels) {
    absl::Status status = kernel.contraction.has_value()
                              ? RunContraction<T>(*kernel.contraction, program_->stages, arrays)
                              : RunBlockKernel<T>(kernel.block, program_->stages, arrays);
    if (!status.ok()) {
      return absl::Status(status.code(),
                          absl::StrCat("operator '", program_->op, "' ", status.message()));
    }
  }
  return absl::OkStatus();
}

template absl::Status LoopNest::Run<double>(const std::vector<const double*>&,
                                            const std::vector<double*>&) const;
template absl::Status LoopNest::Run<float>(const std::vector<const float*>&,
                                           const std::vector<float*>&) const;

}  // namespace tandem
