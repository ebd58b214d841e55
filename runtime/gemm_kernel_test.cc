#include "runtime/gemm_kernel.h"

#include <algorithm>
#include <catch2/catch.hpp>
#include <cmath>
#include <random>

namespace tandem {
namespace {

// Random classes of axes, laid out in each buffer in a random order.
struct RandomGemm {
  GemmShape shape;
  int64_t elements[3] = {1, 1, 1};
  explicit RandomGemm(unsigned seed) {
    std::mt19937 random(seed);
    const auto pick = [&](int n) {
      return static_cast<int64_t>(random() % static_cast<unsigned>(n));
    };
    std::vector<Axis>* classes[4] = {&shape.batch, &shape.m, &shape.n, &shape.k};
    const int most = seed % 3 == 0 ? 40 : 5;
    for (auto* axes : classes) {
      axes->resize(static_cast<size_t>(pick(axes == &shape.batch ? 2 : 3)));
      for (Axis& axis : *axes) axis.extent = 1 + pick(most);
    }
    const std::vector<std::vector<Axis>*> in[3] = {{&shape.batch, &shape.m, &shape.k},
                                                   {&shape.batch, &shape.k, &shape.n},
                                                   {&shape.batch, &shape.m, &shape.n}};
    for (size_t b = 0; b < 3; ++b) {
      std::vector<Axis*> order;
      for (auto* axes : in[b]) {
        for (Axis& axis : *axes) order.push_back(&axis);
      }
      if (seed % 2 == 1) std::shuffle(order.begin(), order.end(), random);
      for (size_t i = order.size(); i-- > 0;) {
        order[i]->strides[b] = elements[b];
        elements[b] *= order[i]->extent;
      }
    }
  }
};

template <typename T>
void CheckAgainstLoops(unsigned seed, double tolerance) {
  const RandomGemm g(seed);
  std::mt19937 random(seed);
  std::uniform_real_distribution<T> value(-1, 1);
  std::vector<T> buffers[3];
  for (size_t b = 0; b < 3; ++b) {
    buffers[b].resize(static_cast<size_t>(g.elements[b]));
    for (T& v : buffers[b]) v = value(random);
  }
  std::vector<double> expected(buffers[2].size(), 0);
  std::vector<Axis> all;
  for (const auto* axes : {&g.shape.batch, &g.shape.m, &g.shape.n, &g.shape.k}) {
    all.insert(all.end(), axes->begin(), axes->end());
  }
  ForEachPoint(all, [&](int64_t a, int64_t b, int64_t c) {
    expected[static_cast<size_t>(c)] += static_cast<double>(buffers[0][static_cast<size_t>(a)]) *
                                        static_cast<double>(buffers[1][static_cast<size_t>(b)]);
  });
  GemmKernel<T> kernel(g.shape);
  CAPTURE(seed, kernel.packed(), kernel.calls());
  // Twice: nothing of a run is left over.
  for (int run = 0; run < 2; ++run) {
    REQUIRE(kernel.Run(buffers[0].data(), buffers[1].data(), buffers[2].data()).ok());
    double worst = 0;
    for (size_t i = 0; i < expected.size(); ++i) {
      worst = std::max(worst, std::abs(static_cast<double>(buffers[2][i]) - expected[i]));
    }
    REQUIRE(worst <= tolerance * static_cast<double>(Elements(g.shape.k)));
  }
}

TEST_CASE("Contractions of any axes in any order equal plain loops") {
  for (unsigned seed = 0; seed < 150; ++seed) {
    CheckAgainstLoops<double>(seed, 1e-15);
    CheckAgainstLoops<float>(seed, 1e-6);
  }
}

Axis Moves(int64_t extent, int64_t a, int64_t b, int64_t c) { return {extent, {a, b, c}}; }

TEST_CASE("Operands that the library reads are used in place, in one call") {
  SECTION("plain") {
    const GemmKernel<float> kernel(
        {{}, {Moves(8, 16, 0, 4)}, {Moves(4, 0, 1, 1)}, {Moves(16, 1, 4, 0)}});
    CHECK(kernel.packed().empty());
    CHECK(kernel.calls() == 1);
  }
  SECTION("transposed, and a batch dim that is only rows") {
    const GemmKernel<float> kernel({{},
                                    {Moves(2, 128, 0, 32), Moves(8, 16, 0, 4)},
                                    {Moves(4, 0, 16, 1)},
                                    {Moves(16, 1, 1, 0)}});
    CHECK(kernel.packed().empty());
    CHECK(kernel.calls() == 1);
  }
  SECTION("written by columns") {
    const GemmKernel<double> kernel(
        {{}, {Moves(8, 16, 0, 1)}, {Moves(4, 0, 1, 8)}, {Moves(16, 1, 4, 0)}});
    CHECK(kernel.packed().empty());
  }
  SECTION("heads between rows and columns: one call a head") {
    const GemmKernel<double> kernel({{Moves(3, 64, 64, 10000)},
                                     {Moves(100, 192, 0, 100)},
                                     {Moves(100, 0, 192, 1)},
                                     {Moves(64, 1, 1, 0)}});
    CHECK(kernel.packed().empty());
    CHECK(kernel.calls() == 3);
  }
}

TEST_CASE("What a library cannot read is copied first") {
  // Every other element of a.
  const GemmKernel<float> kernel(
      {{}, {Moves(8, 32, 0, 4)}, {Moves(4, 0, 1, 1)}, {Moves(16, 2, 4, 0)}});
  CHECK(kernel.packed() == "a");
  // Tiny blocks between outer axes: all copied into one matrix each.
  const GemmKernel<float> tiny({{},
                                {Moves(100, 8, 0, 8), Moves(2, 2, 0, 2)},
                                {Moves(2, 0, 2, 1), Moves(2, 0, 1, 4)},
                                {Moves(2, 1, 4, 0), Moves(2, 4, 8, 0)}});
  CHECK(tiny.packed() == "abc");
  CHECK(tiny.calls() == 1);
}

}  // namespace
}  // namespace tandem
