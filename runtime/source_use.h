// How a graph uses a source tensor, read off the operators' equations: what its random values may
// be.
#ifndef TANDEM_RUNTIME_SOURCE_USE_H_
#define TANDEM_RUNTIME_SOURCE_USE_H_

#include <cstdint>
#include <vector>

#include "absl/status/statusor.h"
#include "pcg/graph/graph.h"

namespace tandem {

struct SourceUse {
  int64_t index_bound = 0;   // integers compared with an index (a table's rows, classes): the
                             // smallest of those extents; 0 if none
  bool multiplies = false;   // a factor or divisor somewhere, in no contraction
  bool under_root = false;   // under sqrt or rsqrt, or a divisor
  bool contracted = false;   // an operand of a contraction
  bool updates_only = true;  // read by nodes of Phase::kUpdate only
};

// One entry a tensor; followed through nodes that only move elements.
absl::StatusOr<std::vector<SourceUse>> UsesOf(const Graph& graph);

}  // namespace tandem

#endif  // TANDEM_RUNTIME_SOURCE_USE_H_
