// Formulas to and from dense data, and their form as operator text.
#include <algorithm>
#include <cmath>
#include <limits>
#include <set>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "absl/strings/str_join.h"
#include "models/onnx/formula.h"

namespace tandem {
namespace {

// Advances a row-major index; false at the end.
bool Next(const std::vector<int64_t>& shape, std::vector<int64_t>* index) {
  for (size_t d = shape.size(); d-- > 0;) {
    if (++(*index)[d] < shape[d]) return true;
    (*index)[d] = 0;
  }
  return false;
}

std::vector<int64_t> Strides(const std::vector<int64_t>& shape) {
  std::vector<int64_t> strides(shape.size(), 1);
  for (size_t d = shape.size(); d-- > 1;) strides[d - 1] = strides[d] * shape[d];
  return strides;
}

bool Same(double a, double b) { return a == b || (std::isnan(a) && std::isnan(b)); }

// Whether the values do not change along dim d.
bool ConstantAlong(const std::vector<int64_t>& shape, const std::vector<double>& values, size_t d) {
  const int64_t stride = Strides(shape)[d];
  const int64_t extent = shape[d];
  for (size_t i = 0; i < values.size(); ++i) {
    const int64_t at = static_cast<int64_t>(i) / stride % extent;
    if (at > 0 && !Same(values[i], values[i - static_cast<size_t>(stride)])) return false;
  }
  return true;
}

// constant + sum coefficient * index with exact arithmetic, or nothing.
std::optional<AffineForm> FitAffine(const std::vector<int64_t>& shape,
                                    const std::vector<double>& values) {
  AffineForm form;
  form.constant = values[0];
  if (!std::isfinite(values[0])) return std::nullopt;
  const std::vector<int64_t> strides = Strides(shape);
  for (size_t d = 0; d < shape.size(); ++d) {
    if (shape[d] < 2) continue;
    const double step = values[static_cast<size_t>(strides[d])] - values[0];
    if (!std::isfinite(step)) return std::nullopt;
    if (step != 0) form.coefficients[static_cast<int>(d)] = step;
  }
  for (size_t i = 0; i < values.size(); ++i) {
    double expected = form.constant;
    for (const auto& [d, c] : form.coefficients) {
      const auto dim = static_cast<size_t>(d);
      expected += c * static_cast<double>(static_cast<int64_t>(i) / strides[dim] % shape[dim]);
    }
    if (values[i] != expected) return std::nullopt;
  }
  return form;
}

std::string Shown(double value) {
  if (std::isinf(value)) return value > 0 ? "inf" : "-inf";
  if (std::isnan(value)) return "(0 * inf)";
  std::string text = absl::StrFormat("%.17g", value);
  const std::string shorter = absl::StrFormat("%.15g", value);
  if (std::stod(shorter) == value) text = shorter;
  return value < 0 ? absl::StrCat("(", text, ")") : text;
}

// Prints formulas as operator text. Conditions and values are different things there.
class Printer {
 public:
  explicit Printer(const FormulaArena& arena) : arena_(arena) {}

  std::string Value(int id) {
    const FormulaNode& n = arena_.node(id);
    switch (n.kind) {
      case FormulaNode::Kind::kNumber:
        return Shown(n.number);
      case FormulaNode::Kind::kIndex:
        return absl::StrCat("i", n.ref);
      case FormulaNode::Kind::kTable: {
        std::vector<std::string> indices;
        for (int arg : n.args) indices.push_back(Value(arg));
        return absl::StrCat("t", Table(n.ref), "[", absl::StrJoin(indices, ", "), "]");
      }
      case FormulaNode::Kind::kCall:
        break;
    }
    if (IsCondition(n.function)) return absl::StrCat("select(", Condition(id), ", 1, 0)");
    if (n.function == "select") {
      return absl::StrCat("select(", Condition(n.args[0]), ", ", Value(n.args[1]), ", ",
                          Value(n.args[2]), ")");
    }
    if (n.function == "isnan") return absl::StrCat("isnan(", Value(n.args[0]), ")");
    if (n.function == "neg") return absl::StrCat("(-", Value(n.args[0]), ")");
    for (const auto& [function, symbol] : kInfix) {
      if (n.function == function) {
        return absl::StrCat("(", Value(n.args[0]), symbol, Value(n.args[1]), ")");
      }
    }
    std::vector<std::string> args;
    for (int arg : n.args) args.push_back(Value(arg));
    return absl::StrCat(n.function, "(", absl::StrJoin(args, ", "), ")");
  }

  const std::vector<int>& tables() const { return tables_; }

 private:
  static constexpr std::pair<const char*, const char*> kInfix[] = {
      {"add", " + "}, {"sub", " - "},       {"mul", " * "},
      {"div", " / "}, {"floordiv", " // "}, {"mod", " % "}};

  static bool IsCondition(const std::string& f) {
    return f == "lt" || f == "le" || f == "eq" || f == "and" || f == "or" || f == "not";
  }

