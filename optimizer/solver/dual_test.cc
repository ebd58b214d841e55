#include "optimizer/solver/dual.h"

#include <algorithm>
#include <atomic>
#include <catch2/catch.hpp>
#include <random>
#include <vector>

#include "optimizer/solver/descent.h"
#include "optimizer/solver/min_plus.h"
#include "optimizer/solver/random_problem.h"

namespace tandem::solver {
namespace {

constexpr double kRounding = 1e-9;

Problem Sample(int seed, Shape shape = Shape::kRandom) {
  std::mt19937 random(seed);
  RandomOptions options;
  options.shape = shape;
  options.nodes = 5 + seed % 3;
  return RandomProblem(options, random);
}

}  // namespace

TEST_CASE("column minima of every shape equal the plain loop") {
  std::mt19937 random(1);
  for (int32_t rows = 1; rows <= 5; ++rows) {
    for (int32_t cols = 1; cols <= 40; ++cols) {
      std::vector<double> table(rows * cols);
      std::vector<double> cost(rows);
      for (double& v : table) v = static_cast<double>(random() % 1000);
      for (double& v : cost) v = static_cast<double>(random() % 1000);
      std::vector<double> out(cols);
      ColumnMinima(table.data(), rows, cols, cost.data(), out.data());
      for (int32_t c = 0; c < cols; ++c) {
        double least = kInfinity;
        for (int32_t r = 0; r < rows; ++r) least = std::min(least, table[r * cols + c] - cost[r]);
        CHECK(out[c] == least);
      }
    }
  }
}

TEST_CASE("the least sum is the first of equal ones") {
  std::mt19937 random(2);
  for (int32_t n = 1; n <= 40; ++n) {
    std::vector<double> a(n);
    std::vector<double> b(n);
    std::vector<double> scratch(n);
    for (double& v : a) v = static_cast<double>(random() % 3);
    for (double& v : b) v = static_cast<double>(random() % 3);
    int32_t index = -1;
    const double least = LeastSum(a.data(), b.data(), n, scratch.data(), &index);
    for (int32_t k = 0; k < n; ++k) {
      CHECK(a[k] + b[k] >= least);
      if (k < index) CHECK(a[k] + b[k] > least);
    }
    CHECK(a[index] + b[index] == least);
  }
}

TEST_CASE("any messages give a valid bound, sweeps never lower it") {
  for (int seed = 0; seed < 60; ++seed) {
    CAPTURE(seed);
    const Problem problem = Sample(seed);
    const CompiledProblem compiled = Compile(problem, 0.0);
    const double optimum = Enumerate(problem, 0.0, 1e18).seconds;
    std::mt19937 random(seed);
    std::vector<double> messages(compiled.model.message_size());
    for (double& m : messages) m = 1e-3 * (static_cast<double>(random() % 100) - 50.0);
    Dual dual(compiled.model);
    dual.SetMessages(messages);
    double last = dual.lower();
    CHECK(last <= optimum + kRounding);
    for (int k = 0; k < 6; ++k) {
      DualOptions options;
      options.max_sweeps = 1;
      dual.Run(options);
      CHECK(dual.lower() >= last - kRounding);
      CHECK(dual.lower() <= optimum + kRounding);
      CHECK(dual.upper() >= optimum - kRounding);
      last = dual.lower();
    }
  }
}

TEST_CASE("a state's excess never overstates what forcing it costs") {
  for (int seed = 0; seed < 60; ++seed) {
    CAPTURE(seed);
    const Problem problem = Sample(seed, Shape::kGrid);
    const CompiledProblem compiled = Compile(problem, 0.0);
    const Model& model = compiled.model;
    Dual dual(model);
    dual.Run(DualOptions());
    const std::vector<double> excess = dual.Excess();
    for (int32_t k = 0; k < model.size(); ++k) {
      for (int32_t s = 0; s < model.states(k); ++s) {
        // The optimum with the state forced, by the same enumeration on a restricted plan set.
        double forced = kInfinity;
        std::vector<int32_t> plan(model.size(), 0);
        while (true) {
          if (plan[k] == s) forced = std::min(forced, model.Value(plan));
          int32_t q = model.size() - 1;
          while (q >= 0 && ++plan[q] == model.states(q)) plan[q--] = 0;
          if (q < 0) break;
        }
        CHECK(dual.lower() + excess[model.first[k] + s] <= forced + kRounding);
      }
    }
  }
}

TEST_CASE("descent ends where no single change helps") {
  for (int seed = 0; seed < 60; ++seed) {
    const Problem problem = Sample(seed);
    const CompiledProblem compiled = Compile(problem, 0.0);
    const Model& model = compiled.model;
    std::vector<int32_t> plan(model.size(), 0);
    const double before = model.Value(plan);
    Descend(model, 1000, plan);
    const double value = model.Value(plan);
    CHECK(value <= before);
    for (int32_t k = 0; k < model.size(); ++k) {
      for (int32_t s = 0; s < model.states(k); ++s) {
        std::vector<int32_t> other = plan;
        other[k] = s;
        CHECK(model.Value(other) >= value - kRounding);
      }
    }
  }
}

TEST_CASE("a cancelled dual makes no sweep") {
  const Problem problem = Sample(1);
  const CompiledProblem compiled = Compile(problem, 0.0);
  Dual dual(compiled.model);
  std::atomic<bool> cancel{true};
  DualOptions options;
  options.cancel = &cancel;
  CHECK(dual.Run(options) == DualStop::kCancelled);
  CHECK(dual.sweeps() == 0);
}

TEST_CASE("the dual stops once its bound passes the incumbent") {
  const Problem problem = Sample(4);
  const CompiledProblem compiled = Compile(problem, 0.0);
  Dual dual(compiled.model);
  DualOptions options;
  options.max_sweeps = 100;
  options.incumbent = -1.0;
  CHECK(dual.Run(options) == DualStop::kDropped);
  CHECK(dual.sweeps() == 1);
}

}  // namespace tandem::solver
