// Solves the equalities in a reduction's guard for loop variables: one-hot sums, scatters, windows
// seen from the other side. Internal to loop_nest.
#ifndef TANDEM_PCG_KERNEL_NEST_SOLVER_H_
#define TANDEM_PCG_KERNEL_NEST_SOLVER_H_

#include <cstdint>
#include <map>
#include <set>
#include <utility>
#include <vector>

#include "pcg/instance/op_instance.h"

namespace tandem {

// The logical value of a variable that an equality fixes: (constant + sum of coefficient * variable
// + sum of coefficient * expression) // divisor, then % modulus. The variables may be fixed
// themselves. A divisor that does not divide, and a value that is no index of the piece, mean "no
// term".
struct Solution {
  int64_t constant = 0;
  std::map<int, int64_t> vars;
  std::vector<std::pair<int64_t, ExprId>> opaque;
  int64_t divisor = 1;
  int64_t modulus = 0;  // 0: none
  bool digit = false;   // one digit of a mixed-radix number: the divisor always fits
};

// Removes from `guards` (conjuncts) the equalities that it solves: for variables in `bound` where
// possible, else for one in `free` (then the reduction scatters). `extents`: local, by variable.
std::map<int, Solution> SolveGuards(const OpInstance& instance, const std::vector<int64_t>& extents,
                                    const std::vector<int>& bound, const std::vector<int>& free,
                                    std::vector<ExprId>& guards);

// Variables in an expression that are not bound inside it.
std::set<int> FreeVarsOf(const OpInstance& instance, ExprId id);

}  // namespace tandem

#endif  // TANDEM_PCG_KERNEL_NEST_SOLVER_H_
