#include "pcg/autodiff/autodiff.h"

#include <algorithm>
#include <map>
#include <optional>
#include <set>
#include <string>
#include <tuple>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "pcg/autodiff/adjoint.h"
#include "pcg/autodiff/gradient_library.h"
#include "pcg/autodiff/gradient_text.h"

namespace tandem {
namespace {

// Fewer reductions first (work), then fewer operands (memory between forward and backward).
std::tuple<int, int> Effort(const AdjointProgram& program) {
  int reductions = 0;
  std::vector<bool> read(program.tensors.size(), false);
  const auto walk = [&](const auto& self, ExprId id) -> void {
    const ExprNode& node = program.exprs[id];
    if (node.kind == ExprKind::kReduce) ++reductions;
    if (node.kind == ExprKind::kRead) read[static_cast<size_t>(node.ref)] = true;
    for (ExprId arg : node.args) self(self, arg);
  };
  for (const auto& e : program.equations) walk(walk, e.body);
  for (const auto& e : program.equations) read[static_cast<size_t>(e.target)] = false;
  return {reductions, static_cast<int>(std::count(read.begin(), read.end(), true))};
}

bool HasGradient(const AdjointProgram& program) {
  return std::any_of(program.gradients.begin(), program.gradients.end(),
                     [](int tensor) { return tensor >= 0; });
}

// One operator for the gradients of all of `wanted`; none if all are zero.
absl::StatusOr<std::optional<GradientOp>> GradientOf(const OpInstance& op,
                                                     const std::vector<int>& wanted,
                                                     const std::vector<GradientSeed>& seeds,
                                                     const std::string& base) {
  std::optional<AdjointProgram> best;
  for (const bool inline_adjoints : {false, true}) {
    for (const bool use_outputs : {true, false}) {
      auto program = Differentiate(op, wanted, seeds, {use_outputs, inline_adjoints});
      if (!program.ok()) return program.status();
      if (!HasGradient(*program)) return std::optional<GradientOp>();
      if (!best || Effort(*program) < Effort(*best)) best.emplace(*std::move(program));
    }
  }
  if (wanted.size() == 1) {
    auto known = LibraryGradient(op, *best, wanted[0]);
    if (!known.ok() || known->has_value()) return known;
  }
  auto written = GradientOperator(op, *best, wanted, base);
  if (!written.ok()) return written.status();
  return std::optional<GradientOp>(*std::move(written));
}

// Attributes that are exponents in some equation.
std::set<std::string> Exponents(const OpSpec& spec) {
  std::set<std::string> names;
  for (const ExprNode& node : spec.exprs.nodes) {
    if (node.kind != ExprKind::kCall || node.name != "pow") continue;
    const ExprNode& exponent = spec.exprs[node.args[1]];
    if (exponent.kind == ExprKind::kAttr) names.insert(exponent.name);
  }
  return names;
}

bool IsSizeName(const OpSpec& spec, const std::string& name) {
  for (const OperandSpec& operand : spec.inputs) {
    for (const DimSpec& dim : operand.dims) {
      const auto& parts = dim.parts;
      if (dim.name == name || std::find(parts.begin(), parts.end(), name) != parts.end())
        return true;
    }
  }
  return false;
}

}  // namespace

absl::StatusOr<OpInstance> InstantiateForGradients(const OpSpec& spec, const Attributes& attributes,
                                                   const std::vector<FactoredShape>& inputs) {
  auto plain = Instantiate(spec, attributes, inputs);
  if (!plain.ok()) return plain;
  Attributes symbolic = attributes;
  const std::set<std::string> exponents = Exponents(spec);
  for (const AttrSpec& attr : spec.attributes) {
    if (exponents.count(attr.name) != 0 || IsSizeName(spec, attr.name)) continue;
    const AttrValue& value = plain->attributes.at(attr.name);
    std::string text;
    if (const auto* integer = std::get_if<int64_t>(&value)) text = absl::StrCat(*integer);
    if (const auto* number = std::get_if<double>(&value)) text = absl::StrFormat("%.17g", *number);
    if (!text.empty()) symbolic[attr.name] = absl::StrCat("$", attr.name, "=", text);
  }
  auto instance = Instantiate(spec, symbolic, inputs);
  if (!instance.ok()) return plain;  // an attribute that must be a number
  instance->attributes = plain->attributes;
  return instance;
}

absl::StatusOr<std::vector<GradientOp>> GradientsOf(const OpInstance& instance,
                                                    const std::vector<int>& wanted,
                                                    const std::vector<GradientSeed>& seeds) {
  std::vector<GradientSeed> all = seeds;
  if (all.empty()) all.assign(static_cast<size_t>(instance.num_outputs), GradientSeed::kGiven);
  if (all.size() != static_cast<size_t>(instance.num_outputs)) {
    return absl::InvalidArgumentError(absl::StrCat(
        "operator ", instance.op, " has ", instance.num_outputs, " outputs; give a seed each"));
  }
  for (int input : wanted) {
    if (input < 0 || input >= instance.num_inputs) {
      return absl::InvalidArgumentError(
          absl::StrCat("operator ", instance.op, " has no input ", input));
    }
    if (instance.input(input).kind != ElementKind::kFloat) {
      return absl::InvalidArgumentError(
          absl::StrCat("operator ", instance.op, ": input '", instance.input(input).name,
                       "' is not of floats and has no gradient; ask for float inputs only"));
    }
  }
  std::vector<GradientOp> gradients;
  const auto add = [&](absl::StatusOr<std::optional<GradientOp>> one) {
    if (one.ok() && one->has_value()) gradients.push_back(**std::move(one));
    return one.status();
  };
  if (instance.equations.size() > 1) {
    absl::Status status =
        add(GradientOf(instance, wanted, all, absl::StrCat(instance.op, "_grad")));
    if (!status.ok()) return status;
    return gradients;
  }
  for (int input : wanted) {
    absl::Status status;
    std::optional<GradientOp> tabled;
    if (all[0] == GradientSeed::kGiven) {
      auto found = TabledGradient(instance, input);
      if (!found.ok()) return found.status();
      tabled = *std::move(found);
    }
    if (tabled) {
      gradients.push_back(*std::move(tabled));
    } else {
      status = add(GradientOf(instance, {input}, all, absl::StrCat(instance.op, "_grad", input)));
    }
    if (!status.ok()) return status;
  }
  return gradients;
}

}  // namespace tandem
