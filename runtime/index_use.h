// Where an instance uses an index as a number, not only to find an element: there, and only there,
// a piece's place in the whole changes what its kernel does.
#ifndef TANDEM_RUNTIME_INDEX_USE_H_
#define TANDEM_RUNTIME_INDEX_USE_H_

#include <string>
#include <vector>

#include "pcg/instance/op_instance.h"
#include "pcg/kernel/loop_nest.h"

namespace tandem {

// Per size: some variable over it is used outside of a plain index.
std::vector<bool> SizesUsedAsValues(const OpInstance& op);

// The piece of an instruction's node on the device at `coords`, offsets only where they matter.
PieceOfOp PieceAt(const OpInstance& op, const std::vector<std::vector<int>>& size_axes,
                  const std::vector<int64_t>& mesh_extents, const std::vector<int64_t>& coords);

// Equal keys: one prepared kernel serves both.
std::string KernelKey(const OpInstance& op, const PieceOfOp& piece);

}  // namespace tandem

#endif  // TANDEM_RUNTIME_INDEX_USE_H_
