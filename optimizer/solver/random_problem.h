// Small seeded problems and their optimum by enumeration: what the solver's tests compare with.
#ifndef OPTIMIZER_SOLVER_RANDOM_PROBLEM_H_
#define OPTIMIZER_SOLVER_RANDOM_PROBLEM_H_

#include <cstdint>
#include <random>

#include "optimizer/solver/problem.h"

namespace tandem::solver {

enum class Shape { kChain, kTree, kGrid, kRandom, kMultiEdge };

struct RandomOptions {
  Shape shape = Shape::kRandom;
  int32_t nodes = 6;
  int32_t most_states = 4;
  double forbidden = 0.0;  // share of forbidden pairs
  bool coarse = false;     // costs from {0, 1, 2} ms, so that ties abound
  bool memory = false;
};

// Costs are whole milliseconds, memory whole bytes: sums are exact up to rounding of 0.001.
Problem RandomProblem(const RandomOptions& options, std::mt19937& random);

struct BruteForce {
  bool permitted = false;     // some plan within the limit has no forbidden choice
  double seconds = 0.0;       // the least of those
  double least_memory = 0.0;  // over permitted plans, whatever the limit
  Plan plan;
};

// Walks all plans. Objective = seconds + price * bytes among plans of at most `limit_bytes`.
BruteForce Enumerate(const Problem& problem, double price, double limit_bytes);

}  // namespace tandem::solver

#endif  // OPTIMIZER_SOLVER_RANDOM_PROBLEM_H_
