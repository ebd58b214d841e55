#include "pcg/instance/op_analysis.h"

#include <algorithm>
#include <array>

#include "pcg/instance/op_structure.h"

namespace tandem {
namespace {

bool Has(const std::vector<int>& values, int value) {
  return std::find(values.begin(), values.end(), value) != values.end();
}

// A sum over products of two reads: contracted variables are in both, and some variable of the
// target is in only one of them (else it is a batch of dot products: a reduction).
struct ContractionSite {
  int equation = 0;
  ExprId reduce;
  std::array<ExprId, 2> reads;
  bool windowed = false;
  bool data_dependent = false;
  bool scaled = false;  // other factors beside the two reads
};

struct Features {
  int gemms = 0;
  int thin = 0;  // matrix times vector
  int convolutions = 0;
  bool exp = false;
  bool reduction = false;
  bool spread_reduction = false;  // used under a variable over a size it was reduced over
  bool windowed = false;
  bool data_dependent = false;
};

class Analysis {
 public:
  Analysis(const OpInstance& op, std::vector<int64_t> extents)
      : op_(op), extents_(std::move(extents)), reads_(op.tensors.size(), 0) {}

  void Run() {
    reduced_sizes_.assign(op_.tensors.size(), {});
    for (size_t i = 0; i < op_.equations.size(); ++i) {
      const InstanceEquation& equation = op_.equations[i];
      equation_ = static_cast<int>(i);
      scope_ = equation.vars;
      double points = 1;
      for (int var : equation.vars) points *= Extent(var);
      Count(equation.body, points);
    }
  }

  double Elements(const InstanceOperand& operand) const {
    double elements = 1;
    for (const auto& dim : operand.dims) {
      for (int size : dim) elements *= static_cast<double>(extents_[static_cast<size_t>(size)]);
    }
    return elements;
  }

  double flops = 0;
  double contraction_flops = 0;
  double thin_flops = 0;
  Features features;
  std::vector<ContractionSite> sites;
  const std::vector<double>& reads() const { return reads_; }

 private:
  double Extent(int var) const {
    return static_cast<double>(
        extents_[static_cast<size_t>(op_.vars[static_cast<size_t>(var)].size)]);
  }

  // No reads: index arithmetic and constants, which cost nothing that counts.
  bool Free(ExprId id) const { return !HasRead(op_, id) && !HasCall(id); }
  bool HasCall(ExprId id) const {
    const ExprNode& e = op_.exprs[id];
    if (e.kind == ExprKind::kCall) return !VarsIn(op_, id).empty();
    return std::any_of(e.args.begin(), e.args.end(), [&](ExprId a) { return HasCall(a); });
  }

  // A condition on indices only, or an equality that is solved.
  bool Untested(ExprId id) const {
    const ExprNode& e = op_.exprs[id];
    if (e.kind == ExprKind::kAnd) {
      return std::all_of(e.args.begin(), e.args.end(), [&](ExprId a) { return Untested(a); });
    }
    return Free(id) || std::find(solved_.begin(), solved_.end(), id) != solved_.end();
  }

  void Count(ExprId id, double points) {
    const ExprNode& e = op_.exprs[id];
    switch (e.kind) {
      case ExprKind::kRead:
        CountRead(e, points);
        return;
      case ExprKind::kReduce:
        CountReduction(id, points);
        return;
      case ExprKind::kCall:
        features.exp |= e.name == "exp";
        [[fallthrough]];
      case ExprKind::kAdd:
      case ExprKind::kSub:
      case ExprKind::kMul:
      case ExprKind::kDiv:
      case ExprKind::kNeg:
      case ExprKind::kFloorDiv:
      case ExprKind::kMod:
        if (!Free(id)) flops += points;
        break;
      case ExprKind::kCompare:
        if (!Untested(id)) flops += points;
        break;
      case ExprKind::kSelect:
        if (!Untested(e.args[0])) flops += points;
        break;
      default:
        break;
    }
    for (ExprId arg : e.args) Count(arg, points);
  }

  void CountRead(const ExprNode& e, double points) {
    reads_[static_cast<size_t>(e.ref)] += points;
    for (int size : reduced_sizes_[static_cast<size_t>(e.ref)]) NoteSpread(size);
    for (ExprId arg : e.args) Count(arg, points);
  }

