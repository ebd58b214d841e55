// Catch2's main(), compiled once for every test binary. It also writes the XML file that Bazel asks
// for
// ($XML_OUTPUT_FILE) with one <testcase> for each TEST_CASE, so that test cases are counted, not
// binaries. A binary that dies writes none; Bazel then makes one with a single failed case.

#define CATCH_CONFIG_MAIN
#include <catch2/catch.hpp>
#include <cstdlib>
#include <fstream>
#include <string>
#include <vector>

namespace {

std::string EscapeXml(const std::string& text) {
  std::string escaped;
  for (char c : text) {
    switch (c) {
      case '&':
        escaped += "&amp;";
        break;
      case '<':
        escaped += "&lt;";
        break;
      case '>':
        escaped += "&gt;";
        break;
      case '"':
        escaped += "&quot;";
        break;
      default:
        escaped += static_cast<unsigned char>(c) < 0x20 ? ' ' : c;
    }
  }
  return escaped;
}

class BazelXmlListener : public Catch::TestEventListenerBase {
 public:
  using TestEventListenerBase::TestEventListenerBase;

  void testCaseEnded(const Catch::TestCaseStats& stats) override {
    cases_.push_back({stats.testInfo.name, stats.totals.testCases.failed > 0});
  }

  void testRunEnded(const Catch::TestRunStats& stats) override {
    const char* path = std::getenv("XML_OUTPUT_FILE");
    if (path == nullptr) return;
    size_t failed = 0;
    for (const Case& c : cases_) failed += c.failed ? 1 : 0;
    const std::string suite = EscapeXml(stats.runInfo.name);
    std::ofstream out(path);
    out << "<?xml version=\"1.0\" encoding=\"UTF-8\"?>\n<testsuites>\n<testsuite name=\"" << suite
        << "\" tests=\"" << cases_.size() << "\" failures=\"" << failed << "\" errors=\"0\">\n";
    for (const Case& c : cases_) {
      out << "<testcase name=\"" << EscapeXml(c.name) << "\" classname=\"" << suite << "\">"
          << (c.failed ? "<failure message=\"failed\"/>" : "") << "</testcase>\n";
    }
    out << "</testsuite>\n</testsuites>\n";
  }

 private:
  struct Case {
    std::string name;
    bool failed = false;
  };
  std::vector<Case> cases_;
};

CATCH_REGISTER_LISTENER(BazelXmlListener)

}  // namespace

// Sanitizers read these where they are linked in: what the system's libraries do inside, built
// without instrumentation, is not this project's finding.
extern "C" const char* __lsan_default_suppressions();
extern "C" const char* __lsan_default_suppressions() {
  return "leak:libgvc.so\nleak:libcgraph.so\n";
}

extern "C" const char* __tsan_default_suppressions();
extern "C" const char* __tsan_default_suppressions() {
  return "race:libgomp.so\nrace:libdnnl.so\nrace:libopenblas.so\n";
}
