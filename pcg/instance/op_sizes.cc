#include "pcg/instance/op_sizes.h"

#include <algorithm>
#include <set>
#include <variant>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "absl/strings/strip.h"

namespace tandem {
namespace {

using Kind = DimSpec::Kind;
constexpr double kMostElements = 9007199254740992.0;  // 2^53: indices stay exact in a double

bool IsGroupKind(Kind kind) {
  return kind == Kind::kGroup || kind == Kind::kPermutedGroup || kind == Kind::kShapeAttr;
}

// Factors of extent 1 say nothing: they are dropped, an extent of 1 is {1}.
Factors Stripped(const Factors& factors) {
  Factors out;
  for (int64_t factor : factors) {
    if (factor != 1) out.push_back(factor);
  }
  if (out.empty()) out.push_back(1);
  return out;
}

class Resolver {
 public:
  Resolver(const OpSpec& spec, const std::vector<FactoredShape>& inputs,
           const std::vector<FactoredShape>* outputs)
      : spec_(spec), input_shapes_(inputs), output_shapes_(outputs) {}

  absl::StatusOr<SizeTable> Run(const Attributes& attributes) {
    for (auto step : {&Resolver::MatchInputs, &Resolver::Ranks, &Resolver::InputExtents,
                      &Resolver::OutputDims}) {
      absl::Status status =
          step == &Resolver::MatchInputs ? TakeAttributes(attributes) : absl::OkStatus();
      if (status.ok()) status = (this->*step)();
      if (!status.ok()) return status;
    }
    return std::move(table_);
  }

 private:
  absl::Status Error(absl::string_view message) const { return OpError(spec_, message); }

  bool IsGroup(absl::string_view name) const {
    const auto has = [&](const std::vector<OperandSpec>& operands) {
      for (const OperandSpec& operand : operands) {
        for (const DimSpec& dim : operand.dims) {
          if (IsGroupKind(dim.kind) && dim.name == name) return true;
        }
      }
      return false;
    };
    return has(spec_.inputs) || has(spec_.outputs);
  }

  absl::Status TakeAttributes(const Attributes& attributes) {
    for (const auto& [name, value] : attributes) {
      const bool declared = std::any_of(spec_.attributes.begin(), spec_.attributes.end(),
                                        [&](const AttrSpec& attr) { return attr.name == name; });
      absl::string_view group = name;
      const bool rank = absl::ConsumePrefix(&group, "rank_") && IsGroup(group);
      if (!declared && !rank && name != "absent") {
        return Error(absl::StrCat(
            "unknown attribute '", name, "'; it has ",
            absl::StrJoin(spec_.attributes, ", ", [](std::string* out, const AttrSpec& attr) {
              absl::StrAppend(out, attr.name);
            })));
      }
      if (rank) {
        const auto* number = std::get_if<int64_t>(&value);
        if (number == nullptr || *number < 0 || *number > 64) {
          return Error(absl::StrCat("attribute '", name, "' is a number of dims"));
        }
        ranks_[std::string(group)] = static_cast<int>(*number);
      }
    }
    table_.attributes = attributes;
    for (const AttrSpec& attr : spec_.attributes) {
      if (attributes.count(attr.name) != 0) continue;
      if (!attr.has_default) {
        return Error(absl::StrCat("attribute '", attr.name, "' is missing; it has no default"));
      }
      table_.attributes[attr.name] = attr.default_value;
    }
    return absl::OkStatus();
  }

  absl::StatusOr<std::vector<int64_t>> IntegerList(const std::string& attr) const {
    const auto it = table_.attributes.find(attr);
    const auto* list =
        it == table_.attributes.end() ? nullptr : std::get_if<std::vector<int64_t>>(&it->second);
    if (list == nullptr) return Error(absl::StrCat("attribute '", attr, "' is a list of integers"));
    return *list;
  }

  absl::Status MatchInputs() {
    std::set<int64_t> absent;
    if (table_.attributes.count("absent") != 0) {
      auto list = IntegerList("absent");
      if (!list.ok()) return list.status();
      absent.insert(list->begin(), list->end());
    }
    size_t next = 0;
    for (size_t i = 0; i < spec_.inputs.size(); ++i) {
      ResolvedOperand operand;
      operand.present = absent.erase(static_cast<int64_t>(i)) == 0;
      if (!operand.present && !spec_.inputs[i].optional) {
        return Error(absl::StrCat("input '", spec_.inputs[i].name, "' is not optional"));
      }
      shape_of_.push_back(nullptr);
      if (operand.present) {
        if (next == input_shapes_.size()) {
          // Trailing optional inputs may just be left out.
          if (!spec_.inputs[i].optional) {
            return Error(
                absl::StrCat("input '", spec_.inputs[i].name, "' is missing (", next, " given)"));
          }
          operand.present = false;
        } else {
          shape_of_.back() = &input_shapes_[next++];
        }
      }
      table_.inputs.push_back(std::move(operand));
    }
    if (!absent.empty()) return Error("attribute 'absent' names an input that does not exist");
    if (next != input_shapes_.size()) {
      return Error(absl::StrCat("takes ", next, " input(s), not ", input_shapes_.size()));
    }
    return absl::OkStatus();
  }

