#include "runtime/contraction_hoist.h"

#include <algorithm>
#include <cmath>
#include <map>
#include <set>

#include "absl/strings/str_cat.h"
#include "pcg/op_structure.h"

namespace tandem {
namespace {

bool IsNumber(const ExprNode& e, double value) {
  return e.kind == ExprKind::kNumber && e.number == value;
}

bool Contains(const std::set<int>& set, int value) { return set.count(value) > 0; }

bool Subset(const std::set<int>& part, const std::set<int>& whole) {
  return std::includes(whole.begin(), whole.end(), part.begin(), part.end());
}

std::set<int> FreeVars(const OpInstance& op, ExprId id) {
  const ExprNode& e = op.exprs[id];
  if (e.kind == ExprKind::kVar) return {e.ref};
  std::set<int> vars;
  for (ExprId arg : e.args) {
    const std::set<int> more = FreeVars(op, arg);
    vars.insert(more.begin(), more.end());
  }
  for (const BoundVar& b : e.bound) vars.erase(b.var);
  return vars;
}

// A product taken apart: sign * numbers * factors / divisors where all guards hold, else 0.
struct Product {
  double number = 1;
  std::vector<ExprId> factors;
  std::vector<ExprId> divisors;
  std::vector<ExprId> guards;
};

void TakeGuards(const OpInstance& op, ExprId id, std::vector<ExprId>& guards) {
  const ExprNode& e = op.exprs[id];
  if (e.kind != ExprKind::kAnd) {
    guards.push_back(id);
    return;
  }
  for (ExprId arg : e.args) TakeGuards(op, arg, guards);
}

void TakeApart(const OpInstance& op, ExprId id, Product& product) {
  const ExprNode& e = op.exprs[id];
  switch (e.kind) {
    case ExprKind::kNumber:
      product.number *= e.number;
      return;
    case ExprKind::kMul:
      for (ExprId arg : e.args) TakeApart(op, arg, product);
      return;
    case ExprKind::kNeg:
      product.number = -product.number;
      TakeApart(op, e.args[0], product);
      return;
    case ExprKind::kNoGrad:
      TakeApart(op, e.args[0], product);
      return;
    case ExprKind::kDiv:
      TakeApart(op, e.args[0], product);
      product.divisors.push_back(e.args[1]);
      return;
    case ExprKind::kSelect:
      if (IsNumber(op.exprs[e.args[2]], 0)) {
        TakeGuards(op, e.args[0], product.guards);
        TakeApart(op, e.args[1], product);
        return;
      }
      break;
    default:
      break;
  }
  product.factors.push_back(id);
}

// One operand of the contraction: factors and divisors over `vars`.
struct Side {
  std::vector<ExprId> factors;
  std::vector<ExprId> divisors;
  std::set<int> vars;
};

class Hoister {
 public:
  Hoister(const OpInstance& op, bool keep_convolutions)
      : op_(op), keep_convolutions_(keep_convolutions) {
    op_.equations.clear();
    for (const InstanceEquation& equation : op.equations) {
      target_ = equation.target;
      target_vars_ = equation.vars;
      const ExprId body = Rewrite(equation.body, equation.vars, /*whole=*/true);
      op_.equations.push_back({equation.target, equation.vars, body});
    }
  }

  OpInstance Take() { return std::move(op_); }

 private:
  double Extent(const std::set<int>& vars) const {
    double extent = 1;
    for (int v : vars) extent *= static_cast<double>(SizeOf(v).extent);
    return extent;
  }
  const SizeVar& SizeOf(int var) const {
    return op_.sizes[static_cast<size_t>(op_.vars[static_cast<size_t>(var)].size)];
  }

