// Last step of instantiation: sizes, tensors and equations of the instance, names replaced by
// indices. Internal to op_instance; op_instance.cc makes sizes and equations, instance_values.cc
// expressions.
#ifndef TANDEM_PCG_INSTANCE_INSTANTIATOR_H_
#define TANDEM_PCG_INSTANCE_INSTANTIATOR_H_

#include <map>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "pcg/instance/instance_exprs.h"
#include "pcg/instance/mixed_radix.h"
#include "pcg/instance/op_factors.h"
#include "pcg/instance/op_sizes.h"

namespace tandem {

// What a name of the text stands for: per dim of its group (one for a size) its digits.
using Binding = std::vector<std::vector<Digit>>;
// Of an operand, per dim of the signature and dim of the operand: its sizes.
using OperandSizes = std::vector<std::vector<std::vector<int>>>;

class Instantiator {
 public:
  Instantiator(const OpSpec& spec, SizeTable table) : spec_(spec), table_(std::move(table)) {}
  absl::StatusOr<OpInstance> Run();

 private:
  // --- Sizes and tensors.
  void MakeSizes(const std::vector<std::vector<int>>& classes);
  int NewSize(std::string name, int64_t extent, bool constant);
  std::vector<int> SizesOfDim(const OperandDim& dim, const std::string& operand);
  void AddTensor(const std::string& name, ElementKind kind, const ResolvedOperand& operand);
  void MakeOperands();

  // --- Digits.
  SizeVar& Size(int id) { return instance_.sizes[static_cast<size_t>(id)]; }

  Digit NewDigit(const std::string& name, int size);
  std::vector<Digit> NewDigits(const std::string& name, const std::vector<int>& sizes);
  absl::StatusOr<Binding> NewBinding(const BoundVar& var);
  static std::vector<Digit> Joined(const Binding& binding);
  static std::vector<int> SizesOf(const std::vector<Digit>& digits);

  // --- Expressions.
  // offset / product of the last `shared` sizes of each term.
  ExprId Offset(const AffineForm& offset, const std::vector<int>& sizes, size_t shared);
  // Index digits + offset over `targets`.
  std::vector<ExprId> ShiftedIndex(const std::vector<Digit>& digits, const AffineForm& offset,
                                   const std::vector<int>& targets, ExprId& excess);
  absl::StatusOr<std::vector<ExprId>> Index(ExprId text, const std::vector<int>& targets,
                                            ExprId& excess);
  bool IsCall(ExprId id, absl::string_view name) const;
  absl::Status Error(absl::string_view message) const { return OpError(spec_, message); }

  absl::StatusOr<ExprId> Read(const ExprNode& node);
  absl::Status CheckConstant(const ExprNode& node, const std::vector<ExprId>& index,
                             const std::vector<int>& sizes, size_t dim);
  absl::Status Regroup(const ExprNode& node, const OperandSizes& operand,
                       std::vector<std::vector<ExprId>>& index);
  absl::Status DimIndex(const ExprNode& node, size_t d, const std::vector<std::vector<int>>& sizes,
                        std::vector<std::vector<ExprId>>& index, std::vector<ExprId>& excesses);
  absl::Status TupleIndex(const ExprNode& arg, const OperandDim& dim, const std::vector<int>& sizes,
                          std::vector<std::vector<ExprId>>& index, std::vector<ExprId>& excesses);
  // i + a < b with i of several digits and everything else a multiple of the inner ones: a question
  // about the leading digits only.
  bool LeadingCompare(const ExprNode& node, ExprId& result);
  absl::StatusOr<ExprId> Value(ExprId id);
  absl::StatusOr<ExprId> Reduce(const ExprNode& node);

  // --- Equations.
  absl::Status Equation(const EquationSpec& equation);
  void LeftSide(const EquationSpec& equation, size_t target, std::vector<int>& vars);
  void Append(const std::vector<Digit>& digits, std::vector<int>& vars) const;
  void TupleLeftSide(const EquationSpec& equation, size_t first, const std::vector<int>& bases,
                     bool linked, const std::vector<int>& sizes, std::vector<int>& vars);

  // --- Formulas of defined sizes.
  void Definitions();
  absl::StatusOr<ExprId> Definition(ExprId id);

  const OpSpec& spec_;
  SizeTable table_;
  OpInstance instance_;
  InstanceExprs exprs_{&instance_};
  MixedRadix radix_{&instance_, &exprs_};
  std::vector<std::vector<int>> sizes_of_base_;
  std::vector<OperandSizes> operand_sizes_;  // by tensor
  std::map<std::string, int, std::less<>> tensor_of_;
  std::map<std::string, Binding, std::less<>> variables_;
  int unit_size_ = -1;
  int select_depth_ = 0;
};

}  // namespace tandem

#endif  // TANDEM_PCG_INSTANCE_INSTANTIATOR_H_
