// Seconds of one collective, alone on its links but for the other groups of its own kind
// (GroupShape::Level::concurrent). Within the innermost level: t0 + min over protocols (steps alpha
// + wire / bandwidth) + local copy. Across levels: one collective over the whole group, at the
// bandwidth of the narrowest port on the way, or taken apart at the outermost level (as
// reduce-scatter inside, all-reduce across, all-gather inside), whichever is faster. Several mesh
// axes together are one group and are priced as one collective.
//
// Monotone and concave in bytes, zero for one rank: a collective split into parts is never cheaper
// than the whole.
#ifndef TANDEM_SIMULATOR_COLLECTIVE_COST_H_
#define TANDEM_SIMULATOR_COLLECTIVE_COST_H_

#include "absl/strings/string_view.h"
#include "simulator/group_shape.h"
#include "simulator/machine.h"

namespace tandem {

enum class CollectiveKind {
  kAllReduce,
  kAllGather,
  kReduceScatter,
  kAllToAll,
  kBroadcast,
  kSendRecv
};
inline constexpr int kCollectiveKinds = 6;
absl::string_view CollectiveKindName(CollectiveKind kind);

// `bytes`, S, is what one rank holds where it holds most:
//   all_reduce      the buffer that every rank has before and after;
//   all_gather      the gathered buffer: every rank gives S / n and ends with S;
//   reduce_scatter  the input: every rank gives S and ends with S / n;
//   all_to_all      what a rank has before and after: it sends S / n to each of the n ranks, itself
//   included; broadcast       the buffer; send_recv       what a rank sends to its partner (and
//   receives, at the same time, from another); the group is the
//                   pair (or ring) and need not have more than two ranks.
double CollectiveSeconds(const Machine& machine, CollectiveKind kind, double bytes,
                         const GroupShape& group);

// The outermost level whose links the group uses: which communication stream it occupies. 0 for one
// rank.
int OutermostLevel(const Machine& machine, const GroupShape& group);

}  // namespace tandem

#endif  // TANDEM_SIMULATOR_COLLECTIVE_COST_H_