  ExprId Make(ExprKind kind, std::vector<ExprId> args) {
    ExprNode e;
    e.kind = kind;
    e.args = std::move(args);
    return op_.exprs.Add(std::move(e));
  }
  ExprId Number(double value) {
    ExprNode e;
    e.number = value;
    return op_.exprs.Add(std::move(e));
  }
  ExprId Var(int var) {
    ExprNode e;
    e.kind = ExprKind::kVar;
    e.ref = var;
    return op_.exprs.Add(std::move(e));
  }
  // A new intermediate with one dim a variable, and the read of it at these variables.
  int Intermediate(const char* prefix, const std::vector<int>& vars) {
    InstanceOperand operand;
    operand.name = absl::StrCat(prefix, op_.tensors.size());
    for (int v : vars) operand.dims.push_back({op_.vars[static_cast<size_t>(v)].size});
    op_.tensors.push_back(std::move(operand));
    return static_cast<int>(op_.tensors.size()) - 1;
  }
  ExprId ReadOf(int tensor, const std::vector<int>& vars) {
    std::vector<ExprId> index;
    for (int v : vars) index.push_back(Var(v));
    const ExprId id = Make(ExprKind::kRead, std::move(index));
    op_.exprs.nodes.back().ref = tensor;
    return id;
  }
  ExprId Sum(const std::vector<int>& vars, ExprId body) {
    const ExprId id = Make(ExprKind::kReduce, {body});
    op_.exprs.nodes.back().name = "sum";
    for (int v : vars) op_.exprs.nodes.back().bound.push_back({"", "", v});
    return id;
  }
  ExprId Times(const std::vector<ExprId>& factors) {
    ExprId product = factors[0];
    for (size_t i = 1; i < factors.size(); ++i) {
      product = Make(ExprKind::kMul, {product, factors[i]});
    }
    return product;
  }

  // The expression with its contractions replaced by reads. `whole`: it is an equation's body.
  ExprId Rewrite(ExprId id, const std::vector<int>& scope, bool whole) {
    const ExprNode e = op_.exprs[id];
    std::vector<int> inner = scope;
    for (const BoundVar& b : e.bound) inner.push_back(b.var);
    if (e.kind == ExprKind::kReduce && e.name == "sum") {
      if (const std::optional<ExprId> hoisted = Hoist(id, scope, whole)) return *hoisted;
    }
    ExprNode copy = e;
    bool changed = false;
    for (ExprId& arg : copy.args) {
      const ExprId rewritten = Rewrite(arg, inner, false);
      changed |= rewritten != arg;
      arg = rewritten;
    }
    return changed ? op_.exprs.Add(std::move(copy)) : id;
  }

  std::optional<ExprId> Hoist(ExprId id, const std::vector<int>& scope, bool whole) {
    const ExprNode e = op_.exprs[id];
    Product product;
    TakeApart(op_, e.args[0], product);
    // Variables that an equality relates stay outside of the contraction.
    std::set<int> related;
    for (ExprId guard : product.guards) {
      const ExprNode& g = op_.exprs[guard];
      if (g.kind != ExprKind::kCompare || g.name != "==" || HasRead(op_, guard)) return {};
      const std::set<int> vars = FreeVars(op_, guard);
      related.insert(vars.begin(), vars.end());
    }
    std::set<int> summed;
    for (const BoundVar& b : e.bound) {
      if (!Contains(related, b.var)) summed.insert(b.var);
    }
    Side a, b;
    ExprId outer;
    std::vector<ExprId> numbers;  // factors without variables
    if (keep_convolutions_ && KeepWhole(id, scope, whole, outer)) return outer;
    if (summed.empty() || !Distribute(product, summed, a, b, numbers)) return {};
    if (product.number != 1) numbers.push_back(Number(product.number));
    // Operands: reads as they are, or intermediates.
    std::vector<int> order = scope;
    for (const BoundVar& v : e.bound) order.push_back(v.var);
    const ExprId lhs = Operand(a, order);
    const ExprId rhs = Operand(b, order);
    // The contraction over everything that is not summed.
    std::vector<int> kept;
    for (int v : order) {
      if (!Contains(summed, v) && (Contains(a.vars, v) || Contains(b.vars, v))) kept.push_back(v);
    }
    std::vector<int> summed_order, outside;
    for (const BoundVar& v : e.bound) {
      (Contains(summed, v.var) ? summed_order : outside).push_back(v.var);
    }
    const ExprId core = Sum(summed_order, Make(ExprKind::kMul, {lhs, rhs}));
    if (whole && numbers.empty() && outside.empty() && kept == target_vars_) return core;
    const int tensor = Intermediate("contraction", kept);
    op_.equations.push_back({tensor, kept, core});
    ExprId value = ReadOf(tensor, kept);
    if (!product.guards.empty()) {
      ExprId guard = product.guards[0];
      for (size_t i = 1; i < product.guards.size(); ++i) {
        guard = Make(ExprKind::kAnd, {guard, product.guards[i]});
      }
      value = Make(ExprKind::kSelect, {guard, value, Number(0)});
    }
    if (!outside.empty()) value = Sum(outside, value);
    numbers.push_back(value);
    return Times(numbers);
  }