  std::string Condition(int id) {
    const FormulaNode& n = arena_.node(id);
    if (n.kind != FormulaNode::Kind::kCall || !IsCondition(n.function)) {
      return absl::StrCat("(", Value(id), " != 0)");
    }
    if (n.function == "not") return absl::StrCat("(not ", Condition(n.args[0]), ")");
    if (n.function == "and" || n.function == "or") {
      return absl::StrCat("(", Condition(n.args[0]), " ", n.function, " ", Condition(n.args[1]),
                          ")");
    }
    const char* symbol = n.function == "lt" ? " < " : n.function == "le" ? " <= " : " == ";
    return absl::StrCat("(", Value(n.args[0]), symbol, Value(n.args[1]), ")");
  }

  size_t Table(int ref) {
    const auto it = std::find(tables_.begin(), tables_.end(), ref);
    if (it != tables_.end()) return static_cast<size_t>(it - tables_.begin());
    tables_.push_back(ref);
    return tables_.size() - 1;
  }

  const FormulaArena& arena_;
  std::vector<int> tables_;
};

}  // namespace

int FormulaArena::Dense(const std::vector<int64_t>& shape, std::vector<double> values) {
  if (values.empty()) return Number(0);
  // Keep the dims that matter.
  std::vector<int64_t> kept_shape = shape;
  std::vector<int> kept(shape.size());
  for (size_t d = 0; d < shape.size(); ++d) kept[d] = static_cast<int>(d);
  for (size_t d = kept_shape.size(); d-- > 0;) {
    if (kept_shape[d] > 1 && !ConstantAlong(kept_shape, values, d)) continue;
    const int64_t stride = Strides(kept_shape)[d];
    std::vector<double> fewer;
    for (size_t i = 0; i < values.size(); ++i) {
      if (static_cast<int64_t>(i) / stride % kept_shape[d] == 0) fewer.push_back(values[i]);
    }
    values = std::move(fewer);
    kept_shape.erase(kept_shape.begin() + static_cast<int64_t>(d));
    kept.erase(kept.begin() + static_cast<int64_t>(d));
  }
  if (kept.empty()) return Number(values[0]);
  if (auto form = FitAffine(kept_shape, values)) {
    AffineForm renamed;
    renamed.constant = form->constant;
    for (const auto& [d, c] : form->coefficients) {
      renamed.coefficients[kept[static_cast<size_t>(d)]] = c;
    }
    return FromAffine(renamed);
  }
  // Two-valued along a diagonal: select(j - i <= bound, low, high).
  if (kept.size() == 2) {
    const double inside = values[static_cast<size_t>((kept_shape[0] - 1) * kept_shape[1])];
    int64_t bound = -kept_shape[0];  // largest j - i with `inside`
    double outside = inside;
    for (int64_t i = 0; i < kept_shape[0]; ++i) {
      for (int64_t j = 0; j < kept_shape[1]; ++j) {
        const double value = values[static_cast<size_t>(i * kept_shape[1] + j)];
        if (Same(value, inside)) bound = std::max(bound, j - i);
        if (!Same(value, inside)) outside = value;
      }
    }
    bool triangle = true;
    for (int64_t i = 0; i < kept_shape[0] && triangle; ++i) {
      for (int64_t j = 0; j < kept_shape[1] && triangle; ++j) {
        const double value = values[static_cast<size_t>(i * kept_shape[1] + j)];
        triangle = Same(value, j - i <= bound ? inside : outside);
      }
    }
    if (triangle) {
      const int difference = Call("sub", {Index(kept[1]), Index(kept[0])});
      return Call("select", {Call("le", {difference, Number(static_cast<double>(bound))}),
                             Number(inside), Number(outside)});
    }
    // A function of j - i alone: a table of the diagonals.
    const int64_t rows = kept_shape[0], columns = kept_shape[1];
    std::vector<double> diagonals(static_cast<size_t>(rows + columns - 1));
    for (int64_t k = 0; k < rows + columns - 1; ++k) {
      const int64_t i = std::max<int64_t>(rows - 1 - k, 0);
      const int64_t j = std::max<int64_t>(k - (rows - 1), 0);
      diagonals[static_cast<size_t>(k)] = values[static_cast<size_t>(i * columns + j)];
    }
    bool toeplitz = rows > 1 && columns > 1;
    for (int64_t i = 0; i < rows && toeplitz; ++i) {
      for (int64_t j = 0; j < columns && toeplitz; ++j) {
        toeplitz = Same(values[static_cast<size_t>(i * columns + j)],
                        diagonals[static_cast<size_t>(j - i + rows - 1)]);
      }
    }
    if (toeplitz) {
      AffineForm at;
      at.constant = static_cast<double>(rows - 1);
      at.coefficients[kept[1]] = 1;
      at.coefficients[kept[0]] = -1;
      FormulaNode read;
      read.kind = FormulaNode::Kind::kTable;
      read.args = {FromAffine(at)};
      tables_.push_back({{rows + columns - 1}, std::move(diagonals)});
      read.ref = static_cast<int>(tables_.size()) - 1;
      return Intern(std::move(read));
    }
  }
  FormulaNode read;
  read.kind = FormulaNode::Kind::kTable;
  for (int d : kept) read.args.push_back(Index(d));
  FormulaTable data{kept_shape, std::move(values)};
  const auto found = std::find(tables_.begin(), tables_.end(), data);
  read.ref = static_cast<int>(found - tables_.begin());
  if (found == tables_.end()) tables_.push_back(std::move(data));
  return Intern(std::move(read));
}

std::vector<double> FormulaArena::Evaluate(int id, const std::vector<int64_t>& shape,
                                           bool round) const {
  const std::vector<int> order = Reachable(id);
  std::vector<size_t> position(nodes_.size(), 0);
  for (size_t k = 0; k < order.size(); ++k) position[static_cast<size_t>(order[k])] = k;
  std::vector<double> value(order.size());
  std::vector<double> args;
  std::vector<double> result(static_cast<size_t>(Product(shape)));
  std::vector<int64_t> index(shape.size(), 0);
  for (double& out : result) {
    for (size_t k = 0; k < order.size(); ++k) {
      const FormulaNode& n = node(order[k]);
      switch (n.kind) {
        case FormulaNode::Kind::kNumber:
          value[k] = n.number;
          break;
        case FormulaNode::Kind::kIndex:
          value[k] = static_cast<double>(index[static_cast<size_t>(n.ref)]);
          break;
        case FormulaNode::Kind::kTable: {
          const FormulaTable& data = table(n.ref);
          int64_t flat = 0;
          bool inside = true;
          for (size_t d = 0; d < n.args.size(); ++d) {
            const double at = value[position[static_cast<size_t>(n.args[d])]];
            inside = inside && at >= 0 && at < static_cast<double>(data.shape[d]);
            flat = flat * data.shape[d] + (inside ? static_cast<int64_t>(at) : 0);
          }
          // Out of range only behind a select that takes the other side.
          value[k] = inside ? data.values[static_cast<size_t>(flat)]
                            : std::numeric_limits<double>::quiet_NaN();
          break;
        }
        case FormulaNode::Kind::kCall:
          args.clear();
          for (int arg : n.args) args.push_back(value[position[static_cast<size_t>(arg)]]);
          value[k] = ApplyScalar(n.function, args);
          if (round) value[k] = static_cast<float>(value[k]);
          break;
      }
    }
    out = value.back();
    Next(shape, &index);
  }
  return result;
}

double FormulaArena::EvaluateAt(int id, const std::vector<int64_t>& index) const {
  // The one-element tensor at `index`: substitution by evaluation of shifted indices.
  std::map<int, double> value;
  for (int at : Reachable(id)) {
    const FormulaNode& n = node(at);
    if (n.kind == FormulaNode::Kind::kNumber) value[at] = n.number;
    if (n.kind == FormulaNode::Kind::kIndex) {
      value[at] = static_cast<double>(index[static_cast<size_t>(n.ref)]);
    }
    std::vector<double> args;
    for (int arg : n.args) args.push_back(value.at(arg));
    if (n.kind == FormulaNode::Kind::kCall) value[at] = ApplyScalar(n.function, args);
    if (n.kind == FormulaNode::Kind::kTable) {
      const FormulaTable& data = table(n.ref);
      int64_t flat = 0;
      bool inside = true;
      for (size_t d = 0; d < args.size(); ++d) {
        inside = inside && args[d] >= 0 && args[d] < static_cast<double>(data.shape[d]);
        flat = flat * data.shape[d] + (inside ? static_cast<int64_t>(args[d]) : 0);
      }
      value[at] = inside ? data.values[static_cast<size_t>(flat)]
                         : std::numeric_limits<double>::quiet_NaN();
    }
  }
  return value.at(id);
}

FormulaArena::OperatorText FormulaArena::ToOperator(int id, const std::vector<int64_t>& shape,
                                                    absl::string_view kind) const {
  Printer printer(*this);
  const std::string value = printer.Value(id);
  OperatorText text;
  text.tables = printer.tables();
  std::vector<std::string> inputs, sizes, dims, indices;
  for (size_t t = 0; t < text.tables.size(); ++t) {
    std::vector<std::string> names;
    for (size_t d = 0; d < table(text.tables[t]).shape.size(); ++d) {
      names.push_back(absl::StrCat("k", t, "_", d));
    }
    inputs.push_back(absl::StrCat("t", t, "[", absl::StrJoin(names, ", "), "]"));
  }
  for (size_t d = 0; d < shape.size(); ++d) {
    sizes.push_back(absl::StrCat("n", d));
    dims.push_back(absl::StrCat("d", d, " = n", d));
    indices.push_back(absl::StrCat("i", d));
  }
  text.body = absl::StrCat("(", absl::StrJoin(inputs, ", "), sizes.empty() ? "" : "; ",
                           absl::StrJoin(sizes, ", "), ") -> out[", absl::StrJoin(dims, ", "), "]",
                           kind.empty() ? "" : ": ", kind, " { out[", absl::StrJoin(indices, ", "),
                           "] = ", value, " }");
  return text;
}

}  // namespace tandem
