// Unfolding of what is an integer: indices, sizes, and conditions over them.
#include <cmath>

#include "verifier/prover/unfold.h"

namespace tandem::prover {

Poly Unfolder::VarValue(int var) {
  const SizeBinding& size = sizes_[static_cast<size_t>(op_.vars[static_cast<size_t>(var)].size)];
  Poly flat = Flatten(s_, *env_[static_cast<size_t>(var)], size.digits);
  return s_.Add(flat, size.offset);
}

bool Unfolder::IsInteger(ExprId id) const {
  const ExprNode& e = Node(id);
  switch (e.kind) {
    case ExprKind::kNumber:
      return std::isfinite(e.number) && std::floor(e.number) == e.number &&
             std::fabs(e.number) < 1e15;
    case ExprKind::kVar:
    case ExprKind::kSize:
      return true;
    case ExprKind::kSelect:
      return IsInteger(e.args[1]) && IsInteger(e.args[2]);
    case ExprKind::kRead:
      return !e.has_else && op_.tensors[static_cast<size_t>(e.ref)].kind == ElementKind::kInt;
    case ExprKind::kFloorDiv:
    case ExprKind::kMod:
    case ExprKind::kAdd:
    case ExprKind::kSub:
    case ExprKind::kMul:
    case ExprKind::kNeg: {
      for (ExprId a : e.args) {
        if (!IsInteger(a)) return false;
      }
      return true;
    }
    case ExprKind::kCall:
      return e.name == "floor";
    case ExprKind::kReduce:
      return e.name == "argmax";
    case ExprKind::kNoGrad:
      return IsInteger(e.args[0]);
    case ExprKind::kDiv:
      return formula_ && IsInteger(e.args[0]) && IsInteger(e.args[1]);
    case ExprKind::kAttr:
      return symbols_ != nullptr && symbols_->sizes.count(e.name) > 0;
    case ExprKind::kTuple:
    case ExprKind::kCompare:
    case ExprKind::kAnd:
    case ExprKind::kOr:
    case ExprKind::kNot:
      return false;
  }
  return false;
}

Poly Unfolder::EvalPoly(ExprId id, Guard context) {
  const ExprNode& e = Node(id);
  auto arg = [&](size_t i) { return EvalPoly(e.args[i], context); };
  auto divisor = [&](size_t i) {
    Poly d = arg(i);
    auto c = s_.Constant(d);
    if (c ? *c < 1 : !s_.SizesAtLeast(d, 1)) throw LimitExceeded("division by an index");
    return d;
  };
  switch (e.kind) {
    case ExprKind::kNumber:
      if (IsInteger(id)) return s_.Const(static_cast<int64_t>(e.number));
      break;
    case ExprKind::kVar:
      return VarValue(e.ref);
    case ExprKind::kSize:
      return sizes_[static_cast<size_t>(e.ref)].value;
    case ExprKind::kAdd:
      return s_.Add(arg(0), arg(1));
    case ExprKind::kSub:
      return s_.Sub(arg(0), arg(1));
    case ExprKind::kMul:
      return s_.Mul(arg(0), arg(1));
    case ExprKind::kNeg:
      return s_.Scale(arg(0), -1);
    case ExprKind::kNoGrad:
      return arg(0);
    case ExprKind::kFloorDiv: {
      Poly d = divisor(1);
      return s_.FloorDiv(arg(0), d);
    }
    case ExprKind::kMod: {
      Poly d = divisor(1);
      return s_.Mod(arg(0), d);
    }
    case ExprKind::kDiv:
      if (formula_) {
        Poly d = divisor(1);
        return s_.FloorDiv(arg(0), d);
      }
      break;
    case ExprKind::kCall: {
      if (e.name != "floor") break;
      const ExprNode& x = Node(e.args[0]);
      if (x.kind == ExprKind::kDiv && IsInteger(x.args[0]) && IsInteger(x.args[1])) {
        Poly d = EvalPoly(x.args[1], context);
        if (s_.SizesAtLeast(d, 1)) return s_.FloorDiv(EvalPoly(x.args[0], context), d);
      }
      break;
    }
    case ExprKind::kAttr:
      if (IsInteger(id)) return symbols_->sizes.at(e.name);
      throw LimitExceeded("attribute " + e.name + " is used as an integer but is no size");
    case ExprKind::kRead:
    case ExprKind::kReduce:
    case ExprKind::kSelect:
    case ExprKind::kTuple:
    case ExprKind::kCompare:
    case ExprKind::kAnd:
    case ExprKind::kOr:
    case ExprKind::kNot:
      break;
  }
  if (e.kind == ExprKind::kNumber || e.kind == ExprKind::kDiv) {
    throw LimitExceeded("an index that is not an integer");
  }
  Value v = Eval(id, context);
  if (auto p = a_.AsPoly(v)) return *p;
  // A real number must not pass for an integer unknown.
  if (!IsInteger(id)) throw LimitExceeded("an index that is not known to be an integer");
  return s_.Of(s_.ValueAtom(v));
}

Guard Unfolder::EvalGuard(ExprId id, Guard context) {
  const ExprNode& e = Node(id);
  switch (e.kind) {
    case ExprKind::kAnd:
      return s_.And(EvalGuard(e.args[0], context), EvalGuard(e.args[1], context));
    case ExprKind::kOr:
      return s_.Or({EvalGuard(e.args[0], context), EvalGuard(e.args[1], context)});
    case ExprKind::kNot:
      return s_.Not(EvalGuard(e.args[0], context));
    case ExprKind::kCompare:
      break;
    default:
      return s_.Not(a_.ValueEq(Eval(id, context)));
  }
  bool integers = IsInteger(e.args[0]) && IsInteger(e.args[1]);
  auto ge = [&](int x, int y) {
    if (integers) {
      return s_.Ge(s_.Sub(EvalPoly(e.args[static_cast<size_t>(x)], context),
                          EvalPoly(e.args[static_cast<size_t>(y)], context)));
    }
    return a_.ValueGe(a_.Sub(Eval(e.args[static_cast<size_t>(x)], context),
                             Eval(e.args[static_cast<size_t>(y)], context)));
  };
  auto eq = [&] {
    if (integers) {
      return s_.Eq(s_.Sub(EvalPoly(e.args[0], context), EvalPoly(e.args[1], context)));
    }
    return a_.ValueEq(a_.Sub(Eval(e.args[0], context), Eval(e.args[1], context)));
  };
  if (e.name == "==") return eq();
  if (e.name == "!=") return s_.Not(eq());
  if (e.name == ">=") return ge(0, 1);
  if (e.name == "<=") return ge(1, 0);
  if (e.name == ">") return s_.Not(ge(1, 0));
  if (e.name == "<") return s_.Not(ge(0, 1));
  throw LimitExceeded("comparison " + e.name);
}

}  // namespace tandem::prover