  // Rank of the one dim that is not known, -1 if there is not exactly one.
  int RankLeft(const OperandSpec& operand, size_t rank, std::string& group, bool& broadcast) const {
    int left = static_cast<int>(rank);
    int unknown = 0;
    for (const DimSpec& dim : operand.dims) {
      if (!IsGroupKind(dim.kind)) {
        --left;
      } else if (const auto it = ranks_.find(dim.name); it != ranks_.end() && !dim.broadcast) {
        left -= it->second;
      } else {
        ++unknown;
        group = dim.name;
        broadcast = dim.broadcast;
      }
    }
    return unknown == 1 ? left : -1;
  }

  absl::Status Ranks() {
    for (const OperandSpec& output : spec_.outputs) {
      for (const DimSpec& dim : output.dims) {
        if (dim.kind != Kind::kShapeAttr) continue;
        auto list = IntegerList(dim.attr);
        if (!list.ok()) return list.status();
        ranks_[dim.name] = static_cast<int>(list->size());
      }
    }
    for (bool changed = true; changed;) {
      changed = false;
      for (size_t i = 0; i < spec_.inputs.size(); ++i) {
        if (shape_of_[i] == nullptr) continue;
        std::string group;
        bool broadcast = false;
        const int left = RankLeft(spec_.inputs[i], shape_of_[i]->size(), group, broadcast);
        if (left < 0 || broadcast) continue;
        changed = ranks_.emplace(group, left).second || changed;
      }
    }
    std::map<std::string, int> widest;  // groups that only broadcast operands tell
    for (size_t i = 0; i < spec_.inputs.size(); ++i) {
      if (shape_of_[i] == nullptr) continue;
      std::string group;
      bool broadcast = false;
      const int left = RankLeft(spec_.inputs[i], shape_of_[i]->size(), group, broadcast);
      if (left < 0 || !broadcast || ranks_.count(group) != 0) continue;
      const auto it = widest.emplace(group, left).first;
      it->second = std::max(it->second, left);
    }
    ranks_.insert(widest.begin(), widest.end());
    for (const auto& operands : {spec_.inputs, spec_.outputs}) {
      for (const OperandSpec& operand : operands) {
        for (const DimSpec& dim : operand.dims) {
          if (IsGroupKind(dim.kind)) {
            absl::Status status = MakeGroup(dim.name);
            if (!status.ok()) return status;
          } else if (dim.kind == Kind::kSize) {
            MakeSize(dim.name);
          } else if (dim.kind == Kind::kTuple) {
            for (const std::string& part : dim.parts) MakeSize(part);
          }
        }
      }
    }
    return absl::OkStatus();
  }

  int NewBase(std::string name, int64_t extent) {
    BaseSize base;
    base.name = std::move(name);
    base.extent = extent;
    table_.bases.push_back(std::move(base));
    return static_cast<int>(table_.bases.size()) - 1;
  }

  absl::Status MakeGroup(const std::string& name) {
    if (table_.names.count(name) != 0) return absl::OkStatus();
    const auto rank = ranks_.find(name);
    if (rank == ranks_.end()) {
      return Error(absl::StrCat("the rank of group '", name,
                                "' does not follow from the inputs; give "
                                "the attribute rank_",
                                name));
    }
    std::vector<int> bases;
    for (int i = 0; i < rank->second; ++i) bases.push_back(NewBase(absl::StrCat(name, ".", i), -1));
    table_.names.emplace(name, std::move(bases));
    return absl::OkStatus();
  }

  void MakeSize(const std::string& name) {
    if (table_.names.count(name) != 0) return;
    const int base = NewBase(name, -1);
    table_.names.emplace(name, std::vector<int>{base});
    const auto attr = table_.attributes.find(name);
    if (attr == table_.attributes.end()) return;
    if (const auto* number = std::get_if<int64_t>(&attr->second)) {
      table_.bases[static_cast<size_t>(base)].extent = *number;
      table_.bases[static_cast<size_t>(base)].known_from = absl::StrCat("attribute '", name, "'");
    }
  }

