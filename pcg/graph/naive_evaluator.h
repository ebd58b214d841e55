// A tree walker over an instance's equations, as slow and plain as the manual's definitions: what
// the fast evaluation is compared with. Tests only.
#ifndef TANDEM_PCG_GRAPH_NAIVE_EVALUATOR_H_
#define TANDEM_PCG_GRAPH_NAIVE_EVALUATOR_H_

#include <cmath>
#include <cstdint>
#include <limits>
#include <stdexcept>
#include <vector>

#include "pcg/graph/interpreter.h"

namespace tandem {

class NaiveEvaluator {
 public:
  NaiveEvaluator(const OpInstance& op, const std::vector<const HostTensor*>& inputs) : op_(op) {
    values_.resize(op.vars.size(), 0);
    tensors_.resize(op.tensors.size());
    for (size_t i = 0; i < inputs.size(); ++i) tensors_[i] = *inputs[i];
  }

  std::vector<HostTensor> Run() {
    for (const InstanceEquation& equation : op_.equations) {
      HostTensor& target = tensors_[static_cast<size_t>(equation.target)];
      target.shape = PlainShape(op_.ShapeOf(equation.target));
      target.data.clear();
      Loop(equation.vars, 0, [&] { target.data.push_back(Value(equation.body)); });
    }
    std::vector<HostTensor> out;
    for (int i = 0; i < op_.num_outputs; ++i) {
      out.push_back(tensors_[static_cast<size_t>(op_.num_inputs + i)]);
    }
    return out;
  }

 private:
  int64_t Extent(int size) const { return op_.sizes[static_cast<size_t>(size)].extent; }

  template <typename F>
  void Loop(const std::vector<int>& vars, size_t level, const F& body) {
    if (level == vars.size()) return body();
    const size_t var = static_cast<size_t>(vars[level]);
    const int64_t extent = Extent(op_.vars[var].size);
    for (int64_t i = 0; i < extent; ++i) {
      values_[var] = static_cast<double>(i);
      Loop(vars, level + 1, body);
    }
  }

  double Read(const ExprNode& node) {
    const InstanceOperand& operand = op_.tensors[static_cast<size_t>(node.ref)];
    int64_t flat = 0;
    for (size_t d = 0; d < operand.dims.size(); ++d) {
      const ExprNode& index = op_.exprs[node.args[d]];
      for (size_t f = 0; f < operand.dims[d].size(); ++f) {
        const double at = Value(index.kind == ExprKind::kTuple ? index.args[f] : node.args[d]);
        const int64_t extent = Extent(operand.dims[d][f]);
        if (at < 0 || at >= static_cast<double>(extent)) {
          if (node.has_else) return Value(node.args.back());
          throw std::out_of_range(operand.name);
        }
        flat = flat * extent + static_cast<int64_t>(at);
      }
    }
    return tensors_[static_cast<size_t>(node.ref)].data.at(static_cast<size_t>(flat));
  }

  double Reduce(const ExprNode& node) {
    std::vector<int> vars;
    for (const BoundVar& bound : node.bound) vars.push_back(bound.var);
    const double inf = std::numeric_limits<double>::infinity();
    double total = node.name == "sum"    ? 0
                   : node.name == "prod" ? 1
                   : node.name == "min"  ? inf
                                         : -inf;
    double best = 0, position = -1;
    Loop(vars, 0, [&] {
      const double value = Value(node.args[0]);
      ++position;
      if (node.name == "sum") total += value;
      if (node.name == "prod") total *= value;
      if (node.name == "min") total = std::min(total, value);
      if (node.name == "argmax" && value > total) best = position;
      if (node.name == "max" || node.name == "argmax") total = std::max(total, value);
    });
    return node.name == "argmax" ? best : total;
  }

  double Call(const ExprNode& node) {
    const double a = Value(node.args[0]);
    if (node.name == "exp") return std::exp(a);
    if (node.name == "log") return std::log(a);
    if (node.name == "sqrt") return std::sqrt(a);
    if (node.name == "rsqrt") return 1 / std::sqrt(a);
    if (node.name == "tanh") return std::tanh(a);
    if (node.name == "erf") return std::erf(a);
    if (node.name == "sin") return std::sin(a);
    if (node.name == "cos") return std::cos(a);
    if (node.name == "abs") return std::abs(a);
    if (node.name == "sign") return a > 0 ? 1 : a < 0 ? -1 : 0;
    if (node.name == "floor") return std::floor(a);
    if (node.name == "isnan") return std::isnan(a) ? 1 : 0;
    if (node.name == "pow") return std::pow(a, Value(node.args[1]));
    if (node.name == "max") return std::max(a, Value(node.args[1]));
    if (node.name == "min") return std::min(a, Value(node.args[1]));
    if (node.name == "uniform") return Uniform(node);
    throw std::invalid_argument(node.name);
  }

  // As docs/operators.md defines it.
  double Uniform(const ExprNode& node) {
    const auto mix = [](uint64_t x) {
      x += 0x9e3779b97f4a7c15ULL;
      x = (x ^ (x >> 30)) * 0xbf58476d1ce4e5b9ULL;
      x = (x ^ (x >> 27)) * 0x94d049bb133111ebULL;
      return x ^ (x >> 31);
    };
    uint64_t state = 0;
    for (ExprId arg : node.args) {
      state = mix(state ^ static_cast<uint64_t>(static_cast<int64_t>(Value(arg))));
    }
    return static_cast<double>(state >> 11) / 9007199254740992.0;
  }

  double Value(ExprId id) {
    const ExprNode& node = op_.exprs[id];
    const auto arg = [&](size_t i) { return Value(node.args[i]); };
    switch (node.kind) {
      case ExprKind::kNumber:
        return node.number;
      case ExprKind::kVar:
        return values_[static_cast<size_t>(node.ref)];
      case ExprKind::kSize:
        return static_cast<double>(Extent(node.ref));
      case ExprKind::kRead:
        return Read(node);
      case ExprKind::kAdd:
        return arg(0) + arg(1);
      case ExprKind::kSub:
        return arg(0) - arg(1);
      case ExprKind::kMul:
        return arg(0) * arg(1);
      case ExprKind::kDiv:
        return arg(0) / arg(1);
      case ExprKind::kNeg:
        return -arg(0);
      case ExprKind::kFloorDiv:
        return std::floor(arg(0) / arg(1));
      case ExprKind::kMod:
        return arg(0) - std::floor(arg(0) / arg(1)) * arg(1);
      case ExprKind::kCall:
        return Call(node);
      case ExprKind::kAnd:
        return arg(0) != 0 && arg(1) != 0;
      case ExprKind::kOr:
        return arg(0) != 0 || arg(1) != 0;
      case ExprKind::kNot:
        return arg(0) == 0;
      case ExprKind::kSelect:
        return arg(0) != 0 ? arg(1) : arg(2);
      case ExprKind::kReduce:
        return Reduce(node);
      case ExprKind::kNoGrad:
        return arg(0);
      case ExprKind::kCompare: {
        const double a = arg(0), b = arg(1);
        if (node.name == "==") return a == b;
        if (node.name == "!=") return a != b;
        if (node.name == "<") return a < b;
        if (node.name == "<=") return a <= b;
        if (node.name == ">") return a > b;
        return a >= b;
      }
      default:
        throw std::invalid_argument("not a value");
    }
  }

  const OpInstance& op_;
  std::vector<double> values_;
  std::vector<HostTensor> tensors_;
};

}  // namespace tandem

#endif  // TANDEM_PCG_GRAPH_NAIVE_EVALUATOR_H_
