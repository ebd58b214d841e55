// Changes of bound variables: found from paired reads, accepted only as bijections.
#include <algorithm>
#include <functional>
#include <set>

#include "verifier/prover/match.h"

namespace tandem::prover {
namespace {

constexpr size_t kMaxCandidates = 48;  // for one pair of terms

}  // namespace

void Matcher::CollectReads(Poly p, std::vector<ReadAt>* out) const {
  for (const auto& [m, c] : s_[p].terms) {
    for (Atom a : m) {
      const AtomData& data = s_[a];
      if (data.kind == AtomKind::kValue) CollectReads(data.value, out);
      if (data.kind == AtomKind::kDiv) {
        CollectReads(data.a, out);
        CollectReads(data.b, out);
      }
    }
  }
}

void Matcher::CollectReads(Guard g, std::vector<ReadAt>* out) const {
  const GuardData& data = s_[g];
  if (data.poly.valid()) CollectReads(data.poly, out);
  if (data.value.valid()) CollectReads(data.value, out);
  for (Guard a : data.args) CollectReads(a, out);
}

void Matcher::CollectReads(Value v, std::vector<ReadAt>* out) const {
  for (const auto& [b, c] : s_[v].terms) {
    for (auto [f, e] : s_[b].factors) CollectReads(f, out);
    CollectReads(s_[b].guard, out);
  }
}

void Matcher::CollectReads(Factor f, std::vector<ReadAt>* out) const {
  const FactorData& data = s_[f];
  if (data.kind == FactorKind::kRead) {
    out->push_back({data.tensor, data.index});
    for (const auto& dim : data.index) {
      for (Poly p : dim) CollectReads(p, out);
    }
  }
  if (data.kind == FactorKind::kIndex) out->push_back({-1, {{data.poly}}});
  for (Value v : data.args) CollectReads(v, out);
  for (const Branch& b : data.branches) {
    CollectReads(b.value, out);
    CollectReads(b.guard, out);
  }
}

std::vector<Matcher::Change> Matcher::Candidates(const std::vector<Atom>& to,
                                                 const std::vector<ReadAt>& to_reads,
                                                 const std::vector<Atom>& from,
                                                 const std::vector<ReadAt>& from_reads) {
  std::vector<Change> found;
  if (from.empty()) return {Change()};
  int steps = 0;
  Change change;
  std::function<void()> solve = [&] {
    if (found.size() >= kMaxCandidates || ++steps > 2000) return;
    std::vector<Atom> open;
    for (Atom v : from) {
      if (!change.count(v)) open.push_back(v);
    }
    if (open.empty()) {
      if (std::find(found.begin(), found.end(), change) == found.end()) found.push_back(change);
      return;
    }
    auto mentions_open = [&](Poly p, Atom except) {
      return std::any_of(open.begin(), open.end(),
                         [&](Atom a) { return a != except && s_[p].scope.Has(a); });
    };
    // Of all open variables, one that stands alone with coefficient +-1 in some read.
    for (Atom v : open) {
      bool usable = false;
      std::set<Poly> tried;
      auto pair = [&](Poly mine, Poly theirs) {
        int64_t c = s_.Coefficient(mine, v);
        if ((c != 1 && c != -1) || !s_.LinearIn(mine, v)) return;
        if (s_[mine].scope.loose > 0 || mentions_open(mine, v)) return;
        usable = true;
        if (!theirs.valid() || s_[theirs].scope.loose > 0) return;
        Poly rest = s_.Sub(mine, s_.Scale(s_.Of(v), c));
        Poly image = s_.Scale(s_.Sub(theirs, a_.Replace(rest, change)), c);
        if (!tried.insert(image).second) return;
        change[v] = image;
        solve();
        change.erase(v);
      };
      for (const ReadAt& u : from_reads) {
        for (size_t d = 0; d < u.index.size(); ++d) {
          for (size_t k = 0; k < u.index[d].size(); ++k) {
            if (!s_[u.index[d][k]].scope.Has(v)) continue;
            pair(u.index[d][k], Poly());
            for (const ReadAt& t : to_reads) {
              if (t.tensor != u.tensor || t.index.size() != u.index.size()) continue;
              if (t.index[d].size() == u.index[d].size()) {
                pair(u.index[d][k], t.index[d][k]);
              } else if (u.tensor >= 0) {
                const auto& extents = s_.tensor(u.tensor).dims[d];
                pair(Flatten(u.index[d], extents), Flatten(t.index[d], extents));
              }
            }
          }
        }
      }
      if (usable) return;
    }
    // Only in guards: any variable not yet taken.
    Atom v = open[0];
    for (Atom w : to) {
      bool used = std::any_of(change.begin(), change.end(),
                              [&](const auto& c) { return s_[c.second].scope.Has(w); });
      if (used) continue;
      change[v] = s_.Of(w);
      solve();
      change.erase(v);
    }
  };
  solve();
  return found;
}

bool Matcher::Unimodular(const Change& change, const std::vector<Atom>& from,
                         const std::vector<Atom>& to) const {
  if (from.size() != to.size()) return false;
  size_t n = from.size();
  std::vector<std::vector<Rational>> m(n, std::vector<Rational>(n));
  for (size_t i = 0; i < n; ++i) {
    Poly p = change.at(from[i]);
    for (size_t j = 0; j < n; ++j) {
      if (!s_.LinearIn(p, to[j])) return false;
      m[i][j] = Rational(s_.Coefficient(p, to[j]));
    }
  }
  Rational det(1);
  for (size_t i = 0; i < n; ++i) {
    size_t pivot = i;
    while (pivot < n && m[pivot][i].IsZero()) ++pivot;
    if (pivot == n) return false;
    if (pivot != i) {
      std::swap(m[pivot], m[i]);
      det = -det;
    }
    det = det * m[i][i];
    for (size_t r = i + 1; r < n; ++r) {
      Rational f = m[r][i] * m[i][i].Inverse();
      for (size_t c = i; c < n; ++c) m[r][c] = m[r][c] - f * m[i][c];
    }
  }
  return det == Rational(1) || det == Rational(-1);
}

std::optional<Guard> Matcher::MixedRadix(const Change& change, const std::vector<Atom>& from,
                                         const std::vector<Atom>& to) {
  std::set<Atom> used;
  std::vector<Guard> extra;
  for (Atom v : from) {
    Poly p = change.at(v);
    std::vector<Atom> mine;
    for (Atom w : to) {
      if (s_[p].scope.Has(w)) mine.push_back(w);
    }
    if (mine.empty()) return std::nullopt;
    for (Atom w : mine) {
      if (!used.insert(w).second) return std::nullopt;
    }
    if (mine.size() == 1) {
      int64_t c = s_.Coefficient(p, mine[0]);
      if ((c != 1 && c != -1) || !s_.LinearIn(p, mine[0])) return std::nullopt;
      continue;
    }
    // p = (..(w0*n1 + w1)*n2 + ..), in some order of its variables. Empty digits would not cover Z.
    for (Atom w : mine) {
      if (!s_[w].range.valid() || !s_.SizesAtLeast(s_[w].range, 1)) return std::nullopt;
    }
    std::sort(mine.begin(), mine.end());
    bool ok = false;
    do {
      Poly q = s_.Const(0);
      for (Atom w : mine) q = s_.Add(s_.Mul(q, s_[w].range), s_.Of(w));
      if (q != p) continue;
      for (size_t i = 1; i < mine.size(); ++i) {
        extra.push_back(s_.InRange(s_.Of(mine[i]), s_[mine[i]].range));
      }
      ok = true;
    } while (!ok && std::next_permutation(mine.begin(), mine.end()));
    if (!ok) return std::nullopt;
  }
  if (used.size() != to.size()) return std::nullopt;
  return s_.And(std::move(extra));
}

}  // namespace tandem::prover
