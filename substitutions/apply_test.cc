#include "substitutions/apply.h"

#include <catch2/catch.hpp>

#include "pcg/instance/symbolic_attribute.h"

namespace tandem {
namespace {

TensorId Source(Graph& g, const std::string& name, std::vector<int64_t> shape,
                TensorRole role = TensorRole::kInput) {
  Tensor t;
  t.name = name;
  t.role = role;
  for (int64_t e : shape) t.shape.push_back({e});
  return g.AddSource(std::move(t));
}

TensorId Add(Graph& g, const std::string& name, const std::string& op, std::vector<TensorId> inputs,
             Attributes attributes = {}) {
  Node node;
  node.name = name;
  node.op = op;
  node.inputs = std::move(inputs);
  node.attributes = std::move(attributes);
  const auto id = g.AddNode(std::move(node));
  if (!id.ok()) FAIL(id.status().message());
  return g.node(*id).outputs[0];
}

Graph Empty() {
  Graph g;
  g.name = "test";
  g.operators = BuiltinOperators();
  return g;
}

ProvedRuleSet All() {
  std::vector<ProvedRuleSet::Entry> entries;
  for (const Rule& rule : BuiltinRules()) entries.push_back({rule, "test"});
  return ProvedRuleSet(std::move(entries), nullptr);
}

std::vector<std::string> Ops(const Graph& g) {
  std::vector<std::string> ops;
  for (const Node& n : g.nodes) ops.push_back(n.op);
  return ops;
}

TEST_CASE("RMS norm, SwiGLU and a linear layer are put together") {
  Graph g = Empty();
  const TensorId x = Source(g, "x", {2, 4, 8});
  const TensorId w = Source(g, "w", {8}, TensorRole::kParameter);
  const TensorId m = Source(g, "m", {8, 6}, TensorRole::kParameter);
  const TensorId b = Source(g, "b", {6}, TensorRole::kParameter);
  const TensorId s = Add(g, "s", "power", {x}, {{"exponent", int64_t{2}}});
  const TensorId mean = Add(g, "mean", "reduce_mean_keep", {s}, {{"rank_c", int64_t{0}}});
  const TensorId e = Add(g, "e", "shift", {mean}, {{"value", 1e-6}});
  const TensorId r = Add(g, "r", "sqrt", {e});
  const TensorId i = Add(g, "i", "reciprocal", {r});
  const TensorId y = Add(g, "y", "mul", {i, x});  // exchanged
  const TensorId n = Add(g, "n", "mul", {y, w});  // exchanged
  const TensorId l = Add(g, "l", "matmul", {n, m});
  const TensorId a = Add(g, "a", "add", {l, b});
  const TensorId sg = Add(g, "sg", "sigmoid", {a});
  const TensorId si = Add(g, "si", "mul", {a, sg});
  const TensorId out = Add(g, "out", "mul", {si, a});
  g.outputs = {out};
  const auto result = Normalize(g, All());
  if (!result.ok()) FAIL(result.status().message());
  CHECK(Ops(result->graph) == std::vector<std::string>{"rms_norm", "linear", "swiglu"});
  CHECK(CheckGraph(result->graph).ok());
  CHECK(result->graph.tensor(result->graph.outputs[0]).name == g.tensor(out).name);
  CHECK(std::get<double>(result->graph.nodes[0].attributes.at("eps")) == 1e-6);
  REQUIRE(result->applications.size() == 4);
}

TEST_CASE("inputs are exchanged only where a rule for it is proved") {
  Graph g = Empty();
  const TensorId x = Source(g, "x", {2, 8});
  const TensorId s = Add(g, "s", "sigmoid", {x});
  g.outputs = {Add(g, "y", "mul", {s, x})};  // the rule says mul(x, s)
  std::vector<ProvedRuleSet::Entry> silu, all;
  for (const Rule& rule : BuiltinRules()) {
    if (rule.use == RuleUse::kNormalize) silu.push_back({rule, "test"});
    all.push_back({rule, "test"});
  }
  const auto without = Normalize(g, ProvedRuleSet(silu, nullptr));
  const auto with = Normalize(g, ProvedRuleSet(all, nullptr));
  REQUIRE(without.ok());
  REQUIRE(with.ok());
  CHECK(Ops(without->graph) == std::vector<std::string>{"sigmoid", "mul"});
  CHECK(Ops(with->graph) == std::vector<std::string>{"silu"});
  CHECK(ProvedRuleSet(all, nullptr).commutative() ==
        std::set<std::string>{"add", "maximum", "minimum", "mul"});
}

TEST_CASE("near misses do not fire") {
  Graph g = Empty();
  const TensorId x = Source(g, "x", {2, 8});
  const TensorId z = Source(g, "z", {2, 8});
  const TensorId s = Add(g, "s", "sigmoid", {z});
  const TensorId out = Add(g, "out", "mul", {x, s});  // x times the sigmoid of something else
  const TensorId c = Add(g, "c", "power", {x}, {{"exponent", int64_t{3}}});
  const TensorId m = Add(g, "m", "reduce_mean_keep", {c}, {{"rank_c", int64_t{0}}});
  g.outputs = {out, m};
  const auto result = Normalize(g, All());
  REQUIRE(result.ok());
  CHECK(result->applications.empty());
  CHECK(Ops(result->graph) == Ops(g));
}

TEST_CASE("attention as exporters spell it, keys transposed through a flattened batch") {
  Graph g = Empty();
  const TensorId q = Source(g, "q", {2, 3, 4, 8});
  const TensorId k = Source(g, "k", {2, 3, 4, 8});
  const TensorId v = Source(g, "v", {2, 3, 4, 8});
  const TensorId mask = Source(g, "mask", {1, 1, 4, 4});
  const TensorId flat = Add(g, "flat", "reshape", {k}, {{"shape", std::vector<int64_t>{6, 4, 8}}});
  const TensorId t = Add(g, "t", "transpose", {flat}, {{"perm", std::vector<int64_t>{0, 2, 1}}});
  const TensorId kt = Add(g, "kt", "reshape", {t}, {{"shape", std::vector<int64_t>{2, 3, 8, 4}}});
  const TensorId qs = Add(g, "qs", "scale", {q}, {{"value", 0.5}});
  const TensorId ks = Add(g, "ks", "scale", {kt}, {{"value", 0.5}});
  const TensorId a = Add(g, "a", "matmul", {qs, ks});
  const TensorId am = Add(g, "am", "add", {a, mask});
  const TensorId p = Add(g, "p", "softmax", {am}, {{"rank_c", int64_t{0}}});
  const TensorId out = Add(g, "out", "matmul", {p, v});
  g.outputs = {out};
  const auto result = Normalize(g, All());
  if (!result.ok()) FAIL(result.status().message());
  const std::vector<std::string> ops = Ops(result->graph);
  CHECK(std::count(ops.begin(), ops.end(), "attention") == 1);
  CHECK(std::count(ops.begin(), ops.end(), "matmul") == 0);
  // Kept as the product that the rules say, not as its rounding.
  const auto scale = AsSymbolic(result->graph.nodes.back().attributes.at("scale"));
  REQUIRE(scale.has_value());
  CHECK(scale->representative == 0.25);
  CHECK(scale->expression.find('*') != std::string::npos);
}

TEST_CASE("what nothing needs goes, but for the inputs, which keep their order") {
  Graph g = Empty();
  const TensorId unread = Source(g, "unread", {3});
  const TensorId x = Source(g, "x", {2, 4});
  const TensorId z = Source(g, "z", {5});
  Source(g, "w", {7}, TensorRole::kParameter);
  Add(g, "dead", "tanh", {z});
  const TensorId once = Add(g, "once", "scale", {x}, {{"value", 2.0}});
  g.outputs = {Add(g, "twice", "scale", {once}, {{"value", 3.0}})};
  REQUIRE(g.inputs == std::vector<TensorId>{unread, x, z});
  const auto r = Normalize(g, All());
  REQUIRE(r.ok());
  CHECK(Ops(r->graph) == std::vector<std::string>{"scale"});
  std::vector<std::string> inputs;
  for (TensorId id : r->graph.inputs) inputs.push_back(r->graph.tensor(id).name);
  CHECK(inputs == std::vector<std::string>{"unread", "x", "z"});
  CHECK(r->graph.tensors.size() == 4);  // those and the output: "w" is gone
  CHECK(CheckGraph(r->graph).ok());
}

TEST_CASE("three projections of one input merge, an inner result that is read elsewhere stays") {
  Graph g = Empty();
  const TensorId x = Source(g, "x", {5, 8});
  std::vector<TensorId> outs;
  for (const char* name : {"q", "k", "v"}) {
    const TensorId w = Source(g, std::string("w") + name, {8, 4}, TensorRole::kParameter);
    outs.push_back(Add(g, name, "matmul", {x, w}));
  }
  g.outputs = outs;
  const Rule* merge = nullptr;
  for (const Rule& rule : BuiltinRules()) {
    if (rule.name == "merge_matmul_3") merge = &rule;
  }
  REQUIRE(merge != nullptr);
  const auto result = ApplyEverywhere(g, {*merge, "test"}, {});
  if (!result.ok()) FAIL(result.status().message());
  CHECK(Ops(result->graph) ==
        std::vector<std::string>{"concat3", "matmul", "slice", "slice", "slice"});
  for (size_t i = 0; i < 3; ++i) {
    CHECK(result->graph.tensor(result->graph.outputs[i]).name == g.tensor(outs[i]).name);
  }
}

}  // namespace
}  // namespace tandem
