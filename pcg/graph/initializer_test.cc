#include "pcg/graph/initializer.h"

#include <catch2/catch.hpp>
#include <string>

#include "pcg/graph/graph.h"

namespace tandem {
namespace {

TEST_CASE("initializers are read as they are written") {
  struct Case {
    const char* text;
    Initializer::Kind kind;
    double a, b;
  };
  for (const Case& c : {Case{"constant(-1.5)", Initializer::Kind::kConstant, -1.5, 0},
                        Case{"normal(0.02)", Initializer::Kind::kNormal, 0, 0.02},
                        Case{"normal(1,1e-3)", Initializer::Kind::kNormal, 1, 1e-3},
                        Case{"uniform(0.5, 1.5)", Initializer::Kind::kUniform, 0.5, 1.5}}) {
    INFO(c.text);
    const auto parsed = ParseInitializer(c.text);
    REQUIRE(parsed.ok());
    CHECK(parsed->kind == c.kind);
    CHECK(parsed->a == c.a);
    CHECK(parsed->b == c.b);
  }
}

TEST_CASE("what is no initializer is refused, by a graph with its tensor's name") {
  Graph graph;
  graph.operators = BuiltinOperators();
  Tensor w;
  w.name = "w";
  w.role = TensorRole::kParameter;
  w.shape = {{2}, {3}};
  w.initializer = "normal(0.02)";
  const TensorId id = graph.AddSource(w);
  REQUIRE(CheckGraph(graph).ok());
  for (const char* wrong :
       {"normal", "normal(", "normal()", "normal(x)", "normal(0.5,x)", "normal(1,2,3)", "zeros(1)",
        "uniform(1)", "constant(1", "constant(1)(2)", "normal(nan)", "uniform(0,inf)", "(1)"}) {
    INFO(wrong);
    const auto parsed = ParseInitializer(wrong);
    REQUIRE_FALSE(parsed.ok());
    CHECK(parsed.status().message().find(std::string("'") + wrong + "' is not constant(value)") !=
          absl::string_view::npos);
    graph.tensors[id.index()].initializer = wrong;
    CHECK(CheckGraph(graph).message().find("tensor 'w': initializer '") != absl::string_view::npos);
  }
}

}  // namespace
}  // namespace tandem
