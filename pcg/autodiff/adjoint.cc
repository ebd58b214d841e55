#include "pcg/autodiff/adjoint.h"

#include <algorithm>
#include <cmath>
#include <map>
#include <numeric>
#include <optional>
#include <set>
#include <string>

#include "absl/strings/str_cat.h"
#include "pcg/autodiff/adjoint_sums.h"
#include "pcg/autodiff/output_patterns.h"
#include "pcg/instance/polynomial.h"

namespace tandem {
namespace {

constexpr size_t kMaxTerms =
    4;  // a longer adjoint becomes a tensor before it is multiplied further

class Sweep {
 public:
  Sweep(const OpInstance& op, const AdjointStyle& style)
      : op_(op),
        style_(style),
        use_outputs_(style.use_outputs),
        program_(op),
        x_(program_.exprs),
        patterns_(op, x_),
        sums_(op, x_, patterns_, program_.tensors, forward_) {}

  absl::StatusOr<AdjointProgram> Run(const std::vector<int>& wanted,
                                     const std::vector<GradientSeed>& seeds) {
    Prepare(wanted, seeds);
    for (size_t i = op_.equations.size(); i-- > 0;) {
      absl::Status status = Reverse(op_.equations[i], seeds);
      if (!status.ok()) return status;
    }
    for (int input : wanted) program_.gradients.push_back(FinishInput(input));
    KeepNeeded();
    return std::move(program_);
  }

 private:
  using Equation = SymbolicEquation;

  // ---- set-up
  void Prepare(const std::vector<int>& wanted, const std::vector<GradientSeed>& seeds) {
    const size_t n = op_.tensors.size();
    depends_.assign(n, false);
    adjoint_.resize(n);
    for (int input : wanted) depends_[static_cast<size_t>(input)] = true;
    for (const InstanceEquation& e : op_.equations) {
      const ExprId body = x_.Import(e.body);
      forward_.push_back({e.target, e.vars, body});
      depends_[static_cast<size_t>(e.target)] =
          op_.tensors[static_cast<size_t>(e.target)].kind == ElementKind::kFloat &&
          NeedsGradient(body);
      needs_.clear();
    }
    for (size_t t = 0; t < n; ++t) {
      std::vector<int> vars;
      for (const auto& dim : op_.tensors[t].dims) {
        for (int size : dim) vars.push_back(x_.FreshVar(SizeName(size), size));
      }
      index_.push_back(std::move(vars));
    }
    for (int o = 0; o < op_.num_outputs; ++o) {
      const bool given = seeds[static_cast<size_t>(o)] == GradientSeed::kGiven;
      program_.output_gradients.push_back(
          given ? AddTensor("d_" + op_.output(o).name, op_.output(o).dims) : -1);
    }
    for (const Equation& e : forward_) {
      if (use_outputs_ && IsOutput(e.target)) patterns_.Add(e);
    }
  }

  std::string SizeName(int size) const { return op_.sizes[static_cast<size_t>(size)].name; }

  int AddTensor(std::string name, std::vector<std::vector<int>> dims) {
    program_.tensors.push_back({std::move(name), ElementKind::kFloat, std::move(dims)});
    return static_cast<int>(program_.tensors.size()) - 1;
  }

  bool IsOutput(int tensor) const {
    return tensor >= op_.num_inputs && tensor < op_.num_inputs + op_.num_outputs;
  }

  // Whether a gradient flows through the expression to a wanted input.
  bool NeedsGradient(ExprId id) {
    const auto it = needs_.find(id);
    if (it != needs_.end()) return it->second;
    const ExprNode node = x_[id];
    bool needs = false;
    switch (node.kind) {
      case ExprKind::kRead:
        needs = depends_[static_cast<size_t>(node.ref)] ||
                (node.has_else && NeedsGradient(node.args.back()));
        break;
      case ExprKind::kNoGrad:
      case ExprKind::kCompare:
      case ExprKind::kAnd:
      case ExprKind::kOr:
      case ExprKind::kNot:
        break;
      case ExprKind::kSelect:
        needs = NeedsGradient(node.args[1]) || NeedsGradient(node.args[2]);
        break;
      case ExprKind::kReduce:
        needs = node.name != "argmax" && NeedsGradient(node.args[0]);
        break;
      case ExprKind::kCall:
        if (node.name == "sign" || node.name == "floor" || node.name == "isnan" ||
            node.name == "uniform") {
          break;
        }
        [[fallthrough]];
      default:
        for (ExprId arg : node.args) needs = NeedsGradient(arg) || needs;
    }
    needs_[id] = needs;
    return needs;
  }

