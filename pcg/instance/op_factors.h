// Second step of instantiation: the factors of every base size, and which factors of different base
// sizes are one size. Internal to op_instance.
//
// A factor list is seen as its suffix products (the strides of its digits): {2, 6, 4} has 4,
// 24, 48. Lists over one extent have a common refinement exactly if the union of their suffix
// products is a chain under divisibility.
#ifndef TANDEM_PCG_INSTANCE_OP_FACTORS_H_
#define TANDEM_PCG_INSTANCE_OP_FACTORS_H_

#include <optional>
#include <vector>

#include "absl/status/status.h"
#include "pcg/instance/op_sizes.h"

namespace tandem {

// Common refinement of two factor lists of one extent.
std::optional<Factors> CommonRefinement(const Factors& a, const Factors& b);

// Chooses the factors of all bases of `table` from what is given on operands and from how the
// equations index:
//  - a plain index carries the factors of a dim to the others of its size; the first operand wins
//    over one that contradicts it (which becomes not `linked`),
//  - `x[i + start]` with everything a multiple of an inner product P shares the factors below P,
//  - `x[regroup(j)]` shares all factors between common suffix products of the two shapes.
// Returns per base and factor a class: factors of one class are one size of the instance.
absl::StatusOr<std::vector<std::vector<int>>> RefineFactors(const OpSpec& spec, SizeTable& table);

// How many trailing sizes of `from` and `to` are the same and below which every term of `offset` is
// a multiple (a size's own trailing sizes included). `base_sizes`: per base its sizes.
size_t SharedSuffix(const std::vector<std::vector<int>>& base_sizes,
                    const std::vector<SizeVar>& sizes, const std::vector<int>& from,
                    const std::vector<int>& to, const AffineForm& offset);

}  // namespace tandem

#endif  // TANDEM_PCG_INSTANCE_OP_FACTORS_H_
