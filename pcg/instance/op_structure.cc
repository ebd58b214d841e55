#include "pcg/instance/op_structure.h"

#include <algorithm>

namespace tandem {
namespace {

void CollectVars(const OpInstance& op, ExprId id, bool outside_reads, std::set<int>* vars) {
  const ExprNode& e = op.exprs[id];
  if (e.kind == ExprKind::kVar) vars->insert(e.ref);
  if (e.kind == ExprKind::kRead && outside_reads) return;
  for (ExprId arg : e.args) CollectVars(op, arg, outside_reads, vars);
}

bool IsZero(const ExprNode& e) { return e.kind == ExprKind::kNumber && e.number == 0; }

void CollectGuards(const OpInstance& op, ExprId id, std::vector<ExprId>* guards) {
  const ExprNode& e = op.exprs[id];
  if (e.kind != ExprKind::kAnd) {
    guards->push_back(id);
    return;
  }
  for (ExprId arg : e.args) CollectGuards(op, arg, guards);
}

void CollectProduct(const OpInstance& op, ExprId id, GuardedProduct* product) {
  const ExprNode& e = op.exprs[id];
  if (e.kind == ExprKind::kMul) {
    for (ExprId arg : e.args) CollectProduct(op, arg, product);
  } else if (e.kind == ExprKind::kNeg || e.kind == ExprKind::kDiv || e.kind == ExprKind::kNoGrad) {
    CollectProduct(op, e.args[0], product);
    if (e.kind == ExprKind::kDiv) product->factors.push_back(e.args[1]);
  } else if (e.kind == ExprKind::kSelect && IsZero(op.exprs[e.args[2]])) {
    CollectGuards(op, e.args[0], &product->guards);
    CollectProduct(op, e.args[1], product);
  } else {
    product->factors.push_back(id);
  }
}

// Calls f(index expression) for every (dim, factor) of a read.
template <typename F>
void ForEachIndex(const OpInstance& op, const ExprNode& read, F f) {
  const size_t rank = op.tensors[static_cast<size_t>(read.ref)].dims.size();
  for (size_t d = 0; d < rank; ++d) {
    const ExprNode& index = op.exprs[read.args[d]];
    if (index.kind == ExprKind::kTuple) {
      for (ExprId part : index.args) f(part);
    } else {
      f(read.args[d]);
    }
  }
}

}  // namespace

std::set<int> VarsIn(const OpInstance& op, ExprId expr, bool outside_reads) {
  std::set<int> vars;
  CollectVars(op, expr, outside_reads, &vars);
  return vars;
}

bool HasRead(const OpInstance& op, ExprId expr) {
  const ExprNode& e = op.exprs[expr];
  return e.kind == ExprKind::kRead ||
         std::any_of(e.args.begin(), e.args.end(), [&](ExprId arg) { return HasRead(op, arg); });
}

PlainRead AsPlainRead(const OpInstance& op, const ExprNode& read) {
  PlainRead result;
  result.plain = true;
  std::vector<int> sizes;
  for (const auto& dim : op.tensors[static_cast<size_t>(read.ref)].dims) {
    sizes.insert(sizes.end(), dim.begin(), dim.end());
  }
  ForEachIndex(op, read, [&](ExprId id) {
    const ExprNode& index = op.exprs[id];
    const size_t at = result.vars.size();
    if (index.kind == ExprKind::kVar && at < sizes.size() &&
        op.vars[static_cast<size_t>(index.ref)].size == sizes[at]) {
      result.plain &=
          std::find(result.vars.begin(), result.vars.end(), index.ref) == result.vars.end();
      result.vars.push_back(index.ref);
    } else {
      result.plain &= IsZero(index);
      result.vars.push_back(-1);
    }
  });
  result.plain &= result.vars.size() == sizes.size();
  return result;
}

bool IsWindowedRead(const OpInstance& op, const ExprNode& read) {
  bool windowed = false;
  ForEachIndex(op, read, [&](ExprId id) {
    const ExprKind kind = op.exprs[id].kind;
    if (kind == ExprKind::kVar || kind == ExprKind::kNumber || HasRead(op, id)) return;
    windowed |= !VarsIn(op, id).empty();
  });
  return windowed;
}

GuardedProduct AsProduct(const OpInstance& op, ExprId expr) {
  GuardedProduct product;
  CollectProduct(op, expr, &product);
  return product;
}

ReductionShape ShapeOfReduction(const OpInstance& op, const ExprNode& reduce,
                                const std::vector<int>& scope,
                                const std::vector<int64_t>& extents) {
  ReductionShape shape;
  if (reduce.name != "sum") return shape;
  const auto extent = [&](int var) {
    return extents[static_cast<size_t>(op.vars[static_cast<size_t>(var)].size)];
  };
  std::set<int> bound;
  for (const BoundVar& b : reduce.bound) bound.insert(b.var);
  std::set<int> open_bound = bound;
  std::set<int> open = bound;
  open.insert(scope.begin(), scope.end());
  const auto largest = [&](const std::set<int>& candidates, const std::set<int>& among) {
    int best = -1;
    for (int v : candidates) {
      if (among.count(v) > 0 && (best < 0 || extent(v) > extent(best))) best = v;
    }
    return best;
  };
  for (ExprId guard : AsProduct(op, reduce.args[0]).guards) {
    const ExprNode& e = op.exprs[guard];
    if (e.kind != ExprKind::kCompare || e.name != "==") continue;
    const std::set<int> all = VarsIn(op, guard);
    if (std::none_of(all.begin(), all.end(), [&](int v) { return bound.count(v) > 0; })) continue;
    const std::set<int> vars = VarsIn(op, guard, /*outside_reads=*/true);
    const int any = largest(vars, open);
    if (any < 0) continue;  // compares values, relates no indices
    shape.determined.push_back(any);
    shape.solved.push_back(guard);
    open.erase(any);
    open_bound.erase(largest(vars, open_bound));
    if (HasRead(op, guard)) {
      shape.data_dependent = true;
    } else {
      shape.windowed |= vars.size() >= 3;
    }
  }
  shape.one_point = open_bound.empty() && !bound.empty();
  return shape;
}

}  // namespace tandem
