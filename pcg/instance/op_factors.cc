#include "pcg/instance/op_factors.h"

#include <algorithm>
#include <cmath>
#include <map>
#include <numeric>
#include <set>
#include <string>
#include <utility>

namespace tandem {
namespace {

// Suffix products, ascending, the whole extent last; the empty product 1 is left out.
std::vector<int64_t> Suffixes(const Factors& factors) {
  std::vector<int64_t> out;
  int64_t product = 1;
  for (size_t i = factors.size(); i-- > 0;) {
    product *= factors[i];
    if (product != 1) out.push_back(product);
  }
  return out;
}

std::optional<Factors> FromSuffixes(const std::set<int64_t>& suffixes) {
  Factors reversed;
  int64_t below = 1;
  for (int64_t suffix : suffixes) {
    if (suffix % below != 0) return std::nullopt;
    reversed.push_back(suffix / below);
    below = suffix;
  }
  if (reversed.empty()) reversed.push_back(1);
  return Factors(reversed.rbegin(), reversed.rend());
}

// `factors` with a boundary at every suffix product of `below`.
std::optional<Factors> WithSuffixes(const Factors& factors, const std::set<int64_t>& below) {
  std::set<int64_t> all = below;
  for (int64_t suffix : Suffixes(factors)) all.insert(suffix);
  return FromSuffixes(all);
}

bool IsMultiple(double value, int64_t of) { return std::fmod(value, static_cast<double>(of)) == 0; }

struct ShiftLink {
  int from = -1;  // base of the variable
  int to = -1;    // base of the dim read
  AffineForm offset;
};

struct RegroupLink {
  std::vector<int> from;
  std::vector<int> to;
};

class Refiner {
 public:
  Refiner(const OpSpec& spec, SizeTable& table) : spec_(spec), table_(table) {}

  absl::StatusOr<std::vector<std::vector<int>>> Run() {
    for (const EquationSpec& equation : spec_.equations) {
      absl::Status status = Equation(equation);
      if (!status.ok()) return status;
    }
    for (BaseSize& base : table_.bases) base.factors = {base.extent};
    for (ResolvedOperand& operand : table_.inputs) ImposeGiven(operand);
    for (ResolvedOperand& operand : table_.outputs) ImposeGiven(operand);
    for (bool changed = true; changed;) {
      changed = false;
      for (const ShiftLink& link : shifts_) changed = Shift(link) || changed;
      for (const RegroupLink& link : regroups_) changed = Regroup(link) || changed;
    }
    return Classes();
  }

 private:
  BaseSize& Base(int id) { return table_.bases[static_cast<size_t>(id)]; }

  // --- How the equations index.

  absl::Status Bind(const BoundVar& var) {
    auto bases = table_.RangeBases(spec_, var.size_name);
    if (!bases.ok()) return bases.status();
    variables_[var.name] = *bases;
    return absl::OkStatus();
  }

  absl::Status Equation(const EquationSpec& equation) {
    variables_.clear();
    ResolvedOperand intermediate;
    for (const BoundVar& var : equation.index) {
      absl::Status status = Bind(var);
      if (!status.ok()) return status;
      std::vector<OperandDim> dims;
      for (int base : variables_[var.name]) {
        OperandDim dim;
        dim.bases = {base};
        dims.push_back(std::move(dim));
      }
      intermediate.dims.push_back(std::move(dims));
      intermediate.missing.push_back(0);
    }
    absl::Status status = Walk(equation.body);
    if (!status.ok()) return status;
    if (!IsOutput(equation.target)) table_.intermediates.emplace(equation.target, intermediate);
    return absl::OkStatus();
  }

  bool IsOutput(absl::string_view name) const {
    return std::any_of(spec_.outputs.begin(), spec_.outputs.end(),
                       [&](const OperandSpec& output) { return output.name == name; });
  }

