// What the equations of an instance look like: index expressions, products, guards, and the sums
// that are really reads. Shared by everything that recognises structure instead of names.
#ifndef TANDEM_PCG_INSTANCE_OP_STRUCTURE_H_
#define TANDEM_PCG_INSTANCE_OP_STRUCTURE_H_

#include <set>
#include <vector>

#include "pcg/instance/op_instance.h"

namespace tandem {

// Loop variables in an expression. Those inside reads are left out if `outside_reads`.
std::set<int> VarsIn(const OpInstance& op, ExprId expr, bool outside_reads = false);
bool HasRead(const OpInstance& op, ExprId expr);

// The variable of each (dim, factor) of a read whose every index is a plain variable; -1 where the
// index is the number 0 (a broadcast dim). Empty optional-like: `plain` false.
struct PlainRead {
  bool plain = false;
  std::vector<int> vars;
};
PlainRead AsPlainRead(const OpInstance& op, const ExprNode& read);
// Some index adds up several variables, or scales one (a window, a stride).
bool IsWindowedRead(const OpInstance& op, const ExprNode& read);

// A product seen through *, unary minus, division by anything, and select(guard, product, 0): it is
// the product of `factors`, and 0 unless all `guards` (conjuncts) hold.
struct GuardedProduct {
  std::vector<ExprId> factors;
  std::vector<ExprId> guards;
};
GuardedProduct AsProduct(const OpInstance& op, ExprId expr);

// A reduction whose guards fix some variables.
struct ReductionShape {
  // Every bound variable of the sum is fixed by an equality: at most one term, so it is a read.
  bool one_point = false;
  // Variables (bound or of the target) that equalities determine from the others; the number of
  // terms that are not 0, over the whole target, is the product of the others' extents.
  std::vector<int> determined;
  std::vector<ExprId> solved;   // those equalities: never tested by a kernel that solves them
  bool data_dependent = false;  // an equality compares with a read (ids[b] == t)
  bool windowed = false;        // an equality relates three or more variables
};
// `scope`: variables bound outside of the reduction. Larger extents are determined first.
ReductionShape ShapeOfReduction(const OpInstance& op, const ExprNode& reduce,
                                const std::vector<int>& scope, const std::vector<int64_t>& extents);

}  // namespace tandem

#endif  // TANDEM_PCG_INSTANCE_OP_STRUCTURE_H_
