#include "pcg/adjoint.h"

#include <algorithm>
#include <cmath>
#include <map>
#include <numeric>
#include <optional>
#include <set>
#include <string>

#include "absl/strings/str_cat.h"
#include "pcg/polynomial.h"

namespace tandem {
namespace {

constexpr size_t kMaxTerms =
    4;  // a longer adjoint becomes a tensor before it is multiplied further

// One output's equation read backwards: where its whole body occurs in a product, the output itself
// may stand (out = e / z in the gradient of softmax).
struct OutputPattern {
  int tensor = -1;
  std::vector<int> vars;
  Monomial body;
};

class Sweep {
 public:
  Sweep(const OpInstance& op, const AdjointStyle& style)
      : op_(op), style_(style), use_outputs_(style.use_outputs), program_(op), x_(program_.exprs) {}

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
  using Equation = AdjointProgram::Equation;

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
    if (use_outputs_) FindPatterns();
  }

  std::string SizeName(int size) const { return op_.sizes[static_cast<size_t>(size)].name; }

  int AddTensor(std::string name, std::vector<std::vector<int>> dims) {
    program_.tensors.push_back({std::move(name), ElementKind::kFloat, std::move(dims)});
    return static_cast<int>(program_.tensors.size()) - 1;
  }

  bool IsOutput(int tensor) const {
    return tensor >= op_.num_inputs && tensor < op_.num_inputs + op_.num_outputs;
  }

