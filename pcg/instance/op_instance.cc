#include "pcg/instance/op_instance.h"

#include <algorithm>
#include <cmath>
#include <map>
#include <optional>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "pcg/instance/instantiator.h"

namespace tandem {

absl::StatusOr<OpInstance> Instantiator::Run() {
  auto classes = RefineFactors(spec_, table_);
  if (!classes.ok()) return classes.status();
  instance_.op = spec_.name;
  instance_.attributes = table_.attributes;
  MakeSizes(*classes);
  MakeOperands();
  for (const EquationSpec& equation : spec_.equations) {
    absl::Status status = Equation(equation);
    if (!status.ok()) return status;
  }
  Definitions();
  return std::move(instance_);
}

void Instantiator::MakeSizes(const std::vector<std::vector<int>>& classes) {
  std::map<int, int> size_of_class;
  for (size_t b = 0; b < table_.bases.size(); ++b) {
    const BaseSize& base = table_.bases[b];
    std::vector<int> ids;
    for (size_t i = 0; i < base.factors.size(); ++i) {
      const auto [it, added] =
          size_of_class.emplace(classes[b][i], static_cast<int>(instance_.sizes.size()));
      if (added) {
        SizeVar size;
        size.name = base.factors.size() == 1 ? base.name : absl::StrCat(base.name, ".", i);
        size.extent = base.factors[i];
        size.constant = base.constant;
        instance_.sizes.push_back(std::move(size));
      } else if (!base.constant) {
        instance_.sizes[static_cast<size_t>(it->second)].constant = false;
      }
      ids.push_back(it->second);
    }
    sizes_of_base_.push_back(std::move(ids));
  }
}

int Instantiator::NewSize(std::string name, int64_t extent, bool constant) {
  SizeVar size;
  size.name = std::move(name);
  size.extent = extent;
  size.constant = constant;
  instance_.sizes.push_back(std::move(size));
  return static_cast<int>(instance_.sizes.size()) - 1;
}

std::vector<int> Instantiator::SizesOfDim(const OperandDim& dim, const std::string& operand) {
  if (dim.unit) {
    if (unit_size_ < 0) unit_size_ = NewSize("1", 1, /*constant=*/true);
    return {unit_size_};
  }
  std::vector<int> ids;
  if (dim.linked) {
    for (int base : dim.bases) {
      const std::vector<int>& of_base = sizes_of_base_[static_cast<size_t>(base)];
      // A part of extent 1 adds no factor to a dim that has others.
      if (dim.bases.size() > 1 && table_.bases[static_cast<size_t>(base)].extent == 1) continue;
      ids.insert(ids.end(), of_base.begin(), of_base.end());
    }
    if (ids.empty()) ids = sizes_of_base_[static_cast<size_t>(dim.bases[0])];
    return ids;
  }
  for (size_t i = 0; i < dim.given.size(); ++i) {
    const std::string& base = table_.bases[static_cast<size_t>(dim.bases[0])].name;
    ids.push_back(NewSize(absl::StrCat(operand, ".", base, ".", i), dim.given[i], false));
  }
  return ids;
}

void Instantiator::AddTensor(const std::string& name, ElementKind kind,
                             const ResolvedOperand& operand) {
  InstanceOperand tensor;
  tensor.name = name;
  tensor.kind = kind;
  OperandSizes all;
  for (const std::vector<OperandDim>& dims : operand.dims) {
    std::vector<std::vector<int>> sizes;
    for (const OperandDim& dim : dims) {
      sizes.push_back(SizesOfDim(dim, name));
      tensor.dims.push_back(sizes.back());
    }
    all.push_back(std::move(sizes));
  }
  tensor_of_[name] = static_cast<int>(instance_.tensors.size());
  operand_sizes_.push_back(std::move(all));
  instance_.tensors.push_back(std::move(tensor));
}

void Instantiator::MakeOperands() {
  for (size_t i = 0; i < spec_.inputs.size(); ++i) {
    if (!table_.inputs[i].present) continue;
    AddTensor(spec_.inputs[i].name, spec_.inputs[i].kind, table_.inputs[i]);
    ++instance_.num_inputs;
  }
  for (size_t i = 0; i < spec_.outputs.size(); ++i) {
    AddTensor(spec_.outputs[i].name, spec_.outputs[i].kind, table_.outputs[i]);
    ++instance_.num_outputs;
  }
}

Digit Instantiator::NewDigit(const std::string& name, int size) {
  LoopVar var;
  var.name = name;
  var.size = size;
  instance_.vars.push_back(std::move(var));
  return {exprs_.Var(static_cast<int>(instance_.vars.size()) - 1), size};
}

std::vector<Digit> Instantiator::NewDigits(const std::string& name, const std::vector<int>& sizes) {
  std::vector<Digit> digits;
  for (size_t i = 0; i < sizes.size(); ++i) {
    digits.push_back(NewDigit(sizes.size() == 1 ? name : absl::StrCat(name, ".", i), sizes[i]));
  }
  return digits;
}

absl::StatusOr<Binding> Instantiator::NewBinding(const BoundVar& var) {
  auto bases = table_.RangeBases(spec_, var.size_name);
  if (!bases.ok()) return bases.status();
  Binding binding;
  for (size_t i = 0; i < bases->size(); ++i) {
    const std::string name = bases->size() == 1 ? var.name : absl::StrCat(var.name, ".", i);
    binding.push_back(NewDigits(name, sizes_of_base_[static_cast<size_t>((*bases)[i])]));
  }
  return binding;
}

std::vector<Digit> Instantiator::Joined(const Binding& binding) {
  std::vector<Digit> all;
  for (const std::vector<Digit>& digits : binding)
    all.insert(all.end(), digits.begin(), digits.end());
  return all;
}

std::vector<int> Instantiator::SizesOf(const std::vector<Digit>& digits) {
  std::vector<int> sizes;
  for (const Digit& digit : digits) sizes.push_back(digit.size);
  return sizes;
}

absl::Status Instantiator::Equation(const EquationSpec& equation) {
  variables_.clear();
  const auto intermediate = table_.intermediates.find(equation.target);
  if (intermediate != table_.intermediates.end()) {
    AddTensor(equation.target, ElementKind::kFloat, intermediate->second);
  }
  InstanceEquation out;
  out.target = tensor_of_[equation.target];
  LeftSide(equation, static_cast<size_t>(out.target), out.vars);
  auto body = Value(equation.body);
  if (!body.ok()) return body.status();
  out.body = *body;
  instance_.equations.push_back(std::move(out));
  return absl::OkStatus();
}

void Instantiator::LeftSide(const EquationSpec& equation, size_t target, std::vector<int>& vars) {
  const ResolvedOperand& operand = *table_.Operand(spec_, equation.target);
  const OperandSizes sizes = operand_sizes_[target];
  const std::vector<DimSpec>* spec_dims = nullptr;
  for (const OperandSpec& output : spec_.outputs) {
    if (output.name == equation.target) spec_dims = &output.dims;
  }
  size_t next = 0;
  for (size_t d = 0; d < operand.dims.size(); ++d) {
    const bool tuple = spec_dims != nullptr && (*spec_dims)[d].kind == DimSpec::Kind::kTuple;
    const bool permuted =
        spec_dims != nullptr && (*spec_dims)[d].kind == DimSpec::Kind::kPermutedGroup;
    if (tuple) {
      const std::vector<int>& bases = operand.dims[d][0].bases;
      TupleLeftSide(equation, next, bases, operand.dims[d][0].linked, sizes[d][0], vars);
      next += bases.size();
      continue;
    }
    const std::string& name = equation.index[next++].name;
    Binding binding(sizes[d].size());
    for (size_t i = 0; i < sizes[d].size(); ++i) {
      const size_t position =
          permuted ? static_cast<size_t>(table_.permutations[(*spec_dims)[d].attr][i]) : i;
      const std::string dim_name = sizes[d].size() == 1 ? name : absl::StrCat(name, ".", position);
      binding[position] = NewDigits(dim_name, sizes[d][i]);
      Append(binding[position], vars);
    }
    variables_[name] = std::move(binding);
  }
}

void Instantiator::Append(const std::vector<Digit>& digits, std::vector<int>& vars) const {
  for (const Digit& digit : digits) vars.push_back(instance_.exprs[digit.expr].ref);
}

void Instantiator::TupleLeftSide(const EquationSpec& equation, size_t first,
                                 const std::vector<int>& bases, bool linked,
                                 const std::vector<int>& sizes, std::vector<int>& vars) {
  std::vector<Digit> own;  // of a dim with factors of its own
  std::vector<int> part_sizes;
  for (int base : bases) {
    if (table_.bases[static_cast<size_t>(base)].extent == 1) continue;
    const std::vector<int>& ids = sizes_of_base_[static_cast<size_t>(base)];
    part_sizes.insert(part_sizes.end(), ids.begin(), ids.end());
  }
  std::vector<ExprId> parts;
  if (!linked || part_sizes.empty()) {
    own = NewDigits(equation.index[first].name, sizes);
    Append(own, vars);
    ExprId excess;
    parts = radix_.Convert(own, part_sizes, excess);
  }
  size_t next = 0;
  for (size_t p = 0; p < bases.size(); ++p) {
    const std::string& name = equation.index[first + p].name;
    const std::vector<int>& ids = sizes_of_base_[static_cast<size_t>(bases[p])];
    std::vector<Digit> digits;
    if (table_.bases[static_cast<size_t>(bases[p])].extent == 1) {
      digits.push_back({exprs_.Number(0), ids[0]});
    } else if (linked) {
      digits = NewDigits(name, ids);
      Append(digits, vars);
    } else {
      for (int id : ids) digits.push_back({parts[next++], id});
    }
    variables_[name] = {std::move(digits)};
  }
}

void Instantiator::Definitions() {
  for (size_t b = 0; b < table_.bases.size(); ++b) {
    const BaseSize& base = table_.bases[b];
    if (!base.definition.valid()) continue;
    const std::vector<int>& sizes = sizes_of_base_[b];
    if (sizes.size() == 1) {
      auto value = Definition(base.definition);
      if (value.ok()) Size(sizes[0]).definition = *value;
      continue;
    }
    // The sum of sizes that share their inner factors defines the leading factor.
    AffineForm form;
    if (!AsAffine(spec_, table_, base.definition, form) || !form.vars.empty()) continue;
    const size_t shared = SharedSuffix(sizes_of_base_, instance_.sizes, sizes, sizes, form);
    if (shared + 1 == sizes.size()) Size(sizes[0]).definition = Offset(form, sizes, shared);
  }
}

absl::StatusOr<ExprId> Instantiator::Definition(ExprId id) {
  const ExprNode& node = spec_.exprs[id];
  if (node.args.empty()) return Value(id);
  std::vector<ExprId> args;
  for (ExprId arg : node.args) {
    auto value = Definition(arg);
    if (!value.ok()) return value;
    args.push_back(*value);
  }
  if (node.kind == ExprKind::kDiv) return exprs_.Binary(ExprKind::kFloorDiv, args[0], args[1]);
  if (node.kind == ExprKind::kNeg) return exprs_.Neg(args[0]);
  if (node.kind == ExprKind::kCall) return exprs_.Call(node.name, std::move(args));
  return exprs_.Binary(node.kind, args[0], args[1]);
}

std::vector<int64_t> PlainShape(const FactoredShape& shape) {
  std::vector<int64_t> plain;
  for (const Factors& factors : shape) {
    int64_t extent = 1;
    for (int64_t factor : factors) extent *= factor;
    plain.push_back(extent);
  }
  return plain;
}

int64_t ElementCount(const FactoredShape& shape) {
  int64_t count = 1;
  for (int64_t extent : PlainShape(shape)) count *= extent;
  return count;
}

FactoredShape OpInstance::ShapeOf(int tensor) const {
  FactoredShape shape;
  for (const std::vector<int>& dim : tensors[static_cast<size_t>(tensor)].dims) {
    Factors factors;
    for (int size : dim) factors.push_back(sizes[static_cast<size_t>(size)].extent);
    shape.push_back(std::move(factors));
  }
  return shape;
}

absl::StatusOr<OpInstance> Instantiate(const OpSpec& spec, const Attributes& attributes,
                                       const std::vector<FactoredShape>& inputs) {
  auto table = ResolveSizes(spec, attributes, inputs, nullptr);
  if (!table.ok()) return table.status();
  return Instantiator(spec, *std::move(table)).Run();
}

absl::StatusOr<OpInstance> InstantiateWithOutputs(const OpSpec& spec, const Attributes& attributes,
                                                  const std::vector<FactoredShape>& inputs,
                                                  const std::vector<FactoredShape>& outputs) {
  auto table = ResolveSizes(spec, attributes, inputs, &outputs);
  if (!table.ok()) return table.status();
  return Instantiator(spec, *std::move(table)).Run();
}

}  // namespace tandem
