// Runs block kernels.
#include <algorithm>
#include <cmath>
#include <cstring>

#include "absl/strings/str_cat.h"
#include "pcg/kernel/block_kernel.h"

namespace tandem {
namespace {

uint64_t Mix(uint64_t x) {  // SplitMix64 (Steele, Lea, Flood 2014)
  x += 0x9e3779b97f4a7c15ULL;
  x = (x ^ (x >> 30)) * 0xbf58476d1ce4e5b9ULL;
  x = (x ^ (x >> 27)) * 0x94d049bb133111ebULL;
  return x ^ (x >> 31);
}

uint64_t Integer(double value) { return static_cast<uint64_t>(static_cast<int64_t>(value)); }

template <typename T>
class Machine {
 public:
  Machine(const BlockKernel& kernel, const NestStages& stages, const std::vector<T*>& arrays)
      : kernel_(kernel),
        stages_(stages),
        arrays_(arrays),
        registers_(static_cast<size_t>(kernel.registers * kBlock)) {
    for (const auto& [reg, value] : kernel.constants) std::fill_n(Reg(reg), kBlock, value);
    position_.resize(kernel.loops.size(), 0);
  }

  absl::Status Run(const std::vector<OuterRange>& outer) {
    if (outer.empty()) Initialise();
    return Loop(0, outer);
  }

 private:
  double* Reg(int id) { return registers_.data() + id * kBlock; }
  T* Array(int tensor) const { return arrays_[static_cast<size_t>(tensor)]; }

  void Initialise() {
    if (kernel_.reduction == NestReduction::kNone) return;
    const int64_t elements = stages_.tensors[static_cast<size_t>(kernel_.out.tensor)].elements;
    const bool argmax = kernel_.reduction == NestReduction::kArgMax;
    std::fill_n(Array(kernel_.out.tensor), elements,
                argmax ? T(0) : static_cast<T>(Identity(kernel_.reduction)));
    if (argmax) best_.assign(static_cast<size_t>(elements), Identity(kernel_.reduction));
  }

  absl::Status Loop(size_t level, const std::vector<OuterRange>& outer) {
    if (level + 1 == kernel_.loops.size()) return Innermost();
    const OuterRange range =
        level < outer.size() ? outer[level] : OuterRange{0, kernel_.loops[level].extent};
    for (int64_t i = range.begin; i < range.end; ++i) {
      position_[level] = i;
      absl::Status status = Loop(level + 1, outer);
      if (!status.ok()) return status;
    }
    return absl::OkStatus();
  }

  absl::Status Innermost() {
    const int64_t extent = kernel_.loops.back().extent;
    for (int64_t start = 0; start < extent; start += kBlock) {
      position_.back() = start;
      lanes_ = std::min(kBlock, extent - start);
      if (!Execute()) {
        return absl::OutOfRangeError(absl::StrCat(
            "reads '", stages_.tensors[static_cast<size_t>(failed_)].name, kernel_.error));
      }
    }
    return absl::OkStatus();
  }

  int64_t At(const LoopAffine& affine) const {
    int64_t value = affine.base;
    for (size_t l = 0; l < position_.size(); ++l) value += affine.coefficients[l] * position_[l];
    return value;
  }

  // False: a read out of range. True with nothing stored: the guard fails for the whole block.
  bool Execute() {
    for (const BlockInstruction& instruction : kernel_.code) {
      const int64_t n = instruction.uniform ? 1 : lanes_;
      switch (instruction.kind) {
        case BlockInstruction::Kind::kOp:
          Op(instruction, n);
          break;
        case BlockInstruction::Kind::kLoad:
          if (!Load(kernel_.accesses[static_cast<size_t>(instruction.table)], Reg(instruction.dst),
                    n)) {
            return false;
          }
          break;
        case BlockInstruction::Kind::kIota: {
          const LoopAffine& affine = kernel_.affines[static_cast<size_t>(instruction.table)];
          const int64_t start = At(affine), step = affine.coefficients.back();
          double* dst = Reg(instruction.dst);
          for (int64_t i = 0; i < n; ++i) dst[i] = static_cast<double>(start + i * step);
          break;
        }
        case BlockInstruction::Kind::kBroadcast:
          std::fill_n(Reg(instruction.dst), lanes_, Reg(instruction.a)[0]);
          break;
        case BlockInstruction::Kind::kSkip:
          if (Reg(instruction.a)[0] == 0) return true;
          break;
      }
    }
    Store();
    return true;
  }