  void FindPatterns() {
    for (const Equation& e : forward_) {
      if (!IsOutput(e.target)) continue;
      Monomial body = AsMonomial(x_, e.body);
      const bool work = std::any_of(body.factors.begin(), body.factors.end(), [&](const auto& f) {
        return f.second < 0 || x_[f.first].kind != ExprKind::kRead;
      });
      if (work && body.conditions.empty()) patterns_.push_back({e.target, e.vars, std::move(body)});
    }
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
    return Propagate(root_, Finish(adjoint), e.vars);
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
    const bool from_result = id == root_ && use_outputs_ && x_[b].kind == ExprKind::kNumber;
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
    adjoint_[t] = Sum(adjoint_[t], Scatter(adjoint, loops, from, to));
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

  // sum over `loops` of `adjoint` where from == to, solved for as many loops as possible.
  Polynomial Scatter(Polynomial adjoint, std::vector<int> loops, const std::vector<ExprId>& from,
                     const std::vector<ExprId>& to) {
    std::map<int, ExprId> solved;
    std::vector<ExprId> guards;
    const auto solve = [&](int var, ExprId value) {
      for (auto& [v, e] : solved) e = x_.Substitute(e, {{var, value}});
      solved[var] = value;
      std::erase(loops, var);
    };
    std::vector<bool> done(from.size(), false);
    for (size_t i = 0; i < from.size(); ++i) {
      const ExprNode index = x_[from[i]], own = x_[to[i]];
      if (index.kind != ExprKind::kVar || own.kind != ExprKind::kVar) continue;
      if (std::find(loops.begin(), loops.end(), index.ref) == loops.end()) continue;
      if (x_.vars()[static_cast<size_t>(index.ref)].size !=
          x_.vars()[static_cast<size_t>(own.ref)].size) {
        continue;
      }
      solve(index.ref, to[i]);
      done[i] = true;
    }
    for (size_t i = 0; i < from.size(); ++i) {
      if (done[i]) continue;
      const ExprId index = x_.Substitute(from[i], solved);
      const std::optional<std::pair<int, ExprId>> one = SolveForOne(index, to[i], loops);
      if (one) {
        solve(one->first, one->second);
        const int size = x_.vars()[static_cast<size_t>(one->first)].size;
        guards.push_back(x_.Compare(one->second, ">=", x_.Number(0)));
        guards.push_back(x_.Compare(one->second, "<", x_.Size(size)));
      } else {
        guards.push_back(x_.Compare(index, "==", to[i]));
      }
    }
    for (const int loop : std::vector<int>(loops)) {  // a dim that the text says is 1
      const SizeVar& size =
          op_.sizes[static_cast<size_t>(x_.vars()[static_cast<size_t>(loop)].size)];
      if (size.constant && size.extent == 1) solve(loop, x_.Number(0));
    }
    adjoint = Substitute(x_, adjoint, solved);
    for (ExprId guard : guards) adjoint = Guarded(x_, adjoint, x_.Substitute(guard, solved));
    return SumOver(adjoint, loops);
  }

  // index == own with exactly one of `loops` in index, at coefficient 1 or -1: that loop's value.
  std::optional<std::pair<int, ExprId>> SolveForOne(ExprId index, ExprId own,
                                                    const std::vector<int>& loops) {
    const std::optional<SymbolicExprs::Affine> affine = x_.AsAffine(index);
    if (!affine) return std::nullopt;
    int var = -1;
    for (int loop : loops) {
      if (affine->terms.count(loop) == 0) continue;
      if (var >= 0) return std::nullopt;
      var = loop;
    }
    if (var < 0) return std::nullopt;
    const ExprId rest = x_.Substitute(index, {{var, x_.Number(0)}});
    const double coefficient = affine->terms.at(var);
    if (coefficient == 1) return std::make_pair(var, x_.Sub(own, rest));
    if (coefficient == -1) return std::make_pair(var, x_.Sub(rest, own));
    return std::nullopt;
  }

  // ---- sums
  // sum over `loops`: what does not depend on them comes out, a sum for each thing that comes out.
  Polynomial SumOver(const Polynomial& body, const std::vector<int>& loops) {
    if (loops.empty()) return Finish(body);
    struct Group {
      Monomial outside;
      std::vector<int> vars;
      Polynomial inside;
    };
    std::vector<Group> groups;
    for (const Monomial& term : Finish(body)) {
      std::vector<int> left = loops;
      const Monomial m = OnePointSolved(term, left);
      Monomial outside, inside;
      const auto split = [&](ExprId id) { return x_.UsesAny(id, left); };
      for (const auto& f : m.factors) (split(f.first) ? inside : outside).factors.push_back(f);
      for (ExprId c : m.conditions) (split(c) ? inside : outside).conditions.push_back(c);
      inside.coefficient = IsZeroSum(inside, left) ? 0 : m.coefficient;
      std::vector<int> used;
      Polynomial times = {outside};
      for (int var : left) {
        const auto uses = [&](ExprId id) { return x_.UsesAny(id, {var}); };
        const bool inner = std::any_of(inside.factors.begin(), inside.factors.end(),
                                       [&](const auto& f) { return uses(f.first); }) ||
                           std::any_of(inside.conditions.begin(), inside.conditions.end(), uses);
        if (inner) used.push_back(var);
        if (!inner)
          times = Product(times, Atom(x_, x_.Size(x_.vars()[static_cast<size_t>(var)].size)));
      }
      const auto same = std::find_if(groups.begin(), groups.end(), [&](const Group& g) {
        return g.outside == times[0] && g.vars == used;
      });
      if (same != groups.end()) {
        same->inside = Sum(same->inside, {inside});
      } else {
        groups.push_back({times[0], used, {inside}});
      }
    }
    Polynomial result;
    for (Group& g : groups) {
      if (g.inside.empty()) continue;
      if (g.inside.size() == 1) {
        g.outside.coefficient *= g.inside[0].coefficient;
        g.inside[0].coefficient = 1;
      }
      Polynomial sum = g.inside;
      if (!g.vars.empty()) {
        const ExprId reduce = x_.Reduce("sum", g.vars, ToExpr(x_, g.inside));
        sums_.insert(reduce);
        sum = {Monomial{1, {{reduce, 1}}, {}}};
      }
      result = Sum(result, Product({g.outside}, sum));
    }
    return Finish(result);
  }

  // sum over i of x[i] - mu, where mu is the mean of x over i: the second moment's way to the mean.
  bool IsZeroSum(const Monomial& inside, const std::vector<int>& loops) {
    if (inside.factors.size() != 1 || inside.factors[0].second != 1 || !inside.conditions.empty()) {
      return false;
    }
    const ExprNode centred = x_[Expanded(inside.factors[0].first)];
    if (centred.kind != ExprKind::kSub) return false;
    const ExprNode mean = x_[Expanded(centred.args[1])];
    if (mean.kind != ExprKind::kDiv || x_[mean.args[0]].kind != ExprKind::kReduce) return false;
    const ExprNode total = x_[mean.args[0]];
    if (total.name != "sum" || total.bound.size() != loops.size()) return false;
    std::map<int, ExprId> rename;
    ExprId count = x_.Number(1);
    for (size_t i = 0; i < loops.size(); ++i) {
      const int size = x_.vars()[static_cast<size_t>(loops[i])].size;
      if (size != x_.vars()[static_cast<size_t>(total.bound[i].var)].size) return false;
      rename[total.bound[i].var] = x_.Var(loops[i]);
      count = x_.Mul(count, x_.Size(size));
    }
    return x_.Substitute(total.args[0], rename) == centred.args[0] &&
           AsMonomial(x_, mean.args[1]) == AsMonomial(x_, count);
  }

  // A read of an intermediate replaced by what its equation says.
  ExprId Expanded(ExprId id) {
    const ExprNode read = x_[id];
    if (read.kind != ExprKind::kRead || read.has_else) return id;
    for (const Equation& e : forward_) {
      if (e.target != read.ref || IsOutput(e.target)) continue;
      std::map<int, ExprId> at;
      size_t next = 0;
      for (ExprId index : read.args) {
        const ExprNode node = x_[index];
        if (node.kind == ExprKind::kTuple) {
          for (ExprId part : node.args) at[e.vars[next++]] = part;
        } else {
          at[e.vars[next++]] = index;
        }
      }
      return next == e.vars.size() ? x_.Substitute(e.body, at) : id;
    }
    return id;
  }

  // Conditions y == e with y one of the loops and e an index expression: e takes y's place. A read
  // that alone depends on y gets `else 0` in place of the guard that e is in y's range.
  Monomial OnePointSolved(Monomial m, std::vector<int>& loops) {
    for (size_t i = 0; i < m.conditions.size(); ++i) {
      const ExprNode condition = x_[m.conditions[i]];
      if (condition.kind != ExprKind::kCompare || condition.name != "==") continue;
      for (int side = 0; side < 2; ++side) {
        const ExprNode y = x_[condition.args[static_cast<size_t>(side)]];
        const ExprId e = condition.args[static_cast<size_t>(1 - side)];
        if (y.kind != ExprKind::kVar || x_.UsesAny(e, {y.ref}) || !x_.AsAffine(e)) continue;
        if (std::find(loops.begin(), loops.end(), y.ref) == loops.end()) continue;
        m.conditions.erase(m.conditions.begin() + static_cast<std::ptrdiff_t>(i));
        std::erase(loops, y.ref);
        return OnePointSolved(Placed(m, y.ref, e), loops);
      }
    }
    return m;
  }

  Monomial Placed(const Monomial& m, int var, ExprId value) {
    std::vector<ExprId> users;
    for (const auto& [factor, power] : m.factors) {
      if (x_.UsesAny(factor, {var})) users.push_back(power == 1 ? factor : ExprId());
    }
    for (ExprId c : m.conditions) {
      if (x_.UsesAny(c, {var})) users.push_back(ExprId());
    }
    const int size = x_.vars()[static_cast<size_t>(var)].size;
    const ExprId low = x_.Compare(value, ">=", x_.Number(0));
    const ExprId high = x_.Compare(value, "<", x_.Size(size));
    const bool always = x_.Decide(low) == true && x_.Decide(high) == true;
    const bool by_else =
        !always && users.size() == 1 && users[0].valid() && IndexedBy(users[0], var);
    Polynomial placed = Substitute(x_, {m}, {{var, value}});
    if (by_else) {
      ExprNode read = x_[x_.Substitute(users[0], {{var, value}})];
      const ExprId before = x_.WithArgs(read, read.args);
      read.has_else = true;
      std::vector<ExprId> args = read.args;
      args.push_back(x_.Number(0));
      for (auto& f : placed[0].factors) {
        if (f.first == before) f.first = x_.WithArgs(read, args);
      }
      std::sort(placed[0].factors.begin(), placed[0].factors.end());
    } else if (!always) {
      placed = Guarded(x_, Guarded(x_, placed, low), high);
    }
    return placed.empty() ? Monomial{0, {}, {}} : placed[0];
  }

  // A read without `else` with `var` as the plain index of dims of var's own size and nowhere else.
  bool IndexedBy(ExprId id, int var) {
    const ExprNode read = x_[id];
    if (read.kind != ExprKind::kRead || read.has_else) return false;
    for (size_t d = 0; d < read.args.size(); ++d) {
      if (!x_.UsesAny(read.args[d], {var})) continue;
      const auto& dim = program_.tensors[static_cast<size_t>(read.ref)].dims[d];
      if (x_[read.args[d]].kind != ExprKind::kVar || dim.size() != 1) return false;
      if (dim[0] != x_.vars()[static_cast<size_t>(var)].size) return false;
    }
    return true;
  }

  // ---- tensors for intermediate adjoints
  // At most one read, times numbers and sizes.
  bool OneRead(const Polynomial& a) const {
    if (a.size() != 1 || !a[0].conditions.empty()) return false;
    int reads = 0;
    for (const auto& [factor, power] : a[0].factors) {
      const ExprKind kind = x_[factor].kind;
      if (kind == ExprKind::kSize || kind == ExprKind::kNumber) continue;
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
        const bool sum = sums_.count(factor) != 0;
        const ExprId value = sum ? AsTensorRead(factor, x_.FreeVars(factor)) : factor;
        term = Product(term, {Monomial{1, {{value, power}}, {}}});
      }
      result = Sum(result, term);
    }
    return Finish(result);
  }

