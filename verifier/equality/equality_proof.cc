#include "verifier/equality/equality_proof.h"

#include <array>
#include <bit>
#include <memory>
#include <optional>

#include "absl/strings/str_cat.h"
#include "verifier/certificates/statement.h"
#include "verifier/equality/equality_refuter.h"
#include "verifier/prover/match.h"
#include "verifier/prover/unfold.h"

namespace tandem {
namespace {

using prover::Algebra;
using prover::Atom;
using prover::Guard;
using prover::LimitExceeded;
using prover::Matcher;
using prover::Poly;
using prover::SizeBinding;
using prover::Solver;
using prover::Store;
using prover::TensorIndex;
using prover::Unfolder;
using prover::Value;

class EqualityProof {
 public:
  EqualityProof(const Graph& source, const Graph& target, const SizeClasses& classes,
                const EqualityOptions& options, bool own_extents)
      : graphs_{&source, &target},
        classes_(classes),
        options_(options),
        own_extents_(own_extents),
        algebra_(store_),
        solver_(algebra_),
        matcher_(algebra_, solver_) {}

  void UseExpFact() { algebra_.EnableExpFact(); }

  // Empty if proved, else why not.
  std::string Run() {
    extents_.resize(classes_.classes().size());
    zero_ = store_.Const(0);
    SourceSizes();
    NameSymbols();
    for (size_t side = 0; side < 2; ++side) {
      for (size_t n = 0; n < graphs_[side]->nodes.size(); ++n) AddNode(side, n);
    }
    if (!solver_.AssumptionsSatisfiable()) {
      return "the conditions on sizes are not shown satisfiable";
    }
    if (graphs_[0]->outputs.size() != graphs_[1]->outputs.size()) return "outputs differ in number";
    for (size_t k = 0; k < graphs_[0]->outputs.size(); ++k) {
      std::string why = Compare(k);
      if (!why.empty()) return why;
    }
    for (auto& unfolders : unfolders_) {
      for (auto& u : unfolders) {
        if (!u->out_of_range().empty()) return u->out_of_range()[0];
      }
    }
    for (Poly extent : algebra_.unproved_extents()) {
      if (!solver_.Implied(store_.True(), store_.Ge(store_.Sub(extent, store_.Const(1))))) {
        return "a range of " + store_.ToString(extent) + " elements may be empty";
      }
    }
    return "";
  }

  Certificate MakeCertificate() const {
    Certificate c;
    c.subject = options_.subject;
    if (c.subject.empty()) {
      for (size_t side = 0; side < 2; ++side) c.subject += Statement(side);
    }
    for (const std::string& f : algebra_.facts()) c.facts.push_back(f);
    if (own_extents_) {
      std::string sizes = "sizes";
      for (const SizeClasses::Class& k : classes_.classes()) {
        absl::StrAppend(&sizes, " ", k.name, "=", k.extent);
      }
      c.assumptions.push_back(sizes);
    }
    for (Guard g : solver_.assumptions()) c.assumptions.push_back(store_.ToString(g));
    c.queries = solver_.stats().queries;
    Seal(c);
    return c;
  }

 private:
  Poly& Extent(int c) { return extents_[static_cast<size_t>(c)]; }

  void SourceSizes() {
    for (size_t i = 0; i < extents_.size(); ++i) {
      const SizeClasses::Class& k = classes_.classes()[i];
      if (k.constant || own_extents_) {
        extents_[i] = store_.Const(k.extent);
      } else if (k.source) {
        extents_[i] = store_.Of(store_.Size(k.name));
      }
    }
  }

  void NameSymbols() {
    for (const auto& [name, at] : options_.sizes) {
      for (size_t i = 0; i < graphs_[0]->tensors.size(); ++i) {
        if (graphs_[0]->tensors[i].name != at.tensor) continue;
        int c = classes_.OfTensor(0, TensorId(static_cast<int64_t>(i)), at.dim, at.factor);
        if (Extent(c).valid()) symbols_.sizes["$" + name] = Extent(c);
      }
    }
    for (size_t side = 0; side < 2; ++side) {
      for (size_t n = 0; n < graphs_[side]->nodes.size(); ++n) {
        for (const ExprNode& e : Instance(side, n).exprs.nodes) {
          if (e.kind != ExprKind::kAttr || symbols_.sizes.count(e.name) > 0) continue;
          if (symbols_.numbers.count(e.name) > 0) continue;
          int t = store_.AddTensor({e.name, {}});
          symbols_.numbers[e.name] = algebra_.Read(t, {});
        }
      }
    }
  }

  const OpInstance& Instance(size_t side, size_t n) const {
    return classes_.instance(static_cast<int>(side), static_cast<int>(n));
  }

