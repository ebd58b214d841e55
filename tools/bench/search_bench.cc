// Seconds of the search on models of real size, phase by phase.
//   bazel run //tools/bench:search_bench -- [bert|llama] [nodes]

#include <chrono>
#include <cstdlib>
#include <iostream>
#include <string>

#include "optimizer/optimize.h"
#include "optimizer/test_graphs.h"

int main(int argc, char** argv) {
  using namespace tandem;
  const std::string model = argc > 1 ? argv[1] : "bert";
  const int64_t nodes = argc > 2 ? std::atoll(argv[2]) : 4;
  const bool llama = model == "llama";
  const Graph g = llama ? TransformerGraph(32, 8192, 32, 128, 128256, 32)
                        : TransformerGraph(256, 512, 16, 64, 30522, 24);
  const auto machine = LoadMachine(llama ? "dgx-h100" : "dgx-a100", {.nodes = nodes});
  if (!machine.ok()) {
    std::cerr << machine.status().message() << "\n";
    return 2;
  }
  OptimizeOptions options;
  options.training.precision = DType::kBF16;
  if (argc > 3) options.max_axes = std::atoi(argv[3]);
  const auto start = std::chrono::steady_clock::now();
  options.progress = [&](const std::string& line) {
    std::cerr << std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count()
              << " s  " << line << "\n";
  };
  const auto r = Optimize(g, TrustingRules(), *machine, options);
  if (!r.ok()) {
    std::cerr << r.status().message() << "\n";
    return 1;
  }
  std::cout << model << ": step " << r->best.timeline.step_seconds << " s, gap " << r->gap << ", "
            << std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count()
            << " s\n";
  for (const std::string& line : r->strategy_lines) std::cout << "  " << line << "\n";
  return 0;
}