  // A value reduced over `size` is used here, perhaps under a variable over that size.
  void NoteSpread(int size) {
    const int target = op_.equations[static_cast<size_t>(equation_)].target;
    for (int var : scope_) {
      features.spread_reduction |= op_.vars[static_cast<size_t>(var)].size == size;
    }
    auto& reduced = reduced_sizes_[static_cast<size_t>(target)];
    if (!Has(reduced, size)) reduced.push_back(size);
  }

  void CountReduction(ExprId id, double points) {
    const ExprNode& e = op_.exprs[id];
    const ReductionShape shape = ShapeOfReduction(op_, e, scope_, extents_);
    double terms = points;
    for (const BoundVar& b : e.bound) terms *= Extent(b.var);
    for (int var : shape.determined) terms /= Extent(var);
    if (shape.one_point) terms = std::min(terms, points);
    features.data_dependent |= shape.data_dependent;
    if (!shape.one_point) {
      flops += terms;
      features.reduction = true;
      features.windowed |= shape.windowed;
      for (const BoundVar& b : e.bound) NoteSpread(op_.vars[static_cast<size_t>(b.var)].size);
      NoteContraction(id, shape, terms);
    }
    const size_t depth = scope_.size();
    for (const BoundVar& b : e.bound) scope_.push_back(b.var);
    if (!shape.one_point && HasWindow(e.args[0])) features.windowed = true;
    solved_.insert(solved_.end(), shape.solved.begin(), shape.solved.end());
    Count(e.args[0], terms);
    scope_.resize(depth);
  }

  bool HasWindow(ExprId id) const {
    const ExprNode& e = op_.exprs[id];
    if (e.kind == ExprKind::kRead && IsWindowedRead(op_, e)) return true;
    return std::any_of(e.args.begin(), e.args.end(), [&](ExprId a) { return HasWindow(a); });
  }

  void NoteContraction(ExprId id, const ReductionShape& shape, double terms) {
    const ExprNode& e = op_.exprs[id];
    if (e.name != "sum") return;
    const GuardedProduct product = AsProduct(op_, e.args[0]);
    ContractionSite site;
    size_t count = 0;
    for (ExprId factor : product.factors) {
      if (op_.exprs[factor].kind == ExprKind::kRead) {
        if (count < 2) site.reads[count] = factor;
        ++count;
      } else if (HasRead(op_, factor)) {
        return;
      } else {
        site.scaled = true;
      }
    }
    if (count != 2) return;
    const std::set<int> a = VarsIn(op_, site.reads[0]);
    const std::set<int> b = VarsIn(op_, site.reads[1]);
    const bool contracted = std::any_of(e.bound.begin(), e.bound.end(), [&](const BoundVar& v) {
      return a.count(v.var) > 0 && b.count(v.var) > 0;
    });
    const std::vector<int>& target = op_.equations[static_cast<size_t>(equation_)].vars;
    const auto alone = [&](const std::set<int>& in, const std::set<int>& out) {
      return std::any_of(target.begin(), target.end(),
                         [&](int v) { return in.count(v) > out.count(v); });
    };
    if (!contracted || (!alone(a, b) && !alone(b, a))) return;
    site.equation = equation_;
    site.reduce = id;
    site.data_dependent = shape.data_dependent;
    site.windowed = !shape.determined.empty() || IsWindowedRead(op_, op_.exprs[site.reads[0]]) ||
                    IsWindowedRead(op_, op_.exprs[site.reads[1]]);
    if (!product.guards.empty()) site.scaled = true;
    sites.push_back(site);
    // A matrix times a vector, as the gradient of a norm's scale has it.
    const bool thin = !site.windowed && (!alone(a, b) || !alone(b, a));
    (thin ? thin_flops : contraction_flops) += 2 * terms;
    if (site.data_dependent) return;
    ++(site.windowed ? features.convolutions : thin ? features.thin : features.gemms);
  }

