#include "verifier/prover/z3_query.h"

#include <z3++.h>

#include <map>
#include <memory>
#include <set>

namespace tandem::prover {
namespace {

constexpr unsigned kLinearResources = 3'000'000;
constexpr unsigned kNonlinearResources = 6'000'000;
constexpr unsigned kWallMilliseconds = 10'000;  // a last resort: the resource limit comes first

z3::context& Context() {
  thread_local std::unique_ptr<z3::context> context;
  thread_local int uses = 0;
  if (!context || ++uses > 2000) {  // names pile up in a context
    context = std::make_unique<z3::context>();
    uses = 0;
  }
  return *context;
}

// Translates terms; in linear mode products become opaque, and Lemmas() relates them.
class Encoder {
 public:
  Encoder(z3::context& c, const Store& s, bool linear) : c_(c), s_(s), linear_(linear) {}

  z3::expr Of(Guard g) {
    const GuardData& data = s_[g];
    switch (data.kind) {
      case GuardKind::kTrue:
        return c_.bool_val(true);
      case GuardKind::kFalse:
        return c_.bool_val(false);
      case GuardKind::kGe:
        return Of(data.poly) >= 0;
      case GuardKind::kEq:
        return Of(data.poly) == 0;
      case GuardKind::kNot:
        return !Of(data.args[0]);
      case GuardKind::kValueGe:
      case GuardKind::kValueEq:
        return c_.bool_const(("b" + std::to_string(g.value)).c_str());
      case GuardKind::kAnd:
      case GuardKind::kOr: {
        z3::expr_vector args(c_);
        for (Guard a : data.args) args.push_back(Of(a));
        return data.kind == GuardKind::kAnd ? z3::mk_and(args) : z3::mk_or(args);
      }
    }
    return c_.bool_val(false);
  }

  z3::expr Of(Poly p) {
    z3::expr_vector sum(c_);
    for (const auto& [m, k] : s_[p].terms) {
      z3::expr coefficient = c_.int_val(k);
      sum.push_back(m.empty() ? coefficient : coefficient * Of(m));
    }
    if (sum.empty()) return c_.int_val(0);
    if (sum.size() == 1) return sum[0];
    return z3::sum(sum);
  }

  // Facts about the atoms met, valid for all integers; and lemmas about abstracted products.
  void Assert(z3::solver& solver) {
    std::set<Atom> done;
    std::set<Monomial> lemmas_done;
    for (int round = 0; round < 3; ++round) {
      std::vector<Atom> atoms(atoms_.begin(), atoms_.end());
      for (Atom a : atoms) {
        if (done.insert(a).second) AssertAtom(solver, a);
      }
      if (!linear_ || round == 2) continue;
      std::vector<Monomial> products(products_.begin(), products_.end());
      for (const Monomial& m : products) {
        if (lemmas_done.insert(m).second) AssertLemmas(solver, m);
      }
    }
  }
  bool abstracted() const { return !products_.empty(); }

 private:
  z3::expr Of(const Monomial& m) {
    if (m.size() == 1) return Of(m[0]);
    if (!linear_) {
      z3::expr r = Of(m[0]);
      for (size_t i = 1; i < m.size(); ++i) r = r * Of(m[i]);
      return r;
    }
    products_.insert(m);
    std::string name = "m";
    for (Atom a : m) {
      Of(a);
      name += "_" + std::to_string(a.value);
    }
    return c_.int_const(name.c_str());
  }

  z3::expr Of(Atom a) {
    const AtomData& data = s_[a];
    atoms_.insert(a);
    if (data.kind == AtomKind::kValue) {
      const auto& terms = s_[data.value].terms;
      if (terms.size() == 1 && terms[0].second == Rational(1)) {
        const BodyData& body = s_[terms[0].first];
        if (body.sizes.empty() && body.ranges.empty() && s_[body.guard].kind == GuardKind::kTrue &&
            body.factors.size() == 1 && body.factors[0].second == 1 &&
            s_[body.factors[0].first].kind == FactorKind::kRead) {
          return OfRead(s_[body.factors[0].first]);
        }
      }
    }
    return c_.int_const(("a" + std::to_string(a.value)).c_str());
  }

  // A read of an integer tensor: equal indices give equal values.
  z3::expr OfRead(const FactorData& read) {
    z3::expr_vector args(c_);
    z3::sort_vector sorts(c_);
    std::string shape;
    for (const auto& dim : read.index) {
      for (Poly p : dim) {
        args.push_back(Of(p));
        sorts.push_back(c_.int_sort());
      }
      shape += "_" + std::to_string(dim.size());
    }
    std::string name = "t" + std::to_string(read.tensor) + shape;
    if (args.empty()) return c_.int_const(name.c_str());
    return c_.function(name.c_str(), sorts, c_.int_sort())(args);
  }

  void AssertAtom(z3::solver& solver, Atom a) {
    const AtomData data = s_[a];
    if (data.kind == AtomKind::kSize) solver.add(Of(a) >= 1);
    if (data.kind == AtomKind::kDiv) {
      z3::expr b = Of(data.b);
      z3::expr product = OfProduct(data.b, a);
      z3::expr rest = Of(data.a) - product;
      solver.add(z3::implies(b >= 1, rest >= 0 && rest <= b - 1));
    }
  }

