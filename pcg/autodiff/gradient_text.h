// Operator text of an adjoint program: a GradientOp that other instances with the same equations
// share. Sizes keep names; one that the operands do not determine (the rows of an embedding's
// table) is given by an attribute of its name; parts of extent 1 of a tuple dim are left out.
#ifndef TANDEM_PCG_AUTODIFF_GRADIENT_TEXT_H_
#define TANDEM_PCG_AUTODIFF_GRADIENT_TEXT_H_

#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "pcg/autodiff/adjoint.h"
#include "pcg/autodiff/autodiff.h"

namespace tandem {

// `program` differentiates `op` by `wanted`, at least one of which has a gradient. The operator's
// name is `base` and a hash of the text.
absl::StatusOr<GradientOp> GradientOperator(const OpInstance& op, const AdjointProgram& program,
                                            const std::vector<int>& wanted,
                                            const std::string& base);

}  // namespace tandem

#endif  // TANDEM_PCG_AUTODIFF_GRADIENT_TEXT_H_
