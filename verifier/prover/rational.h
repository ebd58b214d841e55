// Exact rational numbers with 64-bit parts. An operation whose result does not fit throws
// LimitExceeded, which the prover's entry points turn into Unknown: never a wrong number.
#ifndef TANDEM_VERIFIER_PROVER_RATIONAL_H_
#define TANDEM_VERIFIER_PROVER_RATIONAL_H_

#include <cstdint>
#include <exception>
#include <string>

namespace tandem::prover {

// Thrown inside the prover when a bound on numbers, terms or work is hit. Caught where a proof
// starts (split_proof.cc, rule_proof.cc); never leaves the verifier.
class LimitExceeded : public std::exception {
 public:
  explicit LimitExceeded(std::string what) : what_(std::move(what)) {}
  const char* what() const noexcept override { return what_.c_str(); }

 private:
  std::string what_;
};

int64_t CheckedAdd(int64_t a, int64_t b);
int64_t CheckedMul(int64_t a, int64_t b);

class Rational {
 public:
  Rational() = default;
  Rational(int64_t n) : num_(n) {}  // NOLINT(google-explicit-constructor): numbers are rationals
  Rational(int64_t n, int64_t d);
  int64_t num() const { return num_; }
  int64_t den() const { return den_; }  // > 0, coprime to num
  bool IsZero() const { return num_ == 0; }
  bool IsInteger() const { return den_ == 1; }
  Rational operator+(const Rational& o) const;
  Rational operator-(const Rational& o) const;
  Rational operator*(const Rational& o) const;
  Rational operator-() const;
  Rational Inverse() const;  // 1/0 = 0
  Rational Power(int e) const;
  std::string ToString() const;
  bool operator==(const Rational&) const = default;

 private:
  int64_t num_ = 0;
  int64_t den_ = 1;
};

// The rational that the shortest decimal text of `x` denotes, if numerator and denominator are
// small enough to calculate with; false otherwise (the number then stays an opaque constant).
bool DecimalRational(double x, Rational* out);

}  // namespace tandem::prover

#endif  // TANDEM_VERIFIER_PROVER_RATIONAL_H_
