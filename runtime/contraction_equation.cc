#include "runtime/contraction_equation.h"

#include <algorithm>
#include <cmath>
#include <map>
#include <optional>
#include <set>
#include <utility>
#include <vector>

#include "pcg/instance/op_structure.h"

namespace tandem {
namespace {

bool IsZero(const ExprNode& e) { return e.kind == ExprKind::kNumber && e.number == 0; }

bool Subset(const std::set<int>& part, const std::set<int>& whole) {
  return std::includes(whole.begin(), whole.end(), part.begin(), part.end());
}

// The two reads of sum(...) a * b.
struct TwoReads {
  const ExprNode* a = nullptr;
  const ExprNode* b = nullptr;
};
std::optional<TwoReads> ProductOfReads(const OpInstance& op, ExprId id) {
  const ExprNode& e = op.exprs[id];
  if (e.kind != ExprKind::kMul) return {};
  const TwoReads reads = {&op.exprs[e.args[0]], &op.exprs[e.args[1]]};
  if (reads.a->kind != ExprKind::kRead || reads.b->kind != ExprKind::kRead) return {};
  return reads;
}

std::set<int> Vars(const std::vector<int>& vars) {
  std::set<int> set(vars.begin(), vars.end());
  set.erase(-1);
  return set;
}

// number + sum of coefficient * variable.
struct Affine {
  double number = 0;
  std::map<int, double> terms;
};

bool AddAffine(const OpInstance& op, ExprId id, double times, Affine& into) {
  const ExprNode& e = op.exprs[id];
  const auto constant = [&](ExprId arg, double& value) {
    Affine form;
    if (!AddAffine(op, arg, 1, form) || !form.terms.empty()) return false;
    value = form.number;
    return true;
  };
  double value = 0;
  switch (e.kind) {
    case ExprKind::kNumber:
      into.number += times * e.number;
      return true;
    case ExprKind::kSize:
      into.number += times * static_cast<double>(op.sizes[static_cast<size_t>(e.ref)].extent);
      return true;
    case ExprKind::kVar:
      into.terms[e.ref] += times;
      return true;
    case ExprKind::kAdd:
      return AddAffine(op, e.args[0], times, into) && AddAffine(op, e.args[1], times, into);
    case ExprKind::kSub:
      return AddAffine(op, e.args[0], times, into) && AddAffine(op, e.args[1], -times, into);
    case ExprKind::kNeg:
      return AddAffine(op, e.args[0], -times, into);
    case ExprKind::kMul:
      if (constant(e.args[0], value)) return AddAffine(op, e.args[1], times * value, into);
      return constant(e.args[1], value) && AddAffine(op, e.args[0], times * value, into);
    default:
      return false;
  }
}

// The index of every (dim, factor) of a read: a plain variable (form empty), 0, or affine.
struct Index {
  int var = -1;
  std::optional<Affine> form;
};
std::optional<std::vector<Index>> IndicesOf(const OpInstance& op, const ExprNode& read) {
  std::vector<Index> indices;
  std::set<int> seen;
  const auto& dims = op.tensors[static_cast<size_t>(read.ref)].dims;
  for (size_t d = 0; d < dims.size(); ++d) {
    const ExprNode& arg = op.exprs[read.args[d]];
    const std::vector<ExprId> parts =
        arg.kind == ExprKind::kTuple ? arg.args : std::vector<ExprId>{read.args[d]};
    if (parts.size() != dims[d].size()) return {};
    for (size_t f = 0; f < parts.size(); ++f) {
      const ExprNode& part = op.exprs[parts[f]];
      Index index;
      if (part.kind == ExprKind::kVar &&
          op.vars[static_cast<size_t>(part.ref)].size == dims[d][f]) {
        index.var = part.ref;
        if (!seen.insert(part.ref).second) return {};
      } else if (!IsZero(part)) {
        index.form.emplace();
        if (parts.size() != 1 || !AddAffine(op, parts[f], 1, *index.form)) return {};
      }
      indices.push_back(std::move(index));
    }
  }
  return indices;
}

// Of a stride or dilation: a positive whole number.
std::optional<int64_t> Step(double coefficient) {
  const auto step = static_cast<int64_t>(coefficient);
  if (step < 1 || static_cast<double>(step) != coefficient) return {};
  return step;
}

class ConvolutionReader {
 public:
  ConvolutionReader(const OpInstance& op, const InstanceEquation& equation)
      : op_(op), equation_(equation) {}

  std::optional<ConvolutionEquation> Read() {
    const ExprNode& sum = op_.exprs[equation_.body];
    if (sum.kind != ExprKind::kReduce || sum.name != "sum") return {};
    for (const BoundVar& b : sum.bound) bound_.insert(b.var);
    const ExprNode& body = op_.exprs[sum.args[0]];
    if (body.kind == ExprKind::kSelect) {
      if (!IsZero(op_.exprs[body.args[2]])) return {};
      return Scatter(sum.args[0]);
    }
    return Windowed(sum.args[0]);
  }

