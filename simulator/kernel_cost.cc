#include "simulator/kernel_cost.h"

#include <algorithm>
#include <cmath>

namespace tandem {
namespace {

double SmoothMax(double a, double b, double q) {
  // Factored by the larger, so that neither power under- or overflows.
  const double high = std::max(a, b);
  if (high <= 0) return 0;
  return high * std::pow(1 + std::pow(std::min(a, b) / high, q), 1 / q);
}

// Elements of a 16-byte line, which tensor-core loads want contiguous dimensions to be multiples
// of.
int64_t FragmentElements(Precision precision) {
  switch (precision) {
    case Precision::kFp64:
    case Precision::kFp32:
      return 1;  // No tensor-core layout is needed, or none is used.
    case Precision::kTf32:
      return 4;
    case Precision::kBf16:
    case Precision::kFp16:
      return 8;
    case Precision::kFp8:
      return 16;
  }
  return 1;
}

// n and k are contiguous in some operand; m never is.
bool Aligned(const KernelShape& shape) {
  const int64_t fragment = FragmentElements(shape.precision);
  return shape.gemm_n % fragment == 0 && shape.gemm_k % fragment == 0;
}

double Bytes(const KernelShape& shape) { return shape.bytes_read + shape.bytes_written; }

const ContractionRate& RateOf(const Device& device, Precision precision) {
  return device.contraction[static_cast<int>(precision)];
}

double ContractionSeconds(const Device& device, const KernelShape& shape) {
  const ContractionRate& rate = RateOf(device, shape.precision);
  double flops_per_second = rate.flops_per_second * device.sustained_fraction;
  if (shape.kind == KernelKind::kConv) flops_per_second *= rate.conv_fraction;
  if (!Aligned(shape) && rate.peak_flops > 0) flops_per_second *= device.unaligned_fraction;
  return rate.launch_seconds + SmoothMax(shape.flops / flops_per_second,
                                         Bytes(shape) / rate.bytes_per_second, rate.smoothness);
}

double AttentionSeconds(const Device& device, const KernelShape& shape) {
  const AttentionRate& rate = device.attention;
  const double sixteen_bit = std::max(RateOf(device, Precision::kBf16).flops_per_second,
                                      RateOf(device, Precision::kFp16).flops_per_second);
  double flops_per_second =
      rate.flops_per_second *
      std::min(1.0, RateOf(device, shape.precision).flops_per_second / sixteen_bit);
  if (shape.backward) flops_per_second *= rate.backward_fraction;
  double used = 1;
  double ramp = 1;
  if (shape.head_dim > 0) {  // The extents are known.
    // Small heads fill the units less: 0.80 at 64 (H100) by the exponent.
    flops_per_second *= std::min(1.0, std::pow(static_cast<double>(shape.head_dim) / 128, 0.32));
    if (shape.head_dim % FragmentElements(shape.precision) != 0) {
      flops_per_second *= device.unaligned_fraction;
    }
    ramp =
        1 + rate.half_rate_sequence / static_cast<double>(std::max<int64_t>(shape.key_length, 1));
    // One block of 128 queries of a head on a compute unit at a time; the last wave may be partly
    // empty.
    const double blocks =
        std::max(1.0, static_cast<double>(shape.attention_batch * shape.attention_heads) *
                          std::ceil(static_cast<double>(shape.query_length) / 128));
    used = blocks / (std::ceil(blocks / device.compute_units) * device.compute_units);
  }
  const double compute = shape.flops / flops_per_second * ramp / std::pow(used, 0.7);
  return rate.launch_seconds +
         SmoothMax(compute, Bytes(shape) / rate.bytes_per_second, rate.smoothness);
}

double MemoryBoundSeconds(const Device& device, const KernelShape& shape) {
  const KernelKindRate& rate = device.kind[static_cast<int>(shape.kind)];
  const double flops_per_second =
      shape.precision == Precision::kFp64 ? device.vector_flops_fp64 : device.vector_flops_fp32;
  return rate.launch_seconds + SmoothMax(shape.flops / flops_per_second,
                                         Bytes(shape) / (device.memory_bandwidth * rate.efficiency),
                                         3);
}

}  // namespace

double KernelSeconds(const Machine& machine, const KernelShape& shape) {
  switch (shape.kind) {
    case KernelKind::kGemm:
    case KernelKind::kConv:
      return ContractionSeconds(machine.device, shape);
    case KernelKind::kAttention:
      return AttentionSeconds(machine.device, shape);
    case KernelKind::kElementwise:
    case KernelKind::kNorm:
    case KernelKind::kSoftmax:
    case KernelKind::kEmbedding:
    case KernelKind::kOptimizer:
    case KernelKind::kReduction:
    case KernelKind::kPool:
    case KernelKind::kCopy:
      return MemoryBoundSeconds(machine.device, shape);
  }
  return 0;
}

KernelShape GemmShape(Precision precision, int64_t m, int64_t n, int64_t k, int64_t batch,
                      double element_bytes) {
  const double b = static_cast<double>(batch), dm = static_cast<double>(m),
               dn = static_cast<double>(n), dk = static_cast<double>(k);
  KernelShape shape;
  shape.kind = KernelKind::kGemm;
  shape.precision = precision;
  shape.flops = 2 * b * dm * dn * dk;
  shape.bytes_read = element_bytes * b * (dm * dk + dk * dn);
  shape.bytes_written = element_bytes * b * dm * dn;
  shape.gemm_batch = batch;
  shape.gemm_m = m;
  shape.gemm_n = n;
  shape.gemm_k = k;
  return shape;
}

KernelShape AttentionShape(Precision precision, int64_t batch, int64_t heads, int64_t query_length,
                           int64_t key_length, int64_t head_dim, bool causal, bool backward,
                           double element_bytes) {
  const double rows = static_cast<double>(batch) * static_cast<double>(heads);
  const double queries = static_cast<double>(query_length), keys = static_cast<double>(key_length),
               head = static_cast<double>(head_dim);
  KernelShape shape;
  shape.kind = KernelKind::kAttention;
  shape.precision = precision;
  shape.flops = 4 * rows * queries * keys * head * (causal ? 0.5 : 1) * (backward ? 2.5 : 1);
  const double query_bytes = element_bytes * rows * queries * head;
  const double key_bytes = element_bytes * rows * keys * head;
  // Forward: q, k, v in, o out. Backward: q, k, v, o and o's gradient in, those of q, k, v out.
  shape.bytes_read = backward ? 3 * query_bytes + 2 * key_bytes : query_bytes + 2 * key_bytes;
  shape.bytes_written = backward ? query_bytes + 2 * key_bytes : query_bytes;
  shape.attention_batch = batch;
  shape.attention_heads = heads;
  shape.query_length = query_length;
  shape.key_length = key_length;
  shape.head_dim = head_dim;
  shape.backward = backward;
  return shape;
}

KernelShape MemoryShape(KernelKind kind, double bytes_read, double bytes_written, double flops,
                        Precision precision) {
  KernelShape shape;
  shape.kind = kind;
  shape.precision = precision;
  shape.flops = flops;
  shape.bytes_read = bytes_read;
  shape.bytes_written = bytes_written;
  return shape;
}

}  // namespace tandem
