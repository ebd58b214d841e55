// Times the layout solver on made-up deep training graphs and prints plans' gaps.
//   bazel run //tools/bench:solver_bench [-- LAYERS]
// Times are of this process's CPU, so that a busy machine disturbs them less.
#include <cstdio>
#include <cstdlib>
#include <ctime>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "optimizer/solver/deep_problem.h"
#include "optimizer/solver/memory.h"
#include "optimizer/solver/problem.h"
#include "optimizer/solver/repeat.h"
#include "optimizer/solver/solve.h"

namespace tandem::solver {
namespace {

double CpuSeconds() { return static_cast<double>(std::clock()) / CLOCKS_PER_SEC; }

struct Case {
  std::string name;
  std::vector<MeshAxis> mesh;
};

std::vector<Case> Cases() {
  const MeshAxis between4{4, 4.5e10, 2e-5};
  const MeshAxis inside8{8, 3.7e11, 7e-6};
  const MeshAxis inside4{4, 3.7e11, 7e-6};
  const MeshAxis inside2{2, 3.7e11, 7e-6};
  return {{"32", {{32, 4.5e10, 2e-5}}},
          {"4x8", {between4, inside8}},
          {"4x2x4", {between4, inside2, inside4}}};
}

void PrintSolve(const char* how, const absl::StatusOr<SolveResult>& result, double seconds) {
  if (!result.ok()) {
    std::printf("  %-9s %s\n", how, result.status().ToString().c_str());
    return;
  }
  std::printf("  %-9s %8.3f s  %-10s objective %.6f  gap %.5f%%  sweeps %d  cells %.2e + %.2e\n",
              how, seconds, SolveStatusName(result->status), result->objective_seconds,
              100.0 * result->gap(), result->steps.sweeps,
              static_cast<double>(result->steps.dual_cells),
              static_cast<double>(result->steps.elimination_cells));
}

void PrintMemory(const Problem& problem) {
  const auto free = SolveWithinMemory(problem, 1e18);
  const auto least = SolveWithinMemory(problem, 0.0);
  if (!free.ok() || !least.ok()) return;
  for (double share : {0.5, 0.1}) {
    const double limit =
        least->least_memory_bytes + share * (free->memory_bytes - least->least_memory_bytes);
    const double start = CpuSeconds();
    const auto result = SolveWithinMemory(problem, limit);
    if (!result.ok()) continue;
    std::printf(
        "  %4.2f of memory %8.3f s  %-10s %.6f s in %.3e of %.3e bytes  gap %.4f%%  "
        "solves %d\n",
        share, CpuSeconds() - start, MemoryStatusName(result->status), result->seconds,
        result->memory_bytes, limit, 100.0 * result->gap(), result->solves);
  }
}

void Run(int32_t layers) {
  for (const Case& c : Cases()) {
    DeepOptions options;
    options.layers = layers;
    options.mesh = c.mesh;
    double start = CpuSeconds();
    const Problem problem = DeepProblem(options);
    const double build = CpuSeconds() - start;
    int64_t states = 0;
    for (int32_t n = 0; n < problem.node_count(); ++n) states += problem.states(n);
    std::printf(
        "mesh %s, %d layers: %d nodes, %.1f states, %zu edges, %zu tables, built in %.3f s\n",
        c.name.c_str(), layers, problem.node_count(),
        static_cast<double>(states) / problem.node_count(), problem.edges().size(),
        problem.tables().size(), build);
    start = CpuSeconds();
    const auto plain = Solve(problem);
    PrintSolve("plain", plain, CpuSeconds() - start);
    start = CpuSeconds();
    const auto repeated = SolveRepeated(problem);
    PrintSolve("repeated", repeated, CpuSeconds() - start);
    PrintMemory(problem);
  }
}

}  // namespace
}  // namespace tandem::solver

int main(int argc, char** argv) {
  const int layers = argc > 1 ? std::atoi(argv[1]) : 32;
  if (layers < 1) {
    std::fprintf(stderr, "usage: solver_bench [LAYERS], LAYERS at least 1\n");
    return 1;
  }
  tandem::solver::Run(layers);
  return 0;
}
