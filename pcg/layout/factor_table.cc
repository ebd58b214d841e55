// One pass over the equations per candidate. Every expression gets a claim about the value that a
// device computes for it, running the operator on its pieces:
//   kSame     the logical value (of the indices that the device runs over),
//   kPartial  a share: the combiner over the axis gives the logical value,
//   kZero     the literal 0, which is both,
//   kIllegal  neither.
// A reduction over the split size turns kSame into kPartial; only linear uses keep a share a share.
#include "pcg/layout/factor_table.h"

#include <algorithm>
#include <optional>

#include "absl/strings/str_cat.h"
#include "pcg/layout/pass_through.h"

namespace tandem {

const char* CombinerName(Combiner combiner) {
  switch (combiner) {
    case Combiner::kSum:
      return "sum";
    case Combiner::kMax:
      return "max";
    case Combiner::kMin:
      return "min";
  }
  return "?";
}

namespace {

struct Claim {
  enum class Kind : uint8_t { kZero, kSame, kPartial, kIllegal };
  Kind kind = Kind::kSame;
  Combiner combiner = Combiner::kSum;
  bool operator==(const Claim&) const = default;
};
constexpr Claim kZero{Claim::Kind::kZero, {}};
constexpr Claim kSame{Claim::Kind::kSame, {}};
constexpr Claim kIllegal{Claim::Kind::kIllegal, {}};
constexpr Claim Share(Combiner c) { return {Claim::Kind::kPartial, c}; }

std::optional<Combiner> CombinerOf(const std::string& reduction) {
  if (reduction == "sum") return Combiner::kSum;
  if (reduction == "max") return Combiner::kMax;
  if (reduction == "min") return Combiner::kMin;
  return std::nullopt;
}

// Where a tensor has the size; at most one place (else the split is illegal).
struct Place {
  int dim = -1;
  int factor = -1;
};

// Splits one size and reads off what becomes of every tensor.
class SizeSplit {
 public:
  // `partial`: an input that holds shares of its value, -1 if none.
  SizeSplit(const OpInstance& op, int size, int partial)
      : op_(op), size_(size), partial_(partial) {}

  std::optional<SplitRow> Row() {
    if (!FindPlaces()) return std::nullopt;
    claims_.assign(op_.tensors.size(), kSame);
    if (partial_ >= 0) {
      if (places_[static_cast<size_t>(partial_)].dim >= 0) return std::nullopt;
      claims_[static_cast<size_t>(partial_)] = Share(Combiner::kSum);
    }
    bool concerns = false;
    for (const Place& place : places_) concerns |= place.dim >= 0;
    for (const InstanceEquation& equation : op_.equations) {
      const auto target = static_cast<size_t>(equation.target);
      in_scope_ = 0;
      for (int var : equation.vars) in_scope_ += Over(var);
      const bool split = places_[target].dim >= 0;
      claims_[target] = ClaimOf(equation.body);
      if (claims_[target] == kZero) claims_[target] = kSame;
      if (claims_[target] == kIllegal) return std::nullopt;
      if (claims_[target].kind == Claim::Kind::kPartial) {
        if (split) return std::nullopt;
        concerns = true;
      }
    }
    if (!concerns) return std::nullopt;
    SplitRow row;
    row.size = size_;
    row.needs_offset = needs_offset_;
    row.reason = absl::StrCat("split ", op_.sizes[static_cast<size_t>(size_)].name);
    if (partial_ >= 0) absl::StrAppend(&row.reason, ", partial ", op_.input(partial_).name);
    for (int t = 0; t < op_.num_inputs + op_.num_outputs; ++t) {
      (t < op_.num_inputs ? row.inputs : row.outputs).push_back(PlacementOf(t));
    }
    return row;
  }

 private:
  bool Over(int var) const { return op_.vars[static_cast<size_t>(var)].size == size_; }

  bool FindPlaces() {
    places_.assign(op_.tensors.size(), {});
    for (size_t t = 0; t < op_.tensors.size(); ++t) {
      const auto& dims = op_.tensors[t].dims;
      for (size_t d = 0; d < dims.size(); ++d) {
        for (size_t f = 0; f < dims[d].size(); ++f) {
          if (dims[d][f] != size_) continue;
          if (places_[t].dim >= 0) return false;
          places_[t] = {static_cast<int>(d), static_cast<int>(f)};
        }
      }
    }
    return true;
  }

  AxisPlacement PlacementOf(int tensor) const {
    const auto t = static_cast<size_t>(tensor);
    if (places_[t].dim >= 0) return AxisPlacement::Split(places_[t].dim, places_[t].factor);
    if (claims_[t].kind == Claim::Kind::kPartial)
      return AxisPlacement::Partial(claims_[t].combiner);
    return AxisPlacement::Replicated();
  }

  // A share is complete only after the combiner has run over all pieces, so it may not be used
  // under a variable that runs over one piece.
  Claim ShareHere(Combiner c) const { return in_scope_ > 0 ? kIllegal : Share(c); }

