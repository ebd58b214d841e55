#include "pcg/instance/symbolic.h"

#include <algorithm>
#include <cmath>
#include <set>
#include <tuple>

namespace tandem {
namespace {

ExprNode Node(ExprKind kind, std::vector<ExprId> args, absl::string_view name = "") {
  ExprNode node;
  node.kind = kind;
  node.args = std::move(args);
  node.name.assign(name.data(), name.size());
  return node;
}

bool Contains(const std::vector<int>& sorted, int x) {
  return std::binary_search(sorted.begin(), sorted.end(), x);
}

std::optional<bool> Compared(absl::string_view relation, double low, double high) {
  // low <= a - b <= high.
  const auto known = [](bool yes, bool no) {
    return yes ? std::optional<bool>(true) : no ? std::optional<bool>(false) : std::nullopt;
  };
  if (relation == "<") return known(high < 0, low >= 0);
  if (relation == "<=") return known(high <= 0, low > 0);
  if (relation == ">") return known(low > 0, high <= 0);
  if (relation == ">=") return known(low >= 0, high < 0);
  if (relation == "==") return known(low == 0 && high == 0, low > 0 || high < 0);
  return known(low > 0 || high < 0, low == 0 && high == 0);
}

}  // namespace

bool SymbolicExprs::Less::operator()(const ExprNode& a, const ExprNode& b) const {
  const auto key = [](const ExprNode& n) {
    return std::tie(n.kind, n.number, n.ref, n.has_else, n.name, n.args);
  };
  if (key(a) != key(b)) return key(a) < key(b);
  return std::lexicographical_compare(
      a.bound.begin(), a.bound.end(), b.bound.begin(), b.bound.end(),
      [](const BoundVar& x, const BoundVar& y) { return x.var < y.var; });
}

ExprId SymbolicExprs::Intern(ExprNode node) {
  const auto it = interned_.find(node);
  if (it != interned_.end()) return it->second;
  const ExprId id = arena_.Add(node);
  interned_.emplace(std::move(node), id);
  return id;
}

int SymbolicExprs::FreshVar(std::string name, int size) {
  vars_.push_back({std::move(name), size});
  return static_cast<int>(vars_.size()) - 1;
}

ExprId SymbolicExprs::Import(ExprId instance_expr) {
  const auto it = imported_.find(instance_expr);
  if (it != imported_.end()) return it->second;
  ExprNode node = op_.exprs[instance_expr];
  if (node.kind == ExprKind::kVar || node.kind == ExprKind::kSize || node.kind == ExprKind::kRead) {
    node.name.clear();
  }
  std::vector<ExprId> args;
  for (ExprId arg : node.args) args.push_back(Import(arg));
  for (BoundVar& bound : node.bound) bound = BoundVar{"", "", bound.var};
  const ExprId id = WithArgs(node, std::move(args));
  imported_[instance_expr] = id;
  return id;
}

bool SymbolicExprs::IsNumber(ExprId id, double value) const {
  const ExprNode& node = arena_[id];
  return node.kind == ExprKind::kNumber && node.name.empty() && node.number == value;
}

std::optional<double> SymbolicExprs::AsNumber(ExprId id) const {
  const ExprNode& node = arena_[id];
  if (node.kind != ExprKind::kNumber || !node.name.empty()) return std::nullopt;
  return node.number;
}

ExprId SymbolicExprs::Number(double value) {
  ExprNode node;
  node.number = value == 0 ? 0 : value;  // no -0
  return Intern(std::move(node));
}

ExprId SymbolicExprs::Var(int var) {
  ExprNode node = Node(ExprKind::kVar, {});
  node.ref = var;
  return Intern(std::move(node));
}

ExprId SymbolicExprs::Size(int size) {
  ExprNode node = Node(ExprKind::kSize, {});
  node.ref = size;
  return Intern(std::move(node));
}

ExprId SymbolicExprs::Binary(ExprKind kind, ExprId a, ExprId b) {
  return Intern(Node(kind, {a, b}));
}

ExprId SymbolicExprs::Add(ExprId a, ExprId b) {
  const std::optional<double> x = AsNumber(a), y = AsNumber(b);
  if (x && y) return Number(*x + *y);
  if (IsNumber(a, 0)) return b;
  if (IsNumber(b, 0)) return a;
  if (y && *y < 0) return Sub(a, Number(-*y));
  if (arena_[b].kind == ExprKind::kNeg) return Sub(a, arena_[b].args[0]);
  return Binary(ExprKind::kAdd, a, b);
}

ExprId SymbolicExprs::Sub(ExprId a, ExprId b) {
  const std::optional<double> x = AsNumber(a), y = AsNumber(b);
  if (x && y && std::isfinite(*y)) return Number(*x - *y);
  if (IsNumber(b, 0)) return a;
  if (IsNumber(a, 0)) return Neg(b);
  if (y && *y < 0) return Add(a, Number(-*y));
  if (arena_[b].kind == ExprKind::kNeg) return Add(a, arena_[b].args[0]);
  return Binary(ExprKind::kSub, a, b);
}

ExprId SymbolicExprs::Mul(ExprId a, ExprId b) {
  const std::optional<double> x = AsNumber(a), y = AsNumber(b);
  if (x && y) return Number(*x * *y);
  if (IsNumber(a, 0) || IsNumber(b, 0)) return Number(0);
  if (IsNumber(a, 1)) return b;
  if (IsNumber(b, 1)) return a;
  if (IsNumber(a, -1)) return Neg(b);
  if (IsNumber(b, -1)) return Neg(a);
  return Binary(ExprKind::kMul, a, b);
}

ExprId SymbolicExprs::Div(ExprId a, ExprId b) {
  if (IsNumber(b, 1)) return a;
  if (IsNumber(a, 0)) return a;
  const std::optional<double> x = AsNumber(a), y = AsNumber(b);
  if (x && y && *y != 0) return Number(*x / *y);
  return Binary(ExprKind::kDiv, a, b);
}

ExprId SymbolicExprs::Neg(ExprId a) {
  if (const std::optional<double> x = AsNumber(a)) return Number(-*x);
  const ExprNode node = arena_[a];
  if (node.kind == ExprKind::kNeg) return node.args[0];
  if (node.kind == ExprKind::kSub) return Sub(node.args[1], node.args[0]);
  return Intern(Node(ExprKind::kNeg, {a}));
}

ExprId SymbolicExprs::Call(absl::string_view function, std::vector<ExprId> args) {
  if (function == "pow") {
    if (IsNumber(args[1], 1)) return args[0];
    if (IsNumber(args[1], 0)) return Number(1);
  }
  if (function == "sqrt") {
    const std::optional<double> x = AsNumber(args[0]);
    if (x && *x >= 0) return Number(std::sqrt(*x));
  }
  return Intern(Node(ExprKind::kCall, std::move(args), function));
}

ExprId SymbolicExprs::Compare(ExprId a, absl::string_view relation, ExprId b) {
  return Intern(Node(ExprKind::kCompare, {a, b}, relation));
}

ExprId SymbolicExprs::And(ExprId a, ExprId b) {
  return a == b ? a : Intern(Node(ExprKind::kAnd, {a, b}));
}

ExprId SymbolicExprs::Not(ExprId a) {
  if (arena_[a].kind == ExprKind::kNot) return arena_[a].args[0];
  return Intern(Node(ExprKind::kNot, {a}));
}

ExprId SymbolicExprs::Select(ExprId condition, ExprId then, ExprId otherwise) {
  if (then == otherwise) return then;
  if (const std::optional<bool> known = Decide(condition)) return *known ? then : otherwise;
  return Intern(Node(ExprKind::kSelect, {condition, then, otherwise}));
}

ExprId SymbolicExprs::Reduce(absl::string_view name, const std::vector<int>& vars, ExprId body) {
  if (name == "sum" && !UsesAny(body, vars)) {  // so many times the same
    for (int var : vars) body = Mul(body, Size(vars_[static_cast<size_t>(var)].size));
    return body;
  }
  ExprNode node = Node(ExprKind::kReduce, {body}, name);
  for (int var : vars) node.bound.push_back(BoundVar{"", "", var});
  return Intern(std::move(node));
}

ExprId SymbolicExprs::Read(int tensor, const std::vector<std::vector<int>>& dims,
                           const std::vector<int>& vars) {
  ExprNode node = Node(ExprKind::kRead, {});
  node.ref = tensor;
  size_t next = 0;
  for (const std::vector<int>& factors : dims) {
    std::vector<ExprId> index;
    for (size_t f = 0; f < factors.size(); ++f) index.push_back(Var(vars[next++]));
    node.args.push_back(index.size() == 1 ? index[0]
                                          : Intern(Node(ExprKind::kTuple, std::move(index))));
  }
  return Intern(std::move(node));
}

ExprId SymbolicExprs::WithArgs(const ExprNode& node, std::vector<ExprId> args) {
  switch (node.kind) {
    case ExprKind::kAdd:
      return Add(args[0], args[1]);
    case ExprKind::kSub:
      return Sub(args[0], args[1]);
    case ExprKind::kMul:
      return Mul(args[0], args[1]);
    case ExprKind::kDiv:
      return Div(args[0], args[1]);
    case ExprKind::kNeg:
      return Neg(args[0]);
    case ExprKind::kCall:
      return Call(node.name, std::move(args));
    case ExprKind::kNot:
      return Not(args[0]);
    case ExprKind::kSelect:
      return Select(args[0], args[1], args[2]);
    case ExprKind::kReduce: {
      std::vector<int> vars;
      for (const BoundVar& bound : node.bound) vars.push_back(bound.var);
      return Reduce(node.name, vars, args[0]);
    }
    default:
      break;
  }
  ExprNode copy = node;
  copy.args = std::move(args);
  return Intern(std::move(copy));
}

const std::vector<int>& SymbolicExprs::FreeVars(ExprId id) {
  const auto it = free_.find(id);
  if (it != free_.end()) return it->second;
  const ExprNode node = arena_[id];
  std::set<int> free;
  if (node.kind == ExprKind::kVar) free.insert(node.ref);
  for (ExprId arg : node.args) {
    const std::vector<int>& inner = FreeVars(arg);
    free.insert(inner.begin(), inner.end());
  }
  for (const BoundVar& bound : node.bound) free.erase(bound.var);
  return free_.emplace(id, std::vector<int>(free.begin(), free.end())).first->second;
}

bool SymbolicExprs::UsesAny(ExprId id, const std::vector<int>& vars) {
  const std::vector<int>& free = FreeVars(id);
  return std::any_of(vars.begin(), vars.end(), [&](int v) { return Contains(free, v); });
}

ExprId SymbolicExprs::Substitute(ExprId id, const std::map<int, ExprId>& replacement) {
  const std::vector<int> free = FreeVars(id);
  std::map<int, ExprId> relevant;
  for (int var : free) {
    const auto it = replacement.find(var);
    if (it != replacement.end() && it->second != Var(var)) relevant.insert(*it);
  }
  if (relevant.empty()) return id;
  ExprNode node = arena_[id];
  if (node.kind == ExprKind::kVar) return relevant.begin()->second;
  for (BoundVar& bound : node.bound) {
    bool captures = false;
    for (const auto& [var, to] : relevant) captures |= Contains(FreeVars(to), bound.var);
    if (!captures) continue;
    const LoopVar old = vars_[static_cast<size_t>(bound.var)];
    const int fresh = FreshVar(old.name, old.size);
    relevant[bound.var] = Var(fresh);
    bound.var = fresh;
  }
  std::vector<ExprId> args;
  for (ExprId arg : node.args) args.push_back(Substitute(arg, relevant));
  return WithArgs(node, std::move(args));
}

std::optional<SymbolicExprs::Affine> SymbolicExprs::AsAffine(ExprId id) const {
  const ExprNode& node = arena_[id];
  const auto combine = [&](double sign) -> std::optional<Affine> {
    std::optional<Affine> a = AsAffine(node.args[0]), b = AsAffine(node.args[1]);
    if (!a || !b) return std::nullopt;
    a->constant += sign * b->constant;
    for (const auto& [var, c] : b->terms) {
      if ((a->terms[var] += sign * c) == 0) a->terms.erase(var);
    }
    return a;
  };
  const auto times = [](Affine a, double c) {
    a.constant *= c;
    for (auto& [var, coefficient] : a.terms) coefficient *= c;
    if (c == 0) a.terms.clear();
    return a;
  };
  switch (node.kind) {
    case ExprKind::kNumber:
    case ExprKind::kAttr:
      return Affine{node.number, {}};
    case ExprKind::kSize:
      return Affine{static_cast<double>(op_.sizes[static_cast<size_t>(node.ref)].extent), {}};
    case ExprKind::kVar:
      return Affine{0, {{node.ref, 1.0}}};
    case ExprKind::kNeg: {
      std::optional<Affine> a = AsAffine(node.args[0]);
      return a ? std::optional<Affine>(times(*a, -1)) : std::nullopt;
    }
    case ExprKind::kAdd:
      return combine(1);
    case ExprKind::kSub:
      return combine(-1);
    case ExprKind::kMul: {
      std::optional<Affine> a = AsAffine(node.args[0]), b = AsAffine(node.args[1]);
      if (!a || !b) return std::nullopt;
      if (a->terms.empty()) return times(*b, a->constant);
      if (b->terms.empty()) return times(*a, b->constant);
      return std::nullopt;
    }
    default:
      return std::nullopt;
  }
}

std::optional<bool> SymbolicExprs::Decide(ExprId condition) const {
  const ExprNode& node = arena_[condition];
  if (node.kind == ExprKind::kNot) {
    const std::optional<bool> inner = Decide(node.args[0]);
    return inner ? std::optional<bool>(!*inner) : std::nullopt;
  }
  if (node.kind == ExprKind::kAnd || node.kind == ExprKind::kOr) {
    const bool absorbing = node.kind == ExprKind::kOr;
    const std::optional<bool> a = Decide(node.args[0]), b = Decide(node.args[1]);
    if (a == absorbing || b == absorbing) return absorbing;
    return a && b ? std::optional<bool>(!absorbing) : std::nullopt;
  }
  if (node.kind != ExprKind::kCompare) return std::nullopt;
  const std::optional<Affine> a = AsAffine(node.args[0]), b = AsAffine(node.args[1]);
  if (!a || !b) return std::nullopt;
  double low = a->constant - b->constant, high = low;
  std::map<int, double> terms = a->terms;
  for (const auto& [var, c] : b->terms) terms[var] -= c;
  for (const auto& [var, c] : terms) {
    const double most = c * static_cast<double>(ExtentOf(var) - 1);
    low += std::min(0.0, most);
    high += std::max(0.0, most);
  }
  return Compared(node.name, low, high);
}

}  // namespace tandem
