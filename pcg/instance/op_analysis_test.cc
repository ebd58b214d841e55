#include "pcg/instance/op_analysis.h"

#include <catch2/catch.hpp>
#include <string>

#include "pcg/instance/instance_builder.h"

namespace tandem {
namespace {

OpCost Analyze(const OpInstance& op, std::vector<int64_t> extents = {}) {
  return AnalyzeOp(op, extents, std::vector<int64_t>(static_cast<size_t>(op.num_inputs), 4),
                   std::vector<int64_t>(static_cast<size_t>(op.num_outputs), 4));
}
std::string Kind(const OpInstance& op) { return OpClassName(Analyze(op).kind); }

struct Matmul : InstanceBuilder {
  int b = Size("b", 2), m = Size("m", 3), n = Size("n", 5), k = Size("k", 7);
  int u = Var(b), i = Var(m), j = Var(n), p = Var(k);
  int lhs = Input("lhs", {{b}, {m}, {k}}), rhs = Input("rhs", {{b}, {k}, {n}});
  int out = Output("out", {{b}, {m}, {n}});
  ExprId Product() { return Sum({p}, Mul(Read(lhs, {u, i, p}), Read(rhs, {u, p, j}))); }
  void Is(ExprId body) { Equation(out, {u, i, j}, body); }
};

TEST_CASE("A matmul is 2 flops a multiply-add, and each operand is read once") {
  Matmul x;
  x.Is(x.Product());
  const OpCost cost = Analyze(x.op);
  CHECK(cost.kind == OpClass::kGemm);
  CHECK(cost.flops == 2.0 * 2 * 3 * 5 * 7);
  CHECK(cost.contraction_flops == cost.flops);
  CHECK(cost.bytes_read == 4.0 * (2 * 3 * 7 + 2 * 7 * 5));
  CHECK(cost.bytes_written == 4.0 * 2 * 3 * 5);
  const Contraction expected = {x.lhs, x.rhs, {x.b}, {x.m}, {x.n}, {x.k}, true};
  CHECK(AsContraction(x.op) == expected);
  // A piece: local extents replace the instance's.
  CHECK(Analyze(x.op, {1, 3, 5, 7}).flops == 2.0 * 3 * 5 * 7);
}

TEST_CASE("An epilogue is counted, and the contraction is then not the whole") {
  Matmul x;
  x.Is(x.Call("max", {x.Mul(x.Number(0.5), x.Product()), x.Number(0)}));
  CHECK(Analyze(x.op).flops == 2.0 * 2 * 3 * 5 * 7 + 2 * (2 * 3 * 5));
  CHECK(Analyze(x.op).contraction_flops == 2.0 * 2 * 3 * 5 * 7);
  REQUIRE(AsContraction(x.op).has_value());
  CHECK_FALSE(AsContraction(x.op)->exact);
  Matmul y;
  y.Is(y.Sum({y.p}, y.Mul(y.Number(2),
                          y.Mul(y.Read(y.lhs, {y.u, y.i, y.p}), y.Read(y.rhs, {y.u, y.p, y.j})))));
  REQUIRE(AsContraction(y.op).has_value());
  CHECK_FALSE(AsContraction(y.op)->exact);
}

TEST_CASE("No contraction: three operands, a sum of one operand only, a function of a read") {
  Matmul x;
  x.Is(x.Sum({x.p}, x.Mul(x.Read(x.lhs, {x.u, x.i, x.p}), x.Read(x.rhs, {x.u, x.i, x.j}))));
  CHECK_FALSE(AsContraction(x.op).has_value());
  CHECK(Kind(x.op) == "reduction");
  Matmul y;
  y.Is(y.Sum({y.p}, y.Mul(y.Call("exp", {y.Read(y.lhs, {y.u, y.i, y.p})}),
                          y.Read(y.rhs, {y.u, y.p, y.j}))));
  CHECK_FALSE(AsContraction(y.op).has_value());
  Matmul z;
  z.Is(z.Reduce("max", {z.p},
                z.Mul(z.Read(z.lhs, {z.u, z.i, z.p}), z.Read(z.rhs, {z.u, z.p, z.j}))));
  CHECK_FALSE(AsContraction(z.op).has_value());
  CHECK(Analyze(z.op).contraction_flops == 0);
}

TEST_CASE("Row-wise dot products are a reduction; the mean of squares feeds a norm") {
  InstanceBuilder b;
  const int r = b.Size("b", 4), n = b.Size("n", 6);
  const int x = b.Input("x", {{r}, {n}});
  SECTION("dot") {
    const int y = b.Output("y", {{r}});
    const int i = b.Var(r), j = b.Var(n);
    b.Equation(y, {i}, b.Sum({j}, b.Mul(b.Read(x, {i, j}), b.Read(x, {i, j}))));
    CHECK(Kind(b.op) == "reduction");
    CHECK(Analyze(b.op).flops == 2 * 4 * 6);
    CHECK(Analyze(b.op).contraction_flops == 0);
  }
  SECTION("norm") {
    const int y = b.Output("y", {{r}, {n}}), s = b.Tensor("s", {{r}});
    int i = b.Var(r), j = b.Var(n);
    b.Equation(s, {i}, b.Div(b.Sum({j}, b.Mul(b.Read(x, {i, j}), b.Read(x, {i, j}))), b.N(n)));
    i = b.Var(r), j = b.Var(n);
    b.Equation(y, {i, j}, b.Div(b.Read(x, {i, j}), b.Call("sqrt", {b.Read(s, {i})})));
    CHECK(Kind(b.op) == "norm");
    CHECK(Analyze(b.op).flops == 2 * 24 + 4 + 2 * 24);
    CHECK(Analyze(b.op).bytes_read == 4 * 24);
  }
  SECTION("softmax") {
    const int y = b.Output("y", {{r}, {n}});
    const int i = b.Var(r), j = b.Var(n), l = b.Var(n);
    b.Equation(
        y, {i, j},
        b.Div(b.Call("exp", {b.Read(x, {i, j})}), b.Sum({l}, b.Call("exp", {b.Read(x, {i, l})}))));
    CHECK(Kind(b.op) == "softmax");
  }
  SECTION("a sum of exponentials alone is not a softmax") {
    const int y = b.Output("y", {{r}});
    const int i = b.Var(r), l = b.Var(n);
    b.Equation(y, {i}, b.Sum({l}, b.Call("exp", {b.Read(x, {i, l})})));
    CHECK(Kind(b.op) == "reduction");
  }
}

struct Conv : InstanceBuilder {
  int b = Size("b", 2), g = Size("g", 3), k = Size("k", 4), c = Size("c", 5), h = Size("h", 11),
      o = Size("oh", 6), r = Size("r", 3);
  int ib = Var(b), ig = Var(g), ik = Var(k), ic = Var(c), ih = Var(h), io = Var(o), ir = Var(r);
  ExprId Tuple(int major, int minor) { return Of(ExprKind::kTuple, {V(major), V(minor)}); }
  // oh * 2 + r - 1
  ExprId Position() { return Sub(Add(Mul(V(io), Number(2)), V(ir)), Number(1)); }
};
constexpr double kConvFlops = 2.0 * 2 * (3 * 4) * 6 * 5 * 3;  // 2 out (c/g) r

TEST_CASE("Grouped, strided convolution: forward and both gradients cost the same") {
  Conv x;
  SECTION("forward") {
    const int in = x.Input("x", {{x.b}, {x.g, x.c}, {x.h}});
    const int f = x.Input("f", {{x.g, x.k}, {x.c}, {x.r}});
    const int y = x.Output("y", {{x.b}, {x.g, x.k}, {x.o}});
    x.Equation(
        y, {x.ib, x.ig, x.ik, x.io},
        x.Sum({x.ic, x.ir},
              x.Mul(x.ReadOr(in, {x.V(x.ib), x.Tuple(x.ig, x.ic), x.Position()}, x.Number(0)),
                    x.ReadAt(f, {x.Tuple(x.ig, x.ik), x.V(x.ic), x.V(x.ir)}))));
  }
  SECTION("filter gradient") {
    const int in = x.Input("x", {{x.b}, {x.g, x.c}, {x.h}});
    const int dy = x.Input("dy", {{x.b}, {x.g, x.k}, {x.o}});
    const int df = x.Output("df", {{x.g, x.k}, {x.c}, {x.r}});
    x.Equation(
        df, {x.ig, x.ik, x.ic, x.ir},
        x.Sum({x.ib, x.io},
              x.Mul(x.ReadOr(in, {x.V(x.ib), x.Tuple(x.ig, x.ic), x.Position()}, x.Number(0)),
                    x.ReadAt(dy, {x.V(x.ib), x.Tuple(x.ig, x.ik), x.V(x.io)}))));
  }
  SECTION("input gradient: terms are found by an equality") {
    const int dy = x.Input("dy", {{x.b}, {x.g, x.k}, {x.o}});
    const int f = x.Input("f", {{x.g, x.k}, {x.c}, {x.r}});
    const int dx = x.Output("dx", {{x.b}, {x.g, x.c}, {x.h}});
    x.Equation(dx, {x.ib, x.ig, x.ic, x.ih},
               x.Sum({x.ik, x.io, x.ir},
                     x.Select(x.Compare(x.Position(), "==", x.V(x.ih)),
                              x.Mul(x.ReadAt(dy, {x.V(x.ib), x.Tuple(x.ig, x.ik), x.V(x.io)}),
                                    x.ReadAt(f, {x.Tuple(x.ig, x.ik), x.V(x.ic), x.V(x.ir)})),
                              x.Number(0))));
  }
  const OpCost cost = Analyze(x.op);
  CHECK(cost.kind == OpClass::kConv);
  CHECK(cost.contraction_flops == kConvFlops);
  CHECK(cost.flops == kConvFlops);
  CHECK_FALSE(AsContraction(x.op).has_value());
}

TEST_CASE("Pooling is no convolution") {
  Conv x;
  const int in = x.Input("x", {{x.h}}), y = x.Output("y", {{x.o}});
  x.Equation(y, {x.io}, x.Reduce("max", {x.ir}, x.ReadOr(in, {x.Position()}, x.Number(-1))));
  CHECK(Kind(x.op) == "pool");
  CHECK(Analyze(x.op).flops == 6 * 3);
}

TEST_CASE("One-hot sums are reads: an embedding costs its rows, not its vocabulary") {
  InstanceBuilder b;
  const int t = b.Size("t", 4), v = b.Size("v", 1000), e = b.Size("e", 6);
  const int i = b.Var(t), j = b.Var(e), k = b.Var(v);
  SECTION("forward") {
    const int ids = b.Input("ids", {{t}}, ElementKind::kInt), w = b.Input("w", {{v}, {e}});
    const int out = b.Output("out", {{t}, {e}});
    b.Equation(out, {i, j},
               b.Sum({k}, b.Select(b.Compare(b.Read(ids, {i}), "==", b.V(k)), b.Read(w, {k, j}),
                                   b.Number(0))));
    const OpCost cost = Analyze(b.op);
    CHECK(cost.kind == OpClass::kEmbedding);
    CHECK(cost.flops == 0);
    CHECK(cost.bytes_read == 4.0 * (4 + 4 * 6));
  }
  SECTION("gradient: one addition an element scattered") {
    const int ids = b.Input("ids", {{t}}, ElementKind::kInt), dy = b.Input("dy", {{t}, {e}});
    const int dw = b.Output("dw", {{v}, {e}});
    b.Equation(dw, {k, j},
               b.Sum({i}, b.Select(b.Compare(b.Read(ids, {i}), "==", b.V(k)), b.Read(dy, {i, j}),
                                   b.Number(0))));
    const OpCost cost = Analyze(b.op);
    CHECK(cost.kind == OpClass::kEmbedding);
    CHECK(cost.flops == 4 * 6);
    CHECK(cost.bytes_written == 4.0 * 1000 * 6);
  }
  SECTION("a comparison that fixes no index is a test like any other") {
    const int ids = b.Input("ids", {{t}}, ElementKind::kInt), w = b.Input("w", {{v}, {e}});
    const int out = b.Output("out", {{t}, {e}});
    b.Equation(out, {i, j},
               b.Sum({k}, b.Select(b.Compare(b.Read(ids, {i}), "<", b.V(k)), b.Read(w, {k, j}),
                                   b.Number(0))));
    CHECK(Kind(b.op) == "reduction");
    CHECK(Analyze(b.op).flops == 3.0 * 4 * 6 * 1000);
  }
}

TEST_CASE("A matrix times a vector is a contraction on its own, and part of a norm's gradient") {
  InstanceBuilder b;
  const int r = b.Size("b", 4), n = b.Size("n", 6);
  const int dy = b.Input("dy", {{r}, {n}}), gamma = b.Input("gamma", {{n}});
  const int i = b.Var(r), j = b.Var(n);
  const ExprId product = b.Sum({j}, b.Mul(b.Read(dy, {i, j}), b.Read(gamma, {j})));
  SECTION("alone") {
    const int y = b.Output("y", {{r}});
    b.Equation(y, {i}, product);
    CHECK(Kind(b.op) == "gemm");
    CHECK(Analyze(b.op).contraction_flops == 2 * 4 * 6);
    CHECK(AsContraction(b.op)->n.empty());
  }
  SECTION("spread back over the row") {
    const int dx = b.Output("dx", {{r}, {n}}), s = b.Tensor("s", {{r}});
    b.Equation(s, {i}, product);
    const int k = b.Var(r), l = b.Var(n);
    b.Equation(dx, {k, l}, b.Sub(b.Read(dy, {k, l}), b.Read(s, {k})));
    CHECK(Kind(b.op) == "norm");
    CHECK(Analyze(b.op).contraction_flops == 0);
  }
}

TEST_CASE("Slices and their gradients only move elements") {
  InstanceBuilder b;
  const int n = b.Size("n", 100), m = b.Size("m", 10);
  const int i = b.Var(n), j = b.Var(m);
  SECTION("slice") {
    const int x = b.Input("x", {{n}}), y = b.Output("y", {{m}});
    b.Equation(y, {j}, b.ReadAt(x, {b.Add(b.V(j), b.Number(5))}));
    CHECK(Analyze(b.op).bytes_read == 4 * 10);
  }
  SECTION("gradient") {
    const int dy = b.Input("dy", {{m}}), dx = b.Output("dx", {{n}});
    b.Equation(dx, {i},
               b.Sum({j}, b.Select(b.Compare(b.Add(b.V(j), b.Number(5)), "==", b.V(i)),
                                   b.Read(dy, {j}), b.Number(0))));
  }
  CHECK(Kind(b.op) == "copy");
  CHECK(Analyze(b.op).flops == 0);
}

TEST_CASE("Elementwise operators cost an operation each; several outputs are an optimizer") {
  InstanceBuilder b;
  const int n = b.Size("n", 10);
  const int x = b.Input("x", {{n}}), g = b.Input("g", {{n}}), y = b.Output("y", {{n}});
  const int i = b.Var(n);
  const ExprId step = b.Sub(b.Read(x, {i}), b.Mul(b.Number(0.1), b.Read(g, {i})));
  SECTION("one output") {
    b.Equation(y, {i}, step);
    CHECK(Kind(b.op) == "elementwise");
    CHECK(Analyze(b.op).flops == 2 * 10);
  }
  SECTION("two") {
    const int z = b.Output("z", {{n}});
    b.Equation(y, {i}, step);
    const int j = b.Var(n);
    b.Equation(z, {j}, b.Call("exp", {b.Read(x, {j})}));
    CHECK(Kind(b.op) == "optimizer");
  }
  SECTION("constants cost nothing") {
    b.Equation(y, {i}, b.Mul(b.Sub(b.Number(1), b.Number(0.5)), b.Read(x, {i})));
    CHECK(Analyze(b.op).flops == 10);
    CHECK(Analyze(b.op).bytes_read == 4 * 10);
  }
}

TEST_CASE("Attention in one instance: two contractions around a softmax") {
  InstanceBuilder b;
  const int s = b.Size("s", 4), t = b.Size("t", 6), d = b.Size("d", 8), e = b.Size("e", 10);
  const int q = b.Input("q", {{s}, {d}}), k = b.Input("k", {{t}, {d}}),
            v = b.Input("v", {{t}, {e}});
  const int out = b.Output("out", {{s}, {e}});
  const int x = b.Tensor("x", {{s}, {t}}), z = b.Tensor("z", {{s}});
  int i = b.Var(s), j = b.Var(t), p = b.Var(d);
  b.Equation(x, {i, j}, b.Call("exp", {b.Sum({p}, b.Mul(b.Read(q, {i, p}), b.Read(k, {j, p})))}));
  i = b.Var(s), j = b.Var(t);
  b.Equation(z, {i}, b.Sum({j}, b.Read(x, {i, j})));
  i = b.Var(s), j = b.Var(t), p = b.Var(e);
  b.Equation(out, {i, p},
             b.Div(b.Sum({j}, b.Mul(b.Read(x, {i, j}), b.Read(v, {j, p}))), b.Read(z, {i})));
  const OpCost cost = Analyze(b.op);
  CHECK(cost.kind == OpClass::kAttention);
  CHECK(cost.contraction_flops == 2.0 * 4 * 6 * (8 + 10));
  REQUIRE(cost.contraction.has_value());
  CHECK(cost.contraction->k == std::vector<int>{d});
  CHECK_FALSE(AsContraction(b.op).has_value());  // two: none is the contraction
}

}  // namespace
}  // namespace tandem
