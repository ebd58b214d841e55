// Expressions of an instance: reads with the factors of their dims, values, reductions.
#include <algorithm>
#include <cmath>
#include <map>
#include <optional>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "pcg/instance/instantiator.h"
#include "pcg/instance/symbolic_attribute.h"

namespace tandem {

ExprId Instantiator::Offset(const AffineForm& offset, const std::vector<int>& sizes,
                            size_t shared) {
  double product = 1;
  for (size_t i = sizes.size() - shared; i < sizes.size(); ++i) {
    product *= static_cast<double>(Size(sizes[i]).extent);
  }
  ExprId value = exprs_.Number(0);
  for (const auto& [base, coefficient] : offset.sizes) {
    const std::vector<int>& ids = sizes_of_base_[static_cast<size_t>(base)];
    const ExprId term = radix_.SizeProduct(ids, ids.size() - shared);
    const ExprId scaled = exprs_.Binary(ExprKind::kMul, exprs_.Number(std::abs(coefficient)), term);
    value = exprs_.Binary(coefficient < 0 ? ExprKind::kSub : ExprKind::kAdd, value, scaled);
  }
  const double number = offset.number / product;
  return exprs_.Binary(number < 0 ? ExprKind::kSub : ExprKind::kAdd, value,
                       exprs_.Number(std::abs(number)));
}

std::vector<ExprId> Instantiator::ShiftedIndex(const std::vector<Digit>& digits,
                                               const AffineForm& offset,
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

absl::StatusOr<std::vector<ExprId>> Instantiator::Index(ExprId text,
                                                        const std::vector<int>& targets,
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

bool Instantiator::IsCall(ExprId id, absl::string_view name) const {
  return spec_.exprs[id].kind == ExprKind::kCall && spec_.exprs[id].name == name;
}

absl::StatusOr<ExprId> Instantiator::Read(const ExprNode& node) {
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

absl::Status Instantiator::CheckConstant(const ExprNode& node, const std::vector<ExprId>& index,
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

absl::Status Instantiator::Regroup(const ExprNode& node, const OperandSizes& operand,
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

absl::Status Instantiator::DimIndex(const ExprNode& node, size_t d,
                                    const std::vector<std::vector<int>>& sizes,
                                    std::vector<std::vector<ExprId>>& index,
                                    std::vector<ExprId>& excesses) {
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
      return Error(absl::StrCat("index '", arg.name, "' has rank ", binding.size(), " but dim ", d,
                                " of '", node.name, "' has rank ", dims.size() + missing));
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

absl::Status Instantiator::TupleIndex(const ExprNode& arg, const OperandDim& dim,
                                      const std::vector<int>& sizes,
                                      std::vector<std::vector<ExprId>>& index,
                                      std::vector<ExprId>& excesses) {
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

bool Instantiator::LeadingCompare(const ExprNode& node, ExprId& result) {
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

absl::StatusOr<ExprId> Instantiator::Value(ExprId id) {
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

absl::StatusOr<ExprId> Instantiator::Reduce(const ExprNode& node) {
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

}  // namespace tandem
