#include "verifier/prover/match.h"

#include <algorithm>
#include <functional>
#include <set>

namespace tandem::prover {
namespace {

constexpr int kMaxDepth = 40;
constexpr int kMaxWork = 20'000;      // alignments tried in one proof
constexpr size_t kMaxAlignments = 6;  // kept for one pair
constexpr int kMaxCombinations = 24;  // of alignments, for one class
constexpr int kMaxExpansions = 8;     // rounds

}  // namespace

bool Matcher::Equal(Guard context, Value a, Value b) {
  if (a == b) return true;
  auto key = std::make_tuple(context, std::min(a, b), std::max(a, b));
  if (auto it = memo_.find(key); it != memo_.end()) return it->second;
  if (depth_ > kMaxDepth) throw LimitExceeded("terms are nested too deeply");
  ++depth_;
  bool equal = Vanishes(context, a_.Sub(a, b));
  --depth_;
  memo_[key] = equal;
  return equal;
}

bool Matcher::Vanishes(Guard context, Value difference) {
  for (int round = 0;; ++round) {
    std::vector<OpenTerm> todo, left;
    const auto bodies = s_[difference].terms;
    bool expandable = false;
    for (const auto& [b, c] : bodies) {
      todo.push_back(a_.Open(b, c));
      expandable = expandable || a_.Expandable(b);
    }
    while (!todo.empty()) {
      size_t best = 0;
      for (size_t i = 1; i < todo.size(); ++i) {
        if (todo[i].vars.size() > todo[best].vars.size()) best = i;
      }
      OpenTerm t = std::move(todo[best]);
      todo.erase(todo.begin() + static_cast<long>(best));
      std::vector<std::vector<OpenTerm>> aligned;
      std::vector<size_t> positions;
      for (size_t i = 0; i < todo.size(); ++i) {
        if (todo[i].sizes != t.sizes) continue;
        auto us = Align(context, t, todo[i]);
        if (us.empty()) continue;
        std::stable_sort(us.begin(), us.end(), [&](const OpenTerm& x, const OpenTerm& y) {
          return (x.guard == t.guard) > (y.guard == t.guard);
        });
        aligned.push_back(std::move(us));
        positions.push_back(i);
      }
      // One alignment a term, in turn.
      std::vector<size_t> choice(aligned.size(), 0);
      bool cancelled = false;
      for (int tries = 0; tries < kMaxCombinations && !cancelled; ++tries) {
        std::vector<OpenTerm> group = {t};
        for (size_t i = 0; i < aligned.size(); ++i) group.push_back(aligned[i][choice[i]]);
        cancelled = Cancels(context, group);
        size_t i = 0;
        while (i < choice.size() && ++choice[i] == aligned[i].size()) choice[i++] = 0;
        if (i == choice.size()) break;
      }
      if (cancelled) {
        for (size_t i = positions.size(); i-- > 0;) {
          todo.erase(todo.begin() + static_cast<long>(positions[i]));
        }
      } else {
        if (!expandable) {
          why_ = Describe(t) + " has no counterpart";
          return false;
        }
        left.push_back(std::move(t));
      }
    }
    if (left.empty()) return true;
    if (round == kMaxExpansions) throw LimitExceeded("too many nested products of sums");
    Value next = a_.Zero();
    bool expanded = false;
    for (const OpenTerm& t : left) {
      const auto closed = s_[a_.Close(t)].terms;
      for (const auto& [b, c] : closed) {
        bool e = a_.Expandable(b);
        expanded = expanded || e;
        next = a_.Add(next, e ? a_.Expand(b, c) : a_.Close(a_.Open(b, c)));
      }
    }
    if (!expanded) {
      why_ = Describe(left[0]) + " has no counterpart";
      return false;
    }
    difference = next;
  }
}

bool Matcher::Cancels(Guard context, const std::vector<OpenTerm>& group) {
  std::vector<std::pair<Rational, Guard>> parts;
  std::vector<Guard> guards;
  for (const OpenTerm& t : group) {
    parts.emplace_back(t.c, t.guard);
    guards.push_back(t.guard);
  }
  if (solver_.Cancels(context, parts)) return true;
  Guard congruence = Congruence(context, guards);
  return congruence != s_.True() && solver_.Cancels(s_.And(context, congruence), parts);
}

Guard Matcher::Congruence(Guard context, const std::vector<Guard>& guards) {
  std::set<Guard> conditions;
  std::set<Atom> integers;
  std::function<void(Guard)> walk = [&](Guard g) {
    const GuardData& data = s_[g];
    if (data.kind == GuardKind::kValueGe || data.kind == GuardKind::kValueEq) conditions.insert(g);
    for (Guard a : data.args) walk(a);
    if (!data.poly.valid()) return;
    for (const auto& [m, c] : s_[data.poly].terms) {
      for (Atom a : m) {
        if (s_[a].kind == AtomKind::kValue) integers.insert(a);
      }
    }
  };
  for (Guard g : guards) walk(g);
  std::vector<Guard> facts;
  if (conditions.size() > 12 || integers.size() > 12) return s_.True();
  for (auto i = conditions.begin(); i != conditions.end(); ++i) {
    for (auto j = std::next(i); j != conditions.end(); ++j) {
      GuardKind kind = s_[*i].kind;
      if (kind != s_[*j].kind) continue;
      Value x = s_[*i].value, y = s_[*j].value;
      if (!Equal(context, x, y) &&
          !(kind == GuardKind::kValueEq && Equal(context, x, a_.Scale(y, Rational(-1))))) {
        continue;
      }
      facts.push_back(s_.Or({s_.And(*i, *j), s_.And(s_.Not(*i), s_.Not(*j))}));
    }
  }
  for (auto i = integers.begin(); i != integers.end(); ++i) {
    for (auto j = std::next(i); j != integers.end(); ++j) {
      if (Equal(context, s_[*i].value, s_[*j].value)) {
        facts.push_back(s_.Eq(s_.Sub(s_.Of(*i), s_.Of(*j))));
      }
    }
  }
  return s_.And(std::move(facts));
}

// ---- factors

bool Matcher::EqualIndex(Guard context, Poly a, Poly b) {
  if (a == b) return true;
  Poly d = s_.Sub(a, b);
  if (s_.Constant(d)) return false;
  return solver_.Implied(context, s_.Eq(d));
}

Poly Matcher::Flatten(const std::vector<Poly>& digits, const std::vector<Poly>& extents) {
  if (digits.size() != extents.size()) return digits[0];
  Poly flat = s_.Const(0);
  for (size_t i = 0; i < digits.size(); ++i) {
    flat = s_.Add(s_.Mul(flat, extents[i]), digits[i]);
  }
  return flat;
}

bool Matcher::EqualFactor(Guard context, Factor f, Factor g) {
  if (f == g) return true;
  const FactorData a = s_[f], b = s_[g];
  if (a.kind != b.kind || a.tensor != b.tensor || a.name != b.name) return false;
  switch (a.kind) {
    case FactorKind::kRead: {
      const auto& dims = s_.tensor(a.tensor).dims;
      for (size_t d = 0; d < a.index.size(); ++d) {
        if (a.index[d].size() != b.index[d].size()) {
          Poly x = Flatten(a.index[d], dims[d]), y = Flatten(b.index[d], dims[d]);
          if (!EqualIndex(context, x, y)) return false;
          continue;
        }
        for (size_t k = 0; k < a.index[d].size(); ++k) {
          if (!EqualIndex(context, a.index[d][k], b.index[d][k])) return false;
        }
      }
      return true;
    }
    case FactorKind::kIndex:
      return EqualIndex(context, a.poly, b.poly);
    case FactorKind::kConstant:
      return false;
    case FactorKind::kFn:
    case FactorKind::kGroup: {
      if (a.args.size() != b.args.size()) return false;
      for (size_t i = 0; i < a.args.size(); ++i) {
        if (!Equal(context, a.args[i], b.args[i])) return false;
      }
      return true;
    }
    case FactorKind::kMax:
      return EqualMax(context, f, g);
    case FactorKind::kOpaque:
      return EqualOpaque(context, a.branches[0], b.branches[0]);
  }
  return false;
}

bool Matcher::SameHeads(const FactorPowers& f, const FactorPowers& g) const {
  if (f.size() != g.size()) return false;
  auto heads = [&](const FactorPowers& powers) {
    std::vector<std::tuple<FactorKind, int, std::string, int>> out;
    for (auto [x, e] : powers) out.emplace_back(s_[x].kind, s_[x].tensor, s_[x].name, e);
    std::sort(out.begin(), out.end());
    return out;
  };
  return heads(f) == heads(g);
}

bool Matcher::EqualFactors(Guard context, FactorPowers f, FactorPowers g) {
  // Identical factors first; then any perfect matching.
  for (size_t i = f.size(); i-- > 0;) {
    auto it = std::find(g.begin(), g.end(), f[i]);
    if (it == g.end()) continue;
    g.erase(it);
    f.erase(f.begin() + static_cast<long>(i));
  }
  if (f.size() != g.size()) return false;
  if (f.empty()) return true;
  auto [x, e] = f.back();
  f.pop_back();
  for (size_t i = 0; i < g.size(); ++i) {
    if (g[i].second != e || !EqualFactor(context, x, g[i].first)) continue;
    FactorPowers rest = g;
    rest.erase(rest.begin() + static_cast<long>(i));
    if (EqualFactors(context, f, rest)) return true;
  }
  return false;
}

bool Matcher::EqualOpaque(Guard context, const Branch& a, const Branch& b) {
  if (a.ranges != b.ranges) return false;
  OpenBranch x = a_.Open(a), y = a_.Open(b);
  Change rename;
  for (size_t i = 0; i < x.vars.size(); ++i) rename[y.vars[i]] = s_.Of(x.vars[i]);
  Guard guard = a_.Replace(y.guard, rename);
  if (guard != x.guard && !solver_.SameUnion(context, {x.guard}, {guard})) return false;
  return Equal(s_.And(context, x.guard), x.value, a_.Replace(y.value, rename));
}

bool Matcher::EqualMax(Guard context, Factor f, Factor g) {
  struct Side {
    bool left;
    OpenBranch branch;
  };
  std::vector<Side> todo;
  for (bool left : {true, false}) {
    const auto branches = s_[left ? f : g].branches;
    for (const Branch& b : branches) todo.push_back({left, a_.Open(b)});
  }
  while (!todo.empty()) {
    Side head = std::move(todo.front());
    todo.erase(todo.begin());
    std::vector<Guard> left, right;
    (head.left ? left : right).push_back(head.branch.guard);
    std::vector<ReadAt> to_reads;
    CollectReads(head.branch.value, &to_reads);
    CollectReads(head.branch.guard, &to_reads);
    std::vector<Side> others;
    for (Side& other : todo) {
      std::optional<Guard> hit;
      if (other.branch.vars.size() == head.branch.vars.size()) {
        std::vector<ReadAt> from_reads;
        CollectReads(other.branch.value, &from_reads);
        CollectReads(other.branch.guard, &from_reads);
        for (const Change& change :
             Candidates(head.branch.vars, to_reads, other.branch.vars, from_reads)) {
          if (!Unimodular(change, other.branch.vars, head.branch.vars)) continue;
          Guard guard = a_.Replace(other.branch.guard, change);
          if (Equal(s_.And(context, guard), head.branch.value,
                    a_.Replace(other.branch.value, change))) {
            hit = guard;
            break;
          }
        }
      }
      if (hit) {
        (other.left ? left : right).push_back(*hit);
      } else {
        others.push_back(std::move(other));
      }
    }
    if (!solver_.SameUnion(context, left, right)) {
      std::vector<Guard> all = left;
      all.insert(all.end(), right.begin(), right.end());
      Guard congruence = Congruence(context, all);
      if (congruence == s_.True() || !solver_.SameUnion(s_.And(context, congruence), left, right)) {
        why_ = "a branch of a maximum has no counterpart: " + s_.ToString(head.branch.value);
        return false;
      }
    }
    todo = std::move(others);
  }
  return true;
}

std::vector<OpenTerm> Matcher::Align(Guard context, const OpenTerm& t, const OpenTerm& u) {
  std::vector<OpenTerm> out;
  if (!SameHeads(t.factors, u.factors) || u.vars.size() > t.vars.size()) return out;
  if (u.vars.empty() && !t.vars.empty()) return out;
  if (++work_ > kMaxWork) throw LimitExceeded("too many alignments of terms");
  std::vector<ReadAt> to_reads, from_reads;
  for (auto [f, e] : t.factors) CollectReads(f, &to_reads);
  for (auto [f, e] : u.factors) CollectReads(f, &from_reads);
  CollectReads(t.guard, &to_reads);
  CollectReads(u.guard, &from_reads);
  for (const Change& change : Candidates(t.vars, to_reads, u.vars, from_reads)) {
    Guard extra = s_.True();
    if (u.vars.size() < t.vars.size()) {
      auto radix = MixedRadix(change, u.vars, t.vars);
      if (!radix) continue;
      extra = *radix;
    } else if (!Unimodular(change, u.vars, t.vars)) {
      continue;
    }
    OpenTerm moved = u;
    moved.vars = t.vars;
    moved.guard = s_.And(a_.Replace(u.guard, change), extra);
    for (auto& [f, e] : moved.factors) f = a_.Replace(f, change);
    if (moved.guard == s_.False()) continue;
    if (!EqualFactors(s_.And(context, moved.guard), t.factors, moved.factors)) continue;
    out.push_back(std::move(moved));
    if (out.size() == kMaxAlignments) break;
  }
  return out;
}

std::string Matcher::Describe(const OpenTerm& t) const {
  std::string text = t.c.ToString();
  for (auto [f, e] : t.factors) {
    const FactorData& data = s_[f];
    std::string head;
    switch (data.kind) {
      case FactorKind::kRead:
        head = s_.tensor(data.tensor).name;
        break;
      case FactorKind::kIndex:
        head = "index";
        break;
      case FactorKind::kConstant:
        head = "constant";
        break;
      case FactorKind::kGroup:
        head = "(sum)";
        break;
      case FactorKind::kMax:
        head = "max";
        break;
      case FactorKind::kFn:
      case FactorKind::kOpaque:
        head = data.name;
        break;
    }
    text += " * " + head + (e == 1 ? "" : "^" + std::to_string(e));
  }
  return "a term " + text + " over " + std::to_string(t.vars.size()) + " variables";
}

}  // namespace tandem::prover
