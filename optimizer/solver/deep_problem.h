// A made-up but plausible deep training graph as a layout problem, for benchmarks and scale tests:
// every layer has a transformer block's forward, backward and update nodes, states are one choice
// per mesh axis (replicated, split on a dim, partial), tables are resharding costs, shared by
// signature. Costs are illustrations; sizes, sharing and structure are the point.
#ifndef OPTIMIZER_SOLVER_DEEP_PROBLEM_H_
#define OPTIMIZER_SOLVER_DEEP_PROBLEM_H_

#include <cstdint>
#include <vector>

#include "optimizer/solver/problem.h"

namespace tandem::solver {

struct MeshAxis {
  int32_t devices = 1;
  double bytes_per_second = 1e11;
  double latency_seconds = 1e-5;
};

struct DeepOptions {
  int32_t layers = 32;
  double batch = 16;
  double sequence = 8192;
  double model = 4096;
  double hidden = 14336;
  std::vector<MeshAxis> mesh;
};

// About 70 nodes a layer; block = layer.
Problem DeepProblem(const DeepOptions& options);

}  // namespace tandem::solver

#endif  // OPTIMIZER_SOLVER_DEEP_PROBLEM_H_
