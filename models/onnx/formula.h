// Index formulas: tensors whose elements are a function of their indices. Masks, positions, rotary
// tables and shape arithmetic of an exported model are kept in this form while it is imported, so
// that a mask over 8192 x 8192 positions is three nodes and not half a gigabyte.
//
// A formula is an id in a FormulaArena; equal formulas have equal ids. `kIndex d` is the index
// along dim d of the tensor that the formula is read as. Conditions are 0 or 1.
#ifndef TANDEM_MODELS_ONNX_FORMULA_H_
#define TANDEM_MODELS_ONNX_FORMULA_H_

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"

namespace tandem {

struct FormulaNode {
  enum class Kind : uint8_t { kNumber, kIndex, kTable, kCall };
  Kind kind = Kind::kNumber;
  double number = 0;
  int ref = -1;           // kIndex: dim; kTable: table
  std::string function;   // kCall
  std::vector<int> args;  // kCall: arguments; kTable: one index a dim of the table
  bool operator==(const FormulaNode&) const = default;
};

// A dense piece of data read by formulas.
struct FormulaTable {
  std::vector<int64_t> shape;
  std::vector<double> values;
  bool operator==(const FormulaTable&) const = default;
};

// constant + sum of coefficient * index.
struct AffineForm {
  double constant = 0;
  std::map<int, double> coefficients;
  bool operator==(const AffineForm&) const = default;
};

class FormulaArena {
 public:
  int Number(double value);
  int Index(int dim);
  // Applies a function with its arguments simplified: add sub mul div floordiv mod pow min max;
  // lt le eq; and or not; select; neg abs sign floor exp log sqrt tanh erf sin cos isnan.
  int Call(absl::string_view function, std::vector<int> args);
  // Values in row-major order, in their simplest form: a number, an affine form, a two-valued
  // triangle, a table of the dims it depends on.
  int Dense(const std::vector<int64_t>& shape, std::vector<double> values);

  const FormulaNode& node(int id) const { return nodes_[static_cast<size_t>(id)]; }
  const FormulaTable& table(int ref) const { return tables_[static_cast<size_t>(ref)]; }

  std::optional<double> AsNumber(int id) const;
  std::optional<AffineForm> AsAffine(int id) const;
  int FromAffine(const AffineForm& form);
  bool DependsOn(int id, int dim) const;
  // Smallest and largest value for indices within `shape`; infinite where not known.
  std::pair<double, double> Range(int id, const std::vector<int64_t>& shape) const;

  // Index d is replaced by formula indices[d].
  int Substitute(int id, const std::vector<int>& indices);
  // Decides comparisons, minima and maxima that the index ranges decide.
  int Simplify(int id, const std::vector<int64_t>& shape);

  // All elements, row-major. `round` rounds the value of every function to float32, as the
  // exporter's own framework did. The caller bounds the number of elements.
  std::vector<double> Evaluate(int id, const std::vector<int64_t>& shape, bool round = false) const;
  double EvaluateAt(int id, const std::vector<int64_t>& index) const;

  // Nodes of the formula written out as a tree, at most `limit`.
  int64_t TreeSize(int id, int64_t limit) const;
  // The text of an operator that makes the formula: `operator NAME(t0[..], ..; n0, n1) ->
  // out[d0 = n0, d1 = n1]: KIND`. Tables become inputs, in order of `tables`.
  struct OperatorText {
    std::string body;         // the text after "operator NAME"
    std::vector<int> tables;  // table numbers, one an input
  };
  OperatorText ToOperator(int id, const std::vector<int64_t>& shape, absl::string_view kind) const;

 private:
  int Intern(FormulaNode node);
  int Compare(const std::string& function, int lhs, int rhs);
  std::pair<double, double> RangeOf(int id, const std::vector<int64_t>& shape,
                                    std::map<int, std::pair<double, double>>* known) const;
  std::optional<int> Arithmetic(absl::string_view function, const std::vector<int>& args);
  std::vector<int> Reachable(int id) const;  // children before parents

  std::vector<FormulaNode> nodes_;
  std::vector<bool> affine_;  // made by FromAffine
  std::map<std::string, int> interned_;
  std::vector<FormulaTable> tables_;
};

// Number of elements; INT64_MAX where it does not fit.
int64_t Product(const std::vector<int64_t>& shape);

// Value of a scalar function on numbers; what Evaluate and the folding of constants use.
double ApplyScalar(absl::string_view function, const std::vector<double>& args);

}  // namespace tandem

#endif  // TANDEM_MODELS_ONNX_FORMULA_H_
