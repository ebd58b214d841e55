#include "tools/report/markup.h"

#include <catch2/catch.hpp>
#include <limits>

namespace tandem::report {
namespace {

TEST_CASE("escaping leaves nothing that HTML reads") {
  CHECK(Escaped("a<script>alert(\"x\")</script>&'") ==
        "a&lt;script&gt;alert(&quot;x&quot;)&lt;/script&gt;&amp;&#39;");
  CHECK(Escaped(std::string("a\0b\x1f", 4)) ==
        "a\xef\xbf\xbd"
        "b\xef\xbf\xbd");
  CHECK(Escaped("größe\n") == "größe\n");
  // Bytes that are no UTF-8: lone and overlong ones, a surrogate, a number that is too large.
  CHECK(Escaped("a\xff") == "a\xef\xbf\xbd");
  CHECK(Escaped("\xc3") == "\xef\xbf\xbd");
  CHECK(Escaped("\xc0\xbc") == "\xef\xbf\xbd\xef\xbf\xbd");
  CHECK(Escaped("\xed\xa0\x80") == "\xef\xbf\xbd\xef\xbf\xbd\xef\xbf\xbd");
  CHECK(Escaped("\xf4\x90\x80\x80").size() == 12);
  CHECK(Escaped("漢\xf0\x9f\x9a\xb2") == "漢\xf0\x9f\x9a\xb2");
}

TEST_CASE("JSON cannot end its script element, nor throw on bytes that are no text") {
  const nlohmann::ordered_json json = {{"name", "</script><!--&\xff"}};
  const std::string text = ScriptJson(json);
  CHECK(text.find('<') == std::string::npos);
  CHECK(text.find('>') == std::string::npos);
  CHECK(text.find('&') == std::string::npos);
  CHECK(nlohmann::ordered_json::parse(text)["name"] == "</script><!--&\xef\xbf\xbd");
}

TEST_CASE("quantities have three digits and a unit") {
  CHECK(Seconds(0) == "0 s");
  CHECK(Seconds(1.2345) == "1.23 s");
  CHECK(Seconds(0.0123) == "12.3 ms");
  CHECK(Seconds(0.9996e-3) == "1.00 ms");
  CHECK(Seconds(4.56e-6) == "4.56 µs");
  CHECK(Bytes(1023) == "1023 B");
  CHECK(Bytes(1024) == "1.00 KiB");
  CHECK(Bytes(80.0 * (1 << 30)) == "80.0 GiB");
  CHECK(Count(950) == "950");
  CHECK(Count(12345) == "12.3 k");
  CHECK(Percent(0.421) == "42.1%");
  CHECK(Percent(0.0123) == "1.23%");
  CHECK(Plural(1, "node") == "1 node");
  CHECK(Plural(0, "node") == "0 nodes");
  CHECK(Plural(1, "micro-batch") == "1 micro-batch");
  CHECK(Plural(2, "micro-batch") == "2 micro-batches");
}

TEST_CASE("what is no number is said to be unknown, and no bar leaves its frame") {
  const double inf = std::numeric_limits<double>::infinity();
  CHECK(Seconds(inf) == "not known");
  CHECK(Percent(std::numeric_limits<double>::quiet_NaN()) == "not known");
  CHECK(Width(3, 2) == "100.000%");
  CHECK(Width(-1, 2) == "0.000%");
  CHECK(Width(1, 0) == "0.000%");
  CHECK(Width(inf, 1) == "0.000%");
}

TEST_CASE("a missing or mistyped key of the summary is not there") {
  const nlohmann::ordered_json json = {{"mfu", "fast"}, {"gap", nullptr}, {"reason", 3}};
  CHECK(NumberOr(json, "mfu", -1) == -1);
  CHECK(NumberOr(json, "gap", -1) == -1);
  CHECK(NumberOr(json, "absent", -1) == -1);
  CHECK(NumberOr(nlohmann::ordered_json::array(), "mfu", -1) == -1);
  CHECK(TextOr(json, "reason", "none") == "none");
}

}  // namespace
}  // namespace tandem::report