  z3::expr OfProduct(Poly p, Atom a) {
    z3::expr sum = c_.int_val(0);
    for (const auto& [m, k] : s_[p].terms) {
      Monomial product = m;
      product.insert(std::lower_bound(product.begin(), product.end(), a), a);
      sum = sum + c_.int_val(k) * Of(product);
    }
    return sum;
  }

  // For m = v * r. A bound variable may be out of its range here, so every lemma is conditional.
  void AssertLemmas(z3::solver& solver, const Monomial& m) {
    z3::expr product = Of(m);
    for (size_t i = 0; i < m.size(); ++i) {
      if (i > 0 && m[i] == m[i - 1]) continue;
      Atom v = m[i];
      Monomial rest = m;
      rest.erase(rest.begin() + static_cast<long>(i));
      z3::expr r = Of(rest);
      z3::expr x = Of(v);
      if (s_[v].kind == AtomKind::kSize) {
        solver.add(z3::implies(r >= 0, product >= r));
        solver.add(z3::implies(r <= 0, product <= r));
        continue;
      }
      solver.add(z3::implies(r >= 0 && x >= 0, product >= 0));
      solver.add(z3::implies(r >= 0 && x <= -1, product <= -r));
      Poly range = s_[v].range;
      if (range.valid() && m.size() <= 3) {
        z3::expr n = Of(range);
        z3::expr nr = c_.int_val(0);
        for (const auto& [k, c] : s_[range].terms) {
          Monomial scaled;
          std::merge(k.begin(), k.end(), rest.begin(), rest.end(), std::back_inserter(scaled));
          nr = nr + c_.int_val(c) * Of(scaled);
        }
        solver.add(z3::implies(r >= 0 && x >= n, product >= nr));
        solver.add(z3::implies(r >= 0 && x <= n - 1, product <= nr - r));
      }
    }
  }

  z3::context& c_;
  const Store& s_;
  bool linear_;
  std::set<Monomial> products_;
  std::set<Atom> atoms_;
};

z3::solver MakeSolver(z3::context& c, bool linear) {
  z3::solver solver = linear ? z3::solver(c, z3::solver::simple()) : z3::solver(c);
  z3::params params(c);
  params.set("rlimit", linear ? kLinearResources : kNonlinearResources);
  params.set("timeout", kWallMilliseconds);
  params.set("random_seed", 0u);
  solver.set(params);
  return solver;
}

}  // namespace

Answer CheckWithZ3(const Store& store, const std::vector<Guard>& hypotheses, const Goal& goal,
                   bool linear) {
  try {
    z3::context& c = Context();
    Encoder encoder(c, store, linear);
    z3::solver solver = MakeSolver(c, linear);
    for (Guard g : hypotheses) solver.add(encoder.Of(g));
    switch (goal.kind) {
      case Goal::Kind::kGuard:
        solver.add(!encoder.Of(goal.parts[0].second));
        break;
      case Goal::Kind::kSum: {
        z3::expr_vector sum(c);
        for (const auto& [k, g] : goal.parts) {
          sum.push_back(z3::ite(encoder.Of(g), c.int_val(k), c.int_val(0)));
        }
        solver.add(z3::sum(sum) != 0);
        break;
      }
      case Goal::Kind::kUnion: {
        z3::expr_vector left(c), right(c);
        for (const auto& [k, g] : goal.parts) (k > 0 ? left : right).push_back(encoder.Of(g));
        solver.add(z3::mk_or(left) != z3::mk_or(right));
        break;
      }
    }
    encoder.Assert(solver);
    switch (solver.check()) {
      case z3::unsat:
        return Answer::kValid;
      case z3::sat:
        return linear && encoder.abstracted() ? Answer::kUnknown : Answer::kNotValid;
      case z3::unknown:
        return Answer::kUnknown;
    }
  } catch (const z3::exception&) {
  }
  return Answer::kUnknown;
}

Answer SatisfiableWithZ3(const Store& store, const std::vector<Guard>& hypotheses) {
  try {
    z3::context& c = Context();
    Encoder encoder(c, store, /*linear=*/false);
    z3::solver solver = MakeSolver(c, /*linear=*/false);
    for (Guard g : hypotheses) solver.add(encoder.Of(g));
    encoder.Assert(solver);
    switch (solver.check()) {
      case z3::sat:
        return Answer::kValid;
      case z3::unsat:
        return Answer::kNotValid;
      case z3::unknown:
        return Answer::kUnknown;
    }
  } catch (const z3::exception&) {
  }
  return Answer::kUnknown;
}

std::string Z3Version() {
  unsigned major = 0, minor = 0, build = 0, revision = 0;
  Z3_get_version(&major, &minor, &build, &revision);
  return std::to_string(major) + "." + std::to_string(minor) + "." + std::to_string(build);
}

}  // namespace tandem::prover
