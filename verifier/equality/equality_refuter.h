// Looks for numbers on which two graphs differ. Small sizes first.
#ifndef TANDEM_VERIFIER_EQUALITY_EQUALITY_REFUTER_H_
#define TANDEM_VERIFIER_EQUALITY_EQUALITY_REFUTER_H_

#include <cstdint>
#include <map>
#include <optional>
#include <string>

#include "pcg/graph/graph.h"
#include "verifier/certificates/verdict.h"
#include "verifier/equality/size_classes.h"

namespace tandem::prover {

// The seed whose sizes are the graphs' own.
inline constexpr uint64_t kOwnExtents = 1;

// Tries sizes at which all operators exist, until `samples` of them agreed.
std::optional<Counterexample> RefuteEqual(const Graph& source, const Graph& target,
                                          const SizeClasses& classes,
                                          const std::map<std::string, NamedFactor>& sizes,
                                          int samples);

// The value of a uniform constant tensor.
std::optional<double> UniformValue(const Tensor& tensor);

}  // namespace tandem::prover

#endif  // TANDEM_VERIFIER_EQUALITY_EQUALITY_REFUTER_H_
