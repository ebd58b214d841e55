// Index arithmetic of an instance: numbers as digits of mixed radix, one a size, major to minor.
#ifndef TANDEM_PCG_INSTANCE_MIXED_RADIX_H_
#define TANDEM_PCG_INSTANCE_MIXED_RADIX_H_

#include <vector>

#include "pcg/instance/instance_exprs.h"
#include "pcg/instance/op_instance.h"

namespace tandem {

// One loop variable (or, where a dim keeps factors of its own, an expression) and its size.
struct Digit {
  ExprId expr;
  int size = -1;
};

class MixedRadix {
 public:
  MixedRadix(const OpInstance* instance, InstanceExprs* exprs)
      : instance_(*instance), exprs_(*exprs) {}

  // The product of the first `count` sizes.
  ExprId SizeProduct(const std::vector<int>& sizes, size_t count);
  // The row-major value of digits.
  ExprId Flat(const std::vector<Digit>& digits);
  // A number as digits over `targets`. The leading digit takes what is left, so that a number out
  // of range has a leading digit out of range.
  std::vector<ExprId> Split(ExprId value, const std::vector<int>& targets);
  // Digits over other sizes of (usually) the same product. Between common strides one digit is one
  // target, several digits are joined, and what has no common stride is divided. What is left of
  // the digits when no target is left must be zero: `excess`.
  std::vector<ExprId> Convert(const std::vector<Digit>& digits, const std::vector<int>& targets,
                              ExprId& excess);

 private:
  int64_t Extent(int size) const { return instance_.sizes[static_cast<size_t>(size)].extent; }

  const OpInstance& instance_;
  InstanceExprs& exprs_;
};

}  // namespace tandem

#endif  // TANDEM_PCG_INSTANCE_MIXED_RADIX_H_
