#include "verifier/equality/equality_refuter.h"

#include <algorithm>
#include <array>
#include <memory>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "verifier/prover/concrete.h"
#include "verifier/prover/rational.h"

namespace tandem::prover {
namespace {

constexpr size_t kMostGiven = 32;  // more do not fit on a line

uint64_t NameHash(const std::string& name) {
  uint64_t h = 0xcbf29ce484222325ULL;
  for (unsigned char c : name) h = (h ^ c) * 0x100000001b3ULL;
  return h;
}

class Sample {
 public:
  Sample(const Graph& source, const Graph& target, const SizeClasses& classes,
         const std::map<std::string, NamedFactor>& names, uint64_t seed)
      : graphs_{&source, &target}, classes_(classes), seed_(seed) {
    uint64_t state = seed * 0x9e3779b97f4a7c15ULL;
    for (const SizeClasses::Class& c : classes.classes()) {
      state = state * 6364136223846793005ULL + 1442695040888963407ULL;
      auto drawn = static_cast<int64_t>(1 + (state >> 33) % (seed < 8 ? 2 : 3));
      const bool fixed = c.constant || (c.listed && !c.listed_in_both);
      extents_.push_back(fixed || seed == kOwnExtents ? c.extent : drawn);
    }
    Symbols(names);
    for (size_t side = 0; side < 2; ++side) {
      for (size_t n = 0; n < graphs_[side]->nodes.size(); ++n) AddNode(side, n);
    }
    // Sizes at which a reshape does not exist say nothing.
    for (const SizeClasses::SameCount& same : classes.same_counts()) {
      if (Count(same.a) != Count(same.b)) throw OutOfRange();
    }
    for (int64_t e : extents_) bound_ = std::max(bound_, e);
  }

  // The values that both sides are given where they compute an element of output `k`: attributes,
  // then elements of inputs. For a sample that has computed nothing yet, since nodes remember.
  std::vector<std::string> Given(size_t k, const std::vector<int64_t>& index) {
    given_ = free_symbols_;
    noting_ = true;
    for (size_t side = 0; side < 2; ++side) {
      try {
        At(side, graphs_[side]->outputs[k], index);
      } catch (const OutOfRange&) {  // what was read before counts
      }
    }
    return given_;
  }

  std::optional<std::pair<size_t, Counterexample>> Compare() {
    const auto& outputs = graphs_[0]->outputs;
    for (size_t k = 0; k < outputs.size(); ++k) {
      std::vector<int64_t> a = Dims(0, outputs[k]), b = Dims(1, graphs_[1]->outputs[k]);
      if (a != b) return std::pair(k, Example(k, {}, 0, 0, "shape"));
      int64_t count = 1;
      for (int64_t d : a) count *= d;
      for (int64_t n = 0; n < std::min<int64_t>(count, 16); ++n) {
        int64_t flat = count <= 16 ? n : (n * 7919 + static_cast<int64_t>(seed_)) % count;
        std::vector<int64_t> index(a.size());
        for (size_t d = a.size(); d-- > 0;) {
          index[d] = flat % a[d];
          flat /= a[d];
        }
        long double x = At(0, outputs[k], index), y = 0;
        try {
          y = At(1, graphs_[1]->outputs[k], index);
        } catch (const OutOfRange&) {
          return std::pair(k, Example(k, index, x, 0, "value"));
        }
        if (!NearlyEqual(x, y)) return std::pair(k, Example(k, index, x, y, "value"));
      }
    }
    return std::nullopt;
  }

 private:
  double Count(const std::vector<int>& classes) const {
    double count = 1;
    for (int c : classes) count *= static_cast<double>(extents_[static_cast<size_t>(c)]);
    return count;
  }

