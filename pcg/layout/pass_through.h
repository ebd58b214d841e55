// Partial values through linear operators: a matmul of a partial left side is a partial product, so
// the all-reduce may come later, or become a reduce-scatter. Rows of the factor table with no size.
#ifndef TANDEM_PCG_LAYOUT_PASS_THROUGH_H_
#define TANDEM_PCG_LAYOUT_PASS_THROUGH_H_

#include <vector>

#include "pcg/instance/op_instance.h"
#include "pcg/layout/factor_table.h"

namespace tandem {

// One row for every minimal set of float inputs in which all outputs are linear without a constant
// term (combiner sum), then the same for max and min where outputs are plain copies of the set.
// Rows of a combiner are ordered by the number of inputs, then by position.
std::vector<SplitRow> PassThroughRows(const OpInstance& instance);

}  // namespace tandem

#endif  // TANDEM_PCG_LAYOUT_PASS_THROUGH_H_