  template <typename F>
  void Map(const BlockInstruction& instruction, int64_t n, F f) {
    const double* a = Reg(instruction.a);
    double* dst = Reg(instruction.dst);
    for (int64_t i = 0; i < n; ++i) dst[i] = f(a[i]);
  }
  template <typename F>
  void Zip(const BlockInstruction& instruction, int64_t n, F f) {
    const double* a = Reg(instruction.a);
    const double* b = Reg(instruction.b);
    double* dst = Reg(instruction.dst);
    for (int64_t i = 0; i < n; ++i) dst[i] = f(a[i], b[i]);
  }

  void Op(const BlockInstruction& in, int64_t n) {
    switch (in.op) {
      case NestOp::kAdd:
        return Zip(in, n, [](double a, double b) { return a + b; });
      case NestOp::kSub:
        return Zip(in, n, [](double a, double b) { return a - b; });
      case NestOp::kMul:
        return Zip(in, n, [](double a, double b) { return a * b; });
      case NestOp::kDiv:
        return Zip(in, n, [](double a, double b) { return a / b; });
      case NestOp::kFloorDiv:
        return Zip(in, n, [](double a, double b) { return std::floor(a / b); });
      case NestOp::kMod:
        return Zip(in, n, [](double a, double b) { return a - std::floor(a / b) * b; });
      case NestOp::kPow:
        return Zip(in, n, [](double a, double b) { return std::pow(a, b); });
      case NestOp::kMax:
        return Zip(in, n, [](double a, double b) { return b > a || b != b ? b : a; });
      case NestOp::kMin:
        return Zip(in, n, [](double a, double b) { return b < a || b != b ? b : a; });
      case NestOp::kEq:
        return Zip(in, n, [](double a, double b) { return a == b ? 1.0 : 0.0; });
      case NestOp::kNe:
        return Zip(in, n, [](double a, double b) { return a != b ? 1.0 : 0.0; });
      case NestOp::kLt:
        return Zip(in, n, [](double a, double b) { return a < b ? 1.0 : 0.0; });
      case NestOp::kLe:
        return Zip(in, n, [](double a, double b) { return a <= b ? 1.0 : 0.0; });
      case NestOp::kGt:
        return Zip(in, n, [](double a, double b) { return a > b ? 1.0 : 0.0; });
      case NestOp::kGe:
        return Zip(in, n, [](double a, double b) { return a >= b ? 1.0 : 0.0; });
      case NestOp::kAnd:
        return Zip(in, n, [](double a, double b) { return a * b; });
      case NestOp::kOr:
        return Zip(in, n, [](double a, double b) { return a > b ? a : b; });
      case NestOp::kInRange:
        return Zip(in, n, [](double a, double b) {
          return a >= 0 && a < b && a == std::floor(a) ? 1.0 : 0.0;
        });
      case NestOp::kNeg:
        return Map(in, n, [](double a) { return -a; });
      case NestOp::kNot:
        return Map(in, n, [](double a) { return 1 - a; });
      case NestOp::kExp:
        return Map(in, n, [](double a) { return std::exp(a); });
      case NestOp::kLog:
        return Map(in, n, [](double a) { return std::log(a); });
      case NestOp::kSqrt:
        return Map(in, n, [](double a) { return std::sqrt(a); });
      case NestOp::kRsqrt:
        return Map(in, n, [](double a) { return 1 / std::sqrt(a); });
      case NestOp::kTanh:
        return Map(in, n, [](double a) { return std::tanh(a); });
      case NestOp::kErf:
        return Map(in, n, [](double a) { return std::erf(a); });
      case NestOp::kSin:
        return Map(in, n, [](double a) { return std::sin(a); });
      case NestOp::kCos:
        return Map(in, n, [](double a) { return std::cos(a); });
      case NestOp::kAbs:
        return Map(in, n, [](double a) { return std::abs(a); });
      case NestOp::kSign:
        return Map(in, n, [](double a) { return a > 0 ? 1.0 : a < 0 ? -1.0 : a; });
      case NestOp::kFloor:
        return Map(in, n, [](double a) { return std::floor(a); });
      case NestOp::kIsNan:
        return Map(in, n, [](double a) { return a != a ? 1.0 : 0.0; });
      case NestOp::kSelect: {
        const double* c = Reg(in.a);
        const double* a = Reg(in.b);
        const double* b = Reg(in.c);
        double* dst = Reg(in.dst);
        for (int64_t i = 0; i < n; ++i) dst[i] = c[i] != 0 ? a[i] : b[i];
        return;
      }
      case NestOp::kUniform: {
        const std::vector<int>& list = kernel_.lists[static_cast<size_t>(in.table)];
        double* dst = Reg(in.dst);
        counters_.resize(list.size());
        for (int64_t i = 0; i < n; ++i) {
          for (size_t k = 0; k < list.size(); ++k) counters_[k] = Reg(list[k])[i];
          dst[i] = UniformHash(counters_[0], counters_.data() + 1, list.size() - 1);
        }
        return;
      }
      case NestOp::kConst:
      case NestOp::kAffine:
      case NestOp::kRead:
        return;  // not instructions
    }
  }