  int Class(size_t side, size_t n, size_t s) const {
    return classes_.OfSize(static_cast<int>(side), static_cast<int>(n), static_cast<int>(s));
  }

  // Nodes come in topological order: defined sizes follow from those before.
  void AddNode(size_t side, size_t n) {
    const OpInstance& op = Instance(side, n);
    auto bindings = [&] {
      std::vector<SizeBinding> out;
      for (size_t s = 0; s < op.sizes.size(); ++s) {
        Poly e = Extent(Class(side, n, s));
        if (!e.valid()) e = store_.Of(store_.Size("#unknown"));  // not used by formulas
        out.push_back({{e}, e, zero_});
      }
      return out;
    };
    for (size_t s = 0; s < op.sizes.size(); ++s) {
      int c = Class(side, n, s);
      const SizeClasses::Class& k = classes_.classes()[static_cast<size_t>(c)];
      if (own_extents_) continue;
      for (const auto& d : k.definitions) {
        if (d.side != static_cast<int>(side) || d.node != static_cast<int>(n)) continue;
        Unfolder unfolder(algebra_, solver_, op, bindings(), nullptr, store_.True(), &symbols_);
        Poly formula = d.attribute ? unfolder.Formula(*d.attribute, d.attribute_root)
                                   : unfolder.Formula(d.formula);
        if (!Extent(c).valid() && store_.SizesAtLeast(formula, 1)) {
          Extent(c) = formula;
          continue;
        }
        // The operator exists only where this holds.
        if (!Extent(c).valid()) Extent(c) = store_.Of(store_.Size(k.name));
        solver_.Assume(store_.Eq(store_.Sub(Extent(c), formula)));
      }
      if (!Extent(c).valid()) Extent(c) = store_.Of(store_.Size(k.name));
    }
    unfolders_[side].push_back(std::make_unique<Unfolder>(
        algebra_, solver_, op, bindings(),
        [this, side, n](int t, const TensorIndex& index, Guard context) {
          return At(side, graphs_[side]->nodes[n].inputs[static_cast<size_t>(t)], index, context);
        },
        store_.True(), &symbols_));
  }

  std::vector<std::vector<Poly>> DimsOf(size_t side, TensorId id) {
    std::vector<std::vector<Poly>> out;
    const auto& shape = graphs_[side]->tensor(id).shape;
    for (size_t d = 0; d < shape.size(); ++d) {
      out.emplace_back();
      for (size_t f = 0; f < shape[d].size(); ++f) {
        out.back().push_back(Extent(classes_.OfTensor(static_cast<int>(side), id,
                                                      static_cast<int>(d), static_cast<int>(f))));
      }
    }
    return out;
  }

  Value At(size_t side, TensorId id, const TensorIndex& index, Guard context) {
    const Tensor& t = graphs_[side]->tensor(id);
    if (t.producer.valid()) {
      auto dims = DimsOf(side, id);
      TensorIndex digits = index;
      for (size_t d = 0; d < dims.size(); ++d) {
        if (digits[d].size() == dims[d].size()) continue;
        digits[d] = *Unflatten(store_, solver_, digits[d][0], dims[d], context, /*divide=*/true);
      }
      Value v = unfolders_[side][t.producer.index()]->Output(t.producer_output, digits);
      return Rounded(side, t, v);
    }
    if (auto uniform = prover::UniformValue(t)) return algebra_.Number(*uniform);
    std::string name = t.name;
    if (t.role == TensorRole::kConstant && !t.values.empty()) {
      name = "constant";
      for (double v : t.values) absl::StrAppend(&name, " ", absl::Hex(std::bit_cast<uint64_t>(v)));
      for (int64_t d : PlainShape(t.shape)) absl::StrAppend(&name, ",", d);
    }
    auto it = sources_.find(name);
    if (it == sources_.end()) {
      it = sources_.emplace(name, store_.AddTensor({t.name, DimsOf(side, id)})).first;
    }
    return algebra_.Read(it->second, index);
  }

  // Equations are over the reals. A node that turns floats into integers or booleans without saying
  // how (a cast) rounds, by a function nothing is known about.
  Value Rounded(size_t side, const Tensor& t, Value v) {
    if (IsFloat(t.dtype)) return v;
    const Node& node = graphs_[side]->node(t.producer);
    const OpInstance& op = Instance(side, t.producer.index());
    if (op.output(t.producer_output).kind != ElementKind::kFloat) return v;
    for (TensorId in : node.inputs) {
      if (!IsFloat(graphs_[side]->tensor(in).dtype)) continue;
      return algebra_.Call(t.dtype == DType::kBool ? "to_bool" : "to_int", {v});
    }
    return v;
  }

