// Evaluates an operator instance on numbers, one point at a time, from the same equations that the
// proof unfolds: what counterexamples are found with. Extended precision (64-bit mantissa), 1/0 = 0
// as in the proofs; values of inputs are small dyadic numbers, so that sums and products are exact.
#ifndef TANDEM_VERIFIER_PROVER_CONCRETE_H_
#define TANDEM_VERIFIER_PROVER_CONCRETE_H_

#include <cstdint>
#include <exception>
#include <functional>
#include <map>
#include <string>
#include <utility>
#include <vector>

#include "pcg/instance/op_instance.h"

namespace tandem::prover {

struct ConcreteSize {
  int64_t extent = 1;  // loops run over this
  int64_t value = 1;   // the size as a number (the logical one)
  // Added to an index over it, except where it stands alone at a dim (factor) of this very size.
  int64_t offset = 0;
};

// A read outside its tensor, or an operator that cannot be evaluated at these sizes.
class OutOfRange : public std::exception {};

class ConcreteOp {
 public:
  // Value of input `tensor` at one index a factor (all dims' factors in order).
  using Reader = std::function<long double(int tensor, const std::vector<int64_t>& index)>;

  // `symbols`: values of attributes that are symbols, or null.
  ConcreteOp(const OpInstance& op, std::vector<ConcreteSize> sizes, Reader reader,
             const std::map<std::string, double>* symbols = nullptr);

  // Value of a tensor of the instance at an index (one entry a factor). Throws OutOfRange; throws
  // LimitExceeded when the work passes a bound.
  long double At(int tensor, const std::vector<int64_t>& index);
  std::vector<int64_t> Extents(int tensor) const;  // one a factor
  // A size formula under these sizes.
  int64_t Formula(ExprId id);

 private:
  long double Eval(ExprId id);
  long double Read(const ExprNode& e);
  long double Reduce(const ExprNode& e);
  // Factor indices of a dim; false if out of range.
  bool Index(ExprId id, const std::vector<int>& factors, std::vector<int64_t>* out);
  int64_t IndexAt(ExprId id, int size);

  const OpInstance& op_;
  std::vector<ConcreteSize> sizes_;
  Reader reader_;
  std::vector<int64_t> env_;
  std::map<std::pair<int, std::vector<int64_t>>, long double> memo_;
  int64_t steps_ = 0;
  const std::map<std::string, double>* symbols_;
  bool formula_ = false;
};

// The number that input `name_hash` holds at an index: a multiple of 1/4 in [-2.25, 2.25], or an
// integer in [0, bound) for integer inputs, 0 or 1 for booleans.
long double SampleValue(ElementKind kind, uint64_t seed, uint64_t tensor,
                        const std::vector<int64_t>& index, int64_t bound);

// Equal up to rounding.
bool NearlyEqual(long double a, long double b);

}  // namespace tandem::prover

#endif  // TANDEM_VERIFIER_PROVER_CONCRETE_H_
