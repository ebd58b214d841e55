// Symbolic evaluation of an operator instance: its equations, unfolded, as a value in normal form.
// Sizes are symbols; attributes are the instance's numbers. A size that is split has two digits
// (degree, piece), and so has every index over it: no division appears.
#ifndef TANDEM_VERIFIER_PROVER_UNFOLD_H_
#define TANDEM_VERIFIER_PROVER_UNFOLD_H_

#include <functional>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "pcg/instance/op_instance.h"
#include "verifier/prover/algebra.h"
#include "verifier/prover/solver.h"

namespace tandem::prover {

// Per dim, its digits major to minor; or one flat index where the digits are not known.
using TensorIndex = std::vector<std::vector<Poly>>;

// What a size of the instance means in this evaluation.
struct SizeBinding {
  std::vector<Poly> digits;  // extents that loops over it run through
  Poly value;                // the size where it is used as a number: the logical one
  // Added to an index over it, except where it stands alone at a dim (factor) of this very size.
  Poly offset;
};

// Attributes that stay symbols in a rule: sizes by name, other variables.
struct Symbols {
  std::map<std::string, Poly> sizes;
  std::map<std::string, Value> numbers;
};

// The value of input `input` at an index, under a condition that holds there.
using InputReader = std::function<Value(int input, const TensorIndex& index, Guard context)>;

// Digits of flat index p for the given extents. If they do not follow by inspection: quotients and
// remainders if `divide`, else nothing.
std::optional<std::vector<Poly>> Unflatten(Store& store, Solver& solver, Poly p,
                                           const std::vector<Poly>& extents, Guard context,
                                           bool divide);
Poly Flatten(Store& store, const std::vector<Poly>& digits, const std::vector<Poly>& extents);

class Unfolder {
 public:
  // `base`: what always holds (the range of a device coordinate in offsets).
  Unfolder(Algebra& algebra, Solver& solver, const OpInstance& op, std::vector<SizeBinding> sizes,
           InputReader reader, Guard base, const Symbols* symbols = nullptr);

  // The value of output `output` at `index` (all digits given), which lies in range.
  Value Output(int output, const TensorIndex& index);
  // A formula of attributes kept in another arena.
  Poly Formula(const ExprArena& exprs, ExprId id);
  // Extents of a tensor's dims, digit by digit.
  std::vector<std::vector<Poly>> Extents(int tensor) const;
  // A formula over sizes (a defined size's), division rounding down.
  Poly Formula(ExprId id);

  // Reads that could not be shown to be in range; empty = all are.
  const std::vector<std::string>& out_of_range() const { return out_of_range_; }

 private:
  using Digits = std::vector<Poly>;
  struct Lambda {
    std::vector<Atom> params;  // one a digit, in order
    Value body;
  };
  struct Case {
    Guard guard;
    Value value;
  };

  const Lambda& Equation(int tensor);
  Value Apply(int tensor, const TensorIndex& index, Guard context);
  Value Eval(ExprId id, Guard context);
  // The value as a case distinction (selects at the top), for reductions that are not sums.
  std::vector<Case> Cases(ExprId id, Guard context);
  Value EvalRead(const ExprNode& e, Guard context);
  std::vector<Case> ReadCases(const ExprNode& e, Guard context);
  Value EvalReduce(const ExprNode& e, Guard context);
  Value Reduce(const ExprNode& e, size_t next, std::vector<Atom>* loops, Guard context,
               std::vector<OpenBranch>* branches);
  Guard EvalGuard(ExprId id, Guard context);
  const ExprNode& Node(ExprId id) const { return exprs_ ? (*exprs_)[id] : op_.exprs[id]; }
  Poly EvalPoly(ExprId id, Guard context);
  bool IsInteger(ExprId id) const;
  // Index `id` into factors `sizes` of a dim.
  Digits DigitsOf(ExprId id, const std::vector<int>& sizes, Guard context, bool* flat);
  Digits ExtentsOf(const std::vector<int>& sizes) const;
  Poly VarValue(int var);

  Algebra& a_;
  Store& s_;
  Solver& solver_;
  const OpInstance& op_;
  std::vector<SizeBinding> sizes_;
  InputReader reader_;
  Guard base_;
  const Symbols* symbols_;
  std::vector<std::optional<Digits>> env_;  // per loop variable
  std::map<int, Lambda> lambdas_;
  bool formula_ = false;
  const ExprArena* exprs_ = nullptr;  // instead of the instance's, for Formula
  std::vector<std::string> out_of_range_;
};

}  // namespace tandem::prover

#endif  // TANDEM_VERIFIER_PROVER_UNFOLD_H_
