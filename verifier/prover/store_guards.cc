// Conditions: constants are folded, integer inequalities are divided by common factors.
#include <algorithm>
#include <numeric>

#include "verifier/prover/store.h"
#include "verifier/prover/store_intern.h"

namespace tandem::prover {

Guard Store::Ge(Poly p) {
  if (auto c = Constant(p)) return *c >= 0 ? true_ : false_;
  // Over the integers, g*q + c >= 0 is q + floor(c/g) >= 0.
  int64_t g = 0;
  for (const auto& [m, c] : polys_[p.index()].terms) {
    if (!m.empty()) g = std::gcd(g, c);
  }
  if (g > 1) {
    std::map<Monomial, int64_t> terms;
    for (const auto& [m, c] : polys_[p.index()].terms) {
      terms[m] = m.empty() ? FloorDivide(c, g) : c / g;
    }
    p = FromTerms(std::move(terms));
  }
  Key key;
  key.Int(static_cast<int64_t>(GuardKind::kGe)).Add(p);
  return Guard(Index::Find(index_->guards, guards_, key, [&] {
    return GuardData{GuardKind::kGe, p, {}, {}, polys_[p.index()].scope};
  }));
}

Guard Store::Eq(Poly p) {
  if (auto c = Constant(p)) return *c == 0 ? true_ : false_;
  int64_t g = 0;
  for (const auto& [m, c] : polys_[p.index()].terms) {
    if (!m.empty()) g = std::gcd(g, c);
  }
  std::map<Monomial, int64_t> terms;
  int64_t sign = polys_[p.index()].terms.back().second < 0 ? -1 : 1;
  for (const auto& [m, c] : polys_[p.index()].terms) {
    if (c % g != 0) return false_;
    terms[m] = sign * c / g;
  }
  p = FromTerms(std::move(terms));
  Key key;
  key.Int(static_cast<int64_t>(GuardKind::kEq)).Add(p);
  return Guard(Index::Find(index_->guards, guards_, key, [&] {
    return GuardData{GuardKind::kEq, p, {}, {}, polys_[p.index()].scope};
  }));
}

Guard Store::InRange(Poly i, Poly extent) { return And(Ge(i), Less(i, extent)); }

Guard Store::And(std::vector<Guard> args) {
  std::vector<Guard> flat;
  for (Guard g : args) {
    const GuardData& data = guards_[g.index()];
    if (data.kind == GuardKind::kFalse) return false_;
    if (data.kind == GuardKind::kTrue) continue;
    if (data.kind == GuardKind::kAnd) {
      flat.insert(flat.end(), data.args.begin(), data.args.end());
    } else {
      flat.push_back(g);
    }
  }
  std::sort(flat.begin(), flat.end());
  flat.erase(std::unique(flat.begin(), flat.end()), flat.end());
  for (Guard g : flat) {
    if (guards_[g.index()].kind == GuardKind::kNot &&
        std::binary_search(flat.begin(), flat.end(), guards_[g.index()].args[0])) {
      return false_;
    }
  }
  if (flat.empty()) return true_;
  if (flat.size() == 1) return flat[0];
  Key key;
  key.Int(static_cast<int64_t>(GuardKind::kAnd)).Add(flat);
  return Guard(Index::Find(index_->guards, guards_, key, [&] {
    GuardData data{GuardKind::kAnd, {}, {}, flat, {}};
    for (Guard g : flat) data.scope.Include(guards_[g.index()].scope);
    return data;
  }));
}

Guard Store::Or(std::vector<Guard> args) {
  std::vector<Guard> flat;
  for (Guard g : args) {
    const GuardData& data = guards_[g.index()];
    if (data.kind == GuardKind::kTrue) return true_;
    if (data.kind == GuardKind::kFalse) continue;
    if (data.kind == GuardKind::kOr) {
      flat.insert(flat.end(), data.args.begin(), data.args.end());
    } else {
      flat.push_back(g);
    }
  }
  std::sort(flat.begin(), flat.end());
  flat.erase(std::unique(flat.begin(), flat.end()), flat.end());
  if (flat.empty()) return false_;
  if (flat.size() == 1) return flat[0];
  Key key;
  key.Int(static_cast<int64_t>(GuardKind::kOr)).Add(flat);
  return Guard(Index::Find(index_->guards, guards_, key, [&] {
    GuardData data{GuardKind::kOr, {}, {}, flat, {}};
    for (Guard g : flat) data.scope.Include(guards_[g.index()].scope);
    return data;
  }));
}

Guard Store::Not(Guard g) {
  const GuardData data = guards_[g.index()];
  switch (data.kind) {
    case GuardKind::kTrue:
      return false_;
    case GuardKind::kFalse:
      return true_;
    case GuardKind::kNot:
      return data.args[0];
    case GuardKind::kGe:
      return Ge(Sub(Const(-1), data.poly));
    case GuardKind::kAnd:
    case GuardKind::kOr: {
      std::vector<Guard> args;
      for (Guard a : data.args) args.push_back(Not(a));
      return data.kind == GuardKind::kAnd ? Or(std::move(args)) : And(std::move(args));
    }
    case GuardKind::kEq:
    case GuardKind::kValueGe:
    case GuardKind::kValueEq:
      break;
  }
  Key key;
  key.Int(static_cast<int64_t>(GuardKind::kNot)).Add(g);
  return Guard(Index::Find(index_->guards, guards_, key, [&] {
    return GuardData{GuardKind::kNot, {}, {}, {g}, data.scope};
  }));
}

Guard Store::RawValueGuard(GuardKind kind, Value v) {
  Key key;
  key.Int(static_cast<int64_t>(kind)).Add(v);
  return Guard(Index::Find(index_->guards, guards_, key, [&] {
    return GuardData{kind, {}, v, {}, values_[v.index()].scope};
  }));
}

std::vector<Guard> Store::Conjuncts(Guard g) const {
  const GuardData& data = guards_[g.index()];
  if (data.kind == GuardKind::kTrue) return {};
  if (data.kind == GuardKind::kAnd) return data.args;
  return {g};
}

}  // namespace tandem::prover
