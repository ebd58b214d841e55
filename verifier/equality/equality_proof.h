// Proves that two graphs over the same sources compute the same outputs: for all values, all sizes
// of the sources and all values of attributes that are symbols. The operators' own equations are
// unfolded; nothing is assumed about operators.
#ifndef TANDEM_VERIFIER_EQUALITY_EQUALITY_PROOF_H_
#define TANDEM_VERIFIER_EQUALITY_EQUALITY_PROOF_H_

#include <map>
#include <string>

#include "pcg/graph/graph.h"
#include "verifier/certificates/verdict.h"
#include "verifier/equality/size_classes.h"

namespace tandem {

struct EqualityOptions {
  // What names in symbolic attributes mean; others are real numbers.
  std::map<std::string, NamedFactor> sizes;
  // exp(a+b) = exp(a) exp(b) may be tried when the proof without it fails.
  bool allow_exp_fact = false;
  // If the theorem for all sizes is not found, prove it for the graphs' own extents.
  bool allow_own_extents = true;
  // What the certificate is about; by default the two graphs' statements.
  std::string subject;
};

// Outputs correspond by position, sources by name. Uniform constants are numbers.
Verdict ProveEqual(const Graph& source, const Graph& target, const EqualityOptions& options = {});

}  // namespace tandem

#endif  // TANDEM_VERIFIER_EQUALITY_EQUALITY_PROOF_H_
