// The data movement of one reshard step, as strided copies between the local buffers of a device
// group. Executors (and the oracle of their tests) share this; nobody derives it twice.
//
// The group of a spatial step is Mesh::Group(device, step.axes); a rank is a position in it. Steps
// over the temporal axis stay on the device: the group is the device itself, rank 0, and
// coordinates name the micro-batch.
#ifndef TANDEM_PCG_LAYOUT_STEP_DATA_H_
#define TANDEM_PCG_LAYOUT_STEP_DATA_H_

#include <cstdint>
#include <vector>

#include "pcg/layout/layout.h"
#include "pcg/layout/reshard.h"

namespace tandem {

// Element (i0, i1, ...) of the block goes from source_offset + sum i*source_strides in the `before`
// buffer of `rank` to target_offset + sum i*target_strides in the receiver's `after` buffer.
// Offsets in elements; the last extent is innermost; adjacent extents are merged where both sides
// allow, so that a block contiguous on both sides has one extent.
struct BlockCopy {
  int rank = 0;
  int64_t source_offset = 0;
  int64_t target_offset = 0;
  std::vector<int64_t> extents;
  std::vector<int64_t> source_strides;
  std::vector<int64_t> target_strides;
  int64_t Elements() const;
  bool operator==(const BlockCopy&) const = default;
};

// True if the step combines: an all-reduce and a reduce-scatter take each block from every rank
// (one BlockCopy a rank, same target) and combine them; an accumulation combines its block with
// what the target holds from the micro-batches before.
bool Combines(StepKind kind);
double Combine(Combiner combiner, double a, double b);
// What leaves the other operand as it is: 0, -infinity, +infinity.
double Neutral(Combiner combiner);

// What the device at `coords` (one entry a mesh axis, temporal included) receives, by rank. Blocks
// cover the `after` buffer exactly once (once a rank if the step combines) - except for kStack,
// which fills the part of this micro-batch, and kKeepFirst: all of it on the first rank, nothing on
// the others, which fill it with the neutral element. An all-to-all's or reduce-scatter's sender
// packs for receiver r what this function says for r's coordinates.
std::vector<BlockCopy> StepCopies(const FactoredShape& shape, const Mesh& mesh,
                                  const ReshardStep& step, const std::vector<int64_t>& coords);

// Calls f(source index, target index) for each element, in row-major order of the block.
template <typename F>
void ForEachElement(const BlockCopy& block, F f) {
  const size_t rank = block.extents.size();
  std::vector<int64_t> index(rank, 0);
  int64_t source = block.source_offset;
  int64_t target = block.target_offset;
  for (int64_t n = block.Elements(); n > 0; --n) {
    f(source, target);
    for (size_t d = rank; d-- > 0;) {
      source += block.source_strides[d];
      target += block.target_strides[d];
      if (++index[d] < block.extents[d]) break;
      source -= block.extents[d] * block.source_strides[d];
      target -= block.extents[d] * block.target_strides[d];
      index[d] = 0;
    }
  }
}

}  // namespace tandem

#endif  // TANDEM_PCG_LAYOUT_STEP_DATA_H_
