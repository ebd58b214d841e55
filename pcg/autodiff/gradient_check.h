// Checks of gradient operators against what they must be, for tests: central differences in float64
// and, where an operator is linear in an input, the adjoint identity <g, f(x)> = <f'(g), x>.
#ifndef TANDEM_PCG_AUTODIFF_GRADIENT_CHECK_H_
#define TANDEM_PCG_AUTODIFF_GRADIENT_CHECK_H_

#include <algorithm>
#include <cmath>
#include <random>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/strings/str_cat.h"
#include "pcg/autodiff/autodiff.h"
#include "pcg/graph/interpreter.h"

namespace tandem {

struct OperatorCase {
  Attributes attributes;
  std::vector<FactoredShape> shapes;  // of the inputs that are present
};

inline std::vector<const HostTensor*> Pointers(const std::vector<HostTensor>& tensors) {
  std::vector<const HostTensor*> pointers;
  for (const HostTensor& t : tensors) pointers.push_back(&t);
  return pointers;
}

inline HostTensor RandomTensor(const FactoredShape& shape, double low, double high,
                               std::mt19937_64& random) {
  HostTensor t{PlainShape(shape), {}};
  t.data.resize(static_cast<size_t>(ElementCount(shape)));
  for (double& x : t.data) {
    x = low + (high - low) * static_cast<double>(random() >> 11) / 9007199254740992.0;
  }
  return t;
}

// Values that integer operands take are classes or positions: 0 and 1 are always there. Floats keep
// off 0, where a quotient bends too much for a difference.
inline std::vector<HostTensor> RandomInputs(const OpInstance& op, double low, double high,
                                            std::mt19937_64& random) {
  std::vector<HostTensor> inputs;
  for (int i = 0; i < op.num_inputs; ++i) {
    const bool floats = op.input(i).kind == ElementKind::kFloat;
    inputs.push_back(RandomTensor(op.ShapeOf(i), floats ? low : 0, floats ? high : 2, random));
    for (double& x : inputs.back().data) {
      if (!floats) x = std::floor(x);
      if (floats && std::abs(x) < 0.2) x += x < 0 ? -0.25 : 0.25;
    }
  }
  return inputs;
}

inline double Dot(const HostTensor& a, const HostTensor& b) {
  double sum = 0;
  for (size_t i = 0; i < a.data.size(); ++i) sum += a.data[i] * b.data[i];
  return sum;
}

// sum over float outputs of <g, output>.
inline absl::StatusOr<double> Weighted(const OpInstance& op, const std::vector<HostTensor>& inputs,
                                       const std::vector<HostTensor>& g) {
  auto outputs = Evaluate(op, Pointers(inputs));
  if (!outputs.ok()) return outputs.status();
  double sum = 0;
  for (int o = 0; o < op.num_outputs; ++o) {
    if (op.output(o).kind == ElementKind::kFloat) {
      sum += Dot((*outputs)[static_cast<size_t>(o)], g[static_cast<size_t>(o)]);
    }
  }
  return sum;
}

// The gradient operators' values per input; empty where none gives it.
inline absl::StatusOr<std::vector<HostTensor>> RunGradients(
    const OpInstance& op, const std::vector<GradientOp>& gradients,
    const std::vector<HostTensor>& inputs, const std::vector<HostTensor>& g) {
  auto outputs = Evaluate(op, Pointers(inputs));
  if (!outputs.ok()) return outputs.status();
  std::vector<HostTensor> result(inputs.size());
  for (const GradientOp& gradient : gradients) {
    std::vector<FactoredShape> shapes;
    std::vector<const HostTensor*> operands;
    for (const GradientOp::Operand& operand : gradient.inputs) {
      const auto at = static_cast<size_t>(operand.position);
      const bool input = operand.source == GradientOp::Source::kInput;
      const bool output = operand.source == GradientOp::Source::kOutput;
      operands.push_back(input ? &inputs[at] : output ? &(*outputs)[at] : &g[at]);
      shapes.push_back(op.ShapeOf(operand.position + (input ? 0 : op.num_inputs)));
    }
    auto instance = Instantiate(gradient.spec, gradient.attributes, shapes);
    if (!instance.ok()) return instance.status();
    auto values = Evaluate(*instance, operands);
    if (!values.ok()) return values.status();
    for (size_t k = 0; k < gradient.gradient_of.size(); ++k) {
      result[static_cast<size_t>(gradient.gradient_of[k])] = std::move((*values)[k]);
    }
  }
  return result;
}

// Largest |gradient - central difference| / (1 + |difference|) over all elements of all of
// `wanted`; an error if a gradient has the wrong shape.
inline absl::StatusOr<double> GradientError(const OpInstance& op,
                                            const std::vector<GradientOp>& gradients,
                                            const std::vector<int>& wanted,
                                            std::vector<HostTensor> inputs,
                                            const std::vector<HostTensor>& g) {
  auto values = RunGradients(op, gradients, inputs, g);
  if (!values.ok()) return values.status();
  double worst = 0;
  for (int input : wanted) {
    const auto i = static_cast<size_t>(input);
    const HostTensor& gradient = (*values)[i];
    if (!gradient.data.empty() && gradient.shape != inputs[i].shape) {
      return absl::InternalError(absl::StrCat("gradient of input ", input, " has the wrong shape"));
    }
    for (size_t k = 0; k < inputs[i].data.size(); ++k) {
      const double h = 1e-5, x = inputs[i].data[k];
      inputs[i].data[k] = x + h;
      auto above = Weighted(op, inputs, g);
      if (!above.ok()) return above.status();
      inputs[i].data[k] = x - h;
      auto below = Weighted(op, inputs, g);
      if (!below.ok()) return below.status();
      inputs[i].data[k] = x;
      const double difference = (*above - *below) / (2 * h);
      const double found = gradient.data.empty() ? 0 : gradient.data[k];
      const double error = std::abs(found - difference) / (1 + std::abs(difference));
      worst = error > worst || std::isnan(error) ? error : worst;
      if (std::isnan(worst)) return worst;
    }
  }
  return worst;
}

}  // namespace tandem

#endif  // TANDEM_PCG_AUTODIFF_GRADIENT_CHECK_H_
