#include "runtime/conv_kernel.h"

#include <catch2/catch.hpp>
#include <cmath>
#include <random>

namespace tandem {
namespace {

// A dense convolution of one to three spatial dims, and its definition as loops.
struct Case {
  ConvShape s;
  int64_t x_size = 1, f_size = 1, y_size = 1;
  explicit Case(unsigned seed) {
    std::mt19937 random(seed);
    const auto pick = [&](int64_t low, int64_t high) {
      return low + static_cast<int64_t>(random() % static_cast<unsigned>(high - low + 1));
    };
    s.batch = pick(1, 3), s.groups = pick(1, 3), s.in = pick(1, 4), s.out = pick(1, 4);
    s.spatial.resize(static_cast<size_t>(pick(1, 3)));
    for (ConvShape::Spatial& d : s.spatial) {
      d.x = pick(5, 9), d.taps = pick(1, 3), d.stride = pick(1, 3), d.dilation = pick(1, 2);
      d.pad = pick(0, d.taps - 1);
      d.y = (d.x + 2 * d.pad - d.dilation * (d.taps - 1) - 1) / d.stride + 1;
    }
    for (size_t i = s.spatial.size(); i-- > 0;) {
      ConvShape::Spatial& d = s.spatial[i];
      d.x_stride = x_size, d.tap_stride = f_size, d.y_stride = y_size;
      x_size *= d.x, f_size *= d.taps, y_size *= d.y;
    }
    s.x_channel_stride = x_size, s.y_channel_stride = y_size, s.f_in_stride = f_size;
    x_size *= s.groups * s.in, y_size *= s.groups * s.out, f_size *= s.in;
    s.x_batch_stride = x_size, s.y_batch_stride = y_size, s.f_out_stride = f_size;
    s.f_group_stride = f_size * s.out;
    x_size *= s.batch, y_size *= s.batch, f_size *= s.out * s.groups;
  }

  // f(x offset, f offset, y offset) for every product.
  template <typename F>
  void ForEach(F f) const {
    for (int64_t b = 0; b < s.batch; ++b) {
      for (int64_t g = 0; g < s.groups; ++g) {
        for (int64_t i = 0; i < s.in; ++i) {
          for (int64_t o = 0; o < s.out; ++o) {
            Spatial(0, b * s.x_batch_stride + (g * s.in + i) * s.x_channel_stride,
                    g * s.f_group_stride + o * s.f_out_stride + i * s.f_in_stride,
                    b * s.y_batch_stride + (g * s.out + o) * s.y_channel_stride, f);
          }
        }
      }
    }
  }
  template <typename F>
  void Spatial(size_t d, int64_t x, int64_t f, int64_t y, F call) const {
    if (d == s.spatial.size()) {
      call(static_cast<size_t>(x), static_cast<size_t>(f), static_cast<size_t>(y));
      return;
    }
    const ConvShape::Spatial& p = s.spatial[d];
    for (int64_t j = 0; j < p.y; ++j) {
      for (int64_t t = 0; t < p.taps; ++t) {
        const int64_t at = j * p.stride + t * p.dilation - p.pad;
        if (at < 0 || at >= p.x) continue;
        Spatial(d + 1, x + at * p.x_stride, f + t * p.tap_stride, y + j * p.y_stride, call);
      }
    }
  }
};

TEST_CASE("Convolutions and both gradients, with strides, pads, dilation and groups") {
  const auto target = GENERATE(ConvShape::Target::kY, ConvShape::Target::kX, ConvShape::Target::kF);
  for (unsigned seed = 0; seed < 25; ++seed) {
    Case c(seed);
    c.s.target = target;
    CAPTURE(seed, static_cast<int>(target));
    std::mt19937 random(seed);
    std::uniform_real_distribution<float> value(-1, 1);
    std::vector<float> buffers[3] = {std::vector<float>(static_cast<size_t>(c.x_size)),
                                     std::vector<float>(static_cast<size_t>(c.f_size)),
                                     std::vector<float>(static_cast<size_t>(c.y_size))};
    for (auto& buffer : buffers) {
      for (float& v : buffer) v = value(random);
    }
    const size_t written = target == ConvShape::Target::kY   ? 2
                           : target == ConvShape::Target::kX ? 0
                                                             : 1;
    std::vector<double> expected(buffers[written].size(), 0);
    c.ForEach([&](size_t x, size_t f, size_t y) {
      const size_t at[3] = {x, f, y};
      double product = 1;
      for (size_t b = 0; b < 3; ++b) {
        if (b != written) product *= static_cast<double>(buffers[b][at[b]]);
      }
      expected[at[written]] += product;
    });
    auto kernel = ConvKernel::Prepare(c.s);
    REQUIRE(kernel.ok());
    for (int run = 0; run < 2; ++run) {
      REQUIRE((*kernel)->Run(buffers[0].data(), buffers[1].data(), buffers[2].data()).ok());
      double worst = 0;
      for (size_t i = 0; i < expected.size(); ++i) {
        worst = std::max(worst, std::abs(expected[i] - static_cast<double>(buffers[written][i])));
      }
      CHECK(worst < 1e-4);
    }
  }
}

TEST_CASE("What oneDNN does not have is said when the kernel is prepared") {
  Case c(1);
  c.s.spatial[0].pad = -1;
  CHECK(ConvKernel::Prepare(c.s).status().code() == absl::StatusCode::kUnimplemented);
  c.s.spatial.clear();
  CHECK(ConvKernel::Prepare(c.s).status().code() == absl::StatusCode::kUnimplemented);
}

}  // namespace
}  // namespace tandem
