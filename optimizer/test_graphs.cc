#include "optimizer/test_graphs.h"

#include <cmath>
#include <cstdio>
#include <cstdlib>

#include "absl/strings/str_cat.h"
#include "pcg/graph/graph_builder.h"

namespace tandem {

namespace {

Graph FinishOrAbort(GraphBuilder& builder, TensorId output) {
  absl::StatusOr<Graph> graph = builder.Finish({output});
  if (!graph.ok()) {
    std::fprintf(stderr, "%s\n", graph.status().ToString().c_str());
    std::abort();
  }
  return *std::move(graph);
}

}  // namespace

Graph MlpGraph(int64_t batch, int64_t width, int64_t hidden, int64_t classes, int layers,
               bool bias) {
  GraphBuilder m("mlp", batch);
  TensorId x = m.Input("x", {batch, width});
  int64_t in = width;
  for (int i = 0; i < layers; ++i) {
    const int64_t out = i + 1 == layers ? classes : i % 2 == 0 ? hidden : width;
    const TensorId w = m.Parameter(absl::StrCat("layers.", i, ".weight"), {in, out});
    x = bias ? m.Op("linear", {x, w, m.Parameter(absl::StrCat("layers.", i, ".bias"), {out})})
             : m.Op("matmul", {x, w});
    if (i + 1 < layers) x = m.Op("relu", {x});
    in = out;
  }
  return FinishOrAbort(m, x);
}

Graph TransformerGraph(int64_t batch, int64_t seq, int64_t heads, int64_t head_dim, int64_t vocab,
                       int blocks, bool bias) {
  GraphBuilder m("transformer", batch);
  const int64_t width = heads * head_dim;
  const TensorId ids = m.Input("ids", {batch, seq}, DType::kI64);
  TensorId x = m.Op("embedding", {ids, m.Parameter("embedding.weight", {vocab, width})});
  for (int i = 0; i < blocks; ++i) {
    auto p = [&](const std::string& name, std::vector<int64_t> shape) {
      return m.Parameter(absl::StrCat("layer.", i, ".", name), std::move(shape));
    };
    auto linear = [&](const std::string& name, TensorId in, int64_t from, int64_t to) {
      const TensorId w = p(name + ".weight", {from, to});
      return bias ? m.Op("linear", {in, w, p(name + ".bias", {to})}) : m.Op("matmul", {in, w});
    };
    auto split = [&](TensorId t) {
      const TensorId r =
          m.Op("reshape", {t}, {{"shape", std::vector<int64_t>{batch, seq, heads, head_dim}}});
      return m.Op("transpose", {r}, {{"perm", std::vector<int64_t>{0, 2, 1, 3}}});
    };
    const TensorId n1 =
        m.Op("layer_norm", {x, p("norm1.weight", {width}), p("norm1.bias", {width})});
    const TensorId q = split(linear("query", n1, width, width));
    const TensorId k = split(linear("key", n1, width, width));
    const TensorId v = split(linear("value", n1, width, width));
    const TensorId a = m.Op("attention", {q, k, v},
                            {{"scale", 1 / std::sqrt(static_cast<double>(head_dim))},
                             {"absent", std::vector<int64_t>{3}}});
    const TensorId back = m.Op("transpose", {a}, {{"perm", std::vector<int64_t>{0, 2, 1, 3}}});
    const TensorId merged =
        m.Op("reshape", {back}, {{"shape", std::vector<int64_t>{batch, seq, width}}});
    x = m.Op("add", {x, linear("output", merged, width, width)});
    const TensorId n2 =
        m.Op("layer_norm", {x, p("norm2.weight", {width}), p("norm2.bias", {width})});
    const TensorId g = m.Op("gelu", {linear("up", n2, width, 4 * width)});
    x = m.Op("add", {x, linear("down", g, 4 * width, width)});
  }
  const TensorId logits = m.Op("matmul", {x, m.Parameter("head.weight", {width, vocab})});
  return FinishOrAbort(m, logits);
}

ProvedRuleSet TrustingRules() {
  std::vector<ProvedRuleSet::Entry> entries;
  for (const Rule& rule : BuiltinRules()) entries.push_back({rule, "trusted in tests"});
  return ProvedRuleSet(std::move(entries), [](const OpInstance&, const SplitRow&) { return true; });
}

}  // namespace tandem
