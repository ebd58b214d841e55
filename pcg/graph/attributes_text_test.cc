#include "pcg/graph/attributes_text.h"

#include <catch2/catch.hpp>
#include <limits>
#include <set>
#include <string>
#include <vector>

namespace tandem {
namespace {

using List = std::vector<int64_t>;

TEST_CASE("different attributes have different keys, whatever their names and texts hold") {
  const double nearly = 0.125 + std::numeric_limits<double>::epsilon();
  const std::vector<Attributes> all = {
      {},
      {{"a", int64_t{1}}},
      {{"a", 1.0}},
      {{"a", List{1}}},
      {{"a", std::string("1")}},
      {{"a", List{}}},
      {{"a", std::string()}},
      {{"a", List{1, 2}}},
      {{"a", List{12}}},
      {{"a", 0.125}},
      {{"a", nearly}},
      {{"a", 0.0}},
      {{"a", -0.0}},
      {{"a", int64_t{1}}, {"b", int64_t{2}}},
      {{"a=0:1;b", int64_t{2}}},
      {{"a=0:1;1#b", int64_t{2}}},
      {{"a", std::string("1;1#b=0:2")}},
      {{"a", std::string("1")}, {"b", int64_t{2}}},
  };
  std::set<std::string> keys;
  for (const Attributes& attributes : all) {
    const std::string key = AttributesText(attributes);
    INFO(key);
    CHECK(keys.insert(key).second);
    CHECK(AttributesText(Attributes(attributes)) == key);
  }
}

}  // namespace
}  // namespace tandem