  static int64_t CeilDiv(int64_t a, int64_t b) { return a >= 0 ? (a + b - 1) / b : -((-a) / b); }

  // Lanes in which all checked dims are in range.
  void ValidLanes(const BlockAccess& access, int64_t n, int64_t& low, int64_t& high) const {
    low = 0;
    high = n;
    for (const BlockAccess::Checked& checked : access.checked) {
      const int64_t start = At(checked.index), step = checked.index.coefficients.back();
      if (step == 0) {
        if (start < 0 || start >= checked.extent) high = 0;
      } else if (step > 0) {
        low = std::max(low, CeilDiv(-start, step));
        high = std::min(high, CeilDiv(checked.extent - start, step));
      } else {
        low = std::max(low, CeilDiv(start - checked.extent + 1, -step));
        high = std::min(high, CeilDiv(start + 1, -step));
      }
    }
    low = std::min(low, n);
    if (high < low) high = low;
  }

  bool Miss(const BlockAccess& access, double* dst, int64_t lane) {
    if (access.otherwise >= 0) {
      dst[lane] = Reg(access.otherwise)[lane];
      return true;
    }
    dst[lane] = 0;
    return access.lenient || (access.mask >= 0 && Reg(access.mask)[lane] == 0);
  }

  bool Load(const BlockAccess& access, double* dst, int64_t n) {
    const int64_t offset = At(access.offset), stride = access.offset.coefficients.back();
    const T* from = Array(access.tensor);
    int64_t low = 0, high = n;
    failed_ = access.tensor;
    if (!access.checked.empty()) ValidLanes(access, n, low, high);
    if (!access.gathered.empty()) {
      // An access may write the register of its own index: read lane by lane, in order.
      for (int64_t i = 0; i < n; ++i) {
        int64_t at = offset + i * stride;
        bool hit = i >= low && i < high;
        for (const BlockAccess::Gathered& gathered : access.gathered) {
          const double index = Reg(gathered.reg)[i];
          hit = hit && index >= 0 && index < static_cast<double>(gathered.extent);
          if (hit) at += static_cast<int64_t>(index) * gathered.stride;
        }
        if (hit) {
          dst[i] = static_cast<double>(from[at]);
        } else if (!Miss(access, dst, i)) {
          return false;
        }
      }
      return true;
    }
    const T* src = from + offset;
    if (stride == 1) {
      for (int64_t i = low; i < high; ++i) dst[i] = static_cast<double>(src[i]);
    } else {
      for (int64_t i = low; i < high; ++i) dst[i] = static_cast<double>(src[i * stride]);
    }
    for (int64_t i = 0; i < low; ++i) {
      if (!Miss(access, dst, i)) return false;
    }
    for (int64_t i = high; i < n; ++i) {
      if (!Miss(access, dst, i)) return false;
    }
    return true;
  }

  double Combine(double a, double b) const {
    switch (kernel_.reduction) {
      case NestReduction::kSum:
        return a + b;
      case NestReduction::kProd:
        return a * b;
      case NestReduction::kMax:
        return b > a || b != b ? b : a;
      case NestReduction::kMin:
        return b < a || b != b ? b : a;
      default:
        return b;
    }
  }

