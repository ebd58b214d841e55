// An operator instance as complete text: what proofs are remembered by and certificates hash. Two
// instances have equal text if and only if they differ in nothing but extents of sizes that the
// operator's text does not fix.
#ifndef TANDEM_VERIFIER_CERTIFICATES_STATEMENT_H_
#define TANDEM_VERIFIER_CERTIFICATES_STATEMENT_H_

#include <string>

#include "pcg/dtype.h"
#include "pcg/instance/op_instance.h"

namespace tandem {

std::string InstanceStatement(const OpInstance& instance);

// What values of a type are to the proofs: 'r' reals, 'i' integers, 'b' booleans.
char ElementLetter(DType dtype);

}  // namespace tandem

#endif  // TANDEM_VERIFIER_CERTIFICATES_STATEMENT_H_