  std::string Compare(size_t k) {
    TensorId a = graphs_[0]->outputs[k], b = graphs_[1]->outputs[k];
    const std::string& name = graphs_[0]->tensor(a).name;
    auto da = DimsOf(0, a), db = DimsOf(1, b);
    if (da.size() != db.size()) return name + ": ranks differ";
    TensorIndex index;
    std::vector<Guard> ranges;
    for (const auto& dim : da) {
      index.emplace_back();
      for (Poly extent : dim) {
        bool one = store_.Constant(extent) == 1;
        index.back().push_back(one ? zero_ : store_.Of(store_.Fresh("o", extent)));
        ranges.push_back(store_.InRange(index.back().back(), extent));
      }
    }
    Guard context = store_.And(ranges);
    TensorIndex other = index;
    for (size_t d = 0; d < da.size(); ++d) {
      if (da[d] == db[d]) continue;
      Poly pa = store_.Const(1), pb = store_.Const(1);
      for (Poly x : da[d]) pa = store_.Mul(pa, x);
      for (Poly x : db[d]) pb = store_.Mul(pb, x);
      if (!solver_.Implied(store_.True(), store_.Eq(store_.Sub(pa, pb)))) {
        return absl::StrCat(name, ": dim ", d, " has ", store_.ToString(pa), " and ",
                            store_.ToString(pb), " elements");
      }
      if (da[d].size() == db[d].size() && da[d].size() == 1) continue;
      Poly flat = Flatten(store_, index[d], da[d]);
      other[d] = *Unflatten(store_, solver_, flat, db[d], context, /*divide=*/true);
    }
    Value x = At(0, a, index, context), y = At(1, b, other, context);
    if (matcher_.Equal(context, x, y)) return "";
    return name + ": " + matcher_.why();
  }

  std::string Statement(size_t side) const {
    const Graph& g = *graphs_[side];
    std::string text = side == 0 ? "source\n" : "target\n";
    for (size_t n = 0; n < g.nodes.size(); ++n) {
      absl::StrAppend(&text, g.nodes[n].name, " =");
      for (TensorId in : g.nodes[n].inputs) absl::StrAppend(&text, " ", g.tensor(in).name);
      absl::StrAppend(&text, "\n", InstanceStatement(Instance(side, n)));
    }
    for (TensorId out : g.outputs) absl::StrAppend(&text, "output ", g.tensor(out).name, "\n");
    return text;
  }

  std::array<const Graph*, 2> graphs_;
  const SizeClasses& classes_;
  const EqualityOptions& options_;
  bool own_extents_;
  Store store_;
  Algebra algebra_;
  Solver solver_;
  Matcher matcher_;
  Poly zero_;
  std::vector<Poly> extents_;  // by class
  prover::Symbols symbols_;
  std::array<std::vector<std::unique_ptr<Unfolder>>, 2> unfolders_;
  std::map<std::string, int> sources_;
};

}  // namespace

Verdict ProveEqual(const Graph& source, const Graph& target, const EqualityOptions& options) {
  auto classes = SizeClasses::Of(source, target);
  if (!classes.ok()) return Unknown{std::string(classes.status().message())};
  std::string why;
  auto attempt = [&](bool own_extents, bool exp_fact) -> std::optional<Certificate> {
    try {
      EqualityProof proof(source, target, *classes, options, own_extents);
      if (exp_fact) proof.UseExpFact();
      std::string reason = proof.Run();
      if (reason.empty()) return proof.MakeCertificate();
      if (why.empty()) why = reason;
    } catch (const LimitExceeded& e) {
      if (why.empty()) why = e.what();
    }
    return std::nullopt;
  };
  if (auto certificate = attempt(false, false)) {
    // A prover that distrusts itself: a few numbers, also for what is proved.
    if (auto example = prover::RefuteEqual(source, target, *classes, options.sizes, 3)) {
      return Unknown{"proved, but numbers disagree: " + ToString(*example)};
    }
    return Proved{*std::move(certificate)};
  }
  // Numbers at other sizes than the graphs' own speak against the theorem for all sizes only.
  auto example = prover::RefuteEqual(source, target, *classes, options.sizes, 40);
  if (options.allow_own_extents && !(example && example->seed == prover::kOwnExtents)) {
    if (auto certificate = attempt(true, false)) return Proved{*std::move(certificate)};
  }
  if (example) return Refuted{*std::move(example)};
  if (options.allow_exp_fact) {
    if (auto certificate = attempt(false, true)) return Proved{*std::move(certificate)};
  }
  return Unknown{why};
}

}  // namespace tandem
