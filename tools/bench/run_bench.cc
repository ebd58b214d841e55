// Times of a training step on CPU ranks: a model of the zoo with the batch split over the ranks.
//   run_bench MODEL BATCH RANKS [fp64] [check]
#include <algorithm>
#include <chrono>
#include <cstdio>
#include <map>
#include <string>

#include "models/zoo.h"
#include "runtime/run.h"
#include "runtime/test_plans.h"

namespace tandem {
namespace {

Graph ModelOf(const std::string& name, int64_t batch) {
  if (name == "small-resnet") {
    ResNetSize size;
    size.blocks = {1, 1}, size.stem = 16, size.image = 32, size.classes = 10;
    return Must(BuildResNet(name, batch, size));
  }
  if (name == "small-bert") {
    BertSize size;
    size.layers = 2, size.width = 64, size.heads = 4, size.feed_forward = 128, size.sequence = 32;
    size.vocabulary = 100;
    return Must(BuildBert(name, batch, size));
  }
  return Must(ZooModel(name, batch));
}

int Main(int argc, char** argv) {
  if (argc < 4) {
    std::printf("run_bench MODEL BATCH RANKS [fp64] [check]\n");
    return 2;
  }
  const int64_t ranks = std::stoll(argv[3]);
  RunOptions options;
  options.steps = 3;
  for (int i = 4; i < argc; ++i) {
    if (std::string(argv[i]) == "fp64") options.dtype = DType::kF64;
    if (std::string(argv[i]) == "check") options.check = true;
  }
  const auto start = std::chrono::steady_clock::now();
  const auto seconds = [&] {
    return std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
  };
  Plan plan = SerialPlan(ModelOf(argv[1], std::stoll(argv[2])), "adam");
  Strategy strategy = ReplicatedStrategy(plan.pcg, MeshOf({ranks}));
  std::map<std::string, AxisPlacement> batch;
  for (TensorId input : plan.pcg.inputs) {
    const Tensor& t = plan.pcg.tensor(input);
    if (t.role == TensorRole::kInput) batch[t.name] = AxisPlacement::Split(0, 0);
  }
  Follow(plan.pcg, 0, batch, false, strategy);
  if (const absl::Status s = Distribute(plan, strategy); !s.ok()) {
    std::printf("%s\n", s.ToString().c_str());
    return 1;
  }
  std::printf("planned after %.1f s: %zu instructions\n", seconds(),
              plan.programs[0].instructions.size());
  const absl::StatusOr<RunResult> run = RunPlan(plan, options);
  if (!run.ok()) {
    std::printf("%s\n", run.status().ToString().c_str());
    return 1;
  }
  std::map<std::string, std::pair<double, int>> categories;
  std::map<std::string, double> names;
  for (const Span& span : run->record.spans) {
    if (span.device != 0) continue;
    auto& [time, count] = categories[span.category];
    time += span.end_seconds - span.start_seconds;
    ++count;
    names[span.category + " " + span.name] += span.end_seconds - span.start_seconds;
  }
  for (const auto& [name, value] : categories) {
    std::printf("  %-16s %5d  %8.1f ms\n", name.c_str(), value.second, value.first * 1e3);
  }
  std::vector<std::pair<double, std::string>> slowest;
  for (const auto& [name, time] : names) slowest.emplace_back(time, name);
  std::sort(slowest.rbegin(), slowest.rend());
  for (size_t i = 0; i < std::min<size_t>(12, slowest.size()); ++i) {
    std::printf("    %8.1f ms  %s\n", slowest[i].first * 1e3, slowest[i].second.c_str());
  }
  std::printf("prepare %.2f s, step %.3f s, peak %.1f MiB, loss %g -> %g\n", run->prepare_seconds,
              run->step_seconds, static_cast<double>(run->peak_bytes) / (1 << 20), run->losses[0],
              run->losses.back());
  if (run->max_abs_difference_from_serial) {
    std::printf("%s: %g (%s)\n", run->equal ? "equal" : "NOT EQUAL",
                *run->max_abs_difference_from_serial, run->worst.c_str());
  }
  std::printf("%.1f s in all\n", seconds());
  return run->equal ? 0 : 1;
}

}  // namespace
}  // namespace tandem

int main(int argc, char** argv) { return tandem::Main(argc, argv); }
