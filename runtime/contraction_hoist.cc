#include "runtime/contraction_hoist.h"

#include <algorithm>
#include <optional>
#include <set>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "pcg/instance/op_structure.h"
#include "runtime/contraction_equation.h"

namespace tandem {
namespace {

bool IsZero(const ExprNode& e) { return e.kind == ExprKind::kNumber && e.number == 0; }

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
      if (IsZero(op.exprs[e.args[2]])) {
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
      if (!related.contains(b.var)) summed.insert(b.var);
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
      if (!summed.contains(v) && (a.vars.contains(v) || b.vars.contains(v))) kept.push_back(v);
    }
    std::vector<int> summed_order, outside;
    for (const BoundVar& v : e.bound) {
      (summed.contains(v.var) ? summed_order : outside).push_back(v.var);
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
      if (side.vars.contains(v)) vars.push_back(v);
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
      if (vars.contains(v)) kept.push_back(v);
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

}  // namespace

OpInstance HoistContractions(const OpInstance& op, bool keep_convolutions) {
  return Hoister(op, keep_convolutions).Take();
}

}  // namespace tandem
