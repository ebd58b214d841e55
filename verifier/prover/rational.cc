#include "verifier/prover/rational.h"

#include <charconv>
#include <cmath>
#include <cstdlib>
#include <numeric>

namespace tandem::prover {
namespace {

using Wide = __int128;

Wide Gcd(Wide a, Wide b) {
  if (a < 0) a = -a;
  if (b < 0) b = -b;
  while (b != 0) {
    Wide r = a % b;
    a = b;
    b = r;
  }
  return a;
}

Rational Reduce(Wide n, Wide d) {
  if (n == 0) return Rational();
  Wide g = Gcd(n, d);
  n /= g;
  d /= g;
  constexpr Wide kMax = INT64_MAX;
  if (n > kMax || n < -kMax || d > kMax) throw LimitExceeded("a rational coefficient overflows");
  return Rational(static_cast<int64_t>(n), static_cast<int64_t>(d));
}

}  // namespace

int64_t CheckedAdd(int64_t a, int64_t b) {
  int64_t r;
  if (__builtin_add_overflow(a, b, &r)) throw LimitExceeded("an index coefficient overflows");
  return r;
}

int64_t CheckedMul(int64_t a, int64_t b) {
  int64_t r;
  if (__builtin_mul_overflow(a, b, &r)) throw LimitExceeded("an index coefficient overflows");
  return r;
}

Rational::Rational(int64_t n, int64_t d) : num_(n), den_(d) {
  if (den_ < 0) {
    num_ = -num_;
    den_ = -den_;
  }
  int64_t g = std::gcd(num_, den_);
  if (g > 1) {
    num_ /= g;
    den_ /= g;
  }
}

Rational Rational::operator+(const Rational& o) const {
  return Reduce(Wide(num_) * o.den_ + Wide(o.num_) * den_, Wide(den_) * o.den_);
}
Rational Rational::operator-(const Rational& o) const { return *this + (-o); }
Rational Rational::operator*(const Rational& o) const {
  return Reduce(Wide(num_) * o.num_, Wide(den_) * o.den_);
}
Rational Rational::operator-() const {
  Rational r = *this;
  r.num_ = -r.num_;
  return r;
}
Rational Rational::Inverse() const { return num_ == 0 ? Rational() : Rational(den_, num_); }
Rational Rational::Power(int e) const {
  Rational base = e < 0 ? Inverse() : *this;
  Rational r(1);
  for (int i = 0; i < std::abs(e); ++i) r = r * base;
  return r;
}
std::string Rational::ToString() const {
  std::string s = std::to_string(num_);
  if (den_ != 1) s += "/" + std::to_string(den_);
  return s;
}

bool DecimalRational(double x, Rational* out) {
  if (!std::isfinite(x)) return false;
  char buffer[64];
  auto end =
      std::to_chars(buffer, buffer + sizeof(buffer) - 1, x, std::chars_format::scientific).ptr;
  *end = '\0';
  int64_t digits = 0;
  int exponent = 0;
  bool fraction = false;
  const char* p = buffer;
  bool negative = *p == '-';
  if (negative) ++p;
  for (; p < end && *p != 'e'; ++p) {
    if (*p == '.') {
      fraction = true;
      continue;
    }
    if (digits > 100'000'000) return false;
    digits = digits * 10 + (*p - '0');
    if (fraction) --exponent;
  }
  if (p < end) exponent += std::atoi(p + 1);
  constexpr int64_t kLimit = 100'000'000;
  int64_t num = digits, den = 1;
  for (; exponent > 0; --exponent) {
    num *= 10;
    if (num > kLimit * 10) return false;
  }
  for (; exponent < 0; ++exponent) {
    if (num % 10 == 0) {
      num /= 10;
    } else {
      den *= 10;
    }
    if (den > kLimit) return false;
  }
  if (num > kLimit * 10) return false;
  *out = Rational(negative ? -num : num, den);
  return true;
}

}  // namespace tandem::prover
