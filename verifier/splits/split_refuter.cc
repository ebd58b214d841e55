#include "verifier/splits/split_refuter.h"

#include <algorithm>
#include <cmath>

#include "absl/strings/str_cat.h"
#include "verifier/prover/concrete.h"
#include "verifier/prover/rational.h"
#include "verifier/splits/split_replay.h"

namespace tandem::prover {
namespace {

class Random {
 public:
  explicit Random(uint64_t seed) : state_(seed * 0x9e3779b97f4a7c15ULL + 1) {}
  int64_t In(int64_t low, int64_t high) {
    state_ ^= state_ << 13;
    state_ ^= state_ >> 7;
    state_ ^= state_ << 17;
    return low + static_cast<int64_t>((state_ >> 11) % static_cast<uint64_t>(high - low + 1));
  }

 private:
  uint64_t state_;
};

// One choice of sizes and values.
class Sample {
 public:
  Sample(const OpInstance& op, const SplitRow& row, const RefuteOptions& options, uint64_t seed)
      : op_(op), row_(row), seed_(seed) {
    Random random(seed);
    int64_t high = seed < 12 ? 2 : 3;
    degree_ = row.size < 0 ? random.In(2, 3) : random.In(seed < 4 ? 2 : 1, 3);
    piece_ = random.In(1, high);
    if (options.own_extents && row.size >= 0) {
      int64_t extent = op.sizes[static_cast<size_t>(row.size)].extent;
      degree_ = random.In(1, std::min<int64_t>(extent, 8));
      if (extent % degree_ != 0) throw OutOfRange();
      piece_ = extent / degree_;
    }
    whole_.resize(op.sizes.size());
    for (size_t i = 0; i < op.sizes.size(); ++i) {
      const SizeVar& size = op.sizes[i];
      int64_t extent = size.constant || options.own_extents ? size.extent : random.In(1, high);
      if (static_cast<int>(i) == row.size) extent = degree_ * piece_;
      whole_[i] = {extent, extent, 0};
    }
    // Sizes given by a formula follow from the others.
    for (size_t i = 0; i < op.sizes.size(); ++i) {
      if (!op.sizes[i].definition.valid()) continue;
      int64_t x = ConcreteOp(op, whole_, {}).Formula(op.sizes[i].definition);
      if (x < 1 || (static_cast<int>(i) == row.size && x != whole_[i].extent)) throw OutOfRange();
      whole_[i] = {x, x, 0};
    }
    for (const ConcreteSize& s : whole_) bound_ = std::max(bound_, s.extent);
  }

  std::optional<Counterexample> Compare(int64_t* points) {
    ConcreteOp whole(op_, whole_,
                     [&](int t, const std::vector<int64_t>& i) { return Whole(t, i); });
    std::vector<ConcreteOp> pieces;
    for (int64_t p = 0; p < degree_; ++p) {
      std::vector<ConcreteSize> sizes = whole_;
      if (row_.size >= 0) {
        auto& s = sizes[static_cast<size_t>(row_.size)];
        s.extent = piece_;
        s.offset = row_.needs_offset ? p * piece_ : 0;
      }
      pieces.emplace_back(
          op_, sizes, [this, p](int t, const std::vector<int64_t>& i) { return Piece(t, p, i); });
    }
    Random random(seed_ + 99);
    for (int k = 0; k < op_.num_outputs; ++k) {
      int tensor = op_.num_inputs + k;
      std::vector<int64_t> extents = whole.Extents(tensor);
      int64_t count = 1;
      for (int64_t e : extents) count *= e;
      for (int n = 0; n < std::min<int64_t>(count, 24); ++n) {
        int64_t flat = count <= 24 ? n : random.In(0, count - 1);
        std::vector<int64_t> index(extents.size());
        for (size_t d = extents.size(); d-- > 0;) {
          index[d] = flat % extents[d];
          flat /= extents[d];
        }
        long double expected = whole.At(tensor, index);
        ++*points;
        for (int64_t p = 0; p < degree_; ++p) {
          long double got = 0;
          if (!Claimed(k, p, index, pieces, &got) || NearlyEqual(expected, got)) continue;
          Counterexample example = Example(k, p, index, expected, got, "value");
          if (Replayed(example)) return example;
        }
      }
    }
    return std::nullopt;
  }

  Counterexample Example(int output, int64_t device, std::vector<int64_t> index,
                         long double expected, long double got, std::string what) const {
    Counterexample e;
    for (size_t i = 0; i < op_.sizes.size(); ++i) {
      e.sizes.emplace_back(op_.sizes[i].name, whole_[i].extent);
    }
    e.degree = degree_;
    e.device = device;
    e.tensor = op_.output(output).name;
    e.index = std::move(index);
    e.expected = static_cast<double>(expected);
    e.got = static_cast<double>(got);
    e.seed = seed_;
    e.what = std::move(what);
    return e;
  }

 private:
  bool Replayed(const Counterexample& example) const {
    SplitReplay replay;
    replay.degree = degree_;
    replay.piece = piece_;
    for (const ConcreteSize& s : whole_) replay.extents.push_back(s.extent);
    replay.value = [this](int t, int64_t device, const std::vector<int64_t>& index) {
      return static_cast<double>(device < 0 ? Whole(t, index) : Piece(t, device, index));
    };
    return Confirmed(op_, row_, replay, example);
  }

