#include "optimizer/solver/repeat.h"

#include <catch2/catch.hpp>
#include <random>
#include <string>
#include <vector>

#include "optimizer/solver/random_problem.h"

namespace tandem::solver {
namespace {

// A prefix node, `count` equal blocks of three nodes, a suffix node. Costs depend on the seed only,
// so that every depth has the same blocks.
Problem Deep(int32_t count, int seed, bool spoil = false) {
  Problem p;
  std::mt19937 random(seed);
  const auto vector = [&](int32_t states) {
    std::vector<double> v(states);
    for (double& c : v) c = 1e-3 * static_cast<double>(random() % 100);
    return p.AddVector(v);
  };
  const auto table = [&](int32_t rows, int32_t cols) {
    Table t{rows, cols, std::vector<double>(rows * cols)};
    for (double& c : t.cost) c = 1e-3 * static_cast<double>(random() % 100);
    return p.AddTable(t);
  };
  const int32_t states = 3;
  const int32_t unary[3] = {vector(states), vector(states), vector(states)};
  const int32_t memory = p.AddVector({1, 2, 3});
  const int32_t inside[2] = {table(states, states), table(states, states)};
  const int32_t between[2] = {table(states, states), table(states, states)};
  Node node;
  node.name = "prefix";
  node.unary = vector(states);
  node.block = -5;
  p.AddNode(node);
  for (int32_t b = 0; b < count; ++b) {
    for (int32_t q = 0; q < 3; ++q) {
      node.name = "b" + std::to_string(b) + "." + std::to_string(q);
      node.unary = unary[q];
      node.memory = memory;
      node.block = 10 * b;  // ids need not be dense
      node.position = q;
      p.AddNode(node);
    }
    const int32_t first = 1 + 3 * b;
    p.AddEdge(first, first + 1, inside[0]);
    p.AddEdge(first + 2, first + 1, inside[1]);
    p.AddEdge(first, first + 1, inside[0]);  // twice the same
    if (b > 0) {
      p.AddEdge(first - 1, first, between[0]);
      p.AddEdge(first + 1, first - 2, between[1]);
    }
  }
  node.name = "suffix";
  node.memory = -1;
  node.block = 10 * count;
  p.AddNode(node);
  p.AddEdge(0, 1, between[0]);
  p.AddEdge(3 * count, 3 * count + 1, between[1]);
  if (spoil) p.AddEdge(0, 3 * count - 5, between[0]);  // the prefix reaches into the middle
  return p;
}

}  // namespace

TEST_CASE("equal blocks are found as one run") {
  const std::vector<BlockRun> runs = FindRuns(Deep(9, 1));
  REQUIRE(runs.size() == 1);
  CHECK(runs[0].first_block == 0);
  CHECK(runs[0].last_block == 80);
  CHECK(runs[0].count == 9);
}

TEST_CASE("an edge into the middle ends a run there") {
  for (const BlockRun& run : FindRuns(Deep(9, 1, true))) CHECK(run.count < 9);
}

TEST_CASE("blocks that differ in one cost are no run") {
  Problem p;
  for (int k = 0; k < 6; ++k) {
    Node node;
    node.unary = p.AddVector({0.0, 1e-3 * k});
    node.block = k;
    p.AddNode(node);
  }
  CHECK(FindRuns(p).empty());
}

TEST_CASE("a fold keeps four blocks and every edge has an image of the same table") {
  const Problem problem = Deep(12, 2);
  const FoldedProblem fold = Fold(problem, FindRuns(problem));
  REQUIRE(Validate(fold.problem).ok());
  CHECK(fold.problem.node_count() == 2 + 4 * 3);
  CHECK(fold.problem.edges().size() == Deep(4, 2).edges().size());
  for (int32_t n = 0; n < problem.node_count(); ++n) {
    const Node& whole = problem.nodes()[n];
    const Node& image = fold.problem.nodes()[fold.image[n]];
    CHECK(problem.vectors()[whole.unary] == fold.problem.vectors()[image.unary]);
    CHECK(whole.position == image.position);
  }
  for (size_t e = 0; e < problem.edges().size(); ++e) {
    const Edge& image = fold.problem.edges()[fold.edge_image[e]];
    CHECK(problem.tables()[problem.edges()[e].table].cost ==
          fold.problem.tables()[image.table].cost);
  }
}

TEST_CASE("repeated solves equal plain ones at every depth") {
  for (int seed = 0; seed < 25; ++seed) {
    for (int32_t depth : {1, 3, 4, 5, 6, 17}) {
      CAPTURE(seed, depth);
      for (bool spoil : {false, true}) {
        if (spoil && depth < 3) continue;
        const Problem problem = Deep(depth, seed, spoil);
        SolveOptions options;
        options.price_seconds_per_byte = seed % 2 == 0 ? 0.0 : 1e-2;
        const auto plain = Solve(problem, options);
        const auto repeated = SolveRepeated(problem, options);
        REQUIRE(plain.ok());
        REQUIRE(repeated.ok());
        CHECK(plain->status == SolveStatus::kOptimal);
        CHECK(repeated->status == SolveStatus::kOptimal);
        CHECK(repeated->objective_seconds == Approx(plain->objective_seconds));
        CHECK(repeated->lower_bound_seconds <= plain->objective_seconds * (1 + 1e-6));
      }
    }
  }
}

TEST_CASE("a repeated solve respects an incumbent of the whole, not of the fold") {
  const Problem problem = Deep(20, 3);
  const auto plain = Solve(problem);
  SolveOptions options;
  options.incumbent_seconds = 1.01 * plain->objective_seconds;
  CHECK(SolveRepeated(problem, options)->status == SolveStatus::kOptimal);
  options.incumbent_seconds = 0.9 * plain->objective_seconds;
  CHECK(SolveRepeated(problem, options)->status == SolveStatus::kDropped);
}

TEST_CASE("malformed problems are errors here, too") {
  Problem bad = Deep(6, 1);
  bad.AddEdge(0, 0, 0);
  CHECK(SolveRepeated(bad).status().code() == absl::StatusCode::kInvalidArgument);
}

}  // namespace tandem::solver
