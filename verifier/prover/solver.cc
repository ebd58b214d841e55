#include "verifier/prover/solver.h"

#include <algorithm>
#include <map>
#include <numeric>

namespace tandem::prover {
namespace {

uint64_t Mix(uint64_t h, uint64_t x) {
  h ^= x + 0x9e3779b97f4a7c15ULL + (h << 6) + (h >> 2);
  h *= 0xbf58476d1ce4e5b9ULL;
  return h ^ (h >> 29);
}

// One assignment of small numbers to atoms, made up as atoms are met.
class SmallModel {
 public:
  SmallModel(const Store& s, const std::map<Atom, Poly>& definitions, uint64_t seed)
      : s_(s), definitions_(definitions), seed_(seed) {}

  // Every size met is at least 1.
  bool ok() const { return ok_; }

  int64_t Of(Poly p) {
    int64_t sum = 0;
    for (const auto& [m, c] : s_[p].terms) {
      int64_t product = c;
      for (Atom a : m) product = CheckedMul(product, Of(a));
      sum = CheckedAdd(sum, product);
    }
    return sum;
  }

  bool Of(Guard g) {
    const GuardData& data = s_[g];
    switch (data.kind) {
      case GuardKind::kTrue:
        return true;
      case GuardKind::kFalse:
        return false;
      case GuardKind::kGe:
        return Of(data.poly) >= 0;
      case GuardKind::kEq:
        return Of(data.poly) == 0;
      case GuardKind::kNot:
        return !Of(data.args[0]);
      case GuardKind::kAnd:
        return std::all_of(data.args.begin(), data.args.end(), [&](Guard a) { return Of(a); });
      case GuardKind::kOr:
        return std::any_of(data.args.begin(), data.args.end(), [&](Guard a) { return Of(a); });
      case GuardKind::kValueGe:
      case GuardKind::kValueEq:
        return Mix(seed_, static_cast<uint64_t>(g.value) << 8) & 1;
    }
    return false;
  }

 private:
  int64_t Of(Atom a) {
    auto it = values_.find(a);
    if (it != values_.end()) return it->second;
    const AtomData& data = s_[a];
    uint64_t h = Mix(seed_, static_cast<uint64_t>(a.value) + 77);
    int64_t x = 0;
    if (auto d = definitions_.find(a); d != definitions_.end()) {
      x = Of(d->second);
      ok_ = ok_ && x >= 1;
      values_[a] = x;
      return x;
    }
    switch (data.kind) {
      case AtomKind::kSize:
        x = 1 + static_cast<int64_t>(h % 4);
        break;
      case AtomKind::kBound:
        x = static_cast<int64_t>(h % 4);
        break;
      case AtomKind::kVar: {
        int64_t n = data.range.valid() ? std::max<int64_t>(Of(data.range), 1) : 4;
        x = static_cast<int64_t>(h % static_cast<uint64_t>(n));
        if (h >> 32 & 7) break;
        x = (h >> 40 & 1) ? -1 : n;
        break;
      }
      case AtomKind::kDiv:
      case AtomKind::kMod: {
        int64_t n = Of(data.a), d = std::max<int64_t>(Of(data.b), 1);
        int64_t q = n >= 0 ? n / d : -((-n + d - 1) / d);
        x = data.kind == AtomKind::kDiv ? q : n - q * d;
        break;
      }
      case AtomKind::kValue: {
        // Reads at equal indices are equal.
        const auto& terms = s_[data.value].terms;
        if (terms.size() == 1 && s_[terms[0].first].factors.size() == 1) {
          const FactorData& f = s_[s_[terms[0].first].factors[0].first];
          if (f.kind == FactorKind::kRead) {
            h = Mix(seed_, static_cast<uint64_t>(f.tensor) + 1234567);
            for (const auto& dim : f.index) {
              for (Poly p : dim) h = Mix(h, static_cast<uint64_t>(Of(p)));
            }
          }
        }
        x = static_cast<int64_t>(h % 5) - 1;
        break;
      }
    }
    values_[a] = x;
    return x;
  }