  absl::Status Walk(ExprId id) {
    const ExprNode& node = spec_.exprs[id];
    for (const BoundVar& var : node.bound) {
      absl::Status status = Bind(var);
      if (!status.ok()) return status;
    }
    for (ExprId arg : node.args) {
      absl::Status status = Walk(arg);
      if (!status.ok()) return status;
    }
    if (node.kind == ExprKind::kRead) Read(node);
    return absl::OkStatus();
  }

  void Read(const ExprNode& node) {
    const ResolvedOperand* operand = table_.Operand(spec_, node.name);
    if (operand == nullptr) return;
    const size_t indices = node.args.size() - (node.has_else ? 1 : 0);
    if (indices == 1 && IsCall(node.args[0], "regroup")) {
      RegroupLink link;
      link.from = variables_[spec_.exprs[spec_.exprs[node.args[0]].args[0]].name];
      for (const std::vector<OperandDim>& dims : operand->dims) {
        for (const OperandDim& dim : dims)
          link.to.insert(link.to.end(), dim.bases.begin(), dim.bases.end());
      }
      regroups_.push_back(std::move(link));
      return;
    }
    for (size_t d = 0; d < indices; ++d) {
      const ExprNode& index = spec_.exprs[node.args[d]];
      const std::vector<OperandDim>& dims = operand->dims[d];
      if (index.kind == ExprKind::kTuple) {
        for (size_t part = 0; part < index.args.size(); ++part)
          Link(index.args[part], dims[0].bases[part]);
      } else if (index.kind == ExprKind::kVar) {
        const std::vector<int>& bases = variables_[index.name];
        for (size_t i = 0; i < dims.size(); ++i) {  // a broadcast group's missing dims lead
          const size_t from = i + (bases.size() - std::min(bases.size(), dims.size()));
          if (from < bases.size() && dims[i].bases.size() == 1) {
            shifts_.push_back({bases[from], dims[i].bases[0], {}});
          }
        }
      } else if (dims.size() == 1 && dims[0].bases.size() == 1) {
        Link(node.args[d], dims[0].bases[0]);
      }
    }
  }

  bool IsCall(ExprId id, absl::string_view name) const {
    return spec_.exprs[id].kind == ExprKind::kCall && spec_.exprs[id].name == name;
  }

  void Link(ExprId index, int to) {
    AffineForm form;
    if (!AsAffine(spec_, table_, index, form) || form.vars.size() != 1 || form.vars[0].second != 1)
      return;
    const std::vector<int>& bases = variables_[form.vars[0].first];
    if (bases.size() != 1) return;
    form.vars.clear();
    shifts_.push_back({bases[0], to, std::move(form)});
  }

  // --- Factors.

  void ImposeGiven(ResolvedOperand& operand) {
    for (std::vector<OperandDim>& dims : operand.dims) {
      for (OperandDim& dim : dims) {
        if (dim.unit) continue;
        Factors whole;
        for (int base : dim.bases) {
          whole.insert(whole.end(), Base(base).factors.begin(), Base(base).factors.end());
        }
        std::set<int64_t> given;
        for (int64_t suffix : Suffixes(dim.given)) given.insert(suffix);
        auto refined = WithSuffixes(whole, given);
        dim.linked = refined.has_value();
        if (dim.linked) Distribute(*refined, dim.bases);
      }
    }
  }

  // Cuts a list that has boundaries at those of the bases back into one list for each.
  bool Distribute(const Factors& factors, const std::vector<int>& bases) {
    bool changed = false;
    size_t next = 0;
    for (int base : bases) {
      Factors part;
      int64_t product = 1;
      while (product < Base(base).extent && next < factors.size()) {
        if (factors[next] != 1) part.push_back(factors[next]);
        product *= factors[next++];
      }
      if (part.empty()) part.push_back(1);
      changed = changed || part.size() != Base(base).factors.size();
      Base(base).factors = std::move(part);
    }
    return changed;
  }