  // ---- one equation
  absl::Status Reverse(const InstanceEquation& e, const std::vector<GradientSeed>& seeds) {
    const auto target = static_cast<size_t>(e.target);
    if (!depends_[target]) return absl::OkStatus();
    needs_.clear();
    std::map<int, ExprId> rename;
    for (size_t i = 0; i < e.vars.size(); ++i) rename[index_[target][i]] = x_.Var(e.vars[i]);
    Polynomial adjoint = Substitute(x_, WithSumsAsTensors(adjoint_[target]), rename);
    if (IsOutput(e.target)) {
      const auto o = static_cast<size_t>(e.target - op_.num_inputs);
      if (seeds[o] == GradientSeed::kOne) adjoint = Sum(adjoint, {Monomial{}});
      if (seeds[o] == GradientSeed::kGiven) {
        const ExprId read = x_.Read(program_.output_gradients[o], op_.tensors[target].dims, e.vars);
        adjoint = Sum(Atom(x_, read), adjoint);
      }
    }
    root_ = x_.Import(e.body);
    root_value_ = use_outputs_ || !IsOutput(e.target)
                      ? x_.Read(e.target, op_.tensors[target].dims, e.vars)
                      : root_;
    root_read_ = x_.Read(e.target, op_.tensors[target].dims, e.vars);
    return Propagate(root_, patterns_.Simplified(adjoint), e.vars);
  }

  ExprId Value(ExprId id) const { return id == root_ ? root_value_ : id; }
  Polynomial ValueOf(ExprId id) { return Atom(x_, Value(id)); }
  Polynomial InverseOf(ExprId id) { return {Inverse(AsMonomial(x_, Value(id)))}; }

  // Adds to the adjoints of what `id` reads: `adjoint` is the derivative of the result by `id`, a
  // function of the variables `loops`, over which the result sums.
  absl::Status Propagate(ExprId id, Polynomial adjoint, const std::vector<int>& loops) {
    if (adjoint.empty() || !NeedsGradient(id)) return absl::OkStatus();
    if (adjoint.size() > kMaxTerms) adjoint = AsTensor(adjoint, loops);
    const ExprNode node = x_[id];
    absl::Status status;
    const auto to = [&](size_t arg, Polynomial a) {
      status.Update(Propagate(node.args[arg], std::move(a), loops));
    };
    switch (node.kind) {
      case ExprKind::kRead:
        return ToRead(node, adjoint, loops);
      case ExprKind::kAdd:
        to(0, adjoint);
        to(1, adjoint);
        return status;
      case ExprKind::kSub:
        to(0, adjoint);
        to(1, Scaled(adjoint, -1));
        return status;
      case ExprKind::kNeg:
        to(0, Scaled(adjoint, -1));
        return status;
      case ExprKind::kMul:
        to(0, Product(adjoint, ValueOf(node.args[1])));
        to(1, Product(adjoint, ValueOf(node.args[0])));
        return status;
      case ExprKind::kDiv:
        to(0, Product(adjoint, InverseOf(node.args[1])));
        to(1, Product(Product(Scaled(adjoint, -1), ValueOf(id)), InverseOf(node.args[1])));
        return status;
      case ExprKind::kSelect:
        to(1, Guarded(x_, adjoint, node.args[0]));
        to(2, Guarded(x_, adjoint, x_.Not(node.args[0])));
        return status;
      case ExprKind::kCall:
        return ToCall(id, node, adjoint, loops);
      case ExprKind::kReduce:
        return ToReduce(id, node, adjoint, loops);
      default:
        return absl::UnimplementedError(
            absl::StrCat("operator ", op_.op,
                         ": a wanted input is used in an integer division or "
                         "remainder, which has no gradient; wrap it in nograd(...)"));
    }
  }

