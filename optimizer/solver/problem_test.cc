#include "optimizer/solver/problem.h"

#include <catch2/catch.hpp>
#include <cmath>
#include <limits>
#include <string>

#include "absl/status/status.h"
#include "absl/strings/match.h"

namespace tandem::solver {
namespace {

Problem TwoNodes() {
  Problem p;
  Node a;
  a.name = "a";
  a.unary = p.AddVector({1e-3, 2e-3});
  a.memory = p.AddVector({10, 20});
  p.AddNode(a);
  Node b;
  b.name = "b";
  b.unary = p.AddVector({0, 0, 5e-3});
  p.AddNode(b);
  p.AddEdge(0, 1, p.AddTable({2, 3, {1e-3, 2e-3, 3e-3, 4e-3, 5e-3, kForbidden}}));
  return p;
}

void ExpectRefused(const Problem& problem, const std::string& words) {
  const absl::Status status = Validate(problem);
  CHECK(status.code() == absl::StatusCode::kInvalidArgument);
  CAPTURE(status.ToString());
  CHECK(absl::StrContains(status.message(), words));
}

}  // namespace

TEST_CASE("equal tables and vectors get one id") {
  Problem p = TwoNodes();
  CHECK(p.AddVector({1e-3, 2e-3}) == p.nodes()[0].unary);
  CHECK(p.AddVector({1e-3, 2e-3, 0}) != p.nodes()[0].unary);
  const size_t before = p.tables().size();
  CHECK(p.AddTable({2, 3, {1e-3, 2e-3, 3e-3, 4e-3, 5e-3, kForbidden}}) == 0);
  CHECK(p.tables().size() == before);
  // Same numbers, other shape.
  CHECK(p.AddTable({3, 2, {1e-3, 2e-3, 3e-3, 4e-3, 5e-3, kForbidden}}) != 0);
}

TEST_CASE("objective, memory and permission of a plan") {
  const Problem p = TwoNodes();
  REQUIRE(Validate(p).ok());
  CHECK(ObjectiveSeconds(p, {0, 2}) == Approx(9e-3));
  CHECK(MemoryBytes(p, {1, 0}) == 20);
  CHECK(IsPermitted(p, {1, 1}));
  CHECK_FALSE(IsPermitted(p, {1, 2}));
}

TEST_CASE("malformed problems are refused with what is wrong") {
  Problem p = TwoNodes();
  SECTION("no states") {
    Node c;
    c.name = "empty";
    c.unary = p.AddVector({});
    p.AddNode(c);
    ExpectRefused(p, "node 2 (empty) has no states");
  }
  SECTION("no vector at all") {
    p.AddNode(Node());
    ExpectRefused(p, "has no states");
  }
  SECTION("memory of another length") {
    Node c;
    c.unary = p.AddVector({0, 0, 0});
    c.memory = p.AddVector({1, 2});
    p.AddNode(c);
    ExpectRefused(p, "memory vector");
  }
  SECTION("negative memory") {
    Node c;
    c.unary = p.AddVector({0});
    c.memory = p.AddVector({-1});
    p.AddNode(c);
    ExpectRefused(p, "memory of node 2");
  }
  SECTION("table with too few costs") {
    p.AddEdge(0, 1, p.AddTable({2, 3, {0, 0, 0}}));
    ExpectRefused(p, "table 1 is 2 x 3 but holds 3 costs");
  }
  SECTION("table of the transposed shape") {
    p.AddEdge(1, 0, 0);
    ExpectRefused(p, "edge 1 joins node 1 (b) with 3 states");
  }
  SECTION("self loop") {
    p.AddEdge(0, 0, p.AddTable({2, 2, {0, 0, 0, 0}}));
    ExpectRefused(p, "it must join two different ones");
  }
  SECTION("node out of range") {
    p.AddEdge(0, 7, 0);
    ExpectRefused(p, "joins 0 and 7 of 2 nodes");
  }
  SECTION("unknown table") {
    p.AddEdge(0, 1, 9);
    ExpectRefused(p, "names table 9");
  }
  SECTION("infinite cost") {
    p.AddEdge(0, 1, p.AddTable({2, 3, {0, 0, 0, 0, 0, std::numeric_limits<double>::infinity()}}));
    ExpectRefused(p, "table 1: entry 5 is inf");
  }
  SECTION("not a number") {
    Node c;
    c.unary = p.AddVector({std::nan("")});
    p.AddNode(c);
    ExpectRefused(p, "entry 0 is nan");
  }
  SECTION("dearer than forbidden") {
    Node c;
    c.unary = p.AddVector({2 * kForbidden});
    p.AddNode(c);
    ExpectRefused(p, "entry 0 is 2e+06");
  }
}

TEST_CASE("plans of the wrong size or with unknown states are refused") {
  const Problem p = TwoNodes();
  CHECK(ValidatePlan(p, {1, 2}).ok());
  CHECK_FALSE(ValidatePlan(p, {1}).ok());
  CHECK_FALSE(ValidatePlan(p, {2, 0}).ok());
  CHECK_FALSE(ValidatePlan(p, {0, -1}).ok());
}

}  // namespace tandem::solver
