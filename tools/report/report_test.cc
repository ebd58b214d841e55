#include "tools/report/report.h"

#include <catch2/catch.hpp>
#include <cstdlib>
#include <fstream>
#include <iterator>
#include <nlohmann/json.hpp>

#include "absl/status/status.h"
#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "tools/report/dot.h"
#include "tools/report/report_test_plan.h"

namespace tandem {
namespace {

using Json = nlohmann::ordered_json;

std::string PageOf(const Plan& plan, const std::string& summary = TestSummary()) {
  const auto page = ReportHtml(plan, TestMachine(plan.programs[0].mesh.Devices()), summary);
  INFO(page.status().ToString());
  REQUIRE(page.ok());
  return *page;
}

// The text between two markers, which must be there.
std::string Between(const std::string& page, const std::string& from, const std::string& to) {
  const size_t begin = page.find(from);
  REQUIRE(begin != std::string::npos);
  const size_t end = page.find(to, begin + from.size());
  REQUIRE(end != std::string::npos);
  return page.substr(begin + from.size(), end - begin - from.size());
}

Json TimelineOf(const std::string& page) {
  return Json::parse(Between(page, "id=\"timeline-data\">", "</script>"));
}

TEST_CASE("the page has the plan's figures, and is the same twice") {
  const Plan plan = TestPlan();
  const std::string page = PageOf(plan);
  CHECK(page == PageOf(plan));
  for (const char* text :
       {"<h1>mlp</h1>", "20.0 ms", "40.0%", "1.50 s", "within 5.00% of its bound", "not known",
        "<strong>1.50×</strong> as fast as Data parallel", "does not fit the memory; too large",
        "not applicable: no grid divides the heads", "merge_matmul_2", "×2", "gains 3.00 ms",
        "3f5c0e", "axis x0 is idle in 2 nodes", "blocks 1–3", "trained: on the way to the loss"}) {
    INFO(text);
    CHECK(absl::StrContains(page, text));
  }
  // The text of the rule stands with it.
  CHECK(absl::StrContains(page, "alternative merge_matmul_2"));
}

TEST_CASE("the page needs no network") {
  const std::string page = PageOf(TestPlan());
  for (const char* text :
       {"http:", "https:", "src=", "@import", "url(//", "<link", "fetch(", "XMLHttpRequest"}) {
    INFO(text);
    CHECK_FALSE(absl::StrContains(page, text));
  }
}

TEST_CASE("names with HTML in them stay text") {
  const std::string evil = "</script><script>alert(1)</script><img src=x onerror=\"alert(2)\">";
  Plan plan = TestPlan({.name = evil});
  plan.rules[0].rule = plan.rules[0].certificate = evil;
  plan.rules[0].source_nodes = {evil};
  plan.training.freeze = {evil};
  plan.forward.tensors[0].note = evil;
  Json summary = Json::parse(TestSummary());
  summary["notes"] = summary["strategy"] = {evil};
  summary["baselines"][evil] = {{"applicable", false}, {"reason", evil}};
  Machine machine = TestMachine(4);
  machine.name = machine.device.name = machine.levels[0].name = evil;
  const auto page = ReportHtml(plan, machine, summary.dump());
  REQUIRE(page.ok());
  CHECK_FALSE(absl::StrContains(*page, "<script>alert"));
  CHECK_FALSE(absl::StrContains(*page, "<img"));
  CHECK(absl::StrContains(*page, "&lt;script&gt;alert(1)"));
  // Exactly the two scripts of the page: the data and the code.
  size_t scripts = 0;
  for (size_t at = page->find("<script"); at != std::string::npos;
       at = page->find("<script", at + 1)) {
    ++scripts;
  }
  CHECK(scripts == 2);
  // The names arrive whole in the data.
  CHECK(absl::StrContains(TimelineOf(*page)["names"].dump(), "alert(2)"));
}

TEST_CASE("the parts of a step are all there and fill its bar once") {
  const std::string section = Between(PageOf(TestPlan()), "<section id=\"time\">", "</section>");
  for (const char* part :
       {"compute", "communication, hidden", "communication, exposed", "launches", "idle"}) {
    INFO(part);
    CHECK(absl::StrContains(section, absl::StrCat("</i>", part)));
  }
  const std::string bar = Between(section, "<div class=\"stack\"", "</div>");
  double sum = 0;
  const std::string width = "width:";
  for (size_t at = bar.find(width); at != std::string::npos; at = bar.find(width, at + 1)) {
    sum += std::strtod(bar.c_str() + at + width.size(), nullptr);
  }
  CHECK(sum == Approx(100).margin(0.1));
  CHECK(absl::StrContains(bar, "t-hidden"));
}

TEST_CASE("what is stored is listed with the moves that there are") {
  const auto heads = [](const TestPlanOptions& options) {
    const std::string page = PageOf(TestPlan(options));
    return Between(Between(page, "What is stored", "</table>"), "<thead>", "</thead>");
  };
  const std::string replicated = heads({});
  CHECK(absl::StrContains(replicated, "Gradient"));  // all-reduced
  CHECK_FALSE(absl::StrContains(replicated, "Before use"));
  CHECK_FALSE(absl::StrContains(replicated, "New value"));
  CHECK(absl::StrContains(heads({.sharded = true}), "Before use"));
}

TEST_CASE("the timeline has a row a stream, and micro-batches") {
  const Json one = TimelineOf(PageOf(TestPlan()));
  CHECK(one["bands"][0].empty());
  CHECK(one["lanes"][0]["name"] == "compute");
  CHECK(one["lanes"].back()["name"] == "host");
  const Json many = TimelineOf(PageOf(TestPlan({.micro_batches = 4, .train = false})));
  CHECK(many["micro_batches"] == 4);
  REQUIRE(many["bands"][0].size() >= 3);
  CHECK(many["bands"][0][1]["label"] == "micro-batch 2 of 4");
  CHECK(many["bands"][0][0]["end"] <= many["bands"][0][1]["start"]);
  for (const Json& lane : many["lanes"]) {
    CHECK(lane["start"].size() == lane["length"].size());
    CHECK(lane["start"].size() == lane["names"].size());
    for (const Json& difference : lane["start"]) CHECK(difference.get<int64_t>() >= 0);
  }
}

TEST_CASE("what a summary does not say is not made up") {
  Plan plan = TestPlan({.train = false});
  plan.rules.clear();
  const std::string page = PageOf(plan, "{}");
  CHECK(absl::StrContains(page, "This plan was made without baselines"));
  CHECK(absl::StrContains(page, "No rewrite fired"));
  CHECK(absl::StrContains(page, "forward pass only"));
  CHECK_FALSE(absl::StrContains(page, "as fast as"));
  CHECK(absl::StrContains(Between(page, "<dt>MFU</dt>", "</div>"), "not known"));
  CHECK(absl::StrContains(Between(page, "<dt>Search</dt>", "</div>"), "not known"));
}

TEST_CASE("a slower plan, baselines that cannot run, memory that does not suffice: said so") {
  Json summary = Json::parse(TestSummary());
  summary["baselines"]["data_parallel"]["step_seconds"] = 0.01;
  CHECK(absl::StrContains(PageOf(TestPlan(), summary.dump()),
                          "<strong>Slower</strong> than Data parallel by a factor of 2.00"));
  summary["baselines"]["data_parallel"]["fits"] = false;
  CHECK(absl::StrContains(PageOf(TestPlan(), summary.dump()), "No baseline can run here"));
  Machine small = TestMachine(4);
  small.device.memory_bytes = 1000;
  const auto page = ReportHtml(TestPlan(), small, TestSummary());
  REQUIRE(page.ok());
  CHECK(absl::StrContains(*page, "does not fit"));
  CHECK(absl::StrContains(*page, "more than the 1000 B it has"));
}

TEST_CASE("verdicts are shown as they are") {
  Json summary = Json::parse(TestSummary());
  const auto tile = [&] {
    return Between(PageOf(TestPlan(), summary.dump()), "<dt>Verified</dt>", "</div>");
  };
  summary["verification"] = {{"verdict", "proved"}, {"obligations", 120}};
  CHECK(absl::StrContains(tile(), "120 obligations"));
  summary["verification"]["verdict"] = "refuted";
  CHECK(absl::StrContains(tile(), "do not run this plan"));
  summary["verification"]["verdict"] = "splendid";
  CHECK(absl::StrContains(tile(), "not known"));
}

TEST_CASE("the proof behind a rule is told, where the summary knows it") {
  CHECK_FALSE(absl::StrContains(PageOf(TestPlan(), TestSummary()), "questions to Z3"));
  Json summary = Json::parse(TestSummary());
  summary["rules"] = {
      {{"name", TestPlan().rules[0].rule}, {"queries", 7}, {"facts", {"exp is never 0 <b>"}}}};
  const std::string page = PageOf(TestPlan(), summary.dump());
  CHECK(absl::StrContains(page, "7 questions to Z3; given: exp is never 0 &lt;b&gt;"));
}

TEST_CASE("plans that cannot be reported are refused with a remedy") {
  Plan plan = TestPlan();
  const Machine machine = TestMachine(4);
  const auto refused = [&](const Plan& p, const Machine& m, const std::string& summary) {
    const auto page = ReportHtml(p, m, summary);
    REQUIRE_FALSE(page.ok());
    return std::string(page.status().message());
  };
  CHECK(absl::StrContains(refused(Plan(), machine, TestSummary()), "no Program"));
  CHECK(absl::StrContains(refused(plan, machine, "[1, 2]"), "not a JSON object"));
  CHECK(absl::StrContains(refused(plan, machine, "{\"devices\": "), "not a JSON object"));
  CHECK(absl::StrContains(refused(plan, TestMachine(2), TestSummary()), "devices"));
  plan.programs[0].instructions[0].kind = InstructionKind::kKernel;
  plan.programs[0].instructions[0].node = NodeId(100000);
  CHECK(absl::StrContains(refused(plan, machine, TestSummary()), "program 0"));
}

TEST_CASE("report and trace are files; a folder that cannot be made is an error") {
  const char* scratch = std::getenv("TEST_TMPDIR");
  const std::string folder = absl::StrCat(scratch != nullptr ? scratch : "/tmp", "/report_test");
  const Plan plan = TestPlan();
  REQUIRE(WriteReport(plan, TestMachine(4), TestSummary(), folder).ok());
  std::ifstream page(folder + "/report.html"), trace(folder + "/trace.json");
  const std::string html{std::istreambuf_iterator<char>(page), {}};
  CHECK(html == PageOf(plan));
  const Json json = Json::parse(trace);
  CHECK(json["traceEvents"].size() > plan.pcg.nodes.size());
  CHECK_FALSE(WriteReport(plan, TestMachine(4), TestSummary(), folder + "/report.html").ok());
  CHECK_FALSE(WriteReport(Plan(), TestMachine(4), TestSummary(), folder).ok());
}

TEST_CASE("the graph in Graphviz's language has layouts and collectives, quoted") {
  const auto dot = PlanDot(TestPlan({.name = "a\"b\\", .tensor_parallel = true}));
  REQUIRE(dot.ok());
  CHECK(absl::StrContains(*dot, "mesh x0=4"));
  CHECK(absl::StrContains(*dot, "subgraph cluster_1"));
  CHECK(absl::StrContains(*dot, "linear\\na\\\"b\\\\.0.up\\n64 × 128[x0]"));
  CHECK(absl::StrContains(*dot, "all-reduce[x0]"));
  CHECK_FALSE(PlanDot(Plan()).ok());
}

}  // namespace
}  // namespace tandem
