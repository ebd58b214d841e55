#include "pcg/layout/pass_through.h"

#include <algorithm>
#include <bit>
#include <string>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"

namespace tandem {
namespace {

using Set = uint64_t;               // of inputs
constexpr size_t kMaxFamily = 256;  // more candidates are dropped: fewer rows, never a wrong one

// All sets S of inputs that a value is linear in: S meets the inputs that the value reads (`reads`)
// in exactly one of `sets`. Exact sets, because the property is not monotone: lhs * rhs is linear
// in {lhs} and in {rhs} and not in both.
struct Family {
  Set reads = 0;
  std::vector<Set> sets;  // ascending
};

Family Nothing(Set reads) { return {reads, {}}; }

Family Normal(Set reads, std::vector<Set> sets) {
  std::sort(sets.begin(), sets.end());
  sets.erase(std::unique(sets.begin(), sets.end()), sets.end());
  if (sets.size() > kMaxFamily) sets.resize(kMaxFamily);
  return {reads, std::move(sets)};
}

// Linear in the same set on both sides: a + b, or a choice between the two.
Family Joined(const Family& a, const Family& b) {
  std::vector<Set> sets;
  for (Set x : a.sets) {
    for (Set y : b.sets) {
      if ((x & b.reads) == (y & a.reads)) sets.push_back(x | y);
    }
  }
  return Normal(a.reads | b.reads, std::move(sets));
}

// `a` with a coefficient that must stay outside the set.
Family Scaled(const Family& a, Set coefficient_reads) {
  std::vector<Set> sets;
  for (Set x : a.sets) {
    if ((x & coefficient_reads) == 0) sets.push_back(x);
  }
  return Normal(a.reads | coefficient_reads, std::move(sets));
}

Family Product(const Family& a, const Family& b) {
  Family left = Scaled(a, b.reads);
  const Family right = Scaled(b, a.reads);
  left.sets.insert(left.sets.end(), right.sets.begin(), right.sets.end());
  return Normal(left.reads, std::move(left.sets));
}

class Linearity {
 public:
  // `copies`: only reads and choices between them count (combiners max and min).
  Linearity(const OpInstance& op, bool copies) : op_(op), copies_(copies) {}

  Family OfOutputs() {
    tensors_.assign(op_.tensors.size(), {});
    for (int i = 0; i < op_.num_inputs; ++i)
      tensors_[static_cast<size_t>(i)] = {Set{1} << i, {Set{1} << i}};
    for (const InstanceEquation& e : op_.equations) {
      tensors_[static_cast<size_t>(e.target)] = Of(e.body);
    }
    Family all{0, {0}};
    for (int o = 0; o < op_.num_outputs; ++o) {
      all = Joined(all, tensors_[static_cast<size_t>(op_.num_inputs + o)]);
    }
    return all;
  }

 private:
  Family Of(ExprId id) {
    const ExprNode& e = op_.exprs[id];
    switch (e.kind) {
      case ExprKind::kNumber:
        return e.number == 0 && !copies_ ? Family{0, {0}} : Nothing(0);
      case ExprKind::kRead:
        return OfRead(e);
      case ExprKind::kSelect:
        return Scaled(Joined(Of(e.args[1]), Of(e.args[2])), Of(e.args[0]).reads);
      case ExprKind::kNoGrad:
        return Of(e.args[0]);
      case ExprKind::kAdd:
      case ExprKind::kSub:
        if (copies_) break;
        return Joined(Of(e.args[0]), Of(e.args[1]));
      case ExprKind::kNeg:
        if (copies_) break;
        return Of(e.args[0]);
      case ExprKind::kMul:
        if (copies_) break;
        return Product(Of(e.args[0]), Of(e.args[1]));
      case ExprKind::kDiv:
        if (copies_) break;
        return Scaled(Of(e.args[0]), Of(e.args[1]).reads);
      case ExprKind::kReduce:
        if (copies_ || e.name != "sum") break;
        return Of(e.args[0]);
      default:
        break;
    }
    Set reads = 0;
    for (ExprId arg : e.args) reads |= Of(arg).reads;
    return Nothing(reads);
  }

  Family OfRead(const ExprNode& e) {
    const size_t rank = op_.tensors[static_cast<size_t>(e.ref)].dims.size();
    Set index_reads = 0;
    for (size_t d = 0; d < rank; ++d) index_reads |= Of(e.args[d]).reads;
    Family value = tensors_[static_cast<size_t>(e.ref)];
    if (e.has_else) value = Joined(value, Of(e.args[rank]));
    return Scaled(value, index_reads);
  }

  const OpInstance& op_;
  const bool copies_;
  std::vector<Family> tensors_;
};

SplitRow RowOf(const OpInstance& op, Set set, Combiner combiner) {
  SplitRow row;
  std::vector<std::string> names;
  for (int i = 0; i < op.num_inputs; ++i) {
    const bool partial = (set >> i & 1) != 0;
    row.inputs.push_back(partial ? AxisPlacement::Partial(combiner) : AxisPlacement::Replicated());
    if (partial) names.push_back(op.input(i).name);
  }
  row.outputs.assign(static_cast<size_t>(op.num_outputs), AxisPlacement::Partial(combiner));
  row.reason = absl::StrCat(
      "partial ", combiner == Combiner::kSum ? "" : absl::StrCat(CombinerName(combiner), " "),
      absl::StrJoin(names, ","));
  return row;
}

}  // namespace

std::vector<SplitRow> PassThroughRows(const OpInstance& instance) {
  std::vector<SplitRow> rows;
  if (instance.num_inputs > 63) return rows;
  Set floats = 0;
  for (int i = 0; i < instance.num_inputs; ++i) {
    if (instance.input(i).kind == ElementKind::kFloat) floats |= Set{1} << i;
  }
  for (int o = 0; o < instance.num_outputs; ++o) {
    if (instance.output(o).kind != ElementKind::kFloat) return rows;
  }
  for (Combiner combiner : {Combiner::kSum, Combiner::kMax, Combiner::kMin}) {
    std::vector<Set> sets = Linearity(instance, combiner != Combiner::kSum).OfOutputs().sets;
    std::stable_sort(sets.begin(), sets.end(),
                     [](Set a, Set b) { return std::popcount(a) < std::popcount(b); });
    std::vector<Set> taken;
    for (Set set : sets) {
      if (set == 0 || (set & ~floats) != 0) continue;
      if (std::any_of(taken.begin(), taken.end(), [&](Set t) { return (t & set) == t; })) continue;
      taken.push_back(set);
      rows.push_back(RowOf(instance, set, combiner));
    }
  }
  return rows;
}

}  // namespace tandem
