#include "pcg/op_instance.h"

#include <algorithm>
#include <cmath>
#include <map>
#include <optional>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "pcg/instance_exprs.h"
#include "pcg/mixed_radix.h"
#include "pcg/op_factors.h"
#include "pcg/op_sizes.h"
#include "pcg/symbolic_attribute.h"

namespace tandem {
namespace {

// What a name of the text stands for: per dim of its group (one for a size) its digits.
using Binding = std::vector<std::vector<Digit>>;

class Instantiator {
 public:
  Instantiator(const OpSpec& spec, SizeTable table) : spec_(spec), table_(std::move(table)) {}

  absl::StatusOr<OpInstance> Run() {
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

 private:
  // --- Sizes and tensors.

  void MakeSizes(const std::vector<std::vector<int>>& classes) {
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

  int NewSize(std::string name, int64_t extent, bool constant) {
    SizeVar size;
    size.name = std::move(name);
    size.extent = extent;
    size.constant = constant;
    instance_.sizes.push_back(std::move(size));
    return static_cast<int>(instance_.sizes.size()) - 1;
  }

  std::vector<int> SizesOfDim(const OperandDim& dim, const std::string& operand) {
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

  // Per dim of the signature and dim of the operand: its sizes.
  using OperandSizes = std::vector<std::vector<std::vector<int>>>;

  void AddTensor(const std::string& name, ElementKind kind, const ResolvedOperand& operand) {
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

  void MakeOperands() {
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

  // --- Digits.

  SizeVar& Size(int id) { return instance_.sizes[static_cast<size_t>(id)]; }

  Digit NewDigit(const std::string& name, int size) {
    LoopVar var;
    var.name = name;
    var.size = size;
    instance_.vars.push_back(std::move(var));
    return {exprs_.Var(static_cast<int>(instance_.vars.size()) - 1), size};
  }

  std::vector<Digit> NewDigits(const std::string& name, const std::vector<int>& sizes) {
    std::vector<Digit> digits;
    for (size_t i = 0; i < sizes.size(); ++i) {
      digits.push_back(NewDigit(sizes.size() == 1 ? name : absl::StrCat(name, ".", i), sizes[i]));
    }
    return digits;
  }

  absl::StatusOr<Binding> NewBinding(const BoundVar& var) {
    auto bases = table_.RangeBases(spec_, var.size_name);
    if (!bases.ok()) return bases.status();
    Binding binding;
    for (size_t i = 0; i < bases->size(); ++i) {
      const std::string name = bases->size() == 1 ? var.name : absl::StrCat(var.name, ".", i);
      binding.push_back(NewDigits(name, sizes_of_base_[static_cast<size_t>((*bases)[i])]));
    }
    return binding;
  }

  static std::vector<Digit> Joined(const Binding& binding) {
    std::vector<Digit> all;
    for (const std::vector<Digit>& digits : binding)
      all.insert(all.end(), digits.begin(), digits.end());
    return all;
  }

  static std::vector<int> SizesOf(const std::vector<Digit>& digits) {
    std::vector<int> sizes;
    for (const Digit& digit : digits) sizes.push_back(digit.size);
    return sizes;
  }

  // --- Expressions.

  // offset / product of the last `shared` sizes of each term.
  ExprId Offset(const AffineForm& offset, const std::vector<int>& sizes, size_t shared) {
    double product = 1;
    for (size_t i = sizes.size() - shared; i < sizes.size(); ++i) {
      product *= static_cast<double>(Size(sizes[i]).extent);
    }
    ExprId value = exprs_.Number(0);
    for (const auto& [base, coefficient] : offset.sizes) {
      const std::vector<int>& ids = sizes_of_base_[static_cast<size_t>(base)];
      const ExprId term = radix_.SizeProduct(ids, ids.size() - shared);
      const ExprId scaled =
          exprs_.Binary(ExprKind::kMul, exprs_.Number(std::abs(coefficient)), term);
      value = exprs_.Binary(coefficient < 0 ? ExprKind::kSub : ExprKind::kAdd, value, scaled);
    }
    const double number = offset.number / product;
    return exprs_.Binary(number < 0 ? ExprKind::kSub : ExprKind::kAdd, value,
                         exprs_.Number(std::abs(number)));
  }

  // Index digits + offset over `targets`.
  std::vector<ExprId> ShiftedIndex(const std::vector<Digit>& digits, const AffineForm& offset,
                                   const std::vector<int>& targets, ExprId& excess) {
    const std::vector<int> from = SizesOf(digits);
    const bool zero = offset.number == 0 && offset.sizes.empty();
    if (zero) return radix_.Convert(digits, targets, excess);
    const size_t shared = SharedSuffix(sizes_of_base_, instance_.sizes, from, targets, offset);
    const std::vector<Digit> lead(digits.begin(), digits.end() - static_cast<int64_t>(shared));
    const std::vector<int> lead_targets(targets.begin(),
                                        targets.end() - static_cast<int64_t>(shared));
    const ExprId value = exprs_.Add(radix_.Flat(lead), Offset(offset, targets, shared));
    std::vector<ExprId> out;
    if (lead_targets.empty()) {
      excess = value;
    } else {
      excess = exprs_.Number(0);
      out = radix_.Split(value, lead_targets);
    }
    for (size_t i = lead.size(); i < digits.size(); ++i) out.push_back(digits[i].expr);
    return out;
  }

  absl::StatusOr<std::vector<ExprId>> Index(ExprId text, const std::vector<int>& targets,
                                            ExprId& excess) {
    AffineForm form;
    if (AsAffine(spec_, table_, text, form) && form.vars.size() <= 1 &&
        (form.vars.empty() || form.vars[0].second == 1)) {
      std::vector<Digit> digits;
      if (!form.vars.empty()) digits = Joined(variables_[form.vars[0].first]);
      form.vars.clear();
      return ShiftedIndex(digits, form, targets, excess);
    }
    auto value = Value(text);
    if (!value.ok()) return value.status();
    return radix_.Split(*value, targets);
  }

  bool IsCall(ExprId id, absl::string_view name) const {
    return spec_.exprs[id].kind == ExprKind::kCall && spec_.exprs[id].name == name;
  }

  absl::Status Error(absl::string_view message) const { return OpError(spec_, message); }

  absl::StatusOr<ExprId> Read(const ExprNode& node) {
    const auto tensor = tensor_of_.find(node.name);
    if (tensor == tensor_of_.end()) {  // a missing optional input
      for (const OperandSpec& input : spec_.inputs) {
        if (input.name == node.name) return exprs_.Number(input.default_value);
      }
      return Error(absl::StrCat("reads '", node.name, "' before its equation"));
    }
    const size_t id = static_cast<size_t>(tensor->second);
    const size_t indices = node.args.size() - (node.has_else ? 1 : 0);
    const OperandSizes& operand = operand_sizes_[id];
    std::vector<std::vector<ExprId>> index;  // per dim of the tensor
    std::vector<ExprId> excesses;
    if (indices == 1 && IsCall(node.args[0], "regroup")) {
      absl::Status status = Regroup(node, operand, index);
      if (!status.ok()) return status;
    } else {
      for (size_t d = 0; d < indices; ++d) {
        absl::Status status = DimIndex(node, d, operand[d], index, excesses);
        if (!status.ok()) return status;
      }
    }
    ExprNode read;
    read.kind = ExprKind::kRead;
    read.ref = tensor->second;
    read.name = node.name;
    read.has_else = node.has_else;
    for (size_t d = 0; d < index.size(); ++d) {
      absl::Status status = CheckConstant(node, index[d], instance_.tensors[id].dims[d], d);
      if (!status.ok()) return status;
      read.args.push_back(index[d].size() == 1 ? index[d][0] : exprs_.Tuple(index[d]));
    }
    ExprId otherwise;
    if (node.has_else) {
      auto value = Value(node.args.back());
      if (!value.ok()) return value;
      otherwise = *value;
      read.args.push_back(otherwise);
    }
    ExprId result = exprs_.Node(std::move(read));
    for (ExprId excess : excesses) {
      const bool known = exprs_.IsNumber(excess);
      if (known && exprs_.NumberOf(excess) == 0) continue;
      if (node.has_else) {
        result = exprs_.Select(exprs_.Compare("==", excess, exprs_.Number(0)), result, otherwise);
      } else if (known && select_depth_ == 0) {
        return Error(absl::StrCat("reads '", node.name, "' out of range"));
      }
    }
    return result;
  }

  absl::Status CheckConstant(const ExprNode& node, const std::vector<ExprId>& index,
                             const std::vector<int>& sizes, size_t dim) {
    for (size_t i = 0; i < index.size(); ++i) {
      if (node.has_else || select_depth_ > 0 || !exprs_.IsNumber(index[i])) continue;
      const double value = exprs_.NumberOf(index[i]);
      if (value >= 0 && value < static_cast<double>(Size(sizes[i]).extent)) continue;
      return Error(absl::StrCat("reads dim ", dim, " of '", node.name, "' at ", value,
                                ", out of range ", Size(sizes[i]).extent));
    }
    return absl::OkStatus();
  }

  absl::Status Regroup(const ExprNode& node, const OperandSizes& operand,
                       std::vector<std::vector<ExprId>>& index) {
    const std::string& var = spec_.exprs[spec_.exprs[node.args[0]].args[0]].name;
    const std::vector<Digit> digits = Joined(variables_[var]);
    std::vector<int> targets;
    for (const auto& dims : operand) {
      for (const std::vector<int>& sizes : dims)
        targets.insert(targets.end(), sizes.begin(), sizes.end());
    }
    int64_t have = 1, want = 1;
    for (int size : targets) have *= Size(size).extent;
    for (const Digit& digit : digits) want *= Size(digit.size).extent;
    if (have != want) {
      return Error(absl::StrCat("'", node.name, "' has ", have,
                                " elements, which cannot be regrouped "
                                "as ",
                                want));
    }
    // Digits of extent 1 carry nothing and would end segments early.
    std::vector<Digit> kept_digits;
    for (const Digit& digit : digits) {
      if (Size(digit.size).extent != 1) kept_digits.push_back(digit);
    }
    std::vector<int> kept;
    for (int size : targets) {
      if (Size(size).extent != 1) kept.push_back(size);
    }
    ExprId excess;
    const std::vector<ExprId> parts = radix_.Convert(kept_digits, kept, excess);
    size_t next = 0;
    for (const auto& dims : operand) {
      for (const std::vector<int>& sizes : dims) {
        std::vector<ExprId> dim;
        for (int size : sizes) {
          dim.push_back(Size(size).extent == 1 ? exprs_.Number(0) : parts[next++]);
        }
        index.push_back(std::move(dim));
      }
    }
    return absl::OkStatus();
  }

  absl::Status DimIndex(const ExprNode& node, size_t d, const std::vector<std::vector<int>>& sizes,
                        std::vector<std::vector<ExprId>>& index, std::vector<ExprId>& excesses) {
    const ExprNode& arg = spec_.exprs[node.args[d]];
    const ResolvedOperand* operand = table_.Operand(spec_, node.name);
    const std::vector<OperandDim>& dims = operand->dims[d];
    const auto add = [&](const std::vector<Digit>& digits, size_t i) {
      if (dims[i].unit) {
        index.push_back({exprs_.Number(0)});
        return;
      }
      ExprId excess;
      index.push_back(radix_.Convert(digits, sizes[i], excess));
      excesses.push_back(excess);
    };
    if (arg.kind == ExprKind::kTuple) return TupleIndex(arg, dims[0], sizes[0], index, excesses);
    if (arg.kind == ExprKind::kVar) {
      const Binding& binding = variables_[arg.name];
      const size_t missing = static_cast<size_t>(operand->missing[d]);
      if (binding.size() != dims.size() + missing) {
        return Error(absl::StrCat("index '", arg.name, "' has rank ", binding.size(), " but dim ",
                                  d, " of '", node.name, "' has rank ", dims.size() + missing));
      }
      for (size_t i = 0; i < dims.size(); ++i) add(binding[i + missing], i);
      return absl::OkStatus();
    }
    if (arg.kind == ExprKind::kCall && table_.permutations.count(arg.name) != 0) {
      const std::vector<int64_t>& order = table_.permutations.find(arg.name)->second;
      const Binding& binding = variables_[spec_.exprs[arg.args[0]].name];
      if (binding.size() != order.size()) return Error("a permuted index has another rank");
      for (size_t i = 0; i < dims.size(); ++i) add(binding[static_cast<size_t>(order[i])], i);
      return absl::OkStatus();
    }
    if (dims.size() != 1) return Error(absl::StrCat("dim ", d, " of '", node.name, "' is a group"));
    if (dims[0].unit) {
      index.push_back({exprs_.Number(0)});
      return absl::OkStatus();
    }
    ExprId excess = exprs_.Number(0);
    auto parts = Index(node.args[d], sizes[0], excess);
    if (!parts.ok()) return parts.status();
    index.push_back(*std::move(parts));
    excesses.push_back(excess);
    return absl::OkStatus();
  }

  absl::Status TupleIndex(const ExprNode& arg, const OperandDim& dim, const std::vector<int>& sizes,
                          std::vector<std::vector<ExprId>>& index, std::vector<ExprId>& excesses) {
    std::vector<Digit> digits;
    for (size_t part = 0; part < arg.args.size(); ++part) {
      const std::vector<int>& of_base = sizes_of_base_[static_cast<size_t>(dim.bases[part])];
      ExprId excess = exprs_.Number(0);
      auto parts = Index(arg.args[part], of_base, excess);
      if (!parts.ok()) return parts.status();
      excesses.push_back(excess);
      for (size_t i = 0; i < parts->size(); ++i) {
        if (Size(of_base[i]).extent == 1 && dim.bases.size() > 1) continue;
        digits.push_back({(*parts)[i], of_base[i]});
      }
    }
    ExprId excess;
    if (dim.linked && digits.size() == sizes.size()) {
      std::vector<ExprId> out;
      for (const Digit& digit : digits) out.push_back(digit.expr);
      index.push_back(std::move(out));
    } else {
      index.push_back(radix_.Convert(digits, sizes, excess));
    }
    return absl::OkStatus();
  }

  // i + a < b with i of several digits and everything else a multiple of the inner ones: a question
  // about the leading digits only.
  bool LeadingCompare(const ExprNode& node, ExprId& result) {
    if (node.name != "<" && node.name != ">=") return false;
    AffineForm left, right;
    if (!AsAffine(spec_, table_, node.args[0], left) ||
        !AsAffine(spec_, table_, node.args[1], right) || left.vars.size() != 1 ||
        left.vars[0].second != 1 || !right.vars.empty()) {
      return false;
    }
    const std::vector<Digit> digits = Joined(variables_[left.vars[0].first]);
    AffineForm bound = right;
    bound.number -= left.number;
    for (const auto& [base, coefficient] : left.sizes) bound.sizes.emplace_back(base, -coefficient);
    const std::vector<int> from = SizesOf(digits);
    const size_t shared = SharedSuffix(sizes_of_base_, instance_.sizes, from, from, bound);
    if (shared == 0 || digits.size() < 2) return false;
    const std::vector<Digit> lead(digits.begin(), digits.end() - static_cast<int64_t>(shared));
    result = exprs_.Compare(node.name, radix_.Flat(lead), Offset(bound, from, shared));
    return true;
  }

  absl::StatusOr<ExprId> Value(ExprId id) {
    const ExprNode& node = spec_.exprs[id];
    switch (node.kind) {
      case ExprKind::kNumber:
        return exprs_.Number(node.number);
      case ExprKind::kAttr: {
        auto number = table_.AttributeNumber(spec_, node.name);
        if (!number.ok()) return number.status();
        if (const auto symbol = AsSymbolic(table_.attributes.at(node.name))) {
          const std::optional<ExprId> e = AddSymbolic(*symbol, instance_.exprs);
          if (!e) return Error(absl::StrCat("attribute '", node.name, "' does not parse"));
          return *e;
        }
        return exprs_.Number(*number);
      }
      case ExprKind::kVar:
        return radix_.Flat(Joined(variables_[node.name]));
      case ExprKind::kSize: {
        ExprId product = exprs_.Number(1);
        const auto bases = table_.names.find(node.name);
        if (bases == table_.names.end()) return Error(absl::StrCat("unknown size ", node.name));
        for (int base : bases->second) {
          const std::vector<int>& sizes = sizes_of_base_[static_cast<size_t>(base)];
          product = exprs_.Binary(ExprKind::kMul, product, radix_.SizeProduct(sizes, sizes.size()));
        }
        return product;
      }
      case ExprKind::kRead:
        return Read(node);
      case ExprKind::kReduce:
        return Reduce(node);
      case ExprKind::kCompare: {
        ExprId result;
        if (LeadingCompare(node, result)) return result;
        break;
      }
      default:
        break;
    }
    std::vector<ExprId> args;
    for (size_t i = 0; i < node.args.size(); ++i) {
      const bool branch = node.kind == ExprKind::kSelect && i > 0;
      select_depth_ += branch ? 1 : 0;
      auto arg = Value(node.args[i]);
      select_depth_ -= branch ? 1 : 0;
      if (!arg.ok()) return arg;
      args.push_back(*arg);
    }
    switch (node.kind) {
      case ExprKind::kSelect:
        return exprs_.Select(args[0], args[1], args[2]);
      case ExprKind::kCompare:
        return exprs_.Compare(node.name, args[0], args[1]);
      case ExprKind::kCall:
        return exprs_.Call(node.name, std::move(args));
      case ExprKind::kNeg:
        return exprs_.Neg(args[0]);
      case ExprKind::kNot:
      case ExprKind::kNoGrad:
        return exprs_.Unary(node.kind, args[0]);
      case ExprKind::kTuple:
        return Error("a tuple is an index, not a value");
      default:
        return exprs_.Binary(node.kind, args[0], args[1]);
    }
  }

  absl::StatusOr<ExprId> Reduce(const ExprNode& node) {
    ExprNode reduce;
    reduce.kind = ExprKind::kReduce;
    reduce.name = node.name;
    const auto outer = variables_;
    for (const BoundVar& var : node.bound) {
      auto binding = NewBinding(var);
      if (!binding.ok()) return binding.status();
      for (const Digit& digit : Joined(*binding)) {
        BoundVar bound;
        bound.var = instance_.exprs[digit.expr].ref;
        bound.name = instance_.vars[static_cast<size_t>(bound.var)].name;
        reduce.bound.push_back(std::move(bound));
      }
      variables_[var.name] = *std::move(binding);
    }
    auto body = Value(node.args[0]);
    variables_ = outer;
    if (!body.ok()) return body;
    if (reduce.bound.empty()) {  // over a group of no dims
      if (node.name == "argmax") return exprs_.Number(0);
      return body;
    }
    reduce.args = {*body};
    return exprs_.Node(std::move(reduce));
  }

  // --- Equations.

  absl::Status Equation(const EquationSpec& equation) {
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

  void LeftSide(const EquationSpec& equation, size_t target, std::vector<int>& vars) {
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
        const std::string dim_name =
            sizes[d].size() == 1 ? name : absl::StrCat(name, ".", position);
        binding[position] = NewDigits(dim_name, sizes[d][i]);
        Append(binding[position], vars);
      }
      variables_[name] = std::move(binding);
    }
  }

  void Append(const std::vector<Digit>& digits, std::vector<int>& vars) const {
    for (const Digit& digit : digits) vars.push_back(instance_.exprs[digit.expr].ref);
  }

  void TupleLeftSide(const EquationSpec& equation, size_t first, const std::vector<int>& bases,
                     bool linked, const std::vector<int>& sizes, std::vector<int>& vars) {
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

  // --- Formulas of defined sizes.

  void Definitions() {
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

  absl::StatusOr<ExprId> Definition(ExprId id) {
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

}  // namespace

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
