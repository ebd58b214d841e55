#include "models/onnx/formula.h"

#include <algorithm>
#include <cmath>
#include <cstring>
#include <functional>
#include <limits>

#include "absl/strings/str_cat.h"

namespace tandem {
namespace {

constexpr double kInfinity = std::numeric_limits<double>::infinity();

bool IsInteger(double value) { return std::isfinite(value) && value == std::floor(value); }

// Exact text of a node, as the key of deduplication.
std::string Key(const FormulaNode& node) {
  uint64_t bits = 0;
  std::memcpy(&bits, &node.number, sizeof bits);
  std::string key =
      absl::StrCat(static_cast<int>(node.kind), ":", bits, ":", node.ref, ":", node.function);
  for (int arg : node.args) absl::StrAppend(&key, ",", arg);
  return key;
}

}  // namespace

int64_t Product(const std::vector<int64_t>& shape) {
  int64_t product = 1;
  for (int64_t extent : shape) {
    if (extent == 0) return 0;
    if (product > std::numeric_limits<int64_t>::max() / extent) {
      product = std::numeric_limits<int64_t>::max();
    } else {
      product *= extent;
    }
  }
  return product;
}

double ApplyScalar(absl::string_view f, const std::vector<double>& a) {
  if (f == "add") return a[0] + a[1];
  if (f == "sub") return a[0] - a[1];
  if (f == "mul") return a[0] * a[1];
  if (f == "div") return a[0] / a[1];
  if (f == "floordiv") return std::floor(a[0] / a[1]);
  if (f == "mod") return a[0] - a[1] * std::floor(a[0] / a[1]);
  if (f == "pow") return std::pow(a[0], a[1]);
  if (f == "min") return std::min(a[0], a[1]);
  if (f == "max") return std::max(a[0], a[1]);
  if (f == "lt") return a[0] < a[1] ? 1 : 0;
  if (f == "le") return a[0] <= a[1] ? 1 : 0;
  if (f == "eq") return a[0] == a[1] ? 1 : 0;
  if (f == "and") return a[0] != 0 && a[1] != 0 ? 1 : 0;
  if (f == "or") return a[0] != 0 || a[1] != 0 ? 1 : 0;
  if (f == "not") return a[0] == 0 ? 1 : 0;
  if (f == "select") return a[0] != 0 ? a[1] : a[2];
  if (f == "neg") return -a[0];
  if (f == "abs") return std::fabs(a[0]);
  if (f == "sign") return a[0] > 0 ? 1 : a[0] < 0 ? -1 : 0;
  if (f == "floor") return std::floor(a[0]);
  if (f == "exp") return std::exp(a[0]);
  if (f == "log") return std::log(a[0]);
  if (f == "sqrt") return std::sqrt(a[0]);
  if (f == "tanh") return std::tanh(a[0]);
  if (f == "erf") return std::erf(a[0]);
  if (f == "sin") return std::sin(a[0]);
  if (f == "cos") return std::cos(a[0]);
  if (f == "isnan") return std::isnan(a[0]) ? 1 : 0;
  return std::numeric_limits<double>::quiet_NaN();
}

int FormulaArena::Intern(FormulaNode node) {
  const auto [it, inserted] = interned_.emplace(Key(node), static_cast<int>(nodes_.size()));
  if (inserted) {
    affine_.push_back(node.kind == FormulaNode::Kind::kIndex ||
                      (node.kind == FormulaNode::Kind::kNumber && std::isfinite(node.number)));
    nodes_.push_back(std::move(node));
  }
  return it->second;
}

int FormulaArena::Number(double value) {
  FormulaNode node;
  node.number = value == 0 ? 0.0 : value;  // no negative zero
  return Intern(std::move(node));
}

int FormulaArena::Index(int dim) {
  FormulaNode node;
  node.kind = FormulaNode::Kind::kIndex;
  node.ref = dim;
  return Intern(std::move(node));
}

std::optional<double> FormulaArena::AsNumber(int id) const {
  if (node(id).kind != FormulaNode::Kind::kNumber) return std::nullopt;
  return node(id).number;
}

std::optional<AffineForm> FormulaArena::AsAffine(int id) const {
  if (!affine_[static_cast<size_t>(id)]) return std::nullopt;
  const FormulaNode& n = node(id);
  AffineForm form;
  if (n.kind == FormulaNode::Kind::kNumber) {
    if (!std::isfinite(n.number)) return std::nullopt;
    form.constant = n.number;
    return form;
  }
  if (n.kind == FormulaNode::Kind::kIndex) {
    form.coefficients[n.ref] = 1;
    return form;
  }
  if (n.kind != FormulaNode::Kind::kCall) return std::nullopt;
  if (n.function == "add") {  // made by FromAffine: both sides are affine
    auto lhs = AsAffine(n.args[0]);
    auto rhs = AsAffine(n.args[1]);
    if (!lhs || !rhs) return std::nullopt;
    lhs->constant += rhs->constant;
    for (const auto& [dim, c] : rhs->coefficients) lhs->coefficients[dim] += c;
    return lhs;
  }
  if (n.function == "mul") {
    const auto factor = AsNumber(n.args[0]);
    auto rhs = AsAffine(n.args[1]);
    if (!factor || !std::isfinite(*factor) || !rhs) return std::nullopt;
    rhs->constant *= *factor;
    for (auto& [dim, c] : rhs->coefficients) c *= *factor;
    return rhs;
  }
  return std::nullopt;
}

int FormulaArena::FromAffine(const AffineForm& form) {
  int id = -1;
  const auto raw = [&](const char* function, int lhs, int rhs) {
    FormulaNode node;
    node.kind = FormulaNode::Kind::kCall;
    node.function = function;
    node.args = {lhs, rhs};
    const int made = Intern(std::move(node));
    affine_[static_cast<size_t>(made)] = true;
    return made;
  };
  for (const auto& [dim, c] : form.coefficients) {
    if (c == 0) continue;
    const int term = c == 1 ? Index(dim) : raw("mul", Number(c), Index(dim));
    id = id < 0 ? term : raw("add", id, term);
  }
  if (id < 0) return Number(form.constant);
  return form.constant == 0 ? id : raw("add", id, Number(form.constant));
}

// add, sub, mul and neg of affine forms stay affine, in one canonical order.
std::optional<int> FormulaArena::Arithmetic(absl::string_view f, const std::vector<int>& args) {
  if (f != "add" && f != "sub" && f != "mul" && f != "neg") return std::nullopt;
  auto lhs = AsAffine(args[0]);
  if (!lhs) return std::nullopt;
  if (f == "neg") {
    lhs->constant = -lhs->constant;
    for (auto& [dim, c] : lhs->coefficients) c = -c;
    return FromAffine(*lhs);
  }
  auto rhs = AsAffine(args[1]);
  if (!rhs) return std::nullopt;
  if (f == "mul") {
    if (!AsNumber(args[0])) std::swap(lhs, rhs);
    if (!lhs->coefficients.empty()) return std::nullopt;
    rhs->constant *= lhs->constant;
    for (auto& [dim, c] : rhs->coefficients) c *= lhs->constant;
    return FromAffine(*rhs);
  }
  const double sign = f == "sub" ? -1 : 1;
  lhs->constant += sign * rhs->constant;
  for (const auto& [dim, c] : rhs->coefficients) lhs->coefficients[dim] += sign * c;
  return FromAffine(*lhs);
}

// Affine sides are brought to `indices <= number` (or ==); strict ones too where all is integral.
int FormulaArena::Compare(const std::string& f, int lhs, int rhs) {
  const auto raw = [&](const std::string& function, int a, int b) {
    FormulaNode node;
    node.kind = FormulaNode::Kind::kCall;
    node.function = function;
    node.args = {a, b};
    return Intern(std::move(node));
  };
  const auto difference = Arithmetic("sub", {lhs, rhs});
  if (!difference) {
    if (lhs == rhs && node(lhs).kind != FormulaNode::Kind::kCall) return Number(f == "lt" ? 0 : 1);
    return raw(f, lhs, rhs);
  }
  AffineForm form = *AsAffine(*difference);
  if (form.coefficients.empty()) return Number(ApplyScalar(f, {form.constant, 0}));
  bool integral = IsInteger(form.constant);
  for (const auto& [dim, c] : form.coefficients) integral = integral && IsInteger(c);
  const double bound = -form.constant;
  form.constant = 0;
  if (f == "lt" && integral) return raw("le", FromAffine(form), Number(bound - 1));
  return raw(f, FromAffine(form), Number(bound));
}

int FormulaArena::Call(absl::string_view f, std::vector<int> args) {
  std::vector<double> numbers;
  for (int arg : args) {
    if (const auto number = AsNumber(arg)) numbers.push_back(*number);
  }
  if (numbers.size() == args.size()) return Number(ApplyScalar(f, numbers));
  if (const auto affine = Arithmetic(f, args)) return *affine;
  if (f == "lt" || f == "le" || f == "eq") return Compare(std::string(f), args[0], args[1]);
  const auto is = [&](size_t i, double value) {
    const auto number = AsNumber(args[i]);
    return number && *number == value;
  };
  if (f == "add" && is(0, 0)) return args[1];
  if ((f == "add" || f == "sub") && is(1, 0)) return args[0];
  if (f == "mul" && is(0, 1)) return args[1];
  if ((f == "mul" || f == "div") && is(1, 1)) return args[0];
  if (f == "and" && (is(0, 0) || is(1, 0))) return Number(0);
  if (f == "and" && is(0, 1)) return args[1];
  if (f == "and" && is(1, 1)) return args[0];
  if (f == "or" && (is(0, 1) || is(1, 1))) return Number(1);
  if (f == "or" && is(0, 0)) return args[1];
  if (f == "or" && is(1, 0)) return args[0];
  if ((f == "and" || f == "or" || f == "min" || f == "max") && args[0] == args[1]) return args[0];
  if (f == "select" && args[1] == args[2]) return args[1];
  if (f == "select" && AsNumber(args[0])) return is(0, 0) ? args[2] : args[1];
  if (f == "select" && is(1, 1) && is(2, 0)) return args[0];
  if (f == "not" && node(args[0]).function == "not") return node(args[0]).args[0];
  if (f == "select" && node(args[0]).function == "not") {
    return Call("select", {node(args[0]).args[0], args[2], args[1]});
  }
  FormulaNode node;
  node.kind = FormulaNode::Kind::kCall;
  node.function = std::string(f);
  node.args = std::move(args);
  return Intern(std::move(node));
}

std::vector<int> FormulaArena::Reachable(int id) const {
  std::vector<int> order;
  std::vector<bool> seen(nodes_.size(), false);
  std::vector<std::pair<int, bool>> stack = {{id, false}};
  while (!stack.empty()) {
    const auto [at, done] = stack.back();
    stack.pop_back();
    if (done) {
      order.push_back(at);
      continue;
    }
    if (seen[static_cast<size_t>(at)]) continue;
    seen[static_cast<size_t>(at)] = true;
    stack.emplace_back(at, true);
    for (int arg : node(at).args) stack.emplace_back(arg, false);
  }
  return order;
}

bool FormulaArena::DependsOn(int id, int dim) const {
  for (int at : Reachable(id)) {
    if (node(at).kind == FormulaNode::Kind::kIndex && node(at).ref == dim) return true;
  }
  return false;
}

std::pair<double, double> FormulaArena::Range(int id, const std::vector<int64_t>& shape) const {
  std::map<int, std::pair<double, double>> known;
  return RangeOf(id, shape, &known);
}

std::pair<double, double> FormulaArena::RangeOf(
    int id, const std::vector<int64_t>& shape,
    std::map<int, std::pair<double, double>>* known) const {
  if (const auto it = known->find(id); it != known->end()) return it->second;
  if (const auto number = AsNumber(id)) return {*number, *number};
  if (const auto form = AsAffine(id)) {
    double low = form->constant, high = form->constant;
    for (const auto& [dim, c] : form->coefficients) {
      const double reach = c * static_cast<double>(shape[static_cast<size_t>(dim)] - 1);
      (reach < 0 ? low : high) += reach;
    }
    return {low, high};
  }
  const FormulaNode& n = node(id);
  if (n.kind == FormulaNode::Kind::kTable) {
    const auto& values = table(n.ref).values;
    if (values.empty()) return {-kInfinity, kInfinity};
    const auto [low, high] = std::minmax_element(values.begin(), values.end());
    return {*low, *high};
  }
  if (n.function == "select") {
    const auto a = RangeOf(n.args[1], shape, known);
    const auto b = RangeOf(n.args[2], shape, known);
    return (*known)[id] = {std::min(a.first, b.first), std::max(a.second, b.second)};
  }
  static const std::vector<std::string> kConditions = {"lt", "le", "eq", "and", "or", "not"};
  if (std::find(kConditions.begin(), kConditions.end(), n.function) != kConditions.end()) {
    return {0, 1};
  }
  return {-kInfinity, kInfinity};
}

int64_t FormulaArena::TreeSize(int id, int64_t limit) const {
  std::map<int, int64_t> size;
  for (int at : Reachable(id)) {
    int64_t sum = 1;
    for (int arg : node(at).args) sum = std::min(limit, sum + size.at(arg));
    size[at] = sum;
  }
  return size.at(id);
}

int FormulaArena::Substitute(int id, const std::vector<int>& indices) {
  std::map<int, int> result;
  for (int at : Reachable(id)) {
    const FormulaNode n = node(at);
    int replaced = at;
    if (n.kind == FormulaNode::Kind::kIndex) {
      replaced = indices[static_cast<size_t>(n.ref)];
    } else if (!n.args.empty()) {
      std::vector<int> args;
      for (int arg : n.args) args.push_back(result.at(arg));
      if (n.kind == FormulaNode::Kind::kCall) {
        replaced = Call(n.function, std::move(args));
      } else {
        const FormulaTable& data = table(n.ref);
        std::vector<double> constant;
        for (int arg : args) {
          if (const auto number = AsNumber(arg)) constant.push_back(*number);
        }
        if (constant.size() == args.size()) {
          int64_t flat = 0;
          bool inside = true;
          for (size_t d = 0; d < args.size(); ++d) {
            inside = inside && constant[d] >= 0 && constant[d] < static_cast<double>(data.shape[d]);
            flat = flat * data.shape[d] + static_cast<int64_t>(constant[d]);
          }
          replaced = Number(inside ? data.values[static_cast<size_t>(flat)]
                                   : std::numeric_limits<double>::quiet_NaN());
        } else {
          FormulaNode read = n;
          read.args = std::move(args);
          replaced = Intern(std::move(read));
        }
      }
    }
    result[at] = replaced;
  }
  return result.at(id);
}

int FormulaArena::Simplify(int id, const std::vector<int64_t>& shape) {
  std::map<int, int> result;
  for (int at : Reachable(id)) {
    const FormulaNode n = node(at);
    int replaced = at;
    if (n.kind == FormulaNode::Kind::kCall) {
      std::vector<int> args;
      for (int arg : n.args) args.push_back(result.at(arg));
      replaced = Call(n.function, args);
      const FormulaNode now = node(replaced);
      if (now.kind == FormulaNode::Kind::kCall && now.args.size() == 2) {
        const auto a = Range(now.args[0], shape);
        const auto b = Range(now.args[1], shape);
        if (now.function == "le" && a.second <= b.first) replaced = Number(1);
        if (now.function == "le" && a.first > b.second) replaced = Number(0);
        if (now.function == "lt" && a.second < b.first) replaced = Number(1);
        if (now.function == "lt" && a.first >= b.second) replaced = Number(0);
        if (now.function == "eq" && (a.second < b.first || a.first > b.second)) {
          replaced = Number(0);
        }
        const auto by = AsNumber(now.args[1]);
        if (by && a.first >= 0 && a.second < *by) {
          if (now.function == "mod") replaced = now.args[0];
          if (now.function == "floordiv") replaced = Number(0);
        }
        if (now.function == "min" && a.second <= b.first) replaced = now.args[0];
        if (now.function == "min" && b.second <= a.first) replaced = now.args[1];
        if (now.function == "max" && a.first >= b.second) replaced = now.args[0];
        if (now.function == "max" && b.first >= a.second) replaced = now.args[1];
      }
    }
    result[at] = replaced;
  }
  return result.at(id);
}

}  // namespace tandem
