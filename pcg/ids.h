// Strongly typed indices. An id means something only inside the value (graph, program) that issued
// it: it is the position of the entry in that value's vector. -1 is "none".
#ifndef TANDEM_PCG_IDS_H_
#define TANDEM_PCG_IDS_H_

#include <cstdint>
#include <functional>

namespace tandem {

template <typename Tag>
struct Id {
  int32_t value = -1;
  constexpr Id() = default;
  constexpr explicit Id(int64_t v) : value(static_cast<int32_t>(v)) {}
  constexpr bool valid() const { return value >= 0; }
  constexpr size_t index() const { return static_cast<size_t>(value); }
  friend constexpr bool operator==(Id a, Id b) = default;
  friend constexpr auto operator<=>(Id a, Id b) = default;
  template <typename H>
  friend H AbslHashValue(H h, Id id) {
    return H::combine(std::move(h), id.value);
  }
};

using NodeId = Id<struct NodeTag>;      // a node of a Graph
using TensorId = Id<struct TensorTag>;  // a tensor of a Graph
using BufferId = Id<struct BufferTag>;  // a buffer of a Program
using ExprId = Id<struct ExprTag>;      // an expression of an ExprArena

}  // namespace tandem

#endif  // TANDEM_PCG_IDS_H_
