#include "verifier/equality/size_classes.h"

#include <algorithm>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "pcg/instance/symbolic_attribute.h"

namespace tandem {
namespace {

// The symbol behind a size that an attribute gives ("m = size" with size = "$n=3").
std::optional<SymbolicAttribute> SymbolOf(const OpSpec& spec, const Node& node,
                                          const std::string& size) {
  for (const OperandSpec& operand : spec.outputs) {
    for (const DimSpec& dim : operand.dims) {
      if (dim.kind != DimSpec::Kind::kDefined || dim.name != size) continue;
      const ExprNode& e = spec.exprs[dim.definition];
      if (e.kind != ExprKind::kAttr) continue;
      auto it = node.attributes.find(e.name);
      if (it != node.attributes.end()) return AsSymbolic(it->second);
    }
  }
  return std::nullopt;
}

}  // namespace

// Sizes that only a list in an attribute gives are the same size where the same tensor of both
// graphs has them, of the same extent. A dim of 1 that a reshape puts in is just 1.
void SizeClasses::MergeListed() {
  std::map<std::string, int> by_name;
  std::vector<int> now;
  std::vector<Class> kept;
  for (Class& c : classes_) {
    const int next = static_cast<int>(kept.size());
    now.push_back(next);
    if (c.source || c.constant || !c.definitions.empty()) {
      kept.push_back(std::move(c));
      continue;
    }
    if (c.extent == 1) {
      c.constant = true;
      kept.push_back(std::move(c));
      continue;
    }
    c.listed = true;
    for (;;) {
      auto [it, inserted] = by_name.try_emplace(c.name, next);
      if (inserted) {
        kept.push_back(std::move(c));
        break;
      }
      Class& other = kept[static_cast<size_t>(it->second)];
      if (other.extent == c.extent) {
        other.listed_in_both = true;
        now.back() = it->second;
        break;
      }
      c.name += "'";
    }
  }
  classes_ = std::move(kept);
  for (int& c : class_of_) c = now[static_cast<size_t>(c)];
}

// `out[j] = x[regroup(j)]` exists where both have as many elements.
void SizeClasses::CountElements(const Graph& graph, int side, int node) {
  const OpInstance& op = instance(side, node);
  const OpSpec* spec = graph.operators.Find(op.op);
  if (spec == nullptr) return;
  const auto classes = [&](int tensor) {
    std::vector<int> out;
    for (const auto& dim : op.tensors[static_cast<size_t>(tensor)].dims) {
      for (int size : dim) out.push_back(OfSize(side, node, size));
    }
    std::sort(out.begin(), out.end());
    return out;
  };
  for (const ExprNode& e : spec->exprs.nodes) {
    if (e.kind != ExprKind::kCall || e.name != "regroup") continue;
    if (spec->equations.size() != 1 || spec->equations[0].index.size() != 1 ||
        spec->inputs.size() != 1) {
      only_own_extents_ = true;
      continue;
    }
    SameCount same{classes(0), classes(op.num_inputs)};
    if (same.a != same.b) same_counts_.push_back(std::move(same));
  }
}

int SizeClasses::Find(int slot) const {
  while (parent_[static_cast<size_t>(slot)] != slot) {
    slot = parent_[static_cast<size_t>(slot)] =
        parent_[static_cast<size_t>(parent_[static_cast<size_t>(slot)])];
  }
  return slot;
}

int SizeClasses::OfTensor(int side, TensorId tensor, int dim, int factor) const {
  return class_of_[static_cast<size_t>(tensor_slots_[static_cast<size_t>(
      side)][tensor.index()][static_cast<size_t>(dim)][static_cast<size_t>(factor)])];
}

int SizeClasses::OfSize(int side, int node, int size) const {
  return class_of_[static_cast<size_t>(
      node_slots_[static_cast<size_t>(side)][static_cast<size_t>(node)] + size)];
}

absl::StatusOr<SizeClasses> SizeClasses::Of(const Graph& source, const Graph& target) {
  SizeClasses c;
  std::vector<int64_t> extents;  // by slot
  auto slot = [&](int64_t extent) {
    c.parent_.push_back(static_cast<int>(c.parent_.size()));
    extents.push_back(extent);
    return c.parent_.back();
  };
  const std::array<const Graph*, 2> graphs = {&source, &target};
  std::map<std::string, std::pair<int, TensorId>> sources;
  for (size_t side = 0; side < 2; ++side) {
    const Graph& g = *graphs[side];
    for (const Tensor& t : g.tensors) {
      auto& dims = c.tensor_slots_[side].emplace_back();
      for (const Factors& factors : t.shape) {
        auto& of_dim = dims.emplace_back();
        for (int64_t f : factors) of_dim.push_back(slot(f));
      }
    }
    for (size_t i = 0; i < g.tensors.size(); ++i) {
      const Tensor& t = g.tensors[i];
      if (t.producer.valid()) continue;
      auto [it, inserted] =
          sources.try_emplace(t.name, static_cast<int>(side), TensorId(static_cast<int64_t>(i)));
      if (inserted) continue;
      const auto& [side0, id0] = it->second;
      const Tensor& t0 = graphs[static_cast<size_t>(side0)]->tensor(id0);
      if (t0.shape != t.shape) {
        return absl::InvalidArgumentError(
            absl::StrCat("source ", t.name, " has two shapes, or one in two factorings"));
      }
      for (size_t d = 0; d < t.shape.size(); ++d) {
        for (size_t f = 0; f < t.shape[d].size(); ++f) {
          c.Unite(c.tensor_slots_[static_cast<size_t>(side0)][id0.index()][d][f],
                  c.tensor_slots_[side][i][d][f]);
        }
      }
    }
    for (size_t n = 0; n < g.nodes.size(); ++n) {
      const Node& node = g.nodes[n];
      auto instance = InstanceOf(g, NodeId(static_cast<int64_t>(n)));
      if (!instance.ok()) return instance.status();
      int first = static_cast<int>(c.parent_.size());
      c.node_slots_[side].push_back(first);
      for (const SizeVar& size : instance->sizes) slot(size.extent);
      for (int t = 0; t < instance->num_inputs + instance->num_outputs; ++t) {
        TensorId id = t < instance->num_inputs
                          ? node.inputs[static_cast<size_t>(t)]
                          : node.outputs[static_cast<size_t>(t - instance->num_inputs)];
        const auto& dims = instance->tensors[static_cast<size_t>(t)].dims;
        if (instance->ShapeOf(t) != g.tensor(id).shape) {
          return absl::InvalidArgumentError(absl::StrCat("the factors of ", g.tensor(id).name,
                                                         " are not those that node ", node.name,
                                                         " sees"));
        }
        for (size_t d = 0; d < dims.size(); ++d) {
          for (size_t f = 0; f < dims[d].size(); ++f) {
            c.Unite(first + dims[d][f], c.tensor_slots_[side][id.index()][d][f]);
          }
        }
      }
      c.instances_[side].push_back(*std::move(instance));
    }
  }
  // Classes, numbered by first slot.
  std::map<int, int> number;
  for (size_t s = 0; s < c.parent_.size(); ++s) {
    auto [it, inserted] =
        number.try_emplace(c.Find(static_cast<int>(s)), static_cast<int>(c.classes_.size()));
    if (inserted) {
      c.classes_.emplace_back();
      c.classes_.back().extent = extents[s];
    }
    c.class_of_.push_back(it->second);
  }
  for (size_t side = 0; side < 2; ++side) {
    const Graph& g = *graphs[side];
    for (size_t i = 0; i < g.tensors.size(); ++i) {
      const Tensor& t = g.tensors[i];
      for (size_t d = 0; d < t.shape.size(); ++d) {
        for (size_t f = 0; f < t.shape[d].size(); ++f) {
          Class& k = c.classes_[static_cast<size_t>(
              c.OfTensor(static_cast<int>(side), TensorId(static_cast<int64_t>(i)),
                         static_cast<int>(d), static_cast<int>(f)))];
          if (k.name.empty()) k.name = absl::StrCat(t.name, ".", d, ".", f);
          k.source = k.source || !t.producer.valid();
          // A constant's values belong to its own shape.
          bool uniform =
              std::equal(t.values.begin() + !t.values.empty(), t.values.end(), t.values.begin());
          k.constant = k.constant || (t.role == TensorRole::kConstant && !uniform);
        }
      }
    }
    for (size_t n = 0; n < g.nodes.size(); ++n) {
      const OpInstance& op = c.instances_[side][n];
      const OpSpec* spec = g.operators.Find(g.nodes[n].op);
      for (size_t s = 0; s < op.sizes.size(); ++s) {
        Class& k = c.classes_[static_cast<size_t>(
            c.OfSize(static_cast<int>(side), static_cast<int>(n), static_cast<int>(s)))];
        if (k.name.empty()) k.name = absl::StrCat(g.nodes[n].name, ":", op.sizes[s].name);
        Class::Definition definition{static_cast<int>(side), static_cast<int>(n), {}, {}, {}};
        if (op.sizes[s].constant) {
          auto symbol =
              spec == nullptr ? std::nullopt : SymbolOf(*spec, g.nodes[n], op.sizes[s].name);
          if (!symbol) {
            k.constant = true;
            continue;
          }
          definition.attribute.emplace();
          auto root = AddSymbolic(*symbol, *definition.attribute);
          if (!root) return absl::InvalidArgumentError("an attribute does not parse");
          definition.attribute_root = *root;
          k.definitions.push_back(std::move(definition));
        } else if (op.sizes[s].definition.valid()) {
          definition.formula = op.sizes[s].definition;
          k.definitions.push_back(std::move(definition));
        }
      }
    }
  }
  c.MergeListed();
  for (size_t side = 0; side < 2; ++side) {
    for (size_t n = 0; n < graphs[side]->nodes.size(); ++n) {
      c.CountElements(*graphs[side], static_cast<int>(side), static_cast<int>(n));
    }
  }
  return c;
}

}  // namespace tandem
