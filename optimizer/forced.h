// Restrictions of the layout problem: baselines, and kinds of parallelism fixed by the user. Each
// is a statement about which dim of the inputs an axis follows through the factor tables; none
// names an operator.
#ifndef TANDEM_OPTIMIZER_FORCED_H_
#define TANDEM_OPTIMIZER_FORCED_H_

#include <optional>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "optimizer/layout_problem.h"

namespace tandem {

enum class AxisKind : uint8_t {
  kFree,
  kData,      // the batch, everywhere; stored tensors replicated
  kSharded,   // the batch, everywhere; stored tensors split where they can be (FSDP, ZeRO)
  kTensor,    // never the batch nor the sequence; contractions are split where they can be
  kSequence,  // the second dim of the inputs where it can be followed; the batch never
};

// Rows that follow dim `dim` of the batch inputs through the graph; -1 where they cannot.
struct FollowedDim {
  std::vector<int> rows;  // by node
};
FollowedDim FollowDim(const Graph& graph, const NodeClasses& classes, int64_t degree, size_t dim,
                      int64_t micro_batches = 1);

// One kind an axis of the mesh (spatial axes only). Errors as SplitBatch's, for data and sharded.
absl::StatusOr<LayoutRestrictions> Restrict(const Graph& graph, const NodeClasses& classes,
                                            const Mesh& mesh, const std::vector<AxisKind>& kinds);

}  // namespace tandem

#endif  // TANDEM_OPTIMIZER_FORCED_H_
