// Times of single operators in the reference interpreter.
#include <algorithm>
#include <chrono>
#include <cstdio>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/statusor.h"
#include "pcg/graph/sample_inputs.h"
#include "pcg/kernel/loop_nest.h"
#include "pcg/language/op_parser.h"

namespace tandem {
namespace {

// `work`: points of the loop nest.
struct Case {
  std::string name;
  OperatorSample sample;
  double work;
};

std::vector<Case> Cases() {
  const Attributes pad_1 = {{"pad_top", 1}, {"pad_left", 1}, {"pad_bottom", 1}, {"pad_right", 1}};
  const Attributes stride_2_pad_3 = {{"stride_h", 2}, {"stride_w", 2},   {"pad_top", 3},
                                     {"pad_left", 3}, {"pad_bottom", 3}, {"pad_right", 3}};
  const Attributes pool_3 = {{"kernel_h", 3}, {"kernel_w", 3}, {"stride_h", 2},
                             {"stride_w", 2}, {"pad_top", 1},  {"pad_left", 1}};
  const Attributes swap_middle = {{"perm", std::vector<int64_t>{0, 2, 1, 3}}};
  return {
      {"matmul 512^3", {"matmul", {}, {{{512}, {512}}, {{512}, {512}}}}, 512.0 * 512 * 512},
      {"matmul 96 of 64x64x32",
       {"matmul", {}, {{{96}, {64}, {32}}, {{96}, {32}, {64}}}},
       96.0 * 64 * 64 * 32},
      {"conv 3x3",
       {"conv2d", pad_1, {{{4}, {64}, {28}, {28}}, {{64}, {64}, {3}, {3}}}},
       4.0 * 64 * 64 * 28 * 28 * 9},
      {"conv 7x7 stride 2",
       {"conv2d", stride_2_pad_3, {{{4}, {3}, {112}, {112}}, {{64}, {3}, {7}, {7}}}},
       4.0 * 64 * 3 * 56 * 56 * 49},
      {"depthwise 3x3",
       {"conv2d", pad_1, {{{4}, {64}, {28}, {28}}, {{64}, {1}, {3}, {3}}}},
       4.0 * 64 * 28 * 28 * 9},
      {"max_pool", {"max_pool2d", pool_3, {{{4}, {64}, {56}, {56}}}}, 4.0 * 64 * 28 * 28 * 9},
      {"gelu", {"gelu", {}, {{{1024}, {1024}}}}, 1024.0 * 1024},
      {"add", {"add", {}, {{{1024}, {1024}}, {{1024}}}}, 1024.0 * 1024},
      {"layer_norm", {"layer_norm", {}, {{{1024}, {768}}, {{768}}, {{768}}}}, 1024.0 * 768},
      {"softmax", {"softmax", {{"rank_c", 0}}, {{{8}, {12}, {128}, {128}}}}, 8.0 * 12 * 128 * 128},
      {"transpose", {"transpose", swap_middle, {{{8}, {128}, {12}, {64}}}}, 8.0 * 128 * 768},
      {"embedding",
       {"embedding", {}, {{{8}, {128}}, {{30000}, {768}}}, {30000, 0}},
       8.0 * 128 * 768},
      {"cross_entropy",
       {"cross_entropy", {}, {{{256}, {30000}}, {{256}}}, {0, 30000}},
       256.0 * 30000},
      {"adam",
       {"adam", {}, {{{1000000}}, {{1000000}}, {{1000000}}, {{1000000}}, {}, {}}, {}, true},
       1e6},
  };
}

// The fastest of three runs.
absl::StatusOr<double> SecondsOf(const OperatorSample& sample, SampleRandom& random) {
  absl::StatusOr<const OpSpec*> spec = BuiltinOperators().Get(sample.op);
  if (!spec.ok()) return spec.status();
  absl::StatusOr<OpInstance> op = Instantiate(**spec, sample.attributes, sample.inputs);
  if (!op.ok()) return op.status();
  absl::StatusOr<LoopNest> nest = LoopNest::Compile(*op);
  if (!nest.ok()) return nest.status();
  const std::vector<HostTensor> inputs = InputsOf(sample, random);
  std::vector<const double*> in;
  std::vector<std::vector<double>> outputs;
  std::vector<double*> out;
  for (const HostTensor& input : inputs) in.push_back(input.data.data());
  for (int64_t elements : nest->output_elements()) {
    outputs.emplace_back(static_cast<size_t>(elements));
  }
  for (std::vector<double>& output : outputs) out.push_back(output.data());
  double best = 1e9;
  for (int round = 0; round < 3; ++round) {
    const auto begin = std::chrono::steady_clock::now();
    if (absl::Status s = nest->Run<double>(in, out); !s.ok()) return s;
    const std::chrono::duration<double> taken = std::chrono::steady_clock::now() - begin;
    best = std::min(best, taken.count());
  }
  return best;
}

int Main() {
  SampleRandom random;
  for (const Case& c : Cases()) {
    const absl::StatusOr<double> seconds = SecondsOf(c.sample, random);
    if (!seconds.ok()) {
      std::printf("%s: %s\n", c.name.c_str(), seconds.status().ToString().c_str());
      return 1;
    }
    std::printf("%-22s %10.3f ms %8.3f ns a point\n", c.name.c_str(), *seconds * 1e3,
                *seconds / c.work * 1e9);
  }
  return 0;
}

}  // namespace
}  // namespace tandem

int main() { return tandem::Main(); }