  int FinishInput(int input) {
    const auto t = static_cast<size_t>(input);
    Polynomial adjoint = Finish(adjoint_[t]);
    if (adjoint.empty()) return -1;
    if (adjoint.size() > 1) adjoint = WithSumsAsTensors(adjoint);
    const int tensor = AddTensor("d_" + op_.tensors[t].name, op_.tensors[t].dims);
    equations_.push_back({tensor, index_[t], ToExpr(x_, adjoint)});
    return tensor;
  }

  // ---- simplification
  Polynomial Finish(const Polynomial& a) {
    Polynomial result;
    for (const Monomial& m : Stable(x_, a)) result = Sum(result, {WithOutputs(m)});
    return result;
  }

  Monomial WithOutputs(Monomial m) {
    for (const OutputPattern& pattern : patterns_) {
      while (true) {
        std::map<int, ExprId> binding;
        if (!Matches(pattern, 0, m, binding) || binding.size() != pattern.vars.size()) break;
        Polynomial rest = {m};
        for (const auto& [factor, power] : pattern.body.factors) {
          const ExprId bound = x_.Substitute(factor, binding);
          rest = Product(rest, {Monomial{1, {{bound, -power}}, {}}});
        }
        std::vector<ExprId> at;
        ExprNode read = x_[x_.Read(
            pattern.tensor, op_.tensors[static_cast<size_t>(pattern.tensor)].dims, pattern.vars)];
        const ExprId out = x_.Substitute(x_.WithArgs(read, read.args), binding);
        rest = Product(rest, {Monomial{1 / pattern.body.coefficient, {{out, 1}}, {}}});
        m = rest[0];
      }
    }
    return m;
  }