  // Two sides that share all summed variables, every other factor in one of them.
  bool Distribute(const Product& product, const std::set<int>& summed, Side& a, Side& b,
                  std::vector<ExprId>& numbers) {
    std::vector<std::pair<ExprId, std::set<int>>> factors;
    for (ExprId factor : product.factors) factors.emplace_back(factor, FreeVars(op_, factor));
    const auto largest = [&](auto allowed) {
      int best = -1;
      for (size_t i = 0; i < factors.size(); ++i) {
        const auto& vars = factors[i].second;
        if (vars.empty() || !allowed(vars)) continue;
        if (best < 0 || Extent(vars) > Extent(factors[static_cast<size_t>(best)].second)) {
          best = static_cast<int>(i);
        }
      }
      return best;
    };
    const int first = largest([](const auto&) { return true; });
    if (first < 0) return false;
    a.vars = factors[static_cast<size_t>(first)].second;
    const int second = largest([&](const auto& vars) { return !Subset(vars, a.vars); });
    if (second < 0) return false;
    b.vars = factors[static_cast<size_t>(second)].second;
    const auto place = [&](ExprId id, const std::set<int>& vars, bool divides) {
      Side* side = Subset(vars, a.vars) ? &a : Subset(vars, b.vars) ? &b : nullptr;
      if (side == nullptr) return false;
      (divides ? side->divisors : side->factors).push_back(id);
      return true;
    };
    a.factors.push_back(factors[static_cast<size_t>(first)].first);
    b.factors.push_back(factors[static_cast<size_t>(second)].first);
    for (size_t i = 0; i < factors.size(); ++i) {
      if (static_cast<int>(i) == first || static_cast<int>(i) == second) continue;
      if (factors[i].second.empty()) {
        numbers.push_back(factors[i].first);
      } else if (!place(factors[i].first, factors[i].second, false)) {
        return false;
      }
    }
    for (ExprId divisor : product.divisors) {
      if (!place(divisor, FreeVars(op_, divisor), true)) return false;
    }
    return Subset(summed, a.vars) && Subset(summed, b.vars);
  }

  ExprId Operand(const Side& side, const std::vector<int>& order) {
    if (side.factors.size() == 1 && side.divisors.empty()) {
      const ExprNode e = op_.exprs[side.factors[0]];
      if (e.kind == ExprKind::kRead && AsPlainRead(op_, e).plain) return WithoutElse(e);
    }
    ExprId body = Rewrite(Times(side.factors), order, false);
    for (ExprId divisor : side.divisors) {
      body = Make(ExprKind::kDiv, {body, Rewrite(divisor, order, false)});
    }
    std::vector<int> vars;
    for (int v : order) {
      if (Contains(side.vars, v)) vars.push_back(v);
    }
    const int tensor = Intermediate("operand", vars);
    op_.equations.push_back({tensor, vars, body});
    return ReadOf(tensor, vars);
  }

  // A plain read is never out of range.
  ExprId WithoutElse(ExprNode read) {
    if (read.has_else) {
      read.has_else = false;
      read.args.pop_back();
    }
    return op_.exprs.Add(std::move(read));
  }

