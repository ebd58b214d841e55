// What a proof attempt answers. Unknown is never proved: it is not loaded by default and passes no
// test.
#ifndef TANDEM_VERIFIER_CERTIFICATES_VERDICT_H_
#define TANDEM_VERIFIER_CERTIFICATES_VERDICT_H_

#include <cstdint>
#include <string>
#include <utility>
#include <variant>
#include <vector>

#include "verifier/certificates/certificate.h"

namespace tandem {

struct Proved {
  Certificate certificate;
};

// Numbers for which both sides differ. Found and confirmed by evaluating the operators' own
// equations; input values are a function of (seed, tensor, logical index).
struct Counterexample {
  std::vector<std::pair<std::string, int64_t>> sizes;
  int64_t degree = 1;
  int64_t device = 0;          // coordinate on the axis
  std::string tensor;          // the output that differs
  std::vector<int64_t> index;  // logical, one entry a factor
  double expected = 0;
  double got = 0;
  uint64_t seed = 0;
  std::string what;  // "value", "shape ...", "a read out of range"
  // Of a rule: the values that both sides were given there, "p=0.5", "x[0,1]=-2", in order of use.
  std::vector<std::string> given;
};
// One line; what was given is cut where the line gets long.
std::string ToString(const Counterexample& example);

struct Refuted {
  Counterexample counterexample;
};

struct Unknown {
  std::string reason;
};

using Verdict = std::variant<Proved, Refuted, Unknown>;

inline bool IsProved(const Verdict& v) { return std::holds_alternative<Proved>(v); }
inline bool IsRefuted(const Verdict& v) { return std::holds_alternative<Refuted>(v); }
inline bool IsUnknown(const Verdict& v) { return std::holds_alternative<Unknown>(v); }
// "proved", "refuted: ...", "unknown: ...".
std::string ToString(const Verdict& verdict);

}  // namespace tandem

#endif  // TANDEM_VERIFIER_CERTIFICATES_VERDICT_H_
