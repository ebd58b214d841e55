// First step of instantiation: ranks of groups and plain extents of all sizes of an operator
// applied to shapes. Internal to op_instance.
#ifndef TANDEM_PCG_INSTANCE_OP_SIZES_H_
#define TANDEM_PCG_INSTANCE_OP_SIZES_H_

#include <string>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "pcg/instance/op_instance.h"
#include "pcg/instance/size_table.h"
#include "pcg/language/op_spec.h"

namespace tandem {

// `outputs` null: inferred. Checks attributes, ranks and extents.
absl::StatusOr<SizeTable> ResolveSizes(const OpSpec& spec, const Attributes& attributes,
                                       const std::vector<FactoredShape>& inputs,
                                       const std::vector<FactoredShape>* outputs);

// number + sum of coefficient * index variable + sum of coefficient * size, by base.
struct AffineForm {
  double number = 0;
  std::vector<std::pair<std::string, double>> vars;
  std::vector<std::pair<int, double>> sizes;
  bool IsNumber() const { return vars.empty() && sizes.empty(); }
};
// Of an expression of the text; false if it is not affine.
bool AsAffine(const OpSpec& spec, const SizeTable& table, ExprId id, AffineForm& form);

// Gives a base its extent, or says which two places disagree. `place`: "dim 1 of 'lhs'".
absl::Status SetExtent(const OpSpec& spec, SizeTable& table, int base, int64_t extent,
                       const std::string& place);
// Extents of all sizes that the laid-out inputs tell, and which broadcast dims are units.
absl::Status SolveInputExtents(const OpSpec& spec, SizeTable& table);
std::string PlaceOf(const OperandSpec& operand, size_t dim);
int64_t ProductOf(const Factors& factors);

// Value of a size's formula; on integers, `/` rounds to minus infinity.
absl::StatusOr<double> EvaluateFormula(const OpSpec& spec, const SizeTable& table, ExprId id);
bool DependsOnSizes(const OpSpec& spec, ExprId id);

}  // namespace tandem

#endif  // TANDEM_PCG_INSTANCE_OP_SIZES_H_