  // What device p's result claims to be at a logical index; false if it claims nothing there.
  bool Claimed(int output, int64_t p, std::vector<int64_t> index, std::vector<ConcreteOp>& pieces,
               long double* got) {
    int tensor = op_.num_inputs + output;
    const AxisPlacement& placement = row_.outputs[static_cast<size_t>(output)];
    try {
      switch (placement.kind) {
        case AxisPlacement::Kind::kReplicated:
          *got = pieces[static_cast<size_t>(p)].At(tensor, index);
          return true;
        case AxisPlacement::Kind::kSplit: {
          int64_t& i = index[Position(tensor, placement)];
          if (i / piece_ != p) return false;
          i %= piece_;
          *got = pieces[static_cast<size_t>(p)].At(tensor, index);
          return true;
        }
        case AxisPlacement::Kind::kPartial: {
          if (p > 0) return false;  // the same on all devices
          std::vector<long double> shares;
          for (ConcreteOp& piece : pieces) shares.push_back(piece.At(tensor, index));
          *got = Combine(placement.combiner, shares);
          return true;
        }
      }
    } catch (const OutOfRange&) {
      *got = std::nanl("");
      return true;
    }
    return false;
  }

  size_t Position(int tensor, const AxisPlacement& placement) const {
    const auto& dims = op_.tensors[static_cast<size_t>(tensor)].dims;
    size_t position = static_cast<size_t>(placement.factor);
    for (int d = 0; d < placement.dim; ++d) position += dims[static_cast<size_t>(d)].size();
    return position;
  }

  static long double Combine(Combiner combiner, const std::vector<long double>& shares) {
    long double r = shares[0];
    for (size_t i = 1; i < shares.size(); ++i) {
      r = combiner == Combiner::kSum   ? r + shares[i]
          : combiner == Combiner::kMax ? std::max(r, shares[i])
                                       : std::min(r, shares[i]);
    }
    return r;
  }

  long double Share(int tensor, int64_t p, const std::vector<int64_t>& index) const {
    std::vector<int64_t> at = index;
    at.push_back(1000 + p);
    return SampleValue(op_.input(tensor).kind, seed_, static_cast<uint64_t>(tensor), at, bound_);
  }

  long double Whole(int tensor, const std::vector<int64_t>& index) const {
    const AxisPlacement& placement = row_.inputs[static_cast<size_t>(tensor)];
    if (placement.kind == AxisPlacement::Kind::kPartial) {
      std::vector<long double> shares;
      for (int64_t p = 0; p < degree_; ++p) shares.push_back(Share(tensor, p, index));
      return Combine(placement.combiner, shares);
    }
    return SampleValue(op_.input(tensor).kind, seed_, static_cast<uint64_t>(tensor), index, bound_);
  }

  long double Piece(int tensor, int64_t p, std::vector<int64_t> index) const {
    const AxisPlacement& placement = row_.inputs[static_cast<size_t>(tensor)];
    if (placement.kind == AxisPlacement::Kind::kPartial) return Share(tensor, p, index);
    if (placement.kind == AxisPlacement::Kind::kSplit) {
      index[Position(tensor, placement)] += p * piece_;
    }
    return Whole(tensor, index);
  }

  const OpInstance& op_;
  const SplitRow& row_;
  uint64_t seed_;
  int64_t degree_ = 1;
  int64_t piece_ = 1;
  int64_t bound_ = 1;
  std::vector<ConcreteSize> whole_;
};

}  // namespace

std::optional<std::string> ShapeMismatch(const OpInstance& op, const SplitRow& row) {
  int count = op.num_inputs + op.num_outputs;
  if (row.inputs.size() != static_cast<size_t>(op.num_inputs) ||
      row.outputs.size() != static_cast<size_t>(op.num_outputs)) {
    return "the row does not have one placement an input and output";
  }
  if (row.size >= static_cast<int>(op.sizes.size()) ||
      (row.size >= 0 && op.sizes[static_cast<size_t>(row.size)].constant)) {
    return "the row splits a size that the operator's text fixes";
  }
  for (int t = 0; t < count; ++t) {
    const InstanceOperand& operand = op.tensors[static_cast<size_t>(t)];
    const AxisPlacement& p = t < op.num_inputs
                                 ? row.inputs[static_cast<size_t>(t)]
                                 : row.outputs[static_cast<size_t>(t - op.num_inputs)];
    bool split = p.kind == AxisPlacement::Kind::kSplit;
    if (split && (p.dim < 0 || p.dim >= static_cast<int>(operand.dims.size()) || p.factor < 0 ||
                  p.factor >= static_cast<int>(operand.dims[static_cast<size_t>(p.dim)].size()))) {
      return absl::StrCat("shape: ", operand.name, " has no factor ", p.dim, ".", p.factor);
    }
    for (size_t d = 0; d < operand.dims.size(); ++d) {
      for (size_t f = 0; f < operand.dims[d].size(); ++f) {
        bool here = split && p.dim == static_cast<int>(d) && p.factor == static_cast<int>(f);
        bool wanted = row.size >= 0 && operand.dims[d][f] == row.size;
        if (here == wanted) continue;
        return absl::StrCat("shape: ", operand.name, " dim ", d, " factor ", f, " is ",
                            here ? "a piece" : "whole", " where the local operator has ",
                            wanted ? "a piece" : "the whole");
      }
    }
  }
  return std::nullopt;
}

RefuteResult RefuteSplit(const OpInstance& op, const SplitRow& row, const RefuteOptions& options) {
  RefuteResult result;
  int done = 0;
  for (uint64_t seed = 1; done < options.samples && seed <= 6u * 40u; ++seed) {
    try {
      Sample sample(op, row, options, seed);
      result.counterexample = sample.Compare(&result.points);
      if (result.counterexample) {
        return result;
      }
      ++done;
    } catch (const OutOfRange&) {  // the operator itself does not exist at these sizes
    } catch (const LimitExceeded&) {
    }
  }
  return result;
}

}  // namespace tandem::prover
