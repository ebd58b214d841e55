#include "runtime/sources.h"

#include <catch2/catch.hpp>
#include <cmath>
#include <set>

#include "runtime/random.h"
#include "runtime/test_plans.h"

namespace tandem {
namespace {

struct Moments {
  double mean = 0, deviation = 0, least = 0, most = 0;
};
Moments Of(const std::vector<double>& values) {
  Moments m;
  m.least = m.most = values.at(0);
  for (double v : values) {
    m.mean += v / static_cast<double>(values.size());
    m.least = std::min(m.least, v), m.most = std::max(m.most, v);
  }
  for (double v : values) m.deviation += (v - m.mean) * (v - m.mean);
  m.deviation = std::sqrt(m.deviation / static_cast<double>(values.size()));
  return m;
}

TEST_CASE("Random values depend on seed, name and index only, and look like their distribution") {
  const RandomStream a(1, "w"), same(1, "w"), other_seed(2, "w"), other_name(1, "v");
  std::vector<double> uniform, normal;
  std::set<double> distinct;
  for (int64_t i = 0; i < 20000; ++i) {
    CHECK(a.Normal(i) == same.Normal(i));
    uniform.push_back(a.Uniform(i));
    normal.push_back(a.Normal(i));
    distinct.insert(a.Uniform(i));
    CHECK(a.Integer(i, 7) < 7);
    CHECK(a.Integer(i, 7) >= 0);
  }
  CHECK(distinct.size() == uniform.size());
  CHECK(a.Uniform(0) != other_seed.Uniform(0));
  CHECK(a.Uniform(0) != other_name.Uniform(0));
  CHECK(Of(uniform).mean == Approx(0.5).margin(0.01));
  CHECK(Of(uniform).most < 1);
  CHECK(Of(normal).mean == Approx(0).margin(0.03));
  CHECK(Of(normal).deviation == Approx(1).margin(0.03));
}

const Tensor& Named(const Graph& graph, const std::string& name) {
  for (const Tensor& t : graph.tensors) {
    if (t.name == name) return t;
  }
  throw std::runtime_error("no tensor " + name);
}

std::vector<double> ValuesOf(const Graph& graph, const std::string& name) {
  const Sources sources = Must(Sources::Create({&graph}, 3, 0.25, {}));
  return sources.Whole(Named(graph, name), 1).data;
}

TEST_CASE("Defaults are by use: indices within their table, scales near 1, variances positive") {
  const Plan plan = SerialPlan(TransformerModel(), "adam");
  const Graph& g = plan.serial;
  const Moments ids = Of(ValuesOf(g, "ids"));
  CHECK(ids.least >= 0);
  CHECK(ids.most <= 9);
  CHECK(ids.most > ids.least);
  const Moments labels = Of(ValuesOf(g, "labels"));
  CHECK(labels.least >= 0);
  CHECK(labels.most <= 9);
  CHECK(Of(ValuesOf(g, "gamma")).mean == Approx(1).margin(0.2));
  CHECK(Of(ValuesOf(g, "beta")).mean == Approx(0).margin(0.2));
  CHECK(Of(ValuesOf(g, "head")).deviation == Approx(1.0 / 3).margin(0.1));
  CHECK(Of(ValuesOf(g, "head.m")).most == 0);
  CHECK(ValuesOf(g, "lr") == std::vector<double>{0.25});
  CHECK(ValuesOf(g, "step") == std::vector<double>{1});

  ModelBuilder b("norm", 2);
  const TensorId x = b.Input("x", {2, 3, 4});
  const TensorId n = b.Apply(
      "n", "batch_norm",
      {x, b.Weight("gamma", {3}), b.Weight("beta", {3}), b.Source("mean", {3}, TensorRole::kState),
       b.Source("var", {3}, TensorRole::kState)});
  b.graph.outputs = {n};
  CHECK(Of(ValuesOf(b.graph, "var")).least > 0);
  CHECK(Of(ValuesOf(b.graph, "mean")).deviation > 0);
  CHECK(Of(ValuesOf(b.graph, "x")).deviation > 0.5);
}

TEST_CASE("Initializers, values in the graph and data come before defaults, in that order") {
  Graph g = MlpModel();
  const auto set = [&](const std::string& name, const std::string& initializer) {
    for (Tensor& t : g.tensors) {
      if (t.name == name) t.initializer = initializer;
    }
  };
  set("b1", "constant(2.5)");
  CHECK(ValuesOf(g, "b1") == std::vector<double>(12, 2.5));
  set("b1", "uniform(3,4)");
  CHECK(Of(ValuesOf(g, "b1")).least >= 3);
  CHECK(Of(ValuesOf(g, "b1")).most < 4);
  set("w1", "normal(5)");
  CHECK(Of(ValuesOf(g, "w1")).deviation == Approx(5).margin(1.5));
  for (Tensor& t : g.tensors) {
    if (t.name == "b1") t.values.assign(12, 7);
  }
  CHECK(ValuesOf(g, "b1") == std::vector<double>(12, 7));
  std::map<std::string, HostTensor> data;
  data["b1"] = {{12}, std::vector<double>(12, 8)};
  const Sources sources = Must(Sources::Create({&g}, 3, 0.25, data));
  CHECK(sources.Whole(Named(g, "b1"), 1).data == std::vector<double>(12, 8));
  CHECK(sources.seeded_parameters() == 2);  // w1 and w2
}

TEST_CASE("Pieces are filled with the whole's numbers, whatever the piece") {
  const Graph g = MlpModel();
  const Sources sources = Must(Sources::Create({&g}, 3, 0.25, {}));
  const HostTensor whole = sources.Whole(Named(g, "w1"), 1);
  const std::vector<int64_t> indices = {71, 0, 13};
  std::vector<double> piece(3);
  sources.Fill("w1", indices, 1, piece.data());
  for (size_t i = 0; i < 3; ++i) {
    CHECK(piece[i] == whole.data[static_cast<size_t>(indices[i])]);
  }
}

TEST_CASE("Labels that are no classes are refused with their place") {
  const Plan plan = SerialPlan(TransformerModel(), "adam");
  const Tensor& labels = Named(plan.serial, "labels");
  const auto error = [&](double value) {
    HostTensor given;
    given.shape = PlainShape(labels.shape);
    given.data.assign(static_cast<size_t>(ElementCount(labels.shape)), 0);
    given.data[1] = value;
    const auto sources = Sources::Create({&plan.serial}, 1, 0.1, {{"labels", given}});
    return sources.ok() ? std::string() : std::string(sources.status().message());
  };
  CHECK(error(0).empty());
  CHECK(error(9).empty());
  for (double wrong : {10.0, -1.0, -100.0, 1e9, 0.5}) {
    INFO(wrong);
    CHECK(error(wrong).find("'labels': element 1 is ") != std::string::npos);
    CHECK(error(wrong).find("an integer from 0 to 9") != std::string::npos);
  }
}

TEST_CASE("What cannot be made is refused by name") {
  Graph g = MlpModel();
  const auto error = [&](const std::map<std::string, HostTensor>& data) {
    const auto sources = Sources::Create({&g}, 1, 0.1, data);
    return sources.ok() ? std::string() : std::string(sources.status().message());
  };
  CHECK(error({{"x", {{12, 5}, std::vector<double>(60)}}}).find("'x' has shape (12,5)") !=
        std::string::npos);
  Tensor& w1 = g.tensors[1];
  for (const char* wrong : {"normal", "normal(x)", "zeros(1)", "uniform(1)", "constant(1",
                            "normal(nan)", "uniform(0,inf)", "normal(0.5,x)"}) {
    w1.initializer = wrong;
    CHECK(error({}).find(std::string("'") + wrong + "'") != std::string::npos);
  }
  w1.initializer.clear();
  w1.values = {1, 2};
  CHECK(error({}).find("has 2 values") != std::string::npos);
  w1.values.clear();
  Tensor momentum;
  momentum.name = "warmup";
  momentum.role = TensorRole::kStepInput;
  g.AddSource(momentum);
  CHECK(error({}).find("'warmup'") != std::string::npos);
}

}  // namespace
}  // namespace tandem