  void Symbols(const std::map<std::string, NamedFactor>& names) {
    for (const auto& [name, at] : names) {
      for (size_t i = 0; i < graphs_[0]->tensors.size(); ++i) {
        if (graphs_[0]->tensors[i].name != at.tensor) continue;
        int c = classes_.OfTensor(0, TensorId(static_cast<int64_t>(i)), at.dim, at.factor);
        symbols_["$" + name] = static_cast<double>(extents_[static_cast<size_t>(c)]);
      }
    }
    // Other symbols are numbers made from their names.
    for (size_t side = 0; side < 2; ++side) {
      for (size_t n = 0; n < graphs_[side]->nodes.size(); ++n) {
        for (const ExprNode& e :
             classes_.instance(static_cast<int>(side), static_cast<int>(n)).exprs.nodes) {
          if (e.kind != ExprKind::kAttr) continue;
          const auto value =
              static_cast<double>(SampleValue(ElementKind::kFloat, seed_, NameHash(e.name), {}, 1));
          if (!symbols_.try_emplace(e.name, value).second) continue;
          free_symbols_.push_back(absl::StrCat(e.name.substr(1), "=", value));  // without $
        }
      }
    }
  }

  // Nodes come in topological order: defined sizes follow from those before.
  void AddNode(size_t side, size_t n) {
    const OpInstance& op = classes_.instance(static_cast<int>(side), static_cast<int>(n));
    auto sizes = [&] {
      std::vector<ConcreteSize> out;
      for (size_t s = 0; s < op.sizes.size(); ++s) {
        int64_t e = extents_[static_cast<size_t>(Class(side, n, s))];
        out.push_back({e, e, 0});
      }
      return out;
    };
    for (size_t s = 0; s < op.sizes.size(); ++s) {
      int c = Class(side, n, s);
      const SizeClasses::Class& k = classes_.classes()[static_cast<size_t>(c)];
      for (const auto& d : k.definitions) {
        if (d.side != static_cast<int>(side) || d.node != static_cast<int>(n)) continue;
        int64_t x;
        if (d.attribute) {
          OpInstance formula;
          formula.exprs = *d.attribute;
          x = ConcreteOp(formula, {}, {}, &symbols_).Formula(d.attribute_root);
        } else {
          x = ConcreteOp(op, sizes(), {}, &symbols_).Formula(d.formula);
        }
        if (x < 1 || (k.source && x != extents_[static_cast<size_t>(c)])) throw OutOfRange();
        extents_[static_cast<size_t>(c)] = x;
      }
    }
    nodes_[side].push_back(std::make_unique<ConcreteOp>(
        op, sizes(),
        [this, side, n](int t, const std::vector<int64_t>& index) {
          TensorId id = graphs_[side]->nodes[n].inputs[static_cast<size_t>(t)];
          return Factor(side, id, index);
        },
        &symbols_));
  }

  int Class(size_t side, size_t node, size_t size) const {
    return classes_.OfSize(static_cast<int>(side), static_cast<int>(node), static_cast<int>(size));
  }

  std::vector<int64_t> FactorsOf(size_t side, TensorId id, size_t dim) const {
    std::vector<int64_t> out;
    const auto& shape = graphs_[side]->tensor(id).shape;
    for (size_t f = 0; f < shape[dim].size(); ++f) {
      out.push_back(extents_[static_cast<size_t>(classes_.OfTensor(
          static_cast<int>(side), id, static_cast<int>(dim), static_cast<int>(f)))]);
    }
    return out;
  }

  std::vector<int64_t> Dims(size_t side, TensorId id) const {
    std::vector<int64_t> out;
    for (size_t d = 0; d < graphs_[side]->tensor(id).shape.size(); ++d) {
      out.push_back(1);
      for (int64_t f : FactorsOf(side, id, d)) out.back() *= f;
    }
    return out;
  }

  // Value of a tensor at an index a dim.
  long double At(size_t side, TensorId id, const std::vector<int64_t>& index) {
    std::vector<int64_t> factors;
    for (size_t d = 0; d < index.size(); ++d) {
      std::vector<int64_t> extents = FactorsOf(side, id, d), digits(extents.size());
      int64_t rest = index[d];
      for (size_t f = extents.size(); f-- > 0;) {
        digits[f] = rest % extents[f];
        rest /= extents[f];
      }
      factors.insert(factors.end(), digits.begin(), digits.end());
    }
    return Factor(side, id, factors);
  }

