#include "simulator/program_cost.h"

#include <algorithm>

#include "pcg/instance/op_analysis.h"
#include "simulator/kernel_cost.h"

namespace tandem {
namespace {

KernelKind KindOf(OpClass c) {
  switch (c) {
    case OpClass::kGemm:
      return KernelKind::kGemm;
    case OpClass::kConv:
      return KernelKind::kConv;
    case OpClass::kAttention:
      return KernelKind::kAttention;
    case OpClass::kNorm:
      return KernelKind::kNorm;
    case OpClass::kSoftmax:
      return KernelKind::kSoftmax;
    case OpClass::kReduction:
      return KernelKind::kReduction;
    case OpClass::kPool:
      return KernelKind::kPool;
    case OpClass::kEmbedding:
      return KernelKind::kEmbedding;
    case OpClass::kElementwise:
      return KernelKind::kElementwise;
    case OpClass::kCopy:
      return KernelKind::kCopy;
    case OpClass::kOptimizer:
      return KernelKind::kOptimizer;
  }
  return KernelKind::kElementwise;
}

int64_t Product(const std::vector<int>& sizes, const OpInstance& instance,
                const std::vector<int64_t>& extents) {
  int64_t product = 1;
  for (int s : sizes) {
    product *= extents.empty() ? instance.sizes[static_cast<size_t>(s)].extent
                               : extents[static_cast<size_t>(s)];
  }
  return product;
}

// The output is the input's elements in the same order: another shape of the same memory.
bool IsView(const OpInstance& instance, const std::vector<DType>& inputs,
            const std::vector<DType>& outputs) {
  if (instance.num_inputs != 1 || instance.num_outputs != 1 || instance.equations.size() != 1 ||
      DTypeBytes(inputs[0]) != DTypeBytes(outputs[0]) ||
      IsFloat(inputs[0]) != IsFloat(outputs[0])) {
    return false;
  }
  const ExprNode& read = instance.exprs[instance.equations[0].body];
  if (read.kind != ExprKind::kRead || read.ref != 0 || read.has_else) return false;
  std::vector<int> vars;
  for (ExprId arg : read.args) {
    const ExprNode& index = instance.exprs[arg];
    if (index.kind == ExprKind::kVar) {
      vars.push_back(index.ref);
      continue;
    }
    if (index.kind != ExprKind::kTuple) return false;
    for (ExprId part : index.args) {
      if (instance.exprs[part].kind != ExprKind::kVar) return false;
      vars.push_back(instance.exprs[part].ref);
    }
  }
  return vars == instance.equations[0].vars;
}

}  // namespace

Precision PrecisionOf(DType type) {
  switch (type) {
    case DType::kF64:
      return Precision::kFp64;
    case DType::kTF32:
      return Precision::kTf32;
    case DType::kBF16:
      return Precision::kBf16;
    case DType::kF16:
      return Precision::kFp16;
    default:
      return Precision::kFp32;
  }
}

NodeCost CostOfNode(const Machine& machine, const OpInstance& instance,
                    const std::vector<int64_t>& extents, const std::vector<DType>& inputs,
                    const std::vector<DType>& outputs) {
  if (IsView(instance, inputs, outputs)) {
    NodeCost view;
    view.kind = KernelKind::kCopy;
    return view;
  }
  std::vector<int64_t> input_bytes, output_bytes;
  for (DType t : inputs) input_bytes.push_back(DTypeBytes(t));
  for (DType t : outputs) output_bytes.push_back(DTypeBytes(t));
  const OpCost cost = AnalyzeOp(instance, extents, input_bytes, output_bytes);
  KernelShape shape;
  shape.kind = KindOf(cost.kind);
  bool any = false;
  DType widest = DType::kF16;
  for (DType t : inputs) {
    if (IsFloat(t) && (!any || t < widest)) {
      widest = t;
      any = true;
    }
  }
  shape.precision = PrecisionOf(any ? widest : DType::kF32);
  shape.flops = cost.flops;
  shape.bytes_read = cost.bytes_read;
  shape.bytes_written = cost.bytes_written;
  if (cost.contraction && cost.kind == OpClass::kGemm) {
    shape.gemm_batch = Product(cost.contraction->batch, instance, extents);
    shape.gemm_m = Product(cost.contraction->m, instance, extents);
    shape.gemm_n = Product(cost.contraction->n, instance, extents);
    shape.gemm_k = Product(cost.contraction->k, instance, extents);
  } else if (cost.contraction && cost.kind == OpClass::kAttention) {
    // batch counts heads too: what is not split into queries, keys and head dims.
    shape.attention_batch = 1;
    shape.attention_heads = Product(cost.contraction->batch, instance, extents);
    shape.query_length = Product(cost.contraction->m, instance, extents);
    shape.key_length = Product(cost.contraction->n, instance, extents);
    shape.head_dim = Product(cost.contraction->k, instance, extents);
    shape.backward = instance.num_outputs > 1;
  }
  NodeCost out;
  out.seconds = KernelSeconds(machine, shape);
  out.flops = cost.flops;
  out.contraction_flops = cost.contraction_flops;
  out.bytes = cost.bytes_read + cost.bytes_written;
  out.kind = shape.kind;
  return out;
}

double NodeSeconds(const Machine& machine, const OpInstance& instance,
                   const std::vector<int64_t>& extents, const std::vector<DType>& inputs,
                   const std::vector<DType>& outputs) {
  return CostOfNode(machine, instance, extents, inputs, outputs).seconds;
}

StepPricer::StepPricer(const Machine& machine, const Mesh& mesh) : machine_(machine), mesh_(mesh) {
  for (const MeshAxis& axis : mesh.axes) {
    if (!axis.temporal) extents_.push_back(axis.extent);
  }
}

const GroupShape& StepPricer::Shape(const std::vector<int>& axes) const {
  auto it = shapes_.find(axes);
  if (it == shapes_.end()) {
    absl::StatusOr<GroupShape> shape = MeshGroupShape(machine_, extents_, axes);
    it = shapes_.emplace(axes, shape.ok() ? *shape : GroupShape{}).first;
  }
  return it->second;
}

double StepPricer::Seconds(StepKind kind, const std::vector<int>& axes, double bytes_before,
                           double bytes_after) const {
  auto copy = [&](double read, double written) {
    return KernelSeconds(machine_, MemoryShape(KernelKind::kCopy, read, written));
  };
  switch (kind) {
    case StepKind::kAllGather:
      return CollectiveSeconds(machine_, CollectiveKind::kAllGather, bytes_after, Shape(axes));
    case StepKind::kAllReduce:
      return CollectiveSeconds(machine_, CollectiveKind::kAllReduce, bytes_before, Shape(axes));
    case StepKind::kReduceScatter:
      return CollectiveSeconds(machine_, CollectiveKind::kReduceScatter, bytes_before, Shape(axes));
    case StepKind::kAllToAll:
      return CollectiveSeconds(machine_, CollectiveKind::kAllToAll, bytes_before, Shape(axes));
    case StepKind::kSlice:
      return copy(bytes_after, bytes_after);
    case StepKind::kAccumulate:
      return copy(2 * bytes_after, bytes_after);
    case StepKind::kStack:
      return copy(bytes_before, bytes_before);
    case StepKind::kUnstack:
    case StepKind::kKeepFirst:
      return copy(bytes_after, bytes_after);
  }
  return 0;
}

int StepPricer::Level(const std::vector<int>& axes) const {
  return OutermostLevel(machine_, Shape(axes));
}

StepCost StepPricer::AsStepCost() const {
  return [this](const ReshardStep& step, double before, double after) {
    return Seconds(step.kind, step.axes, before, after);
  };
}

}  // namespace tandem