  BaseSize& Base(int id) { return table_.bases[static_cast<size_t>(id)]; }

  // Lays the operand's dims over those of the signature. `shape` null: an inferred output.
  absl::Status LayDims(const OperandSpec& operand, const FactoredShape* shape,
                       ResolvedOperand& out) {
    int covered = 0;
    const DimSpec* broadcast_group = nullptr;
    for (const DimSpec& dim : operand.dims) {
      covered += IsGroupKind(dim.kind) ? static_cast<int>(table_.names[dim.name].size()) : 1;
      if (dim.kind == Kind::kGroup && dim.broadcast) broadcast_group = &dim;
    }
    const int rank = shape == nullptr ? covered : static_cast<int>(shape->size());
    const int missing = covered - rank;
    if (missing != 0) {
      const bool fits = missing > 0 && broadcast_group != nullptr &&
                        missing <= static_cast<int>(table_.names[broadcast_group->name].size());
      if (!fits) {
        return Error(absl::StrCat("'", operand.name, "' has rank ", rank, ", expected ", covered,
                                  " for [", SignatureText(operand), "]"));
      }
    }
    size_t next = 0;
    const auto take = [&](std::vector<int> bases) {
      OperandDim dim;
      dim.bases = std::move(bases);
      if (shape != nullptr) dim.given = Stripped((*shape)[next]);
      ++next;
      return dim;
    };
    for (const DimSpec& spec_dim : operand.dims) {
      std::vector<OperandDim> dims;
      out.missing.push_back(&spec_dim == broadcast_group ? missing : 0);
      if (spec_dim.kind == Kind::kTuple) {
        std::vector<int> bases;
        for (const std::string& part : spec_dim.parts) bases.push_back(table_.names[part][0]);
        dims.push_back(take(std::move(bases)));
      } else if (spec_dim.kind == Kind::kConstant) {
        auto base = table_.ConstantBase(spec_, absl::StrCat(spec_dim.constant));
        if (!base.ok()) return base.status();
        dims.push_back(take({*base}));
      } else if (spec_dim.kind == Kind::kPermutedGroup) {
        auto order = Permutation(spec_dim);
        if (!order.ok()) return order.status();
        for (int64_t i : *order)
          dims.push_back(take({table_.names[spec_dim.name][static_cast<size_t>(i)]}));
      } else {
        const std::vector<int>& bases = table_.names[spec_dim.name];
        for (size_t i = static_cast<size_t>(out.missing.back()); i < bases.size(); ++i) {
          dims.push_back(take({bases[i]}));
        }
      }
      out.dims.push_back(std::move(dims));
    }
    return absl::OkStatus();
  }

  absl::StatusOr<std::vector<int64_t>> Permutation(const DimSpec& dim) {
    auto list = IntegerList(dim.attr);
    if (!list.ok()) return list;
    std::vector<int64_t> sorted = *list;
    std::sort(sorted.begin(), sorted.end());
    bool valid = sorted.size() == table_.names[dim.name].size();
    for (size_t i = 0; valid && i < sorted.size(); ++i)
      valid = sorted[i] == static_cast<int64_t>(i);
    if (!valid) {
      return Error(absl::StrCat("attribute '", dim.attr, "' = [", absl::StrJoin(*list, ", "),
                                "] is not a permutation of ", table_.names[dim.name].size(),
                                " dims"));
    }
    table_.permutations[dim.attr] = *list;
    return list;
  }

  static std::string SignatureText(const OperandSpec& operand) {
    return absl::StrJoin(operand.dims, ", ", [](std::string* out, const DimSpec& dim) {
      switch (dim.kind) {
        case Kind::kTuple:
          absl::StrAppend(out, "(", absl::StrJoin(dim.parts, ", "), ")");
          break;
        case Kind::kConstant:
          absl::StrAppend(out, dim.constant);
          break;
        default:
          absl::StrAppend(out, dim.name, IsGroupKind(dim.kind) ? ".." : "");
      }
    });
  }