  // ... at an index a factor.
  long double Factor(size_t side, TensorId id, const std::vector<int64_t>& index) {
    const Tensor& t = graphs_[side]->tensor(id);
    if (t.producer.valid()) {
      const OpInstance& op = classes_.instance(static_cast<int>(side), t.producer.value);
      return nodes_[side][t.producer.index()]->At(op.num_inputs + t.producer_output, index);
    }
    if (auto uniform = UniformValue(t)) return *uniform;
    ElementKind kind = t.dtype == DType::kBool                            ? ElementKind::kBool
                       : t.dtype == DType::kI64 || t.dtype == DType::kI32 ? ElementKind::kInt
                                                                          : ElementKind::kFloat;
    if (t.role == TensorRole::kConstant && !t.values.empty()) {
      int64_t flat = 0;
      size_t at = 0;
      for (size_t d = 0; d < t.shape.size(); ++d) {
        for (int64_t f : t.shape[d]) flat = flat * f + index[at++];
      }
      return t.values[static_cast<size_t>(flat)];
    }
    const long double value = SampleValue(kind, seed_, NameHash(t.name), index, bound_);
    if (noting_) Note(side, id, index, value);
    return value;
  }

  void Note(size_t side, TensorId id, const std::vector<int64_t>& index, long double value) {
    std::vector<int64_t> dims;
    size_t at = 0;
    for (size_t d = 0; d < graphs_[side]->tensor(id).shape.size(); ++d) {
      dims.push_back(0);
      for (int64_t extent : FactorsOf(side, id, d))
        dims.back() = dims.back() * extent + index[at++];
    }
    std::string text = absl::StrCat(graphs_[side]->tensor(id).name, "[", absl::StrJoin(dims, ","),
                                    "]=", static_cast<double>(value));
    if (given_.size() < kMostGiven && std::count(given_.begin(), given_.end(), text) == 0) {
      given_.push_back(std::move(text));
    }
  }

  Counterexample Example(size_t output, std::vector<int64_t> index, long double x, long double y,
                         std::string what) const {
    Counterexample e;
    for (size_t i = 0; i < extents_.size(); ++i) {
      const SizeClasses::Class& c = classes_.classes()[i];
      if (c.source && !c.constant) e.sizes.emplace_back(c.name, extents_[i]);
    }
    e.tensor = graphs_[0]->tensor(graphs_[0]->outputs[output]).name;
    e.index = std::move(index);
    e.expected = static_cast<double>(x);
    e.got = static_cast<double>(y);
    e.seed = seed_;
    e.what = std::move(what);
    return e;
  }

  std::array<const Graph*, 2> graphs_;
  const SizeClasses& classes_;
  uint64_t seed_;
  std::vector<int64_t> extents_;  // by class
  std::map<std::string, double> symbols_;
  std::array<std::vector<std::unique_ptr<ConcreteOp>>, 2> nodes_;
  int64_t bound_ = 1;
  std::vector<std::string> free_symbols_;  // attributes that may be anything, with their values
  std::vector<std::string> given_;
  bool noting_ = false;
};

}  // namespace

std::optional<double> UniformValue(const Tensor& tensor) {
  if (tensor.role != TensorRole::kConstant || tensor.values.empty()) return std::nullopt;
  for (double v : tensor.values) {
    if (v != tensor.values[0]) return std::nullopt;
  }
  return tensor.values[0];
}

std::optional<Counterexample> RefuteEqual(const Graph& source, const Graph& target,
                                          const SizeClasses& classes,
                                          const std::map<std::string, NamedFactor>& sizes,
                                          int samples) {
  int done = 0;
  const uint64_t last = classes.only_own_extents() ? kOwnExtents : 240;
  for (uint64_t seed = kOwnExtents; done < samples && seed <= last; ++seed) {
    try {
      Sample sample(source, target, classes, sizes, seed);
      if (auto found = sample.Compare()) {
        auto& [output, example] = *found;
        if (example.what == "value") {
          example.given = Sample(source, target, classes, sizes, seed).Given(output, example.index);
        }
        return example;
      }
      ++done;
    } catch (const OutOfRange&) {  // the source itself does not exist at these sizes
    } catch (const LimitExceeded&) {
    }
  }
  return std::nullopt;
}

}  // namespace tandem::prover
