// Gradients that are operators of the library already. Movement operators have theirs in a table (a
// reshape's gradient is a reshape); a gradient found to be a copy or a plain sum of the output's is
// the library's identity or reduce_sum.
#ifndef TANDEM_PCG_AUTODIFF_GRADIENT_LIBRARY_H_
#define TANDEM_PCG_AUTODIFF_GRADIENT_LIBRARY_H_

#include <optional>

#include "absl/status/statusor.h"
#include "pcg/autodiff/adjoint.h"
#include "pcg/autodiff/autodiff.h"

namespace tandem {

// From the table, for an operator of that name in BuiltinOperators(); none if it has no entry (or
// none for these attributes). `input` is the position of a float input.
absl::StatusOr<std::optional<GradientOp>> TabledGradient(const OpInstance& op, int input);

// `program` has one gradient. None if it is neither a copy nor a sum over adjacent dims.
absl::StatusOr<std::optional<GradientOp>> LibraryGradient(const OpInstance& op,
                                                          const AdjointProgram& program, int input);

}  // namespace tandem

#endif  // TANDEM_PCG_AUTODIFF_GRADIENT_LIBRARY_H_
