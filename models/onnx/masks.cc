#include "models/onnx/masks.h"

#include <cmath>
#include <utility>
#include <vector>

namespace tandem {

bool EveryRowHas(OnnxContext& c, const OnnxValue& mask, double finite_where, bool as_condition) {
  FormulaArena& f = c.formulas;
  const auto good = [&](std::pair<double, double> range) {
    if (as_condition) return range.first == finite_where && range.second == finite_where;
    return range.first > -HUGE_VAL;
  };
  if (good(f.Range(mask.formula, mask.shape))) return true;
  if (mask.shape.empty()) return false;
  const size_t last = mask.shape.size() - 1;
  std::vector<int> witnesses = {f.Number(0), f.Number(static_cast<double>(mask.shape[last] - 1))};
  if (last > 0 && mask.shape[last - 1] <= mask.shape[last]) {
    witnesses.push_back(f.Index(static_cast<int>(last) - 1));  // the diagonal
  }
  for (int witness : witnesses) {
    std::vector<int> indices;
    for (size_t d = 0; d < last; ++d) indices.push_back(f.Index(static_cast<int>(d)));
    indices.push_back(witness);
    Dims rows(mask.shape.begin(), mask.shape.end() - 1);
    const int row = f.Simplify(f.Substitute(mask.formula, indices), rows);
    if (good(f.Range(row, rows))) return true;
  }
  if (Product(mask.shape) > (1 << 20)) return false;
  const std::vector<double> values = f.Evaluate(mask.formula, mask.shape);
  const auto n = static_cast<size_t>(mask.shape[last]);
  for (size_t row = 0; row < values.size(); row += n) {
    bool found = false;
    for (size_t j = row; j < row + n; ++j) {
      found = found || (as_condition ? values[j] == finite_where : values[j] > -HUGE_VAL);
    }
    if (!found) return false;
  }
  return true;
}

}  // namespace tandem