  double ReduceLanes(const double* value) const {
    if (kernel_.reduction ==
        NestReduction::kSum) {  // four sums: the adder's latency, not the order
      double sums[4] = {0, 0, 0, 0};
      int64_t i = 0;
      for (; i + 4 <= lanes_; i += 4) {
        for (int64_t k = 0; k < 4; ++k) sums[k] += value[i + k];
      }
      for (; i < lanes_; ++i) sums[i & 3] += value[i];
      return (sums[0] + sums[1]) + (sums[2] + sums[3]);
    }
    double total = Identity(kernel_.reduction);
    for (int64_t i = 0; i < lanes_; ++i) total = Combine(total, value[i]);
    return total;
  }

  void Store() {
    const int64_t offset = At(kernel_.out.offset), stride = kernel_.out.offset.coefficients.back();
    const double* value = Reg(kernel_.value);
    T* to = Array(kernel_.out.tensor) + offset;
    if (!kernel_.out.gathered.empty() || kernel_.store_mask >= 0)
      return Scatter(value, offset, stride);
    if (kernel_.reduction == NestReduction::kArgMax) return StoreArgMax(value, offset, stride);
    if (kernel_.reduction == NestReduction::kNone) {
      for (int64_t i = 0; i < lanes_; ++i) to[i * stride] = static_cast<T>(value[i]);
    } else if (stride == 0) {
      *to = static_cast<T>(Combine(static_cast<double>(*to), ReduceLanes(value)));
    } else if (kernel_.reduction == NestReduction::kSum) {
      for (int64_t i = 0; i < lanes_; ++i) {
        to[i * stride] = static_cast<T>(static_cast<double>(to[i * stride]) + value[i]);
      }
    } else {
      for (int64_t i = 0; i < lanes_; ++i) {
        to[i * stride] = static_cast<T>(Combine(static_cast<double>(to[i * stride]), value[i]));
      }
    }
  }

  void Scatter(const double* value, int64_t offset, int64_t stride) {
    T* to = Array(kernel_.out.tensor);
    const double* mask = kernel_.store_mask >= 0 ? Reg(kernel_.store_mask) : nullptr;
    for (int64_t i = 0; i < lanes_; ++i) {
      if (mask != nullptr && mask[i] == 0) continue;
      int64_t at = offset + i * stride;
      for (const BlockAccess::Gathered& gathered : kernel_.out.gathered) {
        at += static_cast<int64_t>(Reg(gathered.reg)[i]) * gathered.stride;
      }
      to[at] = static_cast<T>(Combine(static_cast<double>(to[at]), value[i]));
    }
  }

  void StoreArgMax(const double* value, int64_t offset, int64_t stride) {
    T* to = Array(kernel_.out.tensor);
    const double* position = Reg(kernel_.position);
    for (int64_t i = 0; i < lanes_; ++i) {
      const size_t at = static_cast<size_t>(offset + i * stride);
      // Positions ascend within each output, so `>` keeps the lowest of equals; -inf keeps the
      // first.
      if (!(value[i] > best_[at])) continue;
      best_[at] = value[i];
      to[at] = static_cast<T>(position[i]);
    }
  }

  const BlockKernel& kernel_;
  const NestStages& stages_;
  const std::vector<T*>& arrays_;
  std::vector<double> registers_;
  std::vector<int64_t> position_;
  std::vector<double> counters_;
  std::vector<double> best_;
  int64_t lanes_ = 0;
  int failed_ = -1;
};

}  // namespace

double UniformHash(double seed, const double* counters, size_t count) {
  uint64_t state = Mix(Integer(seed));
  for (size_t i = 0; i < count; ++i) state = Mix(state ^ Integer(counters[i]));
  return static_cast<double>(state >> 11) * 0x1p-53;
}

template <typename T>
absl::Status RunBlockKernel(const BlockKernel& kernel, const NestStages& stages,
                            const std::vector<T*>& arrays, const std::vector<OuterRange>& outer) {
  return Machine<T>(kernel, stages, arrays).Run(outer);
}

template absl::Status RunBlockKernel<double>(const BlockKernel&, const NestStages&,
                                             const std::vector<double*>&,
                                             const std::vector<OuterRange>&);
template absl::Status RunBlockKernel<float>(const BlockKernel&, const NestStages&,
                                            const std::vector<float*>&,
                                            const std::vector<OuterRange>&);

}  // namespace tandem