  // Leaves a convolution as it is, in an equation of its own.
  bool KeepWhole(ExprId id, const std::vector<int>& scope, bool whole, ExprId& value) {
    const std::set<int> vars = FreeVars(op_, id);
    std::vector<int> kept;
    for (int v : scope) {
      if (Contains(vars, v)) kept.push_back(v);
    }
    if (whole && kept == target_vars_) {
      value = id;
      return AsConvolution(op_, {target_, kept, id}).has_value();
    }
    const int tensor = Intermediate("convolution", kept);
    if (!AsConvolution(op_, {tensor, kept, id})) {
      op_.tensors.pop_back();
      return false;
    }
    op_.equations.push_back({tensor, kept, id});
    value = ReadOf(tensor, kept);
    return true;
  }

  OpInstance op_;
  const bool keep_convolutions_;
  int target_ = -1;
  std::vector<int> target_vars_;
};

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
      } else if (!IsNumber(part, 0)) {
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
      if (!IsNumber(op_.exprs[body.args[2]], 0)) return {};
      return Scatter(body);
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
    if (x.has_else && !IsNumber(op_.exprs[x.args.back()], 0)) return {};
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
        if (Contains(in_target, var) && !Contains(in_other, var)) {
          window.y_var = var, window.stride = *step, taps_kept *= extent;
        } else if (Contains(bound_, var) && Contains(in_other, var)) {
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
      const bool target = Contains(in_target, v), o = Contains(in_other, v);
      if (!target && !o) return {};
      (target && o ? conv.group : target != filter ? conv.batch : conv.in).push_back(v);
      used.insert(v);
    }
    for (int v : equation_.vars) {
      if (Contains(used, v)) continue;
      if (!Contains(in_other, v)) return {};
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
  std::optional<ConvolutionEquation> Scatter(const ExprNode& select) {
    const std::optional<TwoReads> reads = ProductOfReads(op_, select.args[1]);
    if (!reads || reads->a->has_else || reads->b->has_else) return {};
    const auto a = IndicesOf(op_, *reads->a);
    const auto b = IndicesOf(op_, *reads->b);
    ConvolutionEquation conv;
    conv.target = ConvolutionEquation::Target::kX;
    conv.x = equation_.target, conv.y = reads->a->ref, conv.f = reads->b->ref;
    if (!a || !b || !SetOf(*a, conv.y_vars) || !SetOf(*b, conv.f_vars)) return {};
    std::vector<ExprId> guards;
    TakeGuards(op_, select.args[0], guards);
    double y_points = 1, taps = 1;
    std::set<int> used;
    conv.x_vars = equation_.vars;
    for (ExprId guard : guards) {
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
      const bool y = Contains(in_y, v), f = Contains(in_f, v);
      if (!y && !f) return {};
      (y && f ? conv.group : y ? conv.batch : conv.in).push_back(v);
      used.insert(v);
    }
    for (int v : bound_) {
      if (Contains(used, v)) continue;
      if (!Contains(in_y, v) || !Contains(in_f, v)) return {};
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
      if (!Contains(bound_, var)) continue;
      const std::optional<int64_t> step = Step(sign * coefficient);
      if (!step) return false;
      if (Contains(in_y, var) && !Contains(in_f, var)) {
        window.y_var = var, window.stride = *step;
      } else if (Contains(in_f, var) && !Contains(in_y, var)) {
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

OpInstance HoistContractions(const OpInstance& op, bool keep_convolutions) {
  return Hoister(op, keep_convolutions).Take();
}

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
    const bool left = Contains(in_a, v), right = Contains(in_b, v);
    if (!left && !right) return {};
    (left && right ? gemm.batch : left ? gemm.m : gemm.n).push_back(v);
    used.insert(v);
  }
  for (const BoundVar& bound : sum.bound) {
    if (!Contains(in_a, bound.var) || !Contains(in_b, bound.var)) return {};
    gemm.k.push_back(bound.var);
    used.insert(bound.var);
  }
  // Variables of an enclosing sum would be neither.
  if (!Subset(in_a, used) || !Subset(in_b, used)) return {};
  return gemm;
}

}  // namespace tandem