  const OpInstance& op_;
  const std::vector<int64_t> extents_;
  std::vector<double> reads_;                    // per tensor: how many times an element is read
  std::vector<std::vector<int>> reduced_sizes_;  // per tensor: sizes that were reduced for it
  std::vector<int> scope_;
  std::vector<ExprId> solved_;
  int equation_ = 0;
};

std::vector<int64_t> OwnExtents(const OpInstance& op) {
  std::vector<int64_t> extents;
  for (const SizeVar& size : op.sizes) extents.push_back(size.extent);
  return extents;
}

std::optional<Contraction> ContractionAt(const OpInstance& op, const ContractionSite& site) {
  if (site.windowed || site.data_dependent) return std::nullopt;
  const ExprNode& lhs = op.exprs[site.reads[0]];
  const ExprNode& rhs = op.exprs[site.reads[1]];
  const PlainRead a = AsPlainRead(op, lhs);
  const PlainRead b = AsPlainRead(op, rhs);
  if (!a.plain || !b.plain) return std::nullopt;
  const InstanceEquation& equation = op.equations[static_cast<size_t>(site.equation)];
  Contraction c;
  c.lhs = lhs.ref;
  c.rhs = rhs.ref;
  for (int var : equation.vars) {
    const int size = op.vars[static_cast<size_t>(var)].size;
    const bool left = Has(a.vars, var);
    const bool right = Has(b.vars, var);
    if (!left && !right) return std::nullopt;
    (left && right ? c.batch : left ? c.m : c.n).push_back(size);
  }
  for (const BoundVar& bound : op.exprs[site.reduce].bound) {
    if (!Has(a.vars, bound.var) || !Has(b.vars, bound.var)) return std::nullopt;
    c.k.push_back(op.vars[static_cast<size_t>(bound.var)].size);
  }
  c.exact = op.equations.size() == 1 && equation.body == site.reduce && !site.scaled &&
            op.exprs[op.exprs[site.reduce].args[0]].kind == ExprKind::kMul && !lhs.has_else &&
            !rhs.has_else;
  return c;
}

OpClass KindOf(const OpInstance& op, const Features& f, double flops) {
  if (f.gemms >= 2 && f.exp) return OpClass::kAttention;
  if (f.convolutions > 0) return OpClass::kConv;
  if (f.gemms > 0 || (f.thin > 0 && !f.spread_reduction)) return OpClass::kGemm;
  if (f.exp && f.spread_reduction) return OpClass::kSoftmax;
  if (f.data_dependent && !f.windowed) return OpClass::kEmbedding;
  if (f.reduction) {
    if (f.windowed) return OpClass::kPool;
    return f.spread_reduction ? OpClass::kNorm : OpClass::kReduction;
  }
  if (flops == 0) return OpClass::kCopy;
  return op.num_outputs > 1 ? OpClass::kOptimizer : OpClass::kElementwise;
}

}  // namespace

const char* OpClassName(OpClass kind) {
  constexpr std::array<const char*, 11> kNames = {
      "gemm", "conv",      "attention",   "norm", "softmax",  "reduction",
      "pool", "embedding", "elementwise", "copy", "optimizer"};
  return kNames[static_cast<size_t>(kind)];
}

OpCost AnalyzeOp(const OpInstance& instance, const std::vector<int64_t>& extents,
                 const std::vector<int64_t>& input_bytes,
                 const std::vector<int64_t>& output_bytes) {
  Analysis analysis(instance, extents.empty() ? OwnExtents(instance) : extents);
  analysis.Run();
  OpCost cost;
  cost.flops = analysis.flops;
  cost.contraction_flops = analysis.contraction_flops;
  cost.kind = KindOf(instance, analysis.features, analysis.flops);
  if (cost.kind == OpClass::kGemm) cost.contraction_flops += analysis.thin_flops;
  for (int i = 0; i < instance.num_inputs; ++i) {
    const auto at = static_cast<size_t>(i);
    cost.bytes_read += static_cast<double>(input_bytes[at]) *
                       std::min(analysis.Elements(instance.input(i)), analysis.reads()[at]);
  }
  for (int o = 0; o < instance.num_outputs; ++o) {
    cost.bytes_written += static_cast<double>(output_bytes[static_cast<size_t>(o)]) *
                          analysis.Elements(instance.output(o));
  }
  if (cost.kind == OpClass::kGemm || cost.kind == OpClass::kAttention) {
    for (const ContractionSite& site : analysis.sites) {
      cost.contraction = ContractionAt(instance, site);
      if (cost.contraction) break;
    }
  }
  return cost;
}

std::optional<Contraction> AsContraction(const OpInstance& instance) {
  Analysis analysis(instance, OwnExtents(instance));
  analysis.Run();
  if (analysis.sites.size() != 1) return std::nullopt;
  return ContractionAt(instance, analysis.sites[0]);
}

}  // namespace tandem
