#include "simulator/kernel_cost.h"

#include <catch2/catch.hpp>
#include <cmath>

namespace tandem {
namespace {

Machine A100() { return *LoadMachine("dgx-a100"); }

TEST_CASE("a large GEMM runs at the sustained rate, a tiny one at the launch floor") {
  const Machine machine = A100();
  const ContractionRate& rate = machine.device.contraction[static_cast<int>(Precision::kBf16)];
  const double large = KernelSeconds(machine, GemmShape(Precision::kBf16, 16384, 16384, 16384));
  const double ideal =
      2 * std::pow(16384.0, 3) / (rate.flops_per_second * machine.device.sustained_fraction);
  CHECK(large > ideal);
  CHECK(large < 1.05 * ideal);
  const double tiny = KernelSeconds(machine, GemmShape(Precision::kBf16, 8, 8, 8));
  CHECK(tiny == Approx(rate.launch_seconds).epsilon(0.01));
}

TEST_CASE("lower precision is not slower, what the hardware lacks runs as fp32") {
  const Machine h100 = *LoadMachine("dgx-h100");
  const auto seconds = [](const Machine& machine, Precision precision) {
    return KernelSeconds(machine, GemmShape(precision, 8192, 8192, 8192, 1, 4));
  };
  CHECK(seconds(h100, Precision::kFp8) < seconds(h100, Precision::kBf16));
  CHECK(seconds(h100, Precision::kBf16) < seconds(h100, Precision::kTf32));
  CHECK(seconds(h100, Precision::kTf32) < seconds(h100, Precision::kFp32));
  const Machine v100 = *LoadMachine("summit-v100");
  CHECK(seconds(v100, Precision::kBf16) == seconds(v100, Precision::kFp32));
  CHECK(seconds(v100, Precision::kFp16) < seconds(v100, Precision::kFp32));
}

TEST_CASE("alignment") {
  const Machine machine = A100();
  const auto seconds = [&](Precision precision, int64_t m, int64_t n, int64_t k) {
    return KernelSeconds(machine, GemmShape(precision, m, n, k, 32));
  };
  const double aligned = seconds(Precision::kBf16, 2048, 2048, 112);
  CHECK(seconds(Precision::kBf16, 2048, 2048, 108) > 1.5 * aligned);
  // The rows of the left operand are contiguous in nothing.
  CHECK(seconds(Precision::kBf16, 2047, 2048, 112) <= aligned);
  // Without tensor cores nothing is lost.
  CHECK(seconds(Precision::kFp32, 2048, 2048, 108) < seconds(Precision::kFp32, 2048, 2048, 112));
  // Extents that are not given say nothing.
  KernelShape shape = GemmShape(Precision::kBf16, 2048, 2048, 108, 32);
  const double with = KernelSeconds(machine, shape);
  shape.gemm_m = shape.gemm_n = shape.gemm_k = 0;
  CHECK(KernelSeconds(machine, shape) < with);
}

TEST_CASE("every kind on every machine is positive, finite, and monotone in flops and bytes") {
  for (const MachineSummary& summary : ListMachines()) {
    const Machine machine = *LoadMachine(summary.name);
    for (int kind = 0; kind < kKernelKinds; ++kind) {
      for (int precision = 0; precision < kPrecisions; ++precision) {
        INFO(summary.name << " " << KernelKindName(static_cast<KernelKind>(kind)) << " "
                          << precision);
        double last = 0;
        for (double size = 0; size < 1e13; size = size * 3 + 1) {
          KernelShape shape = MemoryShape(static_cast<KernelKind>(kind), size / 100, size / 100,
                                          size, static_cast<Precision>(precision));
          const double seconds = KernelSeconds(machine, shape);
          REQUIRE(std::isfinite(seconds));
          REQUIRE(seconds > 0);
          REQUIRE(seconds >= last);
          last = seconds;
          shape.bytes_written *= 2;
          REQUIRE(KernelSeconds(machine, shape) >= seconds);
        }
      }
    }
  }
}

TEST_CASE("memory-bound kinds reach their own share of the bandwidth") {
  const Machine machine = A100();
  const double bytes = 1e9;
  const auto rate = [&](KernelKind kind) {
    return bytes / KernelSeconds(machine, MemoryShape(kind, bytes, 0));
  };
  CHECK(rate(KernelKind::kElementwise) == Approx(1.75e12).epsilon(0.02));
  CHECK(rate(KernelKind::kEmbedding) == Approx(0.3e12).epsilon(0.02));
  CHECK(rate(KernelKind::kElementwise) < machine.device.memory_bandwidth);
}

TEST_CASE("attention") {
  const Machine machine = A100();
  const auto seconds = [&](int64_t heads, int64_t length, int64_t head_dim, bool causal,
                           bool backward) {
    return KernelSeconds(machine, AttentionShape(Precision::kBf16, 1, heads, length, length,
                                                 head_dim, causal, backward));
  };
  // Measured by NVIDIA aiconfigurator-core 0.12.0: 43955 us for batch 1, 96 heads of 128, 16384
  // causal.
  CHECK(seconds(96, 16384, 128, true, false) == Approx(43.955e-3).epsilon(0.1));
  CHECK(seconds(96, 16384, 128, false, false) > 1.9 * seconds(96, 16384, 128, true, false));
  CHECK(seconds(96, 4096, 128, true, true) > 2.5 * seconds(96, 4096, 128, true, false));
  CHECK(seconds(96, 8192, 128, true, false) > 3 * seconds(96, 4096, 128, true, false));
  // A head that is no multiple of eight leaves the tensor cores.
  CHECK(seconds(96, 4096, 108, true, false) > 2 * seconds(96, 4096, 112, true, false));
  // One head fills few units: far from 96 times faster.
  CHECK(seconds(1, 1024, 128, true, false) > seconds(96, 1024, 128, true, false) / 20);
}

}  // namespace
}  // namespace tandem
