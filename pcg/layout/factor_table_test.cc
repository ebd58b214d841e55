#include "pcg/layout/factor_table.h"

#include <algorithm>
#include <catch2/catch.hpp>
#include <string>

#include "pcg/instance/instance_builder.h"

namespace tandem {
namespace {

std::string Text(const std::vector<AxisPlacement>& placements) {
  std::string text;
  for (const AxisPlacement& p : placements) {
    if (!text.empty()) text += ",";
    if (p.kind == AxisPlacement::Kind::kReplicated) text += "R";
    if (p.kind == AxisPlacement::Kind::kPartial)
      text += std::string("P") + CombinerName(p.combiner);
    if (p.kind == AxisPlacement::Kind::kSplit) {
      text += "S" + std::to_string(p.dim);
      if (p.factor > 0) text += "." + std::to_string(p.factor);
    }
  }
  return text;
}

// "split k: S1,S0 -> Psum", with "@" where the offset is needed; "" if there is no such row.
std::string Row(const OpInstance& op, const std::string& reason) {
  for (const SplitRow& row : FactorTable(op)) {
    if (row.reason == reason) {
      return Text(row.inputs) + " -> " + Text(row.outputs) + (row.needs_offset ? " @" : "");
    }
  }
  return "";
}

std::vector<std::string> Reasons(const OpInstance& op) {
  std::vector<std::string> reasons;
  for (const SplitRow& row : FactorTable(op)) reasons.push_back(row.reason);
  return reasons;
}

struct Matmul : InstanceBuilder {
  int m = Size("m", 4), n = Size("n", 6), k = Size("k", 8);
  int i = Var(m), j = Var(n), p = Var(k);
  int lhs = Input("lhs", {{m}, {k}}), rhs = Input("rhs", {{k}, {n}}),
      out = Output("out", {{m}, {n}});
  ExprId product = Sum({p}, Mul(Read(lhs, {i, p}), Read(rhs, {p, j})));
  void Is(ExprId body) { Equation(out, {i, j}, body); }
};

TEST_CASE("Matmul: row, column and reduction split, and either side partial") {
  Matmul b;
  b.Is(b.product);
  CHECK(Reasons(b.op) == std::vector<std::string>{"replicate", "split m", "split n", "split k",
                                                  "partial lhs", "partial rhs"});
  CHECK(Row(b.op, "replicate") == "R,R -> R");
  CHECK(Row(b.op, "split m") == "S0,R -> S0");
  CHECK(Row(b.op, "split n") == "R,S1 -> S1");
  CHECK(Row(b.op, "split k") == "S1,S0 -> Psum");
  CHECK(Row(b.op, "partial lhs") == "Psum,R -> Psum");
}

TEST_CASE("A share stays a share under scaling, and not under anything else") {
  SECTION("times a number, over a size") {
    Matmul b;
    b.Is(b.Div(b.Mul(b.Number(3), b.product), b.N(b.k)));
    CHECK(Row(b.op, "split k") == "S1,S0 -> Psum");
  }
  SECTION("plus a replicated constant: would be added once a device") {
    Matmul b;
    b.Is(b.Add(b.product, b.Number(1)));
    CHECK(Row(b.op, "split k").empty());
    CHECK(Row(b.op, "split m") == "S0,R -> S0");
    CHECK(Row(b.op, "partial lhs").empty());
  }
  SECTION("plus zero") {
    Matmul b;
    b.Is(b.Add(b.product, b.Number(0)));
    CHECK(Row(b.op, "split k") == "S1,S0 -> Psum");
  }
  SECTION("two sums over the size") {
    Matmul b;
    const int q = b.Var(b.k);
    b.Is(b.Sub(b.product, b.Sum({q}, b.Read(b.lhs, {b.i, q}))));
    CHECK(Row(b.op, "split k") == "S1,S0 -> Psum");
    CHECK(Row(b.op, "partial rhs").empty());
    CHECK(Row(b.op, "partial lhs") == "Psum,R -> Psum");
  }
  SECTION("their product") {
    Matmul b;
    const int q = b.Var(b.k);
    b.Is(b.Mul(b.product, b.Sum({q}, b.Read(b.lhs, {b.i, q}))));
    CHECK(Row(b.op, "split k").empty());
    CHECK(Row(b.op, "partial lhs").empty());
  }
  SECTION("a square, an inverse, a function") {
    Matmul b;
    b.Is(b.Mul(b.product, b.product));
    CHECK(Row(b.op, "split k").empty());
    Matmul c;
    c.Is(c.Div(c.Number(1), c.product));
    CHECK(Row(c.op, "split k").empty());
    Matmul d;
    d.Is(d.Call("exp", {d.product}));
    CHECK(Reasons(d.op) == std::vector<std::string>{"replicate", "split m", "split n"});
  }
  SECTION("max and prod of it") {
    Matmul b;
    b.Is(b.Reduce("max", {b.p}, b.Read(b.lhs, {b.i, b.p})));
    CHECK(Row(b.op, "split k") == "S1,S0 -> Pmax");
    Matmul c;
    c.Is(c.Mul(c.Number(-1), c.Reduce("max", {c.p}, c.Read(c.lhs, {c.i, c.p}))));
    CHECK(Row(c.op, "split k").empty());
    Matmul d;
    d.Is(d.Reduce("prod", {d.p}, d.Read(d.lhs, {d.i, d.p})));
    CHECK(Row(d.op, "split k").empty());
    Matmul e;
    e.Is(e.Reduce("argmax", {e.p}, e.Read(e.lhs, {e.i, e.p})));
    CHECK(Row(e.op, "split k").empty());
  }
}

TEST_CASE("Sizes fixed by the text and dims of one element are never split") {
  Matmul b;
  b.op.sizes[static_cast<size_t>(b.k)].constant = true;
  b.op.sizes[static_cast<size_t>(b.n)].extent = 1;
  b.Is(b.product);
  CHECK(Reasons(b.op) ==
        std::vector<std::string>{"replicate", "split m", "partial lhs", "partial rhs"});
}

TEST_CASE(
    "Bias: linear in x and bias together, or in w and bias, and partial where the sum is split") {
  Matmul b;
  b.op.num_outputs = 0;
  b.op.tensors.pop_back();
  const int bias = b.Input("bias", {{b.n}});
  const int out = b.Output("out", {{b.m}, {b.n}});
  b.Equation(out, {b.i, b.j}, b.Add(b.product, b.Read(bias, {b.j})));
  CHECK(Row(b.op, "split k").empty());
  CHECK(Row(b.op, "split k, partial bias") == "S1,S0,Psum -> Psum");
  CHECK(Row(b.op, "split n") == "R,S1,S0 -> S1");
  CHECK(Row(b.op, "partial lhs,bias") == "Psum,R,Psum -> Psum");
  CHECK(Row(b.op, "partial rhs,bias") == "R,Psum,Psum -> Psum");
  CHECK(Row(b.op, "partial lhs").empty());
  CHECK(Row(b.op, "partial bias").empty());
}

TEST_CASE("A whole value beside a split sum: no row where shares of it would be wrong") {
  const auto has_split_k = [](const OpInstance& op) {
    const std::vector<std::string> reasons = Reasons(op);
    return std::any_of(reasons.begin(), reasons.end(),
                       [](const std::string& reason) { return reason.find("split k") == 0; });
  };
  const auto with_bias = [&](auto body) {
    Matmul b;
    b.op.num_outputs = 0;
    b.op.tensors.pop_back();
    const int bias = b.Input("bias", {{b.n}});
    const int out = b.Output("out", {{b.m}, {b.n}});
    b.Equation(out, {b.i, b.j}, body(b, b.Read(bias, {b.j})));
    return has_split_k(b.op);
  };
  CHECK(with_bias([](Matmul& b, ExprId bias) { return b.Add(b.product, bias); }));
  // Neither a function of the share, nor a constant beside it, nor a coefficient.
  CHECK_FALSE(
      with_bias([](Matmul& b, ExprId bias) { return b.Add(b.product, b.Call("exp", {bias})); }));
  CHECK_FALSE(
      with_bias([](Matmul& b, ExprId bias) { return b.Add(b.Add(b.product, bias), b.Number(1)); }));
  CHECK_FALSE(
      with_bias([](Matmul& b, ExprId bias) { return b.Add(b.product, b.Mul(bias, bias)); }));
}

TEST_CASE("Softmax splits along every dim but its own") {
  InstanceBuilder b;
  const int r = b.Size("b", 4), n = b.Size("n", 6);
  const int x = b.Input("x", {{r}, {n}}), y = b.Output("y", {{r}, {n}});
  const int m = b.Tensor("m", {{r}}), z = b.Tensor("z", {{r}});
  const auto e = [&](int i, int j) {
    return b.Call("exp", {b.Sub(b.Read(x, {i, j}), b.Read(m, {i}))});
  };
  int i = b.Var(r), j = b.Var(n);
  b.Equation(m, {i}, b.Reduce("max", {j}, b.Read(x, {i, j})));
  i = b.Var(r), j = b.Var(n);
  b.Equation(z, {i}, b.Sum({j}, e(i, j)));
  i = b.Var(r), j = b.Var(n);
  b.Equation(y, {i, j}, b.Div(e(i, j), b.Read(z, {i})));
  CHECK(Reasons(b.op) == std::vector<std::string>{"replicate", "split b"});
  CHECK(Row(b.op, "split b") == "S0 -> S0");
}

TEST_CASE("A partial intermediate reaches the outputs through linear equations only") {
  InstanceBuilder b;
  const int r = b.Size("b", 4), n = b.Size("n", 6);
  const int x = b.Input("x", {{r}, {n}}), w = b.Input("w", {{r}});
  const int y = b.Output("y", {{r}}), same = b.Output("same", {{r}, {n}});
  const int s = b.Tensor("s", {{r}});
  int i = b.Var(r), j = b.Var(n);
  b.Equation(s, {i}, b.Sum({j}, b.Read(x, {i, j})));
  i = b.Var(r);
  b.Equation(y, {i}, b.Mul(b.Read(w, {i}), b.Read(s, {i})));
  SECTION("beside a split output") {
    i = b.Var(r), j = b.Var(n);
    b.Equation(same, {i, j}, b.Read(x, {i, j}));
    CHECK(Row(b.op, "split n") == "S1,R -> Psum,S1");
    CHECK(Row(b.op, "split b") == "S0,S0 -> S0,S0");
    CHECK(Row(b.op, "partial x") == "Psum,R -> Psum,Psum");
    CHECK(Row(b.op, "partial w").empty());
  }
  SECTION("spread back over the split dim, each device would see its own share") {
    i = b.Var(r), j = b.Var(n);
    b.Equation(same, {i, j}, b.Sub(b.Read(x, {i, j}), b.Read(s, {i})));
    CHECK(Row(b.op, "split n").empty());
  }
}

TEST_CASE("Two variables over one split size do not meet") {
  InstanceBuilder b;
  const int s = b.Size("s", 4), d = b.Size("d", 6);
  const int x = b.Input("x", {{s}, {d}});
  SECTION("all pairs of positions") {
    const int y = b.Output("y", {{s}, {s}});
    const int i = b.Var(s), j = b.Var(s), p = b.Var(d);
    b.Equation(y, {i, j}, b.Sum({p}, b.Mul(b.Read(x, {i, p}), b.Read(x, {j, p}))));
    CHECK(Row(b.op, "split s").empty());
    CHECK(Row(b.op, "split d") == "S1 -> Psum");
    CHECK(Row(b.op, "partial x").empty());
  }
  SECTION("each position, summed over all positions") {
    const int y = b.Output("y", {{s}});
    const int i = b.Var(s), j = b.Var(s), p = b.Var(d);
    b.Equation(y, {i}, b.Sum({j, p}, b.Mul(b.Read(x, {i, p}), b.Read(x, {j, p}))));
    CHECK(Row(b.op, "split s").empty());
  }
  SECTION("summed over both") {
    const int y = b.Output("y", {{d}});
    const int i = b.Var(s), j = b.Var(s), p = b.Var(d);
    b.Equation(y, {p}, b.Sum({i, j}, b.Mul(b.Read(x, {i, p}), b.Read(x, {j, p}))));
    CHECK(Row(b.op, "split s").empty());
  }
}

TEST_CASE("Embedding: the vocabulary is split with an offset, the rest plainly") {
  InstanceBuilder b;
  const int t = b.Size("t", 4), v = b.Size("v", 10), e = b.Size("e", 6);
  const int ids = b.Input("ids", {{t}}, ElementKind::kInt), table = b.Input("table", {{v}, {e}});
  const int out = b.Output("out", {{t}, {e}});
  const int i = b.Var(t), j = b.Var(e), k = b.Var(v);
  b.Equation(out, {i, j},
             b.Sum({k}, b.Select(b.Compare(b.Read(ids, {i}), "==", b.V(k)), b.Read(table, {k, j}),
                                 b.Number(0))));
  CHECK(Row(b.op, "split v") == "R,S0 -> Psum @");
  CHECK(Row(b.op, "split t") == "S0,R -> S0");
  CHECK(Row(b.op, "split e") == "R,S1 -> S1");
  CHECK(Row(b.op, "partial table") == "R,Psum -> Psum");
  CHECK(Row(b.op, "partial ids").empty());
}

TEST_CASE("Windowed reads: the output's dim splits with an offset, the input's not at all") {
  InstanceBuilder b;
  const int c = b.Size("c", 2), h = b.Size("h", 8), o = b.Size("oh", 8), r = b.Size("r", 3);
  const int x = b.Input("x", {{c}, {h}}), f = b.Input("f", {{c}, {r}}), y = b.Output("y", {{o}});
  const int i = b.Var(o), k = b.Var(c), d = b.Var(r);
  b.Equation(y, {i},
             b.Sum({k, d}, b.Mul(b.ReadOr(x, {b.V(k), b.Sub(b.Add(b.V(i), b.V(d)), b.Number(1))},
                                          b.Number(0)),
                                 b.Read(f, {k, d}))));
  CHECK(Row(b.op, "split c") == "S0,S0 -> Psum");
  CHECK(Row(b.op, "split oh") == "R,R -> S0 @");
  CHECK(Row(b.op, "split h").empty());
  CHECK(Row(b.op, "split r") == "R,S1 -> Psum @");
  CHECK(Row(b.op, "partial x") == "Psum,R -> Psum");
}

TEST_CASE("A padding value other than zero is no linear function") {
  InstanceBuilder b;
  const int h = b.Size("h", 8), o = b.Size("oh", 8);
  const int x = b.Input("x", {{h}}), y = b.Output("y", {{o}});
  const int i = b.Var(o);
  b.Equation(y, {i}, b.ReadOr(x, {b.Add(b.V(i), b.Number(1))}, b.Number(5)));
  CHECK(Reasons(b.op) == std::vector<std::string>{"replicate", "split oh"});
}

TEST_CASE("Factors of a dim split on their own; a flat index into them forbids it") {
  InstanceBuilder b;
  const int g = b.Size("g", 2), c = b.Size("c", 4), n = b.Size("n", 8);
  const int x = b.Input("x", {{g, c}});
  SECTION("by a tuple") {
    const int y = b.Output("y", {{c}, {g}});
    const int i = b.Var(c), u = b.Var(g);
    b.Equation(y, {i, u}, b.ReadAt(x, {b.Of(ExprKind::kTuple, {b.V(u), b.V(i)})}));
    CHECK(Row(b.op, "split g") == "S0 -> S1");
    CHECK(Row(b.op, "split c") == "S0.1 -> S0");
    CHECK(Row(b.op, "partial max x") == "Pmax -> Pmax");
    CHECK(Row(b.op, "partial min x") == "Pmin -> Pmin");
  }
  SECTION("by the other factor's variable") {
    const int y = b.Output("y", {{c}, {g}});
    const int i = b.Var(c), u = b.Var(g);
    b.Equation(y, {i, u}, b.ReadAt(x, {b.Of(ExprKind::kTuple, {b.V(u), b.V(u)})}));
    CHECK(Row(b.op, "split c").empty());
    CHECK(Row(b.op, "split g") == "S0 -> S1 @");
  }
  SECTION("flat") {
    const int y = b.Output("y", {{n}});
    const int i = b.Var(n);
    b.Equation(y, {i}, b.Read(x, {i}));
    CHECK(Row(b.op, "split n") == "R -> S0 @");
    CHECK(Row(b.op, "split g").empty());
    CHECK(Row(b.op, "split c").empty());
  }
}

TEST_CASE("Elementwise: sums pass together, a product one side at a time, scalars replicate") {
  InstanceBuilder b;
  const int n = b.Size("n", 4);
  const int x = b.Input("x", {{n}}), y = b.Input("y", {{n}}), lr = b.Input("lr", {});
  const int out = b.Output("out", {{n}});
  const int i = b.Var(n);
  SECTION("x - lr * y (an optimizer step)") {
    b.Equation(out, {i}, b.Sub(b.Read(x, {i}), b.Mul(b.Read(lr, {}), b.Read(y, {i}))));
    CHECK(Reasons(b.op) ==
          std::vector<std::string>{"replicate", "split n", "partial x,y", "partial x,lr"});
    CHECK(Row(b.op, "split n") == "S0,S0,R -> S0");
  }
  SECTION("a choice between copies") {
    b.Equation(
        out, {i},
        b.Select(b.Compare(b.Read(lr, {}), ">", b.Number(0)), b.Read(x, {i}), b.Read(y, {i})));
    CHECK(Reasons(b.op) == std::vector<std::string>{"replicate", "split n", "partial x,y",
                                                    "partial max x,y", "partial min x,y"});
  }
  SECTION("relu(x) + y") {
    b.Equation(out, {i}, b.Add(b.Call("max", {b.Read(x, {i}), b.Number(0)}), b.Read(y, {i})));
    CHECK(Reasons(b.op) == std::vector<std::string>{"replicate", "split n"});
  }
  SECTION("dropout's counter needs the offset") {
    b.Equation(out, {i},
               b.Select(b.Compare(b.Call("uniform", {b.Number(7), b.V(i)}), "<", b.Number(0.5)),
                        b.Number(0), b.Read(x, {i})));
    CHECK(Row(b.op, "split n") == "S0,S0,R -> S0 @");
    CHECK(Row(b.op, "partial x") == "Psum,R,R -> Psum");
  }
}

TEST_CASE("Integers and booleans are never partial inputs") {
  InstanceBuilder b;
  const int n = b.Size("n", 4);
  const int x = b.Input("x", {{n}}, ElementKind::kInt);
  const int y = b.Output("y", {{n}}, ElementKind::kInt);
  const int i = b.Var(n);
  b.Equation(y, {i}, b.Read(x, {i}));
  CHECK(Reasons(b.op) == std::vector<std::string>{"replicate", "split n"});
}

}  // namespace
}  // namespace tandem
