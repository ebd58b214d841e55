#include "verifier/prover/store.h"

#include <algorithm>
#include <cstring>

#include "verifier/prover/store_intern.h"

namespace tandem::prover {

void Scope::Include(const Scope& other, int binders) {
  loose = std::max(loose, other.loose - binders);
  if (other.vars.empty()) return;
  if (vars.empty()) {
    vars = other.vars;
    return;
  }
  if (std::includes(vars.begin(), vars.end(), other.vars.begin(), other.vars.end())) return;
  std::vector<Atom> merged;
  std::set_union(vars.begin(), vars.end(), other.vars.begin(), other.vars.end(),
                 std::back_inserter(merged));
  vars = std::move(merged);
}

bool Scope::Has(Atom var) const { return std::binary_search(vars.begin(), vars.end(), var); }

Store::Store() : index_(std::make_unique<Index>()) {
  guards_.push_back({GuardKind::kTrue, {}, {}, {}, {}});
  guards_.push_back({GuardKind::kFalse, {}, {}, {}, {}});
  true_ = Guard(0);
  false_ = Guard(1);
}
Store::~Store() = default;

size_t Store::nodes() const {
  return polys_.size() + guards_.size() + factors_.size() + bodies_.size() + values_.size();
}

// ---- atoms

Atom Store::AddAtom(AtomData data) {
  atoms_.push_back(std::move(data));
  return Atom(static_cast<int64_t>(atoms_.size()) - 1);
}

Atom Store::Size(const std::string& name) {
  Key key;
  key.Int(0).Text(name);
  return Atom(Index::Find(index_->atoms, atoms_, key, [&] {
    AtomData data;
    data.kind = AtomKind::kSize;
    data.name = name;
    return data;
  }));
}

Atom Store::Fresh(const std::string& stem, Poly range) {
  AtomData data;
  data.kind = AtomKind::kVar;
  data.name = stem + "#" + std::to_string(atoms_.size());
  data.range = range;
  return AddAtom(std::move(data));
}

Atom Store::Bound(int depth, int k) {
  Key key;
  key.Int(2).Int(depth).Int(k);
  return Atom(Index::Find(index_->atoms, atoms_, key, [&] {
    AtomData data;
    data.kind = AtomKind::kBound;
    data.depth = depth;
    data.k = k;
    return data;
  }));
}

Atom Store::DivAtom(AtomKind kind, Poly a, Poly b) {
  Key key;
  key.Int(static_cast<int64_t>(kind)).Add(a).Add(b);
  return Atom(Index::Find(index_->atoms, atoms_, key, [&] {
    AtomData data;
    data.kind = kind;
    data.a = a;
    data.b = b;
    return data;
  }));
}

Atom Store::ValueAtom(Value value) {
  Key key;
  key.Int(static_cast<int64_t>(AtomKind::kValue)).Add(value);
  return Atom(Index::Find(index_->atoms, atoms_, key, [&] {
    AtomData data;
    data.kind = AtomKind::kValue;
    data.value = value;
    return data;
  }));
}

// ---- polynomials

Poly Store::FromTerms(std::map<Monomial, int64_t> terms) {
  Key key;
  for (auto it = terms.begin(); it != terms.end();) {
    if (it->second == 0) {
      it = terms.erase(it);
    } else {
      key.Add(it->first).Int(it->second);
      ++it;
    }
  }
  return Poly(Index::Find(index_->polys, polys_, key, [&] {
    PolyData data;
    for (auto& [monomial, c] : terms) {
      for (Atom a : monomial) {
        const AtomData& atom = atoms_[a.index()];
        Scope scope;
        if (atom.kind == AtomKind::kVar) scope.vars = {a};
        if (atom.kind == AtomKind::kBound) scope.loose = atom.depth + 1;
        if (atom.kind == AtomKind::kDiv || atom.kind == AtomKind::kMod) {
          scope = polys_[atom.a.index()].scope;
          scope.Include(polys_[atom.b.index()].scope);
        }
        if (atom.kind == AtomKind::kValue) scope = values_[atom.value.index()].scope;
        data.scope.Include(scope);
      }
      data.terms.emplace_back(monomial, c);
    }
    return data;
  }));
}

Poly Store::Const(int64_t c) { return FromTerms({{{}, c}}); }
Poly Store::Of(Atom a) { return FromTerms({{{a}, 1}}); }

Poly Store::Add(Poly a, Poly b) {
  const auto& pa = polys_[a.index()].terms;
  const auto& pb = polys_[b.index()].terms;
  if (pa.empty()) return b;
  if (pb.empty()) return a;
  std::map<Monomial, int64_t> terms(pa.begin(), pa.end());
  for (const auto& [m, c] : pb) {
    int64_t& slot = terms[m];
    slot = CheckedAdd(slot, c);
  }
  return FromTerms(std::move(terms));
}

Poly Store::Scale(Poly a, int64_t c) {
  if (c == 1) return a;
  std::map<Monomial, int64_t> terms;
  for (const auto& [m, k] : polys_[a.index()].terms) terms[m] = CheckedMul(k, c);
  return FromTerms(std::move(terms));
}

Poly Store::Sub(Poly a, Poly b) { return a == b ? Const(0) : Add(a, Scale(b, -1)); }

Poly Store::Mul(Poly a, Poly b) {
  std::map<Monomial, int64_t> terms;
  const auto pa = polys_[a.index()].terms;
  const auto pb = polys_[b.index()].terms;
  if (pa.size() * pb.size() > 10'000) throw LimitExceeded("an index polynomial grows too large");
  for (const auto& [m, c] : pa) {
    for (const auto& [n, d] : pb) {
      Monomial product;
      std::merge(m.begin(), m.end(), n.begin(), n.end(), std::back_inserter(product));
      int64_t& slot = terms[product];
      slot = CheckedAdd(slot, CheckedMul(c, d));
    }
  }
  return FromTerms(std::move(terms));
}

std::optional<int64_t> Store::Constant(Poly p) const {
  const auto& terms = polys_[p.index()].terms;
  if (terms.empty()) return 0;
  if (terms.size() == 1 && terms[0].first.empty()) return terms[0].second;
  return std::nullopt;
}

int64_t Store::Coefficient(Poly p, Atom a) const {
  for (const auto& [m, c] : polys_[p.index()].terms) {
    if (m.size() == 1 && m[0] == a) return c;
  }
  return 0;
}

bool Store::LinearIn(Poly p, Atom a) const {
  for (const auto& [m, c] : polys_[p.index()].terms) {
    if (m.size() == 1 && m[0] == a) continue;
    for (Atom x : m) {
      if (x == a) return false;
      const AtomData& data = atoms_[x.index()];
      if (data.kind == AtomKind::kDiv || data.kind == AtomKind::kMod) {
        if (polys_[data.a.index()].scope.Has(a) || polys_[data.b.index()].scope.Has(a))
          return false;
      } else if (data.kind == AtomKind::kValue) {
        if (values_[data.value.index()].scope.Has(a)) return false;
      }
    }
  }
  return true;
}

bool Store::SizesAtLeast(Poly p, int64_t min) const {
  // With each size s written as 1 + s', s' >= 0, no coefficient may be negative, and the constant
  // is a lower bound.
  std::map<Monomial, int64_t> shifted;
  for (const auto& [m, c] : polys_[p.index()].terms) {
    if (m.size() > 8) return false;
    for (Atom a : m) {
      if (atoms_[a.index()].kind != AtomKind::kSize) return false;
    }
    for (uint32_t subset = 0; subset < (1u << m.size()); ++subset) {
      Monomial part;
      for (size_t i = 0; i < m.size(); ++i) {
        if (subset >> i & 1) part.push_back(m[i]);
      }
      int64_t& slot = shifted[part];
      slot = CheckedAdd(slot, c);
    }
  }
  for (const auto& [m, c] : shifted) {
    if (!m.empty() && c < 0) return false;
  }
  auto it = shifted.find({});
  return (it == shifted.end() ? 0 : it->second) >= min;
}

std::pair<Poly, Poly> Store::SplitMultiples(Poly a, Poly b) {
  const auto divisor = polys_[b.index()].terms;
  if (divisor.size() != 1 || divisor[0].second < 1) return {Const(0), a};
  const auto& [d, k] = divisor[0];
  std::map<Monomial, int64_t> quotient, rest;
  for (const auto& [m, c] : polys_[a.index()].terms) {
    Monomial left;
    if (d.empty()) {  // a constant: coefficients of the rest lie in [0, b)
      quotient[m] = FloorDivide(c, k);
      rest[m] = c - k * quotient[m];
    } else if (c % k == 0 && std::includes(m.begin(), m.end(), d.begin(), d.end())) {
      std::set_difference(m.begin(), m.end(), d.begin(), d.end(), std::back_inserter(left));
      quotient[left] = c / k;
    } else {
      rest[m] = c;
    }
  }
  Poly q = FromTerms(std::move(quotient));
  return {q, FromTerms(std::move(rest))};
}

Poly Store::FloorDiv(Poly a, Poly b) {
  if (Constant(b) == 1) return a;
  auto [q, r] = SplitMultiples(a, b);
  if (Constant(r) == 0) return q;
  if (Constant(b) && Constant(r) && *Constant(b) > 0) return q;  // the rest is in [0, b)
  return Add(q, Of(DivAtom(AtomKind::kDiv, r, b)));
}

Poly Store::Mod(Poly a, Poly b) { return Sub(a, Mul(b, FloorDiv(a, b))); }

// ---- values

namespace {

void AddBranch(Key& key, const Branch& b) { key.Add(b.ranges).Add(b.guard).Add(b.value); }

}  // namespace

Factor Store::Intern(FactorData data) {
  Key key;
  uint64_t bits;
  std::memcpy(&bits, &data.number, sizeof(bits));
  key.Int(static_cast<int64_t>(data.kind)).Int(data.tensor).Text(data.name).Add(data.poly);
  key.Int(static_cast<int64_t>(bits)).Add(data.args).Int(static_cast<int64_t>(data.index.size()));
  for (const auto& dim : data.index) key.Add(dim);
  for (const Branch& b : data.branches) AddBranch(key, b);
  return Factor(Index::Find(index_->factors, factors_, key, [&] {
    data.scope = Scope();
    for (const auto& dim : data.index) {
      for (Poly p : dim) data.scope.Include(polys_[p.index()].scope);
    }
    if (data.poly.valid()) data.scope.Include(polys_[data.poly.index()].scope);
    for (Value v : data.args) data.scope.Include(values_[v.index()].scope);
    for (const Branch& b : data.branches) {
      data.scope.Include(guards_[b.guard.index()].scope, 1);
      data.scope.Include(values_[b.value.index()].scope, 1);
    }
    return data;
  }));
}

Body Store::Intern(BodyData data) {
  Key key;
  key.Int(static_cast<int64_t>(data.sizes.size()));
  for (auto [a, e] : data.sizes) key.Add(a).Int(e);
  key.Add(data.ranges).Add(data.guard);
  for (auto [f, e] : data.factors) key.Add(f).Int(e);
  return Body(Index::Find(index_->bodies, bodies_, key, [&] {
    data.scope = Scope();
    data.scope.Include(guards_[data.guard.index()].scope, 1);
    for (auto [f, e] : data.factors) data.scope.Include(factors_[f.index()].scope, 1);
    return data;
  }));
}

Value Store::Intern(ValueData data) {
  Key key;
  for (const auto& [b, c] : data.terms) key.Add(b).Int(c.num()).Int(c.den());
  return Value(Index::Find(index_->values, values_, key, [&] {
    data.scope = Scope();
    for (const auto& [b, c] : data.terms) data.scope.Include(bodies_[b.index()].scope);
    return data;
  }));
}

int Store::AddTensor(TensorData tensor) {
  tensors_.push_back(std::move(tensor));
  return static_cast<int>(tensors_.size()) - 1;
}

}  // namespace tandem::prover
