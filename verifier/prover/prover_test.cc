// The prover's core by itself: what must be equal, and above all what must not. The cases named
// "trap" are the unsoundnesses that provers of this kind are known to fall into.
#include <catch2/catch.hpp>
#include <cmath>

#include "verifier/prover/match.h"
#include "verifier/prover/rational.h"

namespace tandem::prover {
namespace {

struct Fixture {
  Store s;
  Algebra a{s};
  Solver solver{a};
  Matcher matcher{a, solver};
  std::map<std::string, int> tensors;

  Poly Size(const std::string& name) { return s.Of(s.Size(name)); }
  Poly C(int64_t c) { return s.Const(c); }
  // A tensor of one dim.
  Value X(const std::string& name, Poly extent, Poly i) {
    auto it = tensors.find(name);
    if (it == tensors.end()) it = tensors.emplace(name, s.AddTensor({name, {{extent}}})).first;
    return a.Read(it->second, {{i}});
  }
  template <typename F>
  Value Sum(Poly extent, F body) {
    Atom v = s.Fresh("v", extent);
    return a.Sum({v}, body(s.Of(v)));
  }
  template <typename F>
  Value Max(Poly extent, F body) {
    Atom v = s.Fresh("v", extent);
    return a.Max({{{v}, a.Ranges({v}), body(s.Of(v))}});
  }
  bool Equal(Value x, Value y) { return matcher.Equal(s.True(), x, y); }
  Value Fn(const std::string& f, Value x) { return a.Call(f, {x}); }
};

TEST_CASE("rationals are exact or stop") {
  CHECK(Rational(1, 3) + Rational(1, 6) == Rational(1, 2));
  CHECK(Rational(2, -4) == Rational(-1, 2));
  CHECK(Rational(0).Inverse() == Rational(0));
  CHECK(Rational(2, 3).Power(-2) == Rational(9, 4));
  CHECK_THROWS_AS(Rational(INT64_MAX) + Rational(1), LimitExceeded);
  CHECK_THROWS_AS(CheckedMul(INT64_MAX, 2), LimitExceeded);
  Rational r;
  REQUIRE(DecimalRational(0.044715, &r));
  CHECK(r == Rational(44715, 1000000));
  REQUIRE(DecimalRational(-1e-5, &r));
  CHECK(r == Rational(-1, 100000));
  CHECK_FALSE(DecimalRational(0.7978845608028654, &r));  // stays an opaque constant
}

TEST_CASE("polynomials: one id for one polynomial, exact quotients") {
  Fixture f;
  Poly n = f.Size("n"), m = f.Size("m");
  CHECK(f.s.Mul(f.s.Add(n, m), f.s.Sub(n, m)) == f.s.Sub(f.s.Mul(n, n), f.s.Mul(m, m)));
  Poly j = f.s.Add(f.s.Mul(n, m), f.C(3));
  CHECK(f.s.FloorDiv(f.s.Add(f.s.Scale(n, 4), f.C(5)), f.C(4)) == f.s.Add(n, f.C(1)));
  CHECK(f.s.Mod(f.C(-1), f.C(4)) == f.C(3));
  auto [q, r] = f.s.SplitMultiples(j, m);
  CHECK(q == n);
  CHECK(r == f.C(3));
  CHECK(f.s.SizesAtLeast(f.s.Sub(f.s.Mul(n, m), f.C(1)), 0));
  CHECK_FALSE(f.s.SizesAtLeast(f.s.Sub(n, f.C(2)), 0));
}

TEST_CASE("sums do not care for names, order or direction of their variables") {
  Fixture f;
  Poly n = f.Size("n");
  auto x = [&](Poly i) { return f.X("x", n, i); };
  Value plain = f.Sum(n, [&](Poly i) { return x(i); });
  CHECK(plain == f.Sum(n, [&](Poly i) { return x(i); }));
  CHECK(f.Equal(plain, f.Sum(n, [&](Poly i) { return x(f.s.Sub(f.s.Sub(n, f.C(1)), i)); })));
  CHECK(f.Equal(f.a.Mul(plain, plain), f.a.Power(plain, 2)));
  SECTION("but for what they run over") {
    CHECK_FALSE(f.Equal(plain, f.Sum(f.s.Sub(n, f.C(1)), [&](Poly i) { return x(i); })));
    CHECK_FALSE(f.Equal(plain, f.Sum(n, [&](Poly i) { return x(f.s.Scale(i, 2)); })));
    CHECK_FALSE(f.Equal(plain, f.Sum(n, [&](Poly i) { return x(f.s.Add(i, f.C(1))); })));
  }
}

TEST_CASE("a flat sum is the sum over its digits") {
  Fixture f;
  Poly p = f.Size("p"), m = f.Size("m"), n = f.s.Mul(p, m);
  Value flat = f.Sum(n, [&](Poly i) { return f.X("x", n, i); });
  auto digits = [&](Poly scale) {
    return f.Sum(p, [&](Poly i) {
      return f.Sum(m, [&](Poly j) { return f.X("x", n, f.s.Add(f.s.Mul(i, scale), j)); });
    });
  };
  CHECK(f.Equal(flat, digits(m)));
  CHECK_FALSE(f.Equal(flat, digits(p)));  // trap: another order of factors
  CHECK_FALSE(f.Equal(flat, digits(f.C(1))));
}

TEST_CASE("symmetric sums need another alignment") {
  Fixture f;
  Poly n = f.Size("n");
  auto triangle = [&](int kind) {
    return f.Sum(n, [&](Poly i) {
      return f.Sum(n, [&](Poly j) {
        Guard g = kind == 0 ? f.s.Less(i, j) : kind == 1 ? f.s.Less(j, i) : f.s.Ge(f.s.Sub(j, i));
        return f.a.Guarded(g, f.a.Mul(f.X("x", n, i), f.X("x", n, j)));
      });
    });
  };
  CHECK(f.Equal(triangle(0), triangle(1)));
  CHECK_FALSE(f.Equal(triangle(0), triangle(2)));
}

TEST_CASE("trap: lemmas about products where a bound variable is out of its range") {
  Fixture f;
  Poly n = f.Size("n"), m = f.Size("m"), n1 = f.s.Add(n, f.C(1));
  Value left = f.Sum(n, [&](Poly v) { return f.X("x", n1, f.s.Add(v, f.C(1))); });
  Value right = f.Sum(n1, [&](Poly w) {
    Guard negative = f.s.Less(f.s.Mul(f.s.Sub(w, f.C(1)), m), f.C(0));
    return f.a.Guarded(f.s.Or({negative, f.s.Ge(f.s.Sub(w, f.C(1)))}), f.X("x", n1, w));
  });
  CHECK_FALSE(f.Equal(left, right));
  Value true_one =
      f.Sum(n1, [&](Poly w) { return f.a.Guarded(f.s.Ge(f.s.Sub(w, f.C(1))), f.X("x", n1, w)); });
  CHECK(f.Equal(left, true_one));
}

TEST_CASE("trap: ranges that may be empty") {
  Fixture f;
  Poly n = f.Size("n"), less = f.s.Sub(n, f.C(2));
  Value x = f.X("x", n, f.C(0));
  SECTION("counting") {
    f.Sum(less, [&](Poly) { return x; });
    CHECK(f.a.unproved_extents().size() == 1);
  }
  SECTION("maximum") {
    f.Max(less, [&](Poly) { return x; });
    CHECK(f.a.unproved_extents().size() == 1);
  }
  SECTION("a size is never empty") {
    CHECK(f.Sum(n, [&](Poly) { return x; }) == f.a.Mul(x, f.a.FromPoly(n)));
    CHECK(f.Max(n, [&](Poly) { return x; }) == x);
    CHECK(f.a.unproved_extents().empty());
  }
}

TEST_CASE("trap: quotients that cancel") {
  Fixture f;
  Poly n = f.Size("n");
  Value x = f.X("x", n, f.C(0)), y = f.X("y", n, f.C(0));
  CHECK_FALSE(f.Equal(f.a.Mul(x, f.a.Inverse(x)), f.a.Number(Rational(1))));
  CHECK_FALSE(f.Equal(f.a.Mul(f.a.Mul(x, y), f.a.Inverse(y)), x));
  CHECK(f.Equal(f.a.Mul(f.a.Mul(x, x), f.a.Inverse(x)), x));  // true at 0, too
  Value e = f.Fn("exp", x);
  CHECK(f.Equal(f.a.Mul(e, f.a.Inverse(e)), f.a.Number(Rational(1))));
  CHECK(f.a.facts().count("exp is never 0") == 1);
  CHECK(f.Equal(f.a.Inverse(f.a.Mul(x, y)), f.a.Mul(f.a.Inverse(y), f.a.Inverse(x))));
  CHECK(f.Equal(f.a.Inverse(f.a.Inverse(f.a.Add(x, y))), f.a.Add(x, y)));
}

TEST_CASE("trap: the same bound variable used twice") {
  Fixture f;
  Poly n = f.Size("n");
  auto x = [&](Poly i) { return f.X("x", n, i); };
  Value sum = f.Sum(n, x);
  Value squares = f.Sum(n, [&](Poly i) { return f.a.Mul(x(i), x(i)); });
  CHECK_FALSE(f.Equal(f.a.Mul(sum, sum), squares));
  CHECK(f.Equal(f.a.Mul(sum, sum), f.Sum(n, [&](Poly i) {
    return f.Sum(n, [&](Poly j) { return f.a.Mul(x(i), x(j)); });
  })));
}

TEST_CASE("trap: conditions that cannot hold prove nothing") {
  Fixture f;
  Poly n = f.Size("n");
  CHECK(f.solver.AssumptionsSatisfiable());
  f.solver.Assume(f.s.Less(n, f.C(1)));
  CHECK_FALSE(f.solver.AssumptionsSatisfiable());
}

TEST_CASE("trap: zero is not minus infinity") {
  Fixture f;
  Poly n = f.Size("n");
  auto pool = [&](double pad) {
    return f.Max(n, [&](Poly i) {
      Guard in = f.s.Ge(f.s.Sub(i, f.C(1)));
      return f.a.Add(f.a.Guarded(in, f.X("x", n, f.s.Sub(i, f.C(1)))),
                     f.a.Guarded(f.s.Not(in), f.a.Number(pad)));
    });
  };
  CHECK(f.Equal(pool(-HUGE_VAL), pool(-HUGE_VAL)));
  CHECK_FALSE(f.Equal(pool(0), pool(-HUGE_VAL)));
  // A padded position drops out of the maximum.
  CHECK(
      f.Equal(pool(-HUGE_VAL), f.Max(f.s.Sub(n, f.C(1)), [&](Poly i) { return f.X("x", n, i); })));
}

TEST_CASE("maxima: idempotent, order-free, and not sums") {
  Fixture f;
  Poly n = f.Size("n");
  Value x = f.X("x", n, f.C(0)), y = f.X("y", n, f.C(0)), zero = f.a.Zero();
  auto max = [&](Value u, Value v) { return f.a.Call("max", {u, v}); };
  CHECK(max(x, y) == max(y, x));
  CHECK(max(x, max(x, y)) == max(x, y));
  CHECK(max(zero, max(zero, x)) == max(zero, x));
  CHECK(f.Equal(
      f.a.Call("min", {x, y}),
      f.a.Scale(max(f.a.Scale(x, Rational(-1)), f.a.Scale(y, Rational(-1))), Rational(-1))));
  CHECK_FALSE(f.Equal(max(x, y), f.a.Add(x, y)));
  CHECK_FALSE(f.Equal(max(x, zero), x));
  CHECK(max(zero, f.Fn("exp", x)) == f.Fn("exp", x));
  CHECK(max(zero, f.a.Mul(x, x)) == f.a.Mul(x, x));
  CHECK_FALSE(f.Equal(max(zero, f.a.Mul(x, y)), f.a.Mul(x, y)));
}

TEST_CASE("sums that are factors are opened only when they must be") {
  Fixture f;
  Poly n = f.Size("n");
  Value x = f.X("x", n, f.C(0)), y = f.X("y", n, f.C(0)), z = f.X("z", n, f.C(0));
  Value lazy = f.a.Mul(f.a.Add(x, y), f.a.Add(x, z));
  CHECK(f.s[lazy].terms.size() == 1);
  Value open =
      f.a.Add(f.a.Add(f.a.Mul(x, x), f.a.Mul(x, z)), f.a.Add(f.a.Mul(y, x), f.a.Mul(y, z)));
  CHECK(f.Equal(lazy, open));
  CHECK_FALSE(f.Equal(lazy, f.a.Sub(open, f.a.Mul(y, z))));
  Value deep = f.a.Power(f.a.Add(f.a.Power(f.a.Add(x, y), 2), z), 2);
  Value square =
      f.a.Add(f.a.Add(f.a.Mul(x, x), f.a.Mul(y, y)), f.a.Scale(f.a.Mul(x, y), Rational(2)));
  CHECK(f.Equal(deep, f.a.Mul(f.a.Add(square, z), f.a.Add(z, square))));
  CHECK_FALSE(f.Equal(deep, f.a.Mul(f.a.Add(square, z), f.a.Sub(square, z))));
}

TEST_CASE("conditions on values are unknowns that equal values share") {
  Fixture f;
  Poly n = f.Size("n");
  Value x = f.X("x", n, f.C(0)), y = f.X("y", n, f.C(0));
  Guard g = f.a.ValueGe(f.a.Sub(x, y));
  CHECK(g == f.a.ValueGe(f.a.Scale(f.a.Sub(x, y), Rational(3))));
  CHECK(g != f.a.ValueGe(f.a.Sub(y, x)));
  CHECK(f.a.ValueEq(f.a.Sub(x, y)) == f.a.ValueEq(f.a.Sub(y, x)));
  Value either = f.a.Add(f.a.Guarded(g, x), f.a.Guarded(f.s.Not(g), x));
  CHECK(f.Equal(either, x));
  CHECK_FALSE(f.Equal(f.a.Guarded(g, x), x));
  // The same condition written over an unopened and an opened product.
  Value p = f.a.Mul(f.a.Add(x, y), x);
  Value q = f.a.Add(f.a.Mul(x, x), f.a.Mul(y, x));
  CHECK(f.Equal(f.a.Guarded(f.a.ValueGe(p), x), f.a.Guarded(f.a.ValueGe(q), x)));
  CHECK_FALSE(f.Equal(f.a.Guarded(f.a.ValueGe(p), x), f.a.Guarded(f.a.ValueGe(y), x)));
}

TEST_CASE("integer reads: equal indices give equal integers") {
  Fixture f;
  Poly n = f.Size("n"), v = f.Size("v");
  Poly id = f.s.Of(f.s.ValueAtom(f.X("ids", n, f.C(2))));
  Value one_hot =
      f.Sum(v, [&](Poly t) { return f.a.Guarded(f.s.Eq(f.s.Sub(id, t)), f.X("table", v, t)); });
  CHECK(f.s[f.s[one_hot].terms[0].first].ranges.empty());  // solved, not searched
  Value other = f.Sum(v, [&](Poly t) {
    Poly jd = f.s.Of(f.s.ValueAtom(f.X("ids", n, f.C(3))));
    return f.a.Guarded(f.s.Eq(f.s.Sub(jd, t)), f.X("table", v, t));
  });
  CHECK_FALSE(f.Equal(one_hot, other));
}

TEST_CASE("the solver says no where it cannot say yes") {
  Fixture f;
  Poly n = f.Size("n"), m = f.Size("m");
  Atom i = f.s.Fresh("i", n);
  Guard range = f.a.Ranges({i});
  Poly at = f.s.Of(i);
  CHECK(f.solver.Implied(range, f.s.Less(f.s.Mul(at, m), f.s.Mul(n, m))));
  CHECK_FALSE(f.solver.Implied(range, f.s.Less(f.s.Add(f.s.Mul(at, m), m), f.s.Mul(n, m))));
  CHECK(f.solver.Implied(range, f.s.Ge(f.s.Sub(f.s.Mul(n, m), f.s.Add(f.s.Mul(at, m), m)))));
  CHECK_FALSE(f.solver.Implied(f.s.True(), range));  // a variable need not be in its range
  // Nonlinear: i*m < m implies i < 1.
  CHECK(f.solver.Implied(f.s.Less(f.s.Mul(at, m), m), f.s.Less(at, f.C(1))));
  CHECK_FALSE(f.solver.Implied(f.s.Less(f.s.Mul(at, m), m), f.s.Less(at, f.C(0))));
  // Division: floor(i / 4) * 4 <= i.
  CHECK(f.solver.Implied(f.s.True(), f.s.Ge(f.s.Sub(at, f.s.Scale(f.s.FloorDiv(at, f.C(4)), 4)))));
}

}  // namespace
}  // namespace tandem::prover