  absl::Status ToCall(ExprId id, const ExprNode& node, const Polynomial& adjoint,
                      const std::vector<int>& loops) {
    const ExprId a = node.args[0];
    const Polynomial self = ValueOf(id);
    const auto through = [&](size_t arg, const Polynomial& derivative) {
      return Propagate(node.args[arg], Product(adjoint, derivative), loops);
    };
    const std::string& f = node.name;
    if (f == "exp") return through(0, self);
    if (f == "log") return through(0, InverseOf(a));
    if (f == "sqrt") return through(0, Scaled(InverseOf(id), 0.5));
    if (f == "rsqrt") return through(0, Scaled(Product(self, Product(self, self)), -0.5));
    if (f == "tanh") {
      const ExprId t = Value(id);
      return through(0, Atom(x_, x_.Sub(x_.Number(1), x_.Mul(t, t))));
    }
    if (f == "erf") {
      const double two_over_sqrt_pi = 2 / std::sqrt(std::acos(-1.0));
      return through(0, Scaled(Atom(x_, x_.Call("exp", {x_.Neg(x_.Mul(a, a))})), two_over_sqrt_pi));
    }
    if (f == "sin") return through(0, Atom(x_, x_.Call("cos", {a})));
    if (f == "cos") return through(0, Scaled(Atom(x_, x_.Call("sin", {a})), -1));
    if (f == "abs") return through(0, Atom(x_, x_.Call("sign", {a})));
    if (f == "max" || f == "min") return ToChoice(id, node, adjoint, loops);
    if (f == "pow") {
      const ExprId b = node.args[1];
      const ExprId lower = x_.Call("pow", {a, x_.Sub(b, x_.Number(1))});
      absl::Status status = through(0, Product(Atom(x_, b), Atom(x_, lower)));
      // 0^b does not change with b > 0: the logarithm's infinity is not met.
      const ExprId positive = x_.Compare(a, ">", x_.Number(0));
      const Polynomial log = Guarded(x_, Atom(x_, x_.Call("log", {a})), positive);
      status.Update(through(1, Product(self, log)));
      return status;
    }
    return absl::UnimplementedError(
        absl::StrCat("operator ", op_.op, ": the function ", f, " has no known derivative"));
  }

  // max(a, b): to a where a > b, else to b. For max(a, number) the result tells the same.
  absl::Status ToChoice(ExprId id, const ExprNode& node, const Polynomial& adjoint,
                        const std::vector<int>& loops) {
    const char* relation = node.name == "max" ? ">" : "<";
    const ExprId b = node.args[1];
    const bool constant = x_[b].kind == ExprKind::kNumber || x_[b].kind == ExprKind::kAttr;
    const bool from_result = id == root_ && use_outputs_ && constant;
    const ExprId a_wins = x_.Compare(from_result ? root_value_ : node.args[0], relation, b);
    absl::Status status = Propagate(node.args[0], Guarded(x_, adjoint, a_wins), loops);
    const char* opposite = node.name == "max" ? ">=" : "<=";
    const ExprId b_wins = x_.Compare(b, opposite, node.args[0]);
    status.Update(Propagate(b, Guarded(x_, adjoint, b_wins), loops));
    return status;
  }

  absl::Status ToReduce(ExprId id, const ExprNode& node, Polynomial adjoint,
                        const std::vector<int>& loops) {
    std::vector<int> bound, inner = loops;
    std::map<int, ExprId> fresh;  // the reduction's own variables may be bound elsewhere, too
    for (const BoundVar& b : node.bound) {
      const LoopVar var = x_.vars()[static_cast<size_t>(b.var)];
      bound.push_back(x_.FreshVar(var.name, var.size));
      fresh[b.var] = x_.Var(bound.back());
    }
    inner.insert(inner.end(), bound.begin(), bound.end());
    const ExprId body = x_.Substitute(node.args[0], fresh);
    const bool inlined = style_.inline_adjoints && NamesAll(body, inner);
    if (!OneRead(adjoint) && !inlined) adjoint = AsTensor(adjoint, loops);
    if (node.name == "max" || node.name == "min") {
      const ExprId first = FirstReaching(id, node, loops);
      adjoint = Guarded(x_, adjoint, x_.Compare(first, "==", Linear(bound)));
    } else if (node.name == "prod") {
      adjoint = Product(adjoint, Atom(x_, ProductOfOthers(node, bound)));
    }
    return Propagate(body, adjoint, inner);
  }

  // Whether every read that a gradient flows to has all `loops` as plain indices: none is summed.
  bool NamesAll(ExprId id, const std::vector<int>& loops) {
    if (!NeedsGradient(id)) return true;
    const ExprNode node = x_[id];
    if (node.kind != ExprKind::kRead) {
      return std::all_of(node.args.begin(), node.args.end(),
                         [&](ExprId arg) { return NamesAll(arg, loops); });
    }
    std::set<int> named;
    for (ExprId index : node.args) {
      const ExprNode at = x_[index];
      if (at.kind == ExprKind::kVar) named.insert(at.ref);
      for (ExprId part : at.args) {
        if (at.kind == ExprKind::kTuple && x_[part].kind == ExprKind::kVar)
          named.insert(x_[part].ref);
      }
    }
    return std::all_of(loops.begin(), loops.end(), [&](int v) { return named.count(v) != 0; });
  }