 private:
  bool SetOf(const std::vector<Index>& indices, std::vector<int>& vars) {
    for (const Index& index : indices) {
      if (index.form) return false;
      vars.push_back(index.var);
    }
    return true;
  }

  // sum x[..., stride * y + dilation * tap - pad, ...] * other[...]: forward or filter gradient.
  std::optional<ConvolutionEquation> Windowed(ExprId product) {
    std::optional<TwoReads> reads = ProductOfReads(op_, product);
    if (!reads) return {};
    if (!IsWindowedRead(op_, *reads->a)) std::swap(reads->a, reads->b);
    const ExprNode& x = *reads->a;
    const ExprNode& other = *reads->b;
    if (!IsWindowedRead(op_, x) || IsWindowedRead(op_, other)) return {};
    if (x.has_else && !IsZero(op_.exprs[x.args.back()])) return {};
    const auto x_indices = IndicesOf(op_, x);
    const auto other_indices = IndicesOf(op_, other);
    std::vector<int> other_vars;
    if (!x_indices || !other_indices || !SetOf(*other_indices, other_vars)) return {};
    const std::set<int> in_other = Vars(other_vars);
    const std::set<int> in_target = Vars(equation_.vars);
    ConvolutionEquation conv;
    conv.x = x.ref;
    std::set<int> used;
    double taps_summed = 1, taps_kept = 1;
    for (size_t p = 0; p < x_indices->size(); ++p) {
      const Index& index = (*x_indices)[p];
      conv.x_vars.push_back(index.var);
      if (!index.form) continue;
      // One variable of the target and one of the sum.
      Window window;
      window.x_position = static_cast<int>(p);
      window.pad = -static_cast<int64_t>(index.form->number);
      if (index.form->terms.size() != 2) return {};
      for (const auto& [var, coefficient] : index.form->terms) {
        const std::optional<int64_t> step = Step(coefficient);
        if (!step || !used.insert(var).second) return {};
        const double extent = static_cast<double>(Extent(var));
        if (in_target.contains(var) && !in_other.contains(var)) {
          window.y_var = var, window.stride = *step, taps_kept *= extent;
        } else if (bound_.contains(var) && in_other.contains(var)) {
          window.tap_var = var, window.dilation = *step, taps_summed *= extent;
        }
      }
      if (window.y_var < 0 || window.tap_var < 0) return {};
      conv.windows.push_back(window);
    }
    // What is summed over a large window is a filter gradient: the roles of y and tap swap.
    const bool filter = taps_summed > taps_kept;
    for (int v : conv.x_vars) {
      if (v < 0) continue;
      const bool target = in_target.contains(v), o = in_other.contains(v);
      if (!target && !o) return {};
      (target && o ? conv.group : target != filter ? conv.batch : conv.in).push_back(v);
      used.insert(v);
    }
    for (int v : equation_.vars) {
      if (used.contains(v)) continue;
      if (!in_other.contains(v)) return {};
      conv.out.push_back(v);
      used.insert(v);
    }
    if (!Subset(in_other, used) || !Subset(bound_, used)) return {};
    conv.target = filter ? ConvolutionEquation::Target::kF : ConvolutionEquation::Target::kY;
    conv.f = filter ? equation_.target : other.ref;
    conv.y = filter ? other.ref : equation_.target;
    conv.f_vars = filter ? equation_.vars : other_vars;
    conv.y_vars = filter ? other_vars : equation_.vars;
    if (filter) {
      for (Window& w : conv.windows) {
        std::swap(w.y_var, w.tap_var);
        std::swap(w.stride, w.dilation);
      }
    }
    return conv;
  }

