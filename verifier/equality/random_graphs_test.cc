// Seeded random graphs. What is proved must agree in numbers (nothing wrong is ever proved), and
// rewrites that are true by the laws of rings must be proved.
#include <catch2/catch.hpp>
#include <random>

#include "pcg/language/op_parser.h"
#include "verifier/equality/equality_proof.h"
#include "verifier/equality/equality_refuter.h"

namespace tandem {
namespace {

// A term over square matrices x, y, z.
struct Term {
  std::string op;  // or a source's name
  std::vector<Term> args;
};

bool Binary(const std::string& op) {
  return op == "add" || op == "sub" || op == "mul" || op == "maximum" || op == "matmul";
}
bool Commutes(const std::string& op) { return op == "add" || op == "mul" || op == "maximum"; }

class Maker {
 public:
  explicit Maker(uint32_t seed) : random_(seed) {}

  int Below(int n) { return static_cast<int>(random_() % static_cast<uint32_t>(n)); }
  template <typename T>
  const T& Pick(const std::vector<T>& from) {
    return from[static_cast<size_t>(Below(static_cast<int>(from.size())))];
  }

  Term Random(int depth) {
    static const std::vector<std::string> leaves = {"x", "y", "z"};
    if (depth == 0) return {Pick(leaves), {}};
    const std::string op = Pick(All());
    Term t{op, {Random(depth - 1)}};
    if (Binary(op)) t.args.push_back(Random(Below(depth)));
    return t;
  }

  // The same value, written differently.
  Term Rewritten(const Term& t) {
    Term out{t.op, {}};
    for (const Term& a : t.args) out.args.push_back(Rewritten(a));
    switch (Below(6)) {
      case 0:
        if (Commutes(t.op)) std::swap(out.args[0], out.args[1]);
        break;
      case 1:
        return {"neg", {{"neg", {out}}}};
      case 2:
        return {"transpose", {{"transpose", {out}}}};
      case 3:
        if (t.op == "sub") return {"add", {out.args[0], {"neg", {out.args[1]}}}};
        if (t.op == "transpose" && out.args[0].op == "matmul") {
          const Term& m = out.args[0];
          return {"matmul", {{"transpose", {m.args[1]}}, {"transpose", {m.args[0]}}}};
        }
        break;
      case 4:
        if ((t.op == "mul" || t.op == "matmul") && out.args[1].op == "add") {
          const Term& s = out.args[1];
          return {"add", {{t.op, {out.args[0], s.args[0]}}, {t.op, {out.args[0], s.args[1]}}}};
        }
        break;
      default:
        break;
    }
    return out;
  }

  // One operator or leaf changed.
  Term Mutated(const Term& t) {
    if (t.args.empty()) return {t.op == "x" ? "y" : "x", {}};
    if (Below(3) > 0) {
      Term out = t;
      Term& arg = out.args[static_cast<size_t>(Below(static_cast<int>(out.args.size())))];
      arg = Mutated(arg);
      return out;
    }
    Term out = t;
    while (out.op == t.op || Binary(out.op) != Binary(t.op)) out.op = Pick(All());
    return out;
  }

 private:
  static const std::vector<std::string>& All() {
    static const std::vector<std::string> all = {"add",     "sub",  "mul", "maximum",
                                                 "matmul",  "relu", "exp", "transpose",
                                                 "softmax", "neg",  "abs", "matmul"};
    return all;
  }
  std::mt19937 random_;
};

TensorId Build(Graph& g, const Term& t, const std::map<std::string, TensorId>& sources) {
  if (t.args.empty()) return sources.at(t.op);
  Node node;
  for (const Term& a : t.args) node.inputs.push_back(Build(g, a, sources));
  node.name = t.op + std::to_string(g.nodes.size());
  node.op = t.op;
  if (t.op == "transpose") node.attributes["perm"] = std::vector<int64_t>{1, 0};
  if (t.op == "softmax") node.attributes["rank_c"] = int64_t{0};
  auto id = g.AddNode(std::move(node));
  INFO(id.status().message());
  REQUIRE(id.ok());
  return g.node(*id).outputs[0];
}

Graph GraphOf(const Term& t) {
  Graph g;
  g.operators = BuiltinOperators();
  std::map<std::string, TensorId> sources;
  for (const char* name : {"x", "y", "z"}) {
    Tensor s;
    s.name = name;
    s.role = TensorRole::kInput;
    s.shape = {{3}, {3}};
    sources[name] = g.AddSource(std::move(s));
  }
  g.outputs = {Build(g, t, sources)};
  return g;
}

std::string Text(const Term& t) {
  std::string out = t.op;
  for (size_t i = 0; i < t.args.size(); ++i) out += (i ? ", " : "(") + Text(t.args[i]);
  return t.args.empty() ? out : out + ")";
}

TEST_CASE("laws of rings are proved, whatever the graph") {
  Maker maker(20);
  int proved = 0, total = 0;
  for (int i = 0; i < 120; ++i) {
    Term a = maker.Random(1 + i % 3), b = maker.Rewritten(a);
    Verdict verdict = ProveEqual(GraphOf(a), GraphOf(b));
    INFO(Text(a) << "\n" << Text(b) << "\n" << ToString(verdict));
    CHECK_FALSE(IsRefuted(verdict));
    proved += IsProved(verdict);
    ++total;
    if (!IsProved(verdict)) WARN(Text(a) << "  =  " << Text(b) << ": " << ToString(verdict));
  }
  CHECK(proved * 100 >= total * 97);
}

TEST_CASE("nothing wrong is proved of random pairs") {
  Maker maker(7);
  int proved = 0, refuted = 0;
  for (int i = 0; i < 240; ++i) {
    Term a = maker.Random(1 + i % 3);
    Term b = i % 2 ? maker.Mutated(a) : maker.Random(1 + i % 3);
    Graph ga = GraphOf(a), gb = GraphOf(b);
    Verdict verdict = ProveEqual(ga, gb);
    INFO(Text(a) << "\n" << Text(b) << "\n" << ToString(verdict));
    if (const auto* unknown = std::get_if<Unknown>(&verdict)) {
      CHECK(unknown->reason.find("numbers disagree") == std::string::npos);
    }
    refuted += IsRefuted(verdict);
    if (!IsProved(verdict)) continue;
    ++proved;
    auto classes = SizeClasses::Of(ga, gb);
    REQUIRE(classes.ok());
    CHECK_FALSE(prover::RefuteEqual(ga, gb, *classes, {}, 40).has_value());
  }
  CHECK(refuted > 150);
  CHECK(proved < 60);
}

}  // namespace
}  // namespace tandem
