// Random numbers as a function of (seed, name, index) and nothing else: any device computes its own
// piece of a tensor, and any distribution of the work gives the same numbers.
#ifndef TANDEM_RUNTIME_RANDOM_H_
#define TANDEM_RUNTIME_RANDOM_H_

#include <cmath>
#include <cstdint>

#include "absl/strings/string_view.h"

namespace tandem {

// The stream of one named tensor.
class RandomStream {
 public:
  RandomStream(uint64_t seed, absl::string_view name) {
    uint64_t hash = 0xcbf29ce484222325u;  // FNV-1a
    for (char c : name) hash = (hash ^ static_cast<unsigned char>(c)) * 0x100000001b3u;
    key_ = Mix(hash + Mix(seed));
  }
  // In [0, 1), 53 bits.
  double Uniform(int64_t index) const { return ToUnit(Bits(index, 0)); }
  // Mean 0, variance 1 (Box and Muller).
  double Normal(int64_t index) const {
    constexpr double kTwoPi = 6.283185307179586;
    const double radius = std::sqrt(-2 * std::log(1 - ToUnit(Bits(index, 0))));
    return radius * std::cos(kTwoPi * ToUnit(Bits(index, 1)));
  }
  // In [0, bound).
  int64_t Integer(int64_t index, int64_t bound) const {
    return static_cast<int64_t>(Uniform(index) * static_cast<double>(bound));
  }

 private:
  static double ToUnit(uint64_t bits) { return static_cast<double>(bits >> 11) * 0x1p-53; }
  uint64_t Bits(int64_t index, uint64_t which) const {
    return Mix(key_ + 2 * static_cast<uint64_t>(index) + which);
  }
  // SplitMix64's step and finaliser (Steele, Lea, Flood 2014).
  static uint64_t Mix(uint64_t z) {
    z += 0x9e3779b97f4a7c15u;
    z = (z ^ (z >> 30)) * 0xbf58476d1ce4e5b9u;
    z = (z ^ (z >> 27)) * 0x94d049bb133111ebu;
    return z ^ (z >> 31);
  }
  uint64_t key_;
};

}  // namespace tandem

#endif  // TANDEM_RUNTIME_RANDOM_H_