  // sum select(stride * y + dilation * tap - pad == x, dy[..., y] * f[..., tap], 0).
  std::optional<ConvolutionEquation> Scatter(ExprId select) {
    const std::optional<TwoReads> reads = ProductOfReads(op_, op_.exprs[select].args[1]);
    if (!reads || reads->a->has_else || reads->b->has_else) return {};
    const auto a = IndicesOf(op_, *reads->a);
    const auto b = IndicesOf(op_, *reads->b);
    ConvolutionEquation conv;
    conv.target = ConvolutionEquation::Target::kX;
    conv.x = equation_.target, conv.y = reads->a->ref, conv.f = reads->b->ref;
    if (!a || !b || !SetOf(*a, conv.y_vars) || !SetOf(*b, conv.f_vars)) return {};
    double y_points = 1, taps = 1;
    std::set<int> used;
    conv.x_vars = equation_.vars;
    for (ExprId guard : AsProduct(op_, select).guards) {
      Window window;
      if (!ReadGuard(guard, Vars(conv.y_vars), Vars(conv.f_vars), used, window)) return {};
      y_points *= static_cast<double>(Extent(window.y_var));
      taps *= static_cast<double>(Extent(window.tap_var));
      conv.x_vars[static_cast<size_t>(window.x_position)] = -1;
      conv.windows.push_back(window);
    }
    if (y_points < taps) {
      std::swap(conv.y, conv.f);
      std::swap(conv.y_vars, conv.f_vars);
      for (Window& w : conv.windows) {
        std::swap(w.y_var, w.tap_var);
        std::swap(w.stride, w.dilation);
      }
    }
    const std::set<int> in_y = Vars(conv.y_vars), in_f = Vars(conv.f_vars);
    for (int v : conv.x_vars) {
      if (v < 0) continue;
      const bool y = in_y.contains(v), f = in_f.contains(v);
      if (!y && !f) return {};
      (y && f ? conv.group : y ? conv.batch : conv.in).push_back(v);
      used.insert(v);
    }
    for (int v : bound_) {
      if (used.contains(v)) continue;
      if (!in_y.contains(v) || !in_f.contains(v)) return {};
      conv.out.push_back(v);
      used.insert(v);
    }
    if (!Subset(in_y, used) || !Subset(in_f, used)) return {};
    return conv;
  }

  bool ReadGuard(ExprId guard, const std::set<int>& in_y, const std::set<int>& in_f,
                 std::set<int>& used, Window& window) {
    const ExprNode& e = op_.exprs[guard];
    if (e.kind != ExprKind::kCompare || e.name != "==") return false;
    Affine form;  // left - right == 0
    if (!AddAffine(op_, e.args[0], 1, form) || !AddAffine(op_, e.args[1], -1, form)) return false;
    double x_coefficient = 0;
    for (size_t p = 0; p < equation_.vars.size(); ++p) {
      const auto term = form.terms.find(equation_.vars[p]);
      if (term == form.terms.end()) continue;
      if (x_coefficient != 0) return false;
      x_coefficient = term->second;
      window.x_position = static_cast<int>(p);
    }
    if (std::abs(x_coefficient) != 1 || form.terms.size() != 3) return false;
    const double sign = -x_coefficient;
    window.pad = -static_cast<int64_t>(sign * form.number);
    for (const auto& [var, coefficient] : form.terms) {
      if (!used.insert(var).second) return false;
      if (!bound_.contains(var)) continue;
      const std::optional<int64_t> step = Step(sign * coefficient);
      if (!step) return false;
      if (in_y.contains(var) && !in_f.contains(var)) {
        window.y_var = var, window.stride = *step;
      } else if (in_f.contains(var) && !in_y.contains(var)) {
        window.tap_var = var, window.dilation = *step;
      }
    }
    return window.y_var >= 0 && window.tap_var >= 0;
  }

  int64_t Extent(int var) const {
    return op_.sizes[static_cast<size_t>(op_.vars[static_cast<size_t>(var)].size)].extent;
  }

  const OpInstance& op_;
  const InstanceEquation& equation_;
  std::set<int> bound_;
};

}  // namespace

std::optional<ConvolutionEquation> AsConvolution(const OpInstance& op,
                                                 const InstanceEquation& equation) {
  return ConvolutionReader(op, equation).Read();
}

std::optional<GemmEquation> AsGemm(const OpInstance& op, const InstanceEquation& equation) {
  const ExprNode& sum = op.exprs[equation.body];
  if (sum.kind != ExprKind::kReduce || sum.name != "sum") return {};
  const std::optional<TwoReads> reads = ProductOfReads(op, sum.args[0]);
  if (!reads || reads->a->has_else || reads->b->has_else) return {};
  const PlainRead a = AsPlainRead(op, *reads->a);
  const PlainRead b = AsPlainRead(op, *reads->b);
  if (!a.plain || !b.plain) return {};
  GemmEquation gemm;
  gemm.out = equation.target, gemm.a = reads->a->ref, gemm.b = reads->b->ref;
  gemm.out_vars = equation.vars, gemm.a_vars = a.vars, gemm.b_vars = b.vars;
  const std::set<int> in_a = Vars(a.vars), in_b = Vars(b.vars);
  std::set<int> used;
  for (int v : equation.vars) {
    const bool left = in_a.contains(v), right = in_b.contains(v);
    if (!left && !right) return {};
    (left && right ? gemm.batch : left ? gemm.m : gemm.n).push_back(v);
    used.insert(v);
  }
  for (const BoundVar& bound : sum.bound) {
    if (!in_a.contains(bound.var) || !in_b.contains(bound.var)) return {};
    gemm.k.push_back(bound.var);
    used.insert(bound.var);
  }
  // Variables of an enclosing sum would be neither.
  if (!Subset(in_a, used) || !Subset(in_b, used)) return {};
  return gemm;
}

}  // namespace tandem