  Claim ClaimOf(ExprId id) {
    const ExprNode& e = op_.exprs[id];
    switch (e.kind) {
      case ExprKind::kNumber:
        return e.number == 0 ? kZero : kSame;
      case ExprKind::kSize:
        return kSame;  // always the logical size
      case ExprKind::kVar:
        needs_offset_ |= Over(e.ref);
        return kSame;
      case ExprKind::kRead:
        return ClaimOfRead(e);
      case ExprKind::kAdd:
      case ExprKind::kSub:
        return Joined(ClaimOf(e.args[0]), ClaimOf(e.args[1]));
      case ExprKind::kNeg:
        return Linear(ClaimOf(e.args[0]));
      case ExprKind::kMul:
        return Product(ClaimOf(e.args[0]), ClaimOf(e.args[1]));
      case ExprKind::kDiv: {
        const Claim numerator = ClaimOf(e.args[0]);
        return Whole(ClaimOf(e.args[1])) ? Linear(numerator) : kIllegal;
      }
      case ExprKind::kSelect: {
        const bool whole = Whole(ClaimOf(e.args[0]));
        const Claim joined = Joined(ClaimOf(e.args[1]), ClaimOf(e.args[2]));
        return whole ? joined : kIllegal;
      }
      case ExprKind::kReduce:
        return ClaimOfReduction(e);
      case ExprKind::kNoGrad:
        return ClaimOf(e.args[0]);
      case ExprKind::kAttr:
        return kIllegal;  // not in an instance
      case ExprKind::kTuple:
      case ExprKind::kFloorDiv:
      case ExprKind::kMod:
      case ExprKind::kCall:
      case ExprKind::kCompare:
      case ExprKind::kAnd:
      case ExprKind::kOr:
      case ExprKind::kNot:
        break;
    }
    bool whole = true;
    for (ExprId arg : e.args) whole &= Whole(ClaimOf(arg));
    return whole ? kSame : kIllegal;
  }

  Claim ClaimOfRead(const ExprNode& e) {
    const auto t = static_cast<size_t>(e.ref);
    const size_t rank = op_.tensors[t].dims.size();
    for (size_t d = 0; d < rank; ++d) {
      const ExprNode& index = op_.exprs[e.args[d]];
      if (places_[t].dim == static_cast<int>(d)) {
        if (!PlainAt(index, op_.tensors[t].dims[d].size(), places_[t].factor)) return kIllegal;
      } else if (!Whole(ClaimOf(e.args[d]))) {
        return kIllegal;
      }
    }
    const Claim value =
        claims_[t].kind == Claim::Kind::kPartial ? ShareHere(claims_[t].combiner) : kSame;
    return e.has_else ? Joined(value, ClaimOf(e.args[rank])) : value;
  }

  // The split factor is indexed by a variable over the split size and nothing else; the dim's other
  // factors by anything.
  bool PlainAt(const ExprNode& index, size_t factors, int split) {
    const auto plain = [&](const ExprNode& x) { return x.kind == ExprKind::kVar && Over(x.ref); };
    if (index.kind != ExprKind::kTuple) return factors == 1 && plain(index);
    for (size_t f = 0; f < index.args.size(); ++f) {
      if (static_cast<int>(f) == split ? !plain(op_.exprs[index.args[f]])
                                       : !Whole(ClaimOf(index.args[f]))) {
        return false;
      }
    }
    return true;
  }

  Claim ClaimOfReduction(const ExprNode& e) {
    const std::optional<Combiner> combiner = CombinerOf(e.name);
    int over = 0;
    for (const BoundVar& b : e.bound) over += Over(b.var);
    if (over == 0) {
      const Claim body = ClaimOf(e.args[0]);
      if (body.kind != Claim::Kind::kPartial) return body == kZero ? kSame : body;
      return combiner == body.combiner ? body : kIllegal;
    }
    // Pieces of pieces: only one variable at a time may run over the split size.
    if (over > 1 || in_scope_ > 0 || !combiner) return kIllegal;
    ++in_scope_;
    const bool whole = Whole(ClaimOf(e.args[0]));
    --in_scope_;
    return whole ? ShareHere(*combiner) : kIllegal;
  }

  static bool Whole(Claim c) { return c == kZero || c == kSame; }
  // Through a linear function of one argument: only sums pass.
  static Claim Linear(Claim c) {
    return c.kind == Claim::Kind::kPartial && c.combiner != Combiner::kSum ? kIllegal : c;
  }
  static Claim Product(Claim a, Claim b) {
    if (a == kIllegal || b == kIllegal) return kIllegal;
    if (a == kZero || b == kZero) return kZero;
    if (a.kind == Claim::Kind::kPartial) return Whole(b) ? Linear(a) : kIllegal;
    return b.kind == Claim::Kind::kPartial ? Linear(b) : kSame;
  }
  // a + b, or one of the two.
  static Claim Joined(Claim a, Claim b) {
    if (a == kZero) return Linear(b);
    if (b == kZero) return Linear(a);
    if (a == kSame && b == kSame) return kSame;
    return a == b ? Linear(a) : kIllegal;
  }

  const OpInstance& op_;
  const int size_;
  const int partial_;
  std::vector<Place> places_;
  std::vector<Claim> claims_;
  int in_scope_ = 0;  // variables over the split size that are bound here
  bool needs_offset_ = false;
};

}  // namespace

std::vector<SplitRow> FactorTable(const OpInstance& instance) {
  std::vector<SplitRow> rows(1);
  rows[0].inputs.assign(static_cast<size_t>(instance.num_inputs), AxisPlacement::Replicated());
  rows[0].outputs.assign(static_cast<size_t>(instance.num_outputs), AxisPlacement::Replicated());
  rows[0].reason = "replicate";
  for (size_t s = 0; s < instance.sizes.size(); ++s) {
    const SizeVar& size = instance.sizes[s];
    if (size.constant || size.extent <= 1) continue;
    std::optional<SplitRow> row = SizeSplit(instance, static_cast<int>(s), -1).Row();
    // A sum that is added to whole values, as a contraction to its bias, is a sum of shares if they
    // are shares, too.
    for (int i = 0; i < instance.num_inputs && !row; ++i) {
      if (instance.input(i).kind != ElementKind::kFloat) continue;
      row = SizeSplit(instance, static_cast<int>(s), i).Row();
    }
    if (row) rows.push_back(*std::move(row));
  }
  for (SplitRow& row : PassThroughRows(instance)) rows.push_back(std::move(row));
  return rows;
}

}  // namespace tandem
