// The generic kernel of any operator: an instance compiled to a few loop nests over flat arrays.
//
// Each equation becomes one stage; reductions inside an expression become stages of their own, so
// nothing is computed twice. A stage is either a contraction (a sum of products, packed and blocked
// whatever its index structure), or loops around a byte code that works on blocks of the innermost
// loop. Equalities in a sum's guard are solved instead of searched: the one-hot sum of an embedding
// is a read, its gradient a scatter, a windowed gradient runs over its window.
//
// Arithmetic is in double for both element types; contractions multiply and add in the element
// type. The order of additions depends on the instance and piece only.
#ifndef TANDEM_PCG_KERNEL_LOOP_NEST_H_
#define TANDEM_PCG_KERNEL_LOOP_NEST_H_

#include <cstdint>
#include <memory>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "pcg/instance/op_instance.h"

namespace tandem {

// Local evaluation: extents and index offsets of the piece this device holds. Empty = the whole.
struct PieceOfOp {
  std::vector<int64_t> extents;  // per size
  std::vector<int64_t>
      offsets;  // per size: logical index = local index + offset where used as value
};

struct NestProgram;  // internal

class LoopNest {
 public:
  // Compile once, run many times (also from several threads at once).
  static absl::StatusOr<LoopNest> Compile(const OpInstance& instance, const PieceOfOp& piece = {});

  // Elements the arrays must have, per input and per output.
  const std::vector<int64_t>& input_elements() const { return input_elements_; }
  const std::vector<int64_t>& output_elements() const { return output_elements_; }

  // Row-major arrays of the local piece. T is double or float. Reads out of range without an `else`
  // are errors.
  template <typename T>
  absl::Status Run(const std::vector<const T*>& inputs, const std::vector<T*>& outputs) const;

 private:
  std::shared_ptr<const NestProgram> program_;
  std::vector<int64_t> input_elements_;
  std::vector<int64_t> output_elements_;
};

}  // namespace tandem

#endif  // TANDEM_PCG_KERNEL_LOOP_NEST_H_