  const Store& s_;
  const std::map<Atom, Poly>& definitions_;
  uint64_t seed_;
  bool ok_ = true;
  std::map<Atom, int64_t> values_;
};

bool Holds(SmallModel& model, const Goal& goal) {
  switch (goal.kind) {
    case Goal::Kind::kGuard:
      return model.Of(goal.parts[0].second);
    case Goal::Kind::kSum: {
      int64_t sum = 0;
      for (const auto& [c, g] : goal.parts) sum += model.Of(g) ? c : 0;
      return sum == 0;
    }
    case Goal::Kind::kUnion: {
      bool left = false, right = false;
      for (const auto& [c, g] : goal.parts) (c > 0 ? left : right) |= model.Of(g);
      return left == right;
    }
  }
  return true;
}

}  // namespace

void Solver::Assume(Guard g) {
  for (Guard part : s_.Conjuncts(g)) assumptions_.push_back(part);
  cache_.clear();
}

void Solver::Define(Atom size, Poly formula) {
  definitions_.emplace(size, formula);
  Assume(s_.Eq(s_.Sub(s_.Of(size), formula)));
}

bool Solver::AssumptionsSatisfiable() {
  Guard all = s_.And(assumptions_);
  for (uint64_t seed = 1; seed <= 8; ++seed) {
    SmallModel model(s_, definitions_, seed);
    if (model.Of(all) && model.ok()) return true;
  }
  ++stats_.queries;
  return SatisfiableWithZ3(s_, assumptions_) == Answer::kValid;
}

bool Solver::AssumptionsSatisfiableAtTwo(const std::vector<Atom>& sizes) {
  if (assumptions_.empty()) return true;
  std::vector<Guard> all = assumptions_;
  for (Atom a : sizes) all.push_back(s_.Ge(s_.Sub(s_.Of(a), s_.Const(2))));
  ++stats_.queries;
  return SatisfiableWithZ3(s_, all) == Answer::kValid;
}

bool Solver::ByBounds(Guard context, Guard goal) {
  if (s_[goal].kind != GuardKind::kGe) return false;
  const std::vector<Guard> hyps = s_.Conjuncts(context);  // sorted
  auto known = [&](Guard g) { return std::binary_search(hyps.begin(), hyps.end(), g); };
  Poly p = s_[goal].poly;
  for (int step = 0; step < 12; ++step) {
    if (s_.SizesAtLeast(p, 0)) return true;
    bool moved = false;
    const std::vector<Atom> vars = s_[p].scope.vars;
    for (Atom v : vars) {
      Poly range = s_[v].range;
      if (!range.valid()) continue;
      // p = c*v + rest with c free of variables.
      std::map<Monomial, int64_t> c, rest;
      bool ok = true;
      for (const auto& [m, k] : s_[p].terms) {
        auto n = std::count(m.begin(), m.end(), v);
        if (n == 0) {
          rest[m] = k;
        } else if (n == 1) {
          Monomial left;
          for (Atom a : m) {
            if (a != v) left.push_back(a);
          }
          c[left] = k;
        } else {
          ok = false;
        }
      }
      if (!ok || c.empty()) continue;
      Poly pc = s_.FromTerms(c), pr = s_.FromTerms(rest);
      if (s_[pr].scope.Has(v)) continue;
      Poly at = s_.Of(v);
      if (s_.SizesAtLeast(pc, 0) && known(s_.Ge(at))) {
        p = pr;
      } else if (s_.SizesAtLeast(s_.Scale(pc, -1), 0) && known(s_.Less(at, range))) {
        p = s_.Add(pr, s_.Mul(pc, s_.Sub(range, s_.Const(1))));
      } else {
        continue;
      }
      moved = true;
      break;
    }
    if (!moved) return false;
  }
  return false;
}

bool Solver::HasCounterModel(Guard context, const Goal& goal) {
  try {
    for (uint64_t seed = 1; seed <= 40; ++seed) {
      SmallModel model(s_, definitions_, seed);
      if (!model.Of(context)) continue;
      bool assumed = std::all_of(assumptions_.begin(), assumptions_.end(),
                                 [&](Guard g) { return model.Of(g); });
      if (assumed && !Holds(model, goal) && model.ok()) return true;
    }
  } catch (const LimitExceeded&) {
  }
  return false;
}

bool Solver::Decide(Guard context, Goal goal, bool prune) {
  if (HasCounterModel(context, goal)) {
    ++stats_.models;
    return false;
  }
  std::string key = std::to_string(static_cast<int>(goal.kind)) + (prune ? "p" : "") +
                    std::to_string(context.value);
  for (const auto& [c, g] : goal.parts) {
    key += "," + std::to_string(c) + ":" + std::to_string(g.value);
  }
  if (auto it = cache_.find(key); it != cache_.end()) {
    ++stats_.cached;
    return it->second;
  }
  std::vector<Guard> hyps = assumptions_;
  for (Guard g : s_.Conjuncts(context)) hyps.push_back(g);
  bool valid = false;
  for (bool linear : {true, false}) {
    if (!linear && prune) break;
    ++stats_.queries;
    Answer answer = CheckWithZ3(s_, hyps, goal, linear);
    if (answer == Answer::kValid) {
      ++(linear ? stats_.linear : stats_.nonlinear);
      valid = true;
      break;
    }
    if (answer == Answer::kNotValid) break;
    if (!linear) ++stats_.unknown;
  }
  cache_[key] = valid;
  return valid;
}

bool Solver::Implied(Guard context, Guard goal, bool prune) {
  const std::vector<Guard> hyps = s_.Conjuncts(context);
  std::vector<Guard> left;
  for (Guard g : s_.Conjuncts(goal)) {
    if (std::binary_search(hyps.begin(), hyps.end(), g) ||
        std::find(assumptions_.begin(), assumptions_.end(), g) != assumptions_.end()) {
      ++stats_.identities;
    } else if (ByBounds(context, g)) {
      ++stats_.bounds;
    } else {
      left.push_back(g);
    }
  }
  if (left.empty()) return true;
  return Decide(context, Goal{Goal::Kind::kGuard, {{1, s_.And(left)}}}, prune);
}

bool Solver::Cancels(Guard context, const std::vector<std::pair<Rational, Guard>>& parts) {
  // What all guards share goes to the context; what the context says goes away.
  std::vector<Guard> hyps = s_.Conjuncts(context);
  std::vector<std::vector<Guard>> guards;
  for (const auto& [c, g] : parts) guards.push_back(s_.Conjuncts(g));
  std::vector<Guard> shared = guards[0];
  for (const auto& g : guards) {
    std::erase_if(shared, [&](Guard x) { return std::find(g.begin(), g.end(), x) == g.end(); });
  }
  int64_t den = 1;
  for (const auto& [c, g] : parts) den = CheckedMul(den / std::gcd(den, c.den()), c.den());
  std::map<Guard, int64_t> sum;
  for (size_t i = 0; i < parts.size(); ++i) {
    std::erase_if(guards[i], [&](Guard x) {
      return std::binary_search(hyps.begin(), hyps.end(), x) ||
             std::find(shared.begin(), shared.end(), x) != shared.end();
    });
    const Rational& c = parts[i].first;
    int64_t& slot = sum[s_.And(guards[i])];
    slot = CheckedAdd(slot, CheckedMul(c.num(), den / c.den()));
  }
  Goal goal{Goal::Kind::kSum, {}};
  for (const auto& [g, c] : sum) {
    if (c != 0) goal.parts.emplace_back(c, g);
  }
  if (goal.parts.empty()) {
    ++stats_.identities;
    return true;
  }
  return Decide(s_.And(context, s_.And(shared)), goal, false);
}

bool Solver::SameUnion(Guard context, const std::vector<Guard>& left,
                       const std::vector<Guard>& right) {
  if (s_.Or(left) == s_.Or(right)) {
    ++stats_.identities;
    return true;
  }
  Goal goal{Goal::Kind::kUnion, {}};
  for (Guard g : left) goal.parts.emplace_back(1, g);
  for (Guard g : right) goal.parts.emplace_back(-1, g);
  return Decide(context, goal, false);
}

}  // namespace tandem::prover