  bool Shift(const ShiftLink& link) {
    if (link.from == link.to) return false;
    std::vector<int> involved = {link.from, link.to};
    for (const auto& [base, coefficient] : link.offset.sizes) involved.push_back(base);
    std::set<int64_t> candidates;
    for (int base : involved) {
      for (int64_t suffix : Suffixes(Base(base).factors)) candidates.insert(suffix);
    }
    for (auto candidate = candidates.rbegin(); candidate != candidates.rend(); ++candidate) {
      if (!IsMultiple(link.offset.number, *candidate)) continue;
      std::set<int64_t> inner = {*candidate};
      bool fits = true;
      for (int base : involved) {
        fits = fits && Base(base).extent % *candidate == 0;
        for (int64_t suffix : Suffixes(Base(base).factors)) {
          if (suffix < *candidate) inner.insert(suffix);
        }
      }
      std::vector<Factors> refined;
      for (size_t i = 0; fits && i < involved.size(); ++i) {
        auto factors = WithSuffixes(Base(involved[i]).factors, inner);
        fits = factors.has_value();
        if (fits) refined.push_back(*std::move(factors));
      }
      if (!fits) continue;
      bool changed = false;
      for (size_t i = 0; i < involved.size(); ++i) {
        changed = changed || refined[i].size() != Base(involved[i]).factors.size();
        Base(involved[i]).factors = std::move(refined[i]);
      }
      return changed;
    }
    return false;
  }

  Factors Concatenated(const std::vector<int>& bases) {
    Factors all;
    for (int base : bases) {
      for (int64_t factor : Base(base).factors) {
        if (factor != 1) all.push_back(factor);
      }
    }
    return all;
  }

  bool Regroup(const RegroupLink& link) {
    const std::vector<int64_t> from = Suffixes(Concatenated(link.from));
    const std::vector<int64_t> to = Suffixes(Concatenated(link.to));
    if (from.empty() || to.empty() || from.back() != to.back()) return false;
    std::set<int64_t> new_from(from.begin(), from.end());
    std::set<int64_t> new_to(to.begin(), to.end());
    // Between two common suffix products the lists refine each other, or stay as they are.
    int64_t low = 1;
    std::set<int64_t> segment;
    for (int64_t suffix : [&] {
           std::set<int64_t> all = new_from;
           all.insert(new_to.begin(), new_to.end());
           return all;
         }()) {
      segment.insert(suffix);
      if (new_from.count(suffix) == 0 || new_to.count(suffix) == 0) continue;
      int64_t below = low;
      const bool chain = std::all_of(segment.begin(), segment.end(), [&](int64_t s) {
        const bool divides = s % below == 0;
        below = s;
        return divides;
      });
      if (chain) {
        new_from.insert(segment.begin(), segment.end());
        new_to.insert(segment.begin(), segment.end());
      }
      low = suffix;
      segment.clear();
    }
    const bool changed_from = Distribute(*FromSuffixes(new_from), link.from);
    return Distribute(*FromSuffixes(new_to), link.to) || changed_from;
  }

  // --- Which factors are one size.

  int Find(int node) {
    while (parent_[static_cast<size_t>(node)] != node) node = parent_[static_cast<size_t>(node)];
    return node;
  }
  void Union(int a, int b) {
    a = Find(a);
    b = Find(b);
    parent_[static_cast<size_t>(std::max(a, b))] = std::min(a, b);
  }

  std::vector<std::vector<int>> Classes() {
    std::vector<std::vector<int>> classes;
    for (const BaseSize& base : table_.bases) {
      std::vector<int> ids;
      for (size_t i = 0; i < base.factors.size(); ++i) {
        ids.push_back(static_cast<int>(parent_.size()));
        parent_.push_back(ids.back());
      }
      classes.push_back(std::move(ids));
    }
    for (const ShiftLink& link : shifts_) UnifyShift(link, classes);
    for (const RegroupLink& link : regroups_) UnifyRegroup(link, classes);
    for (std::vector<int>& ids : classes) {
      for (int& id : ids) id = Find(id);
    }
    return classes;
  }