  // Factors of the pattern from `i` on are found in m, with the same sign and no smaller power.
  bool Matches(const OutputPattern& pattern, size_t i, const Monomial& m,
               std::map<int, ExprId>& binding) {
    if (i == pattern.body.factors.size()) return true;
    const auto& [factor, power] = pattern.body.factors[i];
    for (const auto& [candidate, has] : m.factors) {
      if ((power > 0) != (has > 0) || std::abs(has) < std::abs(power)) continue;
      std::map<int, ExprId> attempt = binding;
      if (Unify(factor, candidate, pattern.vars, attempt) && Matches(pattern, i + 1, m, attempt)) {
        binding = attempt;
        return true;
      }
    }
    return false;
  }

  bool Unify(ExprId pattern, ExprId id, const std::vector<int>& vars,
             std::map<int, ExprId>& binding) {
    const ExprNode& p = x_[pattern];
    if (p.kind == ExprKind::kVar && std::find(vars.begin(), vars.end(), p.ref) != vars.end()) {
      const auto [it, inserted] = binding.emplace(p.ref, id);
      return inserted ? x_[id].kind == ExprKind::kVar : it->second == id;
    }
    const ExprNode& n = x_[id];
    if (p.kind != n.kind || p.number != n.number || p.ref != n.ref || p.name != n.name ||
        p.has_else != n.has_else || p.args.size() != n.args.size() || p.bound != n.bound) {
      return false;
    }
    for (size_t i = 0; i < p.args.size(); ++i) {
      if (!Unify(p.args[i], n.args[i], vars, binding)) return false;
    }
    return true;
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
  std::vector<OutputPattern> patterns_;
  std::set<ExprId> sums_;  // sums made here (not the forward's)
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