  ExprId Linear(const std::vector<int>& vars) {
    ExprId linear = x_.Number(0);
    for (int var : vars) {
      const ExprId extent = x_.Size(x_.vars()[static_cast<size_t>(var)].size);
      linear = x_.Add(x_.IsNumber(linear, 0) ? linear : x_.Mul(linear, extent), x_.Var(var));
    }
    return linear;
  }

  // The lowest position at which a maximum or minimum is reached, as a tensor.
  ExprId FirstReaching(ExprId id, const ExprNode& node, const std::vector<int>& loops) {
    ExprId best = root_read_;
    if (id != root_) best = AsTensorRead(id, loops);
    std::vector<int> bound;
    for (const BoundVar& b : node.bound) bound.push_back(b.var);
    const ExprId reached = x_.Compare(node.args[0], "==", best);
    const ExprId position =
        x_.Select(reached, Linear(bound), x_.Number(std::numeric_limits<double>::infinity()));
    return AsTensorRead(x_.Reduce("min", bound, position), loops);
  }

  ExprId ProductOfOthers(const ExprNode& node, const std::vector<int>& at) {
    std::vector<int> bound;
    ExprId same;
    std::map<int, ExprId> other;
    for (size_t i = 0; i < at.size(); ++i) {
      const LoopVar var = x_.vars()[static_cast<size_t>(at[i])];
      bound.push_back(x_.FreshVar(var.name, var.size));
      other[node.bound[i].var] = x_.Var(bound.back());
      const ExprId equal = x_.Compare(x_.Var(bound.back()), "==", x_.Var(at[i]));
      same = i == 0 ? equal : x_.And(same, equal);
    }
    const ExprId body = x_.Substitute(node.args[0], other);
    return x_.Reduce("prod", bound, x_.Select(same, x_.Number(1), body));
  }

  // ---- reads
  absl::Status ToRead(const ExprNode& read, const Polynomial& adjoint,
                      const std::vector<int>& loops) {
    const auto t = static_cast<size_t>(read.ref);
    const auto& dims = op_.tensors[t].dims;
    if (read.has_else && NeedsGradient(read.args.back())) {
      const Polynomial outside = Guarded(x_, adjoint, x_.Not(InRange(read)));
      absl::Status status = Propagate(read.args.back(), outside, loops);
      if (!status.ok()) return status;
    }
    if (!depends_[t]) return absl::OkStatus();
    std::vector<ExprId> from, to;  // index expressions and the tensor's own index
    size_t next = 0;
    for (size_t d = 0; d < dims.size(); ++d) {
      const std::vector<int> own(
          index_[t].begin() + static_cast<std::ptrdiff_t>(next),
          index_[t].begin() + static_cast<std::ptrdiff_t>(next + dims[d].size()));
      next += dims[d].size();
      const ExprNode index = x_[read.args[d]];
      if (index.kind == ExprKind::kTuple) {
        for (size_t f = 0; f < own.size(); ++f) {
          from.push_back(index.args[f]);
          to.push_back(x_.Var(own[f]));
        }
      } else {
        from.push_back(read.args[d]);
        to.push_back(Linear(own));
      }
    }
    adjoint_[t] = Sum(adjoint_[t], sums_.Scatter(adjoint, loops, from, to));
    return absl::OkStatus();
  }

  ExprId InRange(const ExprNode& read) {
    ExprId all;
    const auto& dims = op_.tensors[static_cast<size_t>(read.ref)].dims;
    for (size_t d = 0; d < dims.size(); ++d) {
      if (x_[read.args[d]].kind == ExprKind::kTuple) continue;
      ExprId extent = x_.Number(1);
      for (int size : dims[d]) extent = x_.Mul(extent, x_.Size(size));
      const ExprId in = x_.And(x_.Compare(read.args[d], ">=", x_.Number(0)),
                               x_.Compare(read.args[d], "<", extent));
      all = all.valid() ? x_.And(all, in) : in;
    }
    return all;
  }

  // ---- tensors for intermediate adjoints
  // At most one read, times numbers, sizes and attributes.
  bool OneRead(const Polynomial& a) const {
    if (a.size() != 1 || !a[0].conditions.empty()) return false;
    int reads = 0;
    for (const auto& [factor, power] : a[0].factors) {
      const ExprKind kind = x_[factor].kind;
      if (kind == ExprKind::kSize || kind == ExprKind::kNumber || kind == ExprKind::kAttr) continue;
      if (kind != ExprKind::kRead || power != 1 || ++reads > 1) return false;
    }
    return true;
  }