  void UnifyShift(const ShiftLink& link, const std::vector<std::vector<int>>& classes) {
    if (link.from == link.to) return;
    std::vector<int> involved = {link.from, link.to};
    for (const auto& [base, coefficient] : link.offset.sizes) involved.push_back(base);
    size_t best = 0;
    int64_t product = 1;
    const Factors& factors = Base(link.from).factors;
    for (size_t count = 1; count <= factors.size(); ++count) {
      const int64_t factor = factors[factors.size() - count];
      product *= factor;
      const bool same = std::all_of(involved.begin(), involved.end(), [&](int base) {
        const Factors& other = Base(base).factors;
        return other.size() >= count && other[other.size() - count] == factor;
      });
      if (!same) break;
      if (IsMultiple(link.offset.number, product)) best = count;
    }
    for (size_t count = 1; count <= best; ++count) {
      for (int base : involved) {
        const auto at = [count](const std::vector<int>& ids) { return ids[ids.size() - count]; };
        Union(at(classes[static_cast<size_t>(link.from)]), at(classes[static_cast<size_t>(base)]));
      }
    }
  }

  void UnifyRegroup(const RegroupLink& link, const std::vector<std::vector<int>>& classes) {
    const auto flatten = [&](const std::vector<int>& bases) {
      std::vector<std::pair<int64_t, int>> out;  // factor and class, minor first
      for (size_t b = bases.size(); b-- > 0;) {
        const Factors& factors = Base(bases[b]).factors;
        for (size_t i = factors.size(); i-- > 0;) {
          if (factors[i] != 1)
            out.emplace_back(factors[i], classes[static_cast<size_t>(bases[b])][i]);
        }
      }
      return out;
    };
    const auto from = flatten(link.from);
    const auto to = flatten(link.to);
    int64_t from_product = 1, to_product = 1;
    for (size_t i = 0, j = 0; i < from.size() && j < to.size();) {
      if (from_product == to_product && from[i].first == to[j].first) {
        Union(from[i].second, to[j].second);
        from_product *= from[i++].first;
        to_product *= to[j++].first;
      } else if (from_product <= to_product) {
        from_product *= from[i++].first;
      } else {
        to_product *= to[j++].first;
      }
    }
  }

  const OpSpec& spec_;
  SizeTable& table_;
  std::map<std::string, std::vector<int>, std::less<>> variables_;
  std::vector<ShiftLink> shifts_;
  std::vector<RegroupLink> regroups_;
  std::vector<int> parent_;
};

}  // namespace

std::optional<Factors> CommonRefinement(const Factors& a, const Factors& b) {
  std::set<int64_t> suffixes;
  for (int64_t suffix : Suffixes(a)) suffixes.insert(suffix);
  return WithSuffixes(b, suffixes);
}

absl::StatusOr<std::vector<std::vector<int>>> RefineFactors(const OpSpec& spec, SizeTable& table) {
  return Refiner(spec, table).Run();
}

size_t SharedSuffix(const std::vector<std::vector<int>>& base_sizes,
                    const std::vector<SizeVar>& sizes, const std::vector<int>& from,
                    const std::vector<int>& to, const AffineForm& offset) {
  size_t best = 0;
  int64_t product = 1;
  for (size_t count = 1; count <= std::min(from.size(), to.size()); ++count) {
    const int id = to[to.size() - count];
    bool same = from[from.size() - count] == id;
    product *= sizes[static_cast<size_t>(id)].extent;
    for (const auto& [base, coefficient] : offset.sizes) {
      const std::vector<int>& ids = base_sizes[static_cast<size_t>(base)];
      same = same && ids.size() >= count && ids[ids.size() - count] == id;
    }
    if (!same) break;
    if (IsMultiple(offset.number, product)) best = count;
  }
  return best;
}

}  // namespace tandem
