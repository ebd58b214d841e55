#include "verifier/splits/split_replay.h"

#include <algorithm>
#include <cmath>
#include <optional>

#include "pcg/graph/interpreter.h"

namespace tandem::prover {
namespace {

std::vector<int64_t> FactorExtents(const OpInstance& op, int tensor,
                                   const std::vector<int64_t>& extents) {
  std::vector<int64_t> out;
  for (const auto& dim : op.tensors[static_cast<size_t>(tensor)].dims) {
    for (int size : dim) out.push_back(extents[static_cast<size_t>(size)]);
  }
  return out;
}

int64_t FlatIndex(const std::vector<int64_t>& index, const std::vector<int64_t>& extents) {
  int64_t flat = 0;
  for (size_t i = 0; i < index.size(); ++i) flat = flat * extents[i] + index[i];
  return flat;
}

// The inputs that a device (-1: the serial machine) holds.
std::vector<HostTensor> Inputs(const OpInstance& op, const SplitReplay& replay, int64_t device,
                               const std::vector<int64_t>& extents) {
  std::vector<HostTensor> out;
  for (int t = 0; t < op.num_inputs; ++t) {
    HostTensor host;
    for (const auto& dim : op.input(t).dims) {
      host.shape.push_back(1);
      for (int size : dim) host.shape.back() *= extents[static_cast<size_t>(size)];
    }
    std::vector<int64_t> factors = FactorExtents(op, t, extents), index(factors.size());
    int64_t count = 1;
    for (int64_t f : factors) count *= f;
    for (int64_t n = 0; n < count; ++n) {
      int64_t rest = n;
      for (size_t i = factors.size(); i-- > 0;) {
        index[i] = rest % factors[i];
        rest /= factors[i];
      }
      host.data.push_back(replay.value(t, device, index));
    }
    out.push_back(std::move(host));
  }
  return out;
}

}  // namespace

bool Confirmed(const OpInstance& op, const SplitRow& row, const SplitReplay& replay,
               const Counterexample& example) {
  OpInstance sized = op;
  for (size_t i = 0; i < sized.sizes.size(); ++i) sized.sizes[i].extent = replay.extents[i];
  int output = 0;
  while (output < op.num_outputs && op.output(output).name != example.tensor) ++output;
  if (output == op.num_outputs) return false;
  const int tensor = op.num_inputs + output;
  const AxisPlacement& placement = row.outputs[static_cast<size_t>(output)];

  auto run = [&](int64_t device) -> std::optional<HostTensor> {
    std::vector<int64_t> extents = replay.extents;
    PieceOfOp piece;
    if (device >= 0 && row.size >= 0) {
      extents[static_cast<size_t>(row.size)] = replay.piece;
      piece.extents = extents;
      piece.offsets.assign(extents.size(), 0);
      if (row.needs_offset) piece.offsets[static_cast<size_t>(row.size)] = device * replay.piece;
    }
    std::vector<HostTensor> inputs = Inputs(op, replay, device, extents);
    std::vector<const HostTensor*> pointers;
    for (const HostTensor& h : inputs) pointers.push_back(&h);
    auto outputs = Evaluate(sized, pointers, piece);
    if (!outputs.ok()) return std::nullopt;
    return std::move((*outputs)[static_cast<size_t>(output)]);
  };
  std::optional<HostTensor> whole = run(-1);
  if (!whole) return false;
  const double expected = whole->data[static_cast<size_t>(
      FlatIndex(example.index, FactorExtents(op, tensor, replay.extents)))];

  std::vector<int64_t> index = example.index, extents = replay.extents;
  if (row.size >= 0) extents[static_cast<size_t>(row.size)] = replay.piece;
  if (placement.kind == AxisPlacement::Kind::kSplit) {
    auto position = static_cast<size_t>(placement.factor);
    for (int d = 0; d < placement.dim; ++d) {
      position += op.tensors[static_cast<size_t>(tensor)].dims[static_cast<size_t>(d)].size();
    }
    index[position] %= replay.piece;
  }
  const auto at = static_cast<size_t>(FlatIndex(index, FactorExtents(op, tensor, extents)));
  double got = 0;
  const bool partial = placement.kind == AxisPlacement::Kind::kPartial;
  for (int64_t p = 0; p < replay.degree; ++p) {
    if (!partial && p != example.device) continue;
    std::optional<HostTensor> piece = run(p);
    if (!piece) return true;  // the local operator reads out of range
    const double share = piece->data[at];
    if (!partial || p == 0) {
      got = share;
    } else if (placement.combiner == Combiner::kSum) {
      got += share;
    } else {
      got = placement.combiner == Combiner::kMax ? std::max(got, share) : std::min(got, share);
    }
  }
  if (std::isnan(expected) || std::isnan(got)) return std::isnan(expected) != std::isnan(got);
  if (expected == got) return false;
  if (std::isinf(expected) || std::isinf(got)) return true;
  return std::fabs(expected - got) > 1e-7 * (1 + std::fabs(expected) + std::fabs(got));
}

}  // namespace tandem::prover
