// Makes the nodes of a stage. What is linear in loop variables stays integers: sums, multiples, and
// quotients and rests whose outcome the ranges of the variables decide. Internal to loop_nest.
#ifndef TANDEM_PCG_KERNEL_NEST_EXPRS_H_
#define TANDEM_PCG_KERNEL_NEST_EXPRS_H_

#include <vector>

#include "pcg/kernel/nest_ir.h"

namespace tandem {

class NestExprs {
 public:
  // `extents`: local, by loop variable.
  NestExprs(std::vector<NestNode>* nodes, const std::vector<int64_t>* extents)
      : nodes_(*nodes), extents_(*extents) {}

  int Add(NestNode node);
  int Const(double number);
  int Affine(IntAffine affine);
  int Binary(NestOp op, int a, int b);
  int Unary(NestOp op, int a);
  // In [0, extent) whatever the loops are.
  bool KnownInRange(int node, int64_t extent) const;

 private:
  bool AsAffine(int node, IntAffine& affine) const;
  int Divided(NestOp op, const IntAffine& value, int64_t by);

  std::vector<NestNode>& nodes_;
  const std::vector<int64_t>& extents_;
};

}  // namespace tandem

#endif  // TANDEM_PCG_KERNEL_NEST_EXPRS_H_
