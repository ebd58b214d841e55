// An operator applied to shapes: ranks, sizes and attributes are fixed, names are indices. This is
// the one form that shape inference, the factor table, FLOPs and bytes, the interpreter, the
// kernels, differentiation and the prover read.
//
// A *size* is one factor of one or more dims. A dim of n = 4096 elements that is known (from a
// reshape elsewhere in the graph) to be (32, 128) has two sizes, and every plain index over it is a
// tuple of two loop variables. Splitting always means splitting one size at its front. Extents are
// numbers here; the prover may read the same instance with the sizes as symbols.
//
// kSize as a value (the n of a mean, the bound of a concat) is always the *logical* size,
// `sizes[ref].extent`: a device that holds a piece loops over local extents and still computes with
// logical numbers, as it does with indices used as values (offset added). So the mean over a split
// size is a partial sum.
#ifndef TANDEM_PCG_INSTANCE_OP_INSTANCE_H_
#define TANDEM_PCG_INSTANCE_OP_INSTANCE_H_

#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "pcg/language/expr.h"
#include "pcg/language/op_spec.h"

namespace tandem {

// A dim as factor extents, major to minor; the dim's extent is their product. An empty list is not
// allowed: a dim of extent 1 is {1}.
using Factors = std::vector<int64_t>;
// A shape with its factors. {{8}, {512}, {16, 64}} is 8 x 512 x 1024.
using FactoredShape = std::vector<Factors>;

std::vector<int64_t> PlainShape(const FactoredShape& shape);
int64_t ElementCount(const FactoredShape& shape);

struct SizeVar {
  std::string name;  // "n", or "n.1" for the second factor of n, "b.0" for a group's first dim
  int64_t extent = 1;
  bool constant = false;  // fixed by the operator's text or an attribute; never split or symbolic
  ExprId definition;      // valid if the text defines it by a formula of other sizes (oh, ow)
  bool operator==(const SizeVar&) const = default;
};

struct LoopVar {
  std::string name;
  int size = -1;  // index into OpInstance::sizes
  bool operator==(const LoopVar&) const = default;
};

struct InstanceOperand {
  std::string name;
  ElementKind kind = ElementKind::kFloat;
  std::vector<std::vector<int>> dims;  // per dim, per factor: index into sizes
  bool operator==(const InstanceOperand&) const = default;
};

// tensors[target][vars] = body; `vars` has one loop variable per (dim, factor) of the target, in
// order, each ranging over that factor's size.
struct InstanceEquation {
  int target = -1;  // index into OpInstance::tensors
  std::vector<int> vars;
  ExprId body;
  bool operator==(const InstanceEquation&) const = default;
};

struct OpInstance {
  std::string op;  // operator name
  Attributes attributes;
  std::vector<SizeVar> sizes;
  std::vector<LoopVar> vars;
  // Inputs, then outputs, then intermediates. kRead's `ref` and equations' `target` index this. A
  // missing optional input has no entry: its reads are already the default value.
  std::vector<InstanceOperand> tensors;
  int num_inputs = 0;
  int num_outputs = 0;
  std::vector<InstanceEquation> equations;
  ExprArena exprs;

  const InstanceOperand& input(int i) const { return tensors[static_cast<size_t>(i)]; }
  const InstanceOperand& output(int i) const {
    return tensors[static_cast<size_t>(num_inputs + i)];
  }
  FactoredShape ShapeOf(int tensor) const;
  bool operator==(const OpInstance&) const = default;
};

// Applies `spec` to inputs of the given shapes. `present` inputs in signature order; a missing
// optional input is given by the attribute "absent" (integer list of input positions), and is then
// not in `inputs`. Factors of inputs that meet in one size are refined to their common refinement;
// a dim whose factors contradict those of an earlier operand keeps them as sizes of its own, and is
// read at quotients and rests. So an operand's dims are never coarser than given. Errors say which
// operand, dim and value disagree. Output shapes are ShapeOf(num_inputs + i).
absl::StatusOr<OpInstance> Instantiate(const OpSpec& spec, const Attributes& attributes,
                                       const std::vector<FactoredShape>& inputs);

// As above, with the outputs' factors known too (plain shapes must agree with inference): sizes are
// refined by both ends. Used once a graph's factors have been propagated.
absl::StatusOr<OpInstance> InstantiateWithOutputs(const OpSpec& spec, const Attributes& attributes,
                                                  const std::vector<FactoredShape>& inputs,
                                                  const std::vector<FactoredShape>& outputs);

// Text of an instance for messages and dumps.
std::string ToString(const OpInstance& instance);

}  // namespace tandem

#endif  // TANDEM_PCG_INSTANCE_OP_INSTANCE_H_