  absl::Status InputExtents() {
    for (size_t i = 0; i < spec_.inputs.size(); ++i) {
      if (shape_of_[i] == nullptr) continue;
      for (size_t d = 0; d < shape_of_[i]->size(); ++d) {
        const Factors& factors = (*shape_of_[i])[d];
        if (factors.empty() || ProductOf(factors) < 1) {
          return Error(absl::StrCat(PlaceOf(spec_.inputs[i], d), " has no elements"));
        }
      }
      absl::Status status = LayDims(spec_.inputs[i], shape_of_[i], table_.inputs[i]);
      if (!status.ok()) return status;
    }
    for (const OperandSpec& output : spec_.outputs) {  // a shape attribute speaks before broadcasts
      for (const DimSpec& dim : output.dims) {
        if (dim.kind != Kind::kShapeAttr) continue;
        const std::vector<int64_t> list = *IntegerList(dim.attr);
        for (size_t i = 0; i < list.size(); ++i) {
          absl::Status status = SetExtent(spec_, table_, table_.names[dim.name][i], list[i],
                                          absl::StrCat("attribute '", dim.attr, "'[", i, "]"));
          if (!status.ok()) return status;
        }
      }
    }
    return SolveInputExtents(spec_, table_);
  }

  absl::Status Define(const DimSpec& dim) {
    auto value = EvaluateFormula(spec_, table_, dim.definition);
    if (!value.ok()) return value.status();
    const int base = NewBase(dim.name, -1);
    table_.names.emplace(dim.name, std::vector<int>{base});
    if (DependsOnSizes(spec_, dim.definition)) {
      Base(base).definition = dim.definition;
    } else {
      Base(base).constant = true;
    }
    if (*value < 1 || *value > 4e18) {
      return Error(
          absl::StrCat("size ", dim.name, " comes out as ", *value, "; extents are positive"));
    }
    Base(base).extent = static_cast<int64_t>(*value);
    Base(base).known_from = "its formula";
    return absl::OkStatus();
  }

  absl::Status OutputDims() {
    if (output_shapes_ != nullptr && output_shapes_->size() != spec_.outputs.size()) {
      return Error(
          absl::StrCat("has ", spec_.outputs.size(), " output(s), not ", output_shapes_->size()));
    }
    for (size_t i = 0; i < spec_.outputs.size(); ++i) {
      const OperandSpec& output = spec_.outputs[i];
      for (const DimSpec& dim : output.dims) {
        if (dim.kind != Kind::kDefined) continue;
        absl::Status status = Define(dim);
        if (!status.ok()) return status;
      }
      ResolvedOperand resolved;
      const FactoredShape* shape = output_shapes_ == nullptr ? nullptr : &(*output_shapes_)[i];
      absl::Status status = LayDims(output, shape, resolved);
      if (!status.ok()) return status;
      size_t position = 0;
      for (std::vector<OperandDim>& dims : resolved.dims) {
        for (OperandDim& dim : dims) {
          int64_t extent = 1;
          for (int base : dim.bases) {
            if (Base(base).extent < 0) {
              return Error(absl::StrCat("size ", Base(base).name, " of output '", output.name,
                                        "' does not follow from the inputs; all but one part of a "
                                        "dim must"));
            }
            extent *= Base(base).extent;
          }
          if (shape != nullptr && ProductOf(dim.given) != extent) {
            return Error(absl::StrCat(PlaceOf(output, position), " is given as ",
                                      ProductOf(dim.given), " but comes out as ", extent));
          }
          if (shape == nullptr) dim.given = {extent};
          ++position;
        }
      }
      table_.outputs.push_back(std::move(resolved));
    }
    for (const BaseSize& base : table_.bases) {
      if (base.extent < 0) {
        return Error(absl::StrCat("size ", base.name, " does not follow from the inputs"));
      }
    }
    for (const std::vector<ResolvedOperand>* operands : {&table_.inputs, &table_.outputs}) {
      for (const ResolvedOperand& operand : *operands) {
        double elements = 1;
        for (const std::vector<OperandDim>& dims : operand.dims) {
          for (const OperandDim& dim : dims) {
            for (int base : dim.bases) elements *= static_cast<double>(Base(base).extent);
          }
        }
        if (elements > kMostElements) {
          return Error(absl::StrCat("an operand would have ", elements, " elements"));
        }
      }
    }
    return absl::OkStatus();
  }

  const OpSpec& spec_;
  const std::vector<FactoredShape>& input_shapes_;
  const std::vector<FactoredShape>* output_shapes_;
  std::vector<const FactoredShape*> shape_of_;  // per signature input; null if absent
  std::map<std::string, int> ranks_;
  SizeTable table_;
};

}  // namespace

absl::StatusOr<SizeTable> ResolveSizes(const OpSpec& spec, const Attributes& attributes,
                                       const std::vector<FactoredShape>& inputs,
                                       const std::vector<FactoredShape>* outputs) {
  return Resolver(spec, inputs, outputs).Run(attributes);
}

}  // namespace tandem