  ExprId AsTensorRead(ExprId value, const std::vector<int>& order) {
    const std::vector<int>& free = x_.FreeVars(value);
    std::vector<int> vars;
    for (int var : order) {
      if (std::binary_search(free.begin(), free.end(), var)) vars.push_back(var);
    }
    const auto it = as_tensor_.find(value);
    if (it != as_tensor_.end()) return it->second;
    std::vector<std::vector<int>> dims;
    for (int var : vars) dims.push_back({x_.vars()[static_cast<size_t>(var)].size});
    const int tensor = AddTensor(absl::StrCat("t", as_tensor_.size()), dims);
    equations_.push_back({tensor, vars, value});
    return as_tensor_[value] = x_.Read(tensor, dims, vars);
  }

  Polynomial AsTensor(const Polynomial& a, const std::vector<int>& order) {
    return Atom(x_, AsTensorRead(ToExpr(x_, a), order));
  }

  // Every sum among the factors becomes a tensor.
  Polynomial WithSumsAsTensors(const Polynomial& a) {
    Polynomial result;
    for (const Monomial& m : a) {
      Polynomial term = {Monomial{m.coefficient, {}, m.conditions}};
      for (const auto& [factor, power] : m.factors) {
        const bool sum = sums_.Made(factor);
        const ExprId value = sum ? AsTensorRead(factor, x_.FreeVars(factor)) : factor;
        term = Product(term, {Monomial{1, {{value, power}}, {}}});
      }
      result = Sum(result, term);
    }
    return patterns_.Simplified(result);
  }

  int FinishInput(int input) {
    const auto t = static_cast<size_t>(input);
    Polynomial adjoint = patterns_.Simplified(adjoint_[t]);
    if (adjoint.empty()) return -1;
    if (adjoint.size() > 1) adjoint = WithSumsAsTensors(adjoint);
    const int tensor = AddTensor("d_" + op_.tensors[t].name, op_.tensors[t].dims);
    equations_.push_back({tensor, index_[t], ToExpr(x_, adjoint)});
    return tensor;
  }

  // ---- what is left in the end
  void KeepNeeded() {
    std::vector<Equation> all;
    for (const Equation& e : forward_) {
      if (!IsOutput(e.target) || !use_outputs_) all.push_back(e);
    }
    all.insert(all.end(), equations_.begin(), equations_.end());
    std::vector<bool> needed(program_.tensors.size(), false);
    for (int t : program_.gradients) {
      if (t >= 0) needed[static_cast<size_t>(t)] = true;
    }
    std::vector<Equation> kept;
    for (size_t i = all.size(); i-- > 0;) {
      if (!needed[static_cast<size_t>(all[i].target)]) continue;
      MarkReads(all[i].body, needed);
      kept.push_back(all[i]);
    }
    program_.equations.assign(kept.rbegin(), kept.rend());
  }

  void MarkReads(ExprId id, std::vector<bool>& needed) const {
    const ExprNode& node = x_[id];
    if (node.kind == ExprKind::kRead) needed[static_cast<size_t>(node.ref)] = true;
    for (ExprId arg : node.args) MarkReads(arg, needed);
  }

  const OpInstance& op_;
  const AdjointStyle style_;
  const bool use_outputs_;
  AdjointProgram program_;
  SymbolicExprs& x_;
  std::vector<Equation> forward_;    // the instance's, imported
  std::vector<Equation> equations_;  // adjoint ones
  std::vector<bool> depends_;        // per tensor: on a wanted input, differentiably
  std::map<ExprId, bool> needs_;
  std::vector<std::vector<int>> index_;  // per tensor: the variables its adjoint is a function of
  std::vector<Polynomial> adjoint_;      // per tensor
  OutputPatterns patterns_;
  AdjointSums sums_;
  std::map<ExprId, ExprId> as_tensor_;
  ExprId root_, root_value_, root_read_;  // the body being reversed, and how its value is read
};

}  // namespace

absl::StatusOr<AdjointProgram> Differentiate(const OpInstance& op, const std::vector<int>& wanted,
                                             const std::vector<GradientSeed>& seeds,
                                             const AdjointStyle& style) {
  return Sweep(op, style).Run(wanted, seeds);
}

}  // namespace tandem
