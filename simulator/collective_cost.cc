#include "simulator/collective_cost.h"

#include <algorithm>
#include <cmath>
#include <limits>

namespace tandem {
namespace {

constexpr double kInfinity = std::numeric_limits<double>::infinity();

double AllReduceFactorOf(const LinkLevel& level, int units) {
  double factor = 1;
  for (const AllReduceFactor& entry : level.all_reduce_factors) {
    if (units >= entry.from) factor = entry.factor;
  }
  return factor;
}

// Steps of a ring pass inside one level: n - 1 as measured up to 8 ranks; past that as if rings of
// 8 were nested, since an implementation on more ranks than that need not take every step one after
// the other.
double PassSteps(double n) { return n <= 8 ? n - 1 : 7 + 7.0 / 3 * std::log2(n / 8); }

double InnerSteps(CollectiveKind kind, int ranks) {
  const double n = ranks;
  switch (kind) {
    case CollectiveKind::kAllReduce:
      return std::min(2 * PassSteps(n), 2 * std::log2(n));  // A ring or a tree.
    case CollectiveKind::kAllGather:
    case CollectiveKind::kReduceScatter:
    case CollectiveKind::kBroadcast:
      return PassSteps(n);
    case CollectiveKind::kAllToAll:
      return std::sqrt(n - 1);  // Messages overlap; fitted.
    case CollectiveKind::kSendRecv:
      return 1;
  }
  return 0;
}

// Bytes that a rank's own link carries in its busier direction.
double WireBytes(CollectiveKind kind, double n, double bytes) {
  switch (kind) {
    case CollectiveKind::kAllReduce:
      return 2 * (n - 1) / n * bytes;
    case CollectiveKind::kAllGather:
    case CollectiveKind::kReduceScatter:
    case CollectiveKind::kAllToAll:
      return (n - 1) / n * bytes;
    case CollectiveKind::kBroadcast:
    case CollectiveKind::kSendRecv:
      return bytes;
  }
  return bytes;
}

double InnerBandwidth(const LinkLevel& level, CollectiveKind kind, int units, bool alone) {
  double bandwidth = level.bandwidth * level.efficiency;
  if (level.peer_bandwidth > 0) bandwidth = std::min(bandwidth, (units - 1) * level.peer_bandwidth);
  if (kind == CollectiveKind::kAllReduce && alone) bandwidth *= AllReduceFactorOf(level, units);
  if (kind == CollectiveKind::kAllToAll) bandwidth *= level.all_to_all_factor;
  return bandwidth;
}

// What one group gets of a unit's port.
double PortShare(const LinkLevel& level, const GroupShape::Level& at, CollectiveKind kind) {
  double share =
      std::min(level.bandwidth / at.concurrent, at.ranks_per_unit * level.device_bandwidth) *
      level.efficiency;
  if (kind == CollectiveKind::kAllReduce) share *= AllReduceFactorOf(level, at.units);
  if (kind == CollectiveKind::kAllToAll) share *= level.all_to_all_factor;
  return share;
}

// Seconds on the wire over the whole group at full protocol bandwidth: that of the narrowest level
// on the way.
double WireSeconds(const Machine& machine, CollectiveKind kind, double bytes,
                   const GroupShape& group, int outermost) {
  const double n = group.ranks;
  double seconds = 0;
  if (group.at[0].units > 1) {
    const double bandwidth =
        InnerBandwidth(machine.levels[0], kind, group.at[0].units, outermost == 0);
    seconds = WireBytes(kind, n, bytes) / bandwidth;
  }
  for (int l = 1; l <= outermost; ++l) {
    const GroupShape::Level& at = group.at[l];
    if (at.units < 2) continue;
    double through = WireBytes(kind, n, bytes);
    if (kind == CollectiveKind::kAllToAll) {
      // All that the ranks of a unit send to those outside it.
      through = at.ranks_per_unit * bytes * (n - at.ranks_per_unit) / n;
    } else if (kind == CollectiveKind::kSendRecv) {
      through = at.ranks_per_unit * bytes;
    }
    seconds = std::max(seconds, through / PortShare(machine.levels[l], at, kind));
  }
  return seconds;
}

double FlatSeconds(const Machine& machine, CollectiveKind kind, double bytes,
                   const GroupShape& group, int outermost) {
  const LinkLevel& level = machine.levels[outermost];
  const double wire = WireSeconds(machine, kind, bytes, group, outermost);
  double steps = 0;
  if (outermost == 0) {
    steps = InnerSteps(kind, group.ranks);
  } else if (kind == CollectiveKind::kSendRecv) {
    steps = 1;
  } else {
    steps = (kind == CollectiveKind::kAllReduce ? 2 : 1) * std::log2(group.at[outermost].units);
  }
  double best = kInfinity;
  for (const LinkProtocol& protocol : level.protocols) {
    best = std::min(best, steps * protocol.step_seconds + wire / protocol.bandwidth_fraction);
  }
  double copy = 0;
  if (outermost == 0 && kind != CollectiveKind::kSendRecv) {
    copy = bytes / group.ranks / machine.levels[0].local_copy_bandwidth;
  }
  return level.launch_seconds + best + copy;
}

// The part of the group below `outermost`, and the part that joins one rank of each unit there.
GroupShape InnerPart(GroupShape group, int outermost) {
  group.ranks /= group.at[outermost].units;
  group.at[outermost] = {};
  return group;
}

GroupShape OuterPart(const GroupShape& group, int outermost) {
  GroupShape outer;
  outer.ranks = group.at[outermost].units;
  outer.at[outermost] = group.at[outermost];
  outer.at[outermost].concurrent *= group.ranks / outer.ranks;
  outer.at[outermost].ranks_per_unit = 1;
  return outer;
}

// A gather or scatter of n ranks of the innermost level as one of d, then one of n / d: fewer
// steps, the same bytes and one launch more. Pays only where a protocol's steps are dear.
double NestedSeconds(const Machine& machine, CollectiveKind kind, double bytes,
                     const GroupShape& group) {
  double best = kInfinity;
  for (int d = 2; d * 2 <= group.ranks; ++d) {
    if (group.ranks % d != 0) continue;
    GroupShape part, rest;
    part.ranks = part.at[0].units = d;
    rest.ranks = rest.at[0].units = group.ranks / d;
    best = std::min(best, CollectiveSeconds(machine, kind, bytes, part) +
                              CollectiveSeconds(machine, kind, bytes / d, rest));
  }
  return best;
}

// Taken apart at the outermost level; infinite where it cannot be.
double SplitSeconds(const Machine& machine, CollectiveKind kind, double bytes,
                    const GroupShape& group, int outermost) {
  const int units = group.at[outermost].units;
  const bool gathers = kind == CollectiveKind::kAllGather || kind == CollectiveKind::kReduceScatter;
  if (outermost == 0 && gathers) return NestedSeconds(machine, kind, bytes, group);
  if (outermost == 0 || !group.uniform || group.ranks == units) return kInfinity;
  const GroupShape inner = InnerPart(group, outermost);
  const GroupShape outer = OuterPart(group, outermost);
  switch (kind) {
    case CollectiveKind::kAllReduce:
      return CollectiveSeconds(machine, CollectiveKind::kReduceScatter, bytes, inner) +
             CollectiveSeconds(machine, CollectiveKind::kAllReduce, bytes / inner.ranks, outer) +
             CollectiveSeconds(machine, CollectiveKind::kAllGather, bytes, inner);
    case CollectiveKind::kAllGather:
    case CollectiveKind::kReduceScatter:
      return CollectiveSeconds(machine, kind, bytes, inner) +
             CollectiveSeconds(machine, kind, bytes / inner.ranks, outer);
    case CollectiveKind::kBroadcast:
      return CollectiveSeconds(machine, kind, bytes, inner) +
             CollectiveSeconds(machine, kind, bytes, outer);
    case CollectiveKind::kAllToAll:
    case CollectiveKind::kSendRecv:
      return kInfinity;
  }
  return kInfinity;
}

}  // namespace

absl::string_view CollectiveKindName(CollectiveKind kind) {
  constexpr absl::string_view kNames[kCollectiveKinds] = {
      "all_reduce", "all_gather", "reduce_scatter", "all_to_all", "broadcast", "send_recv"};
  return kNames[static_cast<int>(kind)];
}

int OutermostLevel(const Machine& machine, const GroupShape& group) {
  for (int l = static_cast<int>(machine.levels.size()) - 1; l > 0; --l) {
    if (group.at[l].units > 1) return l;
  }
  return 0;
}

double CollectiveSeconds(const Machine& machine, CollectiveKind kind, double bytes,
                         const GroupShape& group) {
  if (group.ranks <= 1 || bytes <= 0) return 0;
  const int outermost = OutermostLevel(machine, group);
  return std::min(FlatSeconds(machine, kind, bytes, group, outermost),
                  SplitSeconds(machine, kind, bytes, group, outermost));
}

}  // namespace tandem
