// Stages of a loop nest before scheduling: expressions over loop variables and tensors of local
// pieces, with everything that is linear in the loop variables kept as integers. Internal to
// loop_nest.
#ifndef TANDEM_PCG_KERNEL_NEST_IR_H_
#define TANDEM_PCG_KERNEL_NEST_IR_H_

#include <cstdint>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "pcg/instance/op_instance.h"
#include "pcg/kernel/loop_nest.h"

namespace tandem {

// constant + sum of coefficient * loop variable, by ascending variable, no zero coefficients.
struct IntAffine {
  int64_t constant = 0;
  std::vector<std::pair<int, int64_t>> terms;
  int64_t Coefficient(int var) const;
};
IntAffine Sum(const IntAffine& a, const IntAffine& b, int64_t scale_b);
IntAffine Scaled(const IntAffine& a, int64_t scale);

enum class NestOp : uint8_t {
  kConst,
  kAffine,
  kRead,
  kAdd,
  kSub,
  kMul,
  kDiv,
  kNeg,
  kFloorDiv,
  kMod,
  kPow,
  kMax,
  kMin,
  kExp,
  kLog,
  kSqrt,
  kRsqrt,
  kTanh,
  kErf,
  kSin,
  kCos,
  kAbs,
  kSign,
  kFloor,
  kIsNan,
  kUniform,  // args: seed, counters
  kEq,
  kNe,
  kLt,
  kLe,
  kGt,
  kGe,
  kAnd,
  kOr,
  kNot,      // 1 or 0
  kInRange,  // 0 <= args[0] < number
  kSelect,
};

struct NestNode {
  NestOp op = NestOp::kConst;
  double number = 0;
  IntAffine affine;
  int tensor = -1;        // kRead: one argument an index (dims and factors flattened)
  bool has_else = false;  // kRead: the last argument is the value out of range
  std::vector<int> args;
};

// Row-major. Slots: inputs, then outputs, then temporaries, in order of declaration.
struct NestTensor {
  enum class Kind : uint8_t { kInput, kOutput, kTemporary };
  Kind kind = Kind::kTemporary;
  int slot = 0;
  std::string name;
  std::vector<int64_t> dims;
  std::vector<int64_t> strides;
  int64_t elements = 1;
};

enum class NestReduction : uint8_t { kNone, kSum, kProd, kMax, kMin, kArgMax };

// tensor[index] = body, for all free variables; or, with a reduction over more variables, the
// reduction of body (product of factors / divisors, the identity where a guard fails).
struct NestStage {
  std::vector<NestNode> nodes;
  int target = -1;
  std::vector<int> index;        // nodes, one a dim of the target
  std::vector<int> free_vars;    // loops
  std::vector<int> reduce_vars;  // loops; a variable that an equality fixes is in neither list
  NestReduction reduction = NestReduction::kNone;
  std::vector<int> guards;  // nodes, all must be 1
  std::vector<int> factors;
  std::vector<int> divisors;
  int position = -1;     // kArgMax: node, the flat logical index
  bool scatter = false;  // several iterations may hit one element beyond reduce_vars
  bool lenient = false;  // under a select: reads out of range give 0
};

struct NestStages {
  std::vector<NestTensor> tensors;
  std::vector<int64_t> extents;  // per loop variable of the instance, local
  std::vector<NestStage> stages;
};

double Identity(NestReduction reduction);
std::set<int> VarsOf(const NestStage& stage, int node);
// Smallest and largest value.
std::pair<int64_t, int64_t> RangeOf(const IntAffine& affine, const std::vector<int64_t>& extents);

absl::StatusOr<NestStages> BuildStages(const OpInstance& instance, const PieceOfOp& piece);

}  // namespace tandem

#endif  // TANDEM_PCG_KERNEL_NEST_IR_H_
