// An instance of any operator, with small shapes made up from its signature, so that certificates
// and tests can walk all operators there are.
#ifndef TANDEM_VERIFIER_SAMPLE_INSTANCES_H_
#define TANDEM_VERIFIER_SAMPLE_INSTANCES_H_

#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "pcg/instance/op_instance.h"
#include "pcg/language/op_spec.h"

namespace tandem {

// Instances of `spec`, with attributes that fit. Error if none can be made up.
absl::StatusOr<OpInstance> SampleInstance(const OpSpec& spec);

// Of the gradient operators of `forward`, for all its inputs that are floats; none if it has none.
absl::StatusOr<std::vector<OpInstance>> GradientInstances(const OpInstance& forward);

// The only operator of a text, applied. Aborts the test on errors.
OpInstance InstanceOfText(const std::string& text, const std::vector<FactoredShape>& inputs,
                          const Attributes& attributes = {});

}  // namespace tandem

#endif  // TANDEM_VERIFIER_SAMPLE_INSTANCES_H_
