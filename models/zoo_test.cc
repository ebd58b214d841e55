#include "models/zoo.h"

#include <catch2/catch.hpp>

namespace tandem {
namespace {

int64_t Parameters(const Graph& g) {
  int64_t n = 0;
  for (const Tensor& t : g.tensors) {
    if (t.role == TensorRole::kParameter) n += ElementCount(t.shape);
  }
  return n;
}

TEST_CASE("every model of the zoo builds and takes another batch") {
  for (const ZooEntry& e : ZooEntries()) {
    INFO(e.name);
    const auto g = ZooModel(e.name);
    if (!g.ok()) FAIL(g.status().message());
    CHECK(g->batch == e.default_batch);
    const auto other = ZooModel(e.name, 3);
    if (!other.ok()) FAIL(other.status().message());
    CHECK(PlainShape(other->tensor(other->outputs[0]).shape)[0] == 3);
    CHECK(Parameters(*g) == Parameters(*other));
  }
}

TEST_CASE("published numbers of parameters") {
  CHECK(Parameters(*ZooModel("resnet50", 1)) == 25557032);
  // 335,174,458 in the published model, which also has token types (2 x 1024).
  CHECK(Parameters(*ZooModel("bert-large", 1)) == 335174458 - 2 * 1024);
}

TEST_CASE("unknown names list the known ones") {
  const auto g = ZooModel("resnet51");
  REQUIRE_FALSE(g.ok());
  CHECK_THAT(std::string(g.status().message()), Catch::Contains("resnet50"));
}

}  // namespace
}  // namespace tandem
