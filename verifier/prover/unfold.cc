#include "verifier/prover/unfold.h"

#include <cmath>

namespace tandem::prover {
namespace {

constexpr int64_t kUnroll = 2;  // constant extents up to this are written out

}  // namespace

Poly Flatten(Store& s, const std::vector<Poly>& digits, const std::vector<Poly>& extents) {
  Poly flat = s.Const(0);
  for (size_t i = 0; i < digits.size(); ++i) flat = s.Add(s.Mul(flat, extents[i]), digits[i]);
  return flat;
}

std::optional<std::vector<Poly>> Unflatten(Store& s, Solver& solver, Poly p,
                                           const std::vector<Poly>& extents, Guard context,
                                           bool divide) {
  std::vector<Poly> digits(extents.size());
  for (size_t i = extents.size(); i-- > 1;) {
    auto [q, r] = s.SplitMultiples(p, extents[i]);
    if (!solver.Implied(context, s.InRange(r, extents[i]), /*prune=*/true)) {
      if (!divide) return std::nullopt;
      q = s.FloorDiv(p, extents[i]);
      r = s.Mod(p, extents[i]);
    }
    digits[i] = r;
    p = q;
  }
  digits[0] = p;
  return digits;
}

Unfolder::Unfolder(Algebra& algebra, Solver& solver, const OpInstance& op,
                   std::vector<SizeBinding> sizes, InputReader reader, Guard base,
                   const Symbols* symbols)
    : a_(algebra),
      s_(algebra.store()),
      solver_(solver),
      op_(op),
      sizes_(std::move(sizes)),
      reader_(std::move(reader)),
      base_(base),
      symbols_(symbols),
      env_(op.vars.size()) {}

std::vector<std::vector<Poly>> Unfolder::Extents(int tensor) const {
  std::vector<std::vector<Poly>> out;
  for (const auto& dim : op_.tensors[static_cast<size_t>(tensor)].dims) {
    std::vector<Poly> digits;
    for (int size : dim) {
      const auto& d = sizes_[static_cast<size_t>(size)].digits;
      digits.insert(digits.end(), d.begin(), d.end());
    }
    out.push_back(std::move(digits));
  }
  return out;
}

Poly Unfolder::Formula(ExprId id) {
  formula_ = true;
  Poly p = EvalPoly(id, s_.True());
  formula_ = false;
  return p;
}

Poly Unfolder::Formula(const ExprArena& exprs, ExprId id) {
  exprs_ = &exprs;
  Poly p = Formula(id);
  exprs_ = nullptr;
  return p;
}

Value Unfolder::Output(int output, const TensorIndex& index) {
  return Apply(op_.num_inputs + output, index, base_);
}

// An equation is unfolded once, at fresh indices, and then instantiated.
const Unfolder::Lambda& Unfolder::Equation(int tensor) {
  auto it = lambdas_.find(tensor);
  if (it != lambdas_.end()) return it->second;
  const InstanceEquation* equation = nullptr;
  for (const InstanceEquation& e : op_.equations) {
    if (e.target == tensor) equation = &e;
  }
  if (equation == nullptr) throw LimitExceeded("a tensor has no equation");
  auto saved = env_;
  Lambda lambda;
  std::vector<Guard> ranges = {base_};
  for (int var : equation->vars) {
    const LoopVar& loop = op_.vars[static_cast<size_t>(var)];
    Digits digits;
    for (Poly extent : sizes_[static_cast<size_t>(loop.size)].digits) {
      Atom a = s_.Fresh(loop.name, extent);
      lambda.params.push_back(a);
      // An index into extent 1 is 0.
      digits.push_back(s_.Constant(extent) == 1 ? s_.Const(0) : s_.Of(a));
      ranges.push_back(s_.InRange(digits.back(), extent));
    }
    env_[static_cast<size_t>(var)] = std::move(digits);
  }
  lambda.body = Eval(equation->body, s_.And(std::move(ranges)));
  env_ = std::move(saved);
  return lambdas_.emplace(tensor, std::move(lambda)).first->second;
}

Value Unfolder::Apply(int tensor, const TensorIndex& index, Guard context) {
  const Lambda lambda = Equation(tensor);
  auto extents = Extents(tensor);
  Algebra::Replacement images;
  size_t next = 0;
  for (size_t d = 0; d < extents.size(); ++d) {
    Digits digits = index[d];
    if (digits.size() != extents[d].size()) {
      digits = *Unflatten(s_, solver_, digits[0], extents[d], context, /*divide=*/true);
    }
    for (Poly digit : digits) images[lambda.params[next++]] = digit;
  }
  return a_.Replace(lambda.body, images);
}

// ---- reads

Unfolder::Digits Unfolder::ExtentsOf(const std::vector<int>& sizes) const {
  Digits out;
  for (int size : sizes) {
    const auto& d = sizes_[static_cast<size_t>(size)].digits;
    out.insert(out.end(), d.begin(), d.end());
  }
  return out;
}

Unfolder::Digits Unfolder::DigitsOf(ExprId id, const std::vector<int>& sizes, Guard context,
                                    bool* flat) {
  const ExprNode& e = Node(id);
  Digits extents = ExtentsOf(sizes);
  if (e.kind == ExprKind::kVar) {
    int mine = op_.vars[static_cast<size_t>(e.ref)].size;
    const SizeBinding& size = sizes_[static_cast<size_t>(mine)];
    bool plain = sizes.size() == 1 && sizes[0] == mine;
    if (plain || (size.offset == s_.Const(0) && size.digits == extents)) {
      return *env_[static_cast<size_t>(e.ref)];
    }
  }
  Poly p = EvalPoly(id, context);
  if (extents.size() == 1) return {p};
  if (auto digits = Unflatten(s_, solver_, p, extents, context, /*divide=*/false)) return *digits;
  *flat = true;
  return {p};
}

std::vector<Unfolder::Case> Unfolder::ReadCases(const ExprNode& e, Guard context) {
  const InstanceOperand& operand = op_.tensors[static_cast<size_t>(e.ref)];
  TensorIndex index;
  std::vector<Guard> conditions;
  for (size_t d = 0; d < operand.dims.size(); ++d) {
    const ExprNode& arg = Node(e.args[d]);
    const std::vector<int>& dim = operand.dims[d];
    Digits all_extents = ExtentsOf(dim);
    bool flat_dim = false;
    Digits digits;
    if (arg.kind == ExprKind::kTuple && arg.args.size() == dim.size()) {
      std::vector<Poly> sizes, flats;
      for (size_t f = 0; f < dim.size(); ++f) {
        bool flat = false;
        Digits part = DigitsOf(arg.args[f], {dim[f]}, context, &flat);
        Digits extents = ExtentsOf({dim[f]});
        flat_dim = flat_dim || flat;
        digits.insert(digits.end(), part.begin(), part.end());
        Poly extent = s_.Const(1);
        for (Poly x : extents) extent = s_.Mul(extent, x);
        sizes.push_back(extent);
        flats.push_back(flat ? part[0] : Flatten(s_, part, extents));
      }
      if (flat_dim) {
        // Each factor must be in range by itself before the dim's flat index means anything.
        for (size_t f = 0; f < sizes.size(); ++f) {
          conditions.push_back(s_.InRange(flats[f], sizes[f]));
        }
        digits = {Flatten(s_, flats, sizes)};
      }
    } else {
      digits = DigitsOf(e.args[d], dim, context, &flat_dim);
    }
    if (digits.size() == all_extents.size()) {
      for (size_t k = 0; k < digits.size(); ++k) {
        conditions.push_back(s_.InRange(digits[k], all_extents[k]));
      }
    } else {
      Poly extent = s_.Const(1);
      for (Poly x : all_extents) extent = s_.Mul(extent, x);
      conditions.push_back(s_.InRange(digits[0], extent));
    }
    index.push_back(std::move(digits));
  }
  std::vector<Guard> open;
  for (Guard g : conditions) {
    for (Guard c : s_.Conjuncts(g)) {
      if (!solver_.Implied(context, c, /*prune=*/e.has_else)) open.push_back(c);
    }
  }
  Guard inside = s_.And(std::move(open));
  if (inside != s_.True() && !e.has_else) {
    out_of_range_.push_back("a read of " + operand.name +
                            " is not shown to be in range: " + s_.ToString(inside));
    inside = s_.True();
  }
  auto read = [&] {
    Guard here = s_.And(context, inside);
    return e.ref < op_.num_inputs ? reader_(e.ref, index, here) : Apply(e.ref, index, here);
  };
  if (inside == s_.True()) return {{inside, read()}};
  ExprId otherwise = e.args[operand.dims.size()];
  Guard outside = s_.Not(inside);
  if (solver_.Implied(context, outside, /*prune=*/true)) {
    return {{s_.True(), Eval(otherwise, context)}};
  }
  Value in = read();
  return {{inside, in}, {outside, Eval(otherwise, s_.And(context, outside))}};
}

// ---- values

std::vector<Unfolder::Case> Unfolder::Cases(ExprId id, Guard context) {
  const ExprNode& e = Node(id);
  if (e.kind == ExprKind::kNoGrad) return Cases(e.args[0], context);
  if (e.kind == ExprKind::kRead) return ReadCases(e, context);
  if (e.kind != ExprKind::kSelect) return {{s_.True(), Eval(id, context)}};
  Guard c = EvalGuard(e.args[0], context);
  if (c == s_.True() || solver_.Implied(context, c, /*prune=*/true)) {
    return Cases(e.args[1], context);
  }
  Guard n = s_.Not(c);
  if (n == s_.True() || solver_.Implied(context, n, /*prune=*/true)) {
    return Cases(e.args[2], context);
  }
  std::vector<Case> out;
  for (Case& x : Cases(e.args[1], s_.And(context, c))) {
    out.push_back({s_.And(c, x.guard), x.value});
  }
  for (Case& x : Cases(e.args[2], s_.And(context, n))) {
    out.push_back({s_.And(n, x.guard), x.value});
  }
  return out;
}

Value Unfolder::Eval(ExprId id, Guard context) {
  const ExprNode& e = Node(id);
  switch (e.kind) {
    case ExprKind::kNumber:
      return a_.Number(e.number);
    case ExprKind::kVar:
      return a_.FromPoly(VarValue(e.ref));
    case ExprKind::kSize:
      return a_.FromPoly(sizes_[static_cast<size_t>(e.ref)].value);
    case ExprKind::kFloorDiv:
    case ExprKind::kMod:
      if (IsInteger(id)) return a_.FromPoly(EvalPoly(id, context));
      return a_.Call(e.kind == ExprKind::kMod ? "mod" : "floordiv",
                     {Eval(e.args[0], context), Eval(e.args[1], context)});
    case ExprKind::kAdd:
      return a_.Add(Eval(e.args[0], context), Eval(e.args[1], context));
    case ExprKind::kSub:
      return a_.Sub(Eval(e.args[0], context), Eval(e.args[1], context));
    case ExprKind::kMul:
      return a_.Mul(Eval(e.args[0], context), Eval(e.args[1], context));
    case ExprKind::kDiv:
      return a_.Mul(Eval(e.args[0], context), a_.Inverse(Eval(e.args[1], context)));
    case ExprKind::kNeg:
      return a_.Scale(Eval(e.args[0], context), Rational(-1));
    case ExprKind::kNoGrad:
      return Eval(e.args[0], context);
    case ExprKind::kCall: {
      if (e.name == "floor") {
        const ExprNode& x = Node(e.args[0]);
        if (x.kind == ExprKind::kDiv && IsInteger(x.args[0]) && IsInteger(x.args[1])) {
          return a_.FromPoly(EvalPoly(id, context));
        }
      }
      std::vector<Value> args;
      for (ExprId a : e.args) args.push_back(Eval(a, context));
      return a_.Call(e.name, args);
    }
    case ExprKind::kCompare:
    case ExprKind::kAnd:
    case ExprKind::kOr:
    case ExprKind::kNot:
      return a_.Guarded(EvalGuard(id, context), a_.Number(Rational(1)));
    case ExprKind::kRead:
    case ExprKind::kSelect: {
      Value sum = a_.Zero();
      for (const Case& c : Cases(id, context)) {
        sum = a_.Add(sum, a_.Guarded(c.guard, c.value));
      }
      return sum;
    }
    case ExprKind::kReduce:
      return EvalReduce(e, context);
    case ExprKind::kAttr:
      if (symbols_ == nullptr) break;
      if (auto it = symbols_->sizes.find(e.name); it != symbols_->sizes.end()) {
        return a_.FromPoly(it->second);
      }
      if (auto it = symbols_->numbers.find(e.name); it != symbols_->numbers.end()) {
        return it->second;
      }
      break;
    case ExprKind::kTuple:
      break;
  }
  throw LimitExceeded("an expression that is not a value");
}

Value Unfolder::EvalReduce(const ExprNode& e, Guard context) {
  auto saved = env_;
  for (const BoundVar& b : e.bound) env_[static_cast<size_t>(b.var)] = Digits();
  std::vector<Atom> loops;
  std::vector<OpenBranch> branches;
  Value v = Reduce(e, 0, &loops, context, &branches);
  env_ = std::move(saved);
  if (e.name == "max") return a_.Max(std::move(branches));
  if (e.name == "min") return a_.Scale(a_.Max(std::move(branches)), Rational(-1));
  return v;
}

// Chooses the digits of the bound variables one after the other; `next` counts digits chosen.
Value Unfolder::Reduce(const ExprNode& e, size_t next, std::vector<Atom>* loops, Guard context,
                       std::vector<OpenBranch>* branches) {
  size_t seen = 0;
  for (const BoundVar& b : e.bound) {
    int size = op_.vars[static_cast<size_t>(b.var)].size;
    const Digits extents = sizes_[static_cast<size_t>(size)].digits;
    if (next >= seen + extents.size()) {
      seen += extents.size();
      continue;
    }
    Poly extent = extents[next - seen];
    const auto var = static_cast<size_t>(b.var);
    auto constant = s_.Constant(extent);
    bool unroll = constant && *constant >= 1 &&
                  (*constant == 1 || (*constant <= kUnroll && e.name != "argmax"));
    if (unroll && e.name == "prod" && *constant > 1) {
      unroll = e.bound.size() == 1 && extents.size() == 1;
    }
    if (unroll) {
      Value total = e.name == "prod" ? a_.Number(Rational(1)) : a_.Zero();
      for (int64_t i = 0; i < *constant; ++i) {
        env_[var]->push_back(s_.Const(i));
        Value v = Reduce(e, next + 1, loops, context, branches);
        total = e.name == "prod" ? a_.Mul(total, v) : a_.Add(total, v);
        env_[var]->pop_back();
      }
      return total;
    }
    Atom a = s_.Fresh(b.name, extent);
    env_[var]->push_back(s_.Of(a));
    loops->push_back(a);
    Guard range = s_.InRange(s_.Of(a), extent);
    Value v = Reduce(e, next + 1, loops, s_.And(context, range), branches);
    loops->pop_back();
    env_[var]->pop_back();
    if (e.name == "sum") return a_.Sum({a}, v);
    return v;
  }
  ExprId body = e.args[0];
  if (e.name == "sum" || (e.name == "prod" && loops->empty())) return Eval(body, context);
  if (e.name == "max" || e.name == "min") {
    for (const Case& c : Cases(body, context)) {
      Value v = e.name == "max" ? c.value : a_.Scale(c.value, Rational(-1));
      branches->push_back({*loops, s_.And(a_.Ranges(*loops), c.guard), v});
    }
    return a_.Zero();
  }
  if (e.name == "prod" || e.name == "argmax") {
    return a_.Opaque(e.name, {*loops, a_.Ranges(*loops), Eval(body, context)});
  }
  throw LimitExceeded("reduction " + e.name);
}

}  // namespace tandem::prover
