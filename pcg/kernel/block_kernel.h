// A stage as loops around a byte code on blocks of the innermost loop. Internal to loop_nest.
#ifndef TANDEM_PCG_KERNEL_BLOCK_KERNEL_H_
#define TANDEM_PCG_KERNEL_BLOCK_KERNEL_H_

#include <cstdint>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "pcg/kernel/nest_ir.h"

namespace tandem {

constexpr int64_t kBlock = 256;  // lanes of a register

// base + sum of coefficient * loop position, one coefficient a loop of the kernel.
struct LoopAffine {
  int64_t base = 0;
  std::vector<int64_t> coefficients;
};

struct BlockAccess {
  struct Checked {
    LoopAffine index;
    int64_t extent;
  };
  struct Gathered {
    int reg;
    int64_t stride;
    int64_t extent;
  };
  int tensor = -1;
  LoopAffine offset;               // flat, of the affine dims
  std::vector<Checked> checked;    // affine dims that may leave their range
  std::vector<Gathered> gathered;  // dims whose index is computed
  int otherwise = -1;              // register of the value out of range
  int mask = -1;                   // out of range is an error only where this register is not 0
  bool lenient = false;            // out of range is 0
};

struct BlockInstruction {
  enum class Kind : uint8_t { kOp, kLoad, kIota, kBroadcast, kSkip };
  Kind kind = Kind::kOp;
  NestOp op = NestOp::kConst;
  bool uniform = false;  // one lane only: the same in the whole innermost loop
  int dst = -1, a = -1, b = -1, c = -1;
  int table = -1;  // kLoad: access; kIota: affine; kUniform: argument list
  double number = 0;
};

struct BlockLoop {
  int var = -1;  // after merging: the minor variable
  int64_t extent = 1;
  bool reduction = false;
};

struct BlockKernel {
  std::vector<BlockLoop> loops;  // the last one is the innermost
  std::vector<BlockInstruction> code;
  std::vector<BlockAccess> accesses;
  std::vector<LoopAffine> affines;
  std::vector<std::vector<int>> lists;
  std::vector<std::pair<int, double>> constants;  // registers filled once
  int registers = 0;
  BlockAccess out;
  int value = -1;
  int position = -1;  // kArgMax
  int store_mask = -1;
  NestReduction reduction = NestReduction::kNone;  // how it accumulates; kNone = it stores
  std::string error;                               // what to say when a read is out of range
};

struct BlockOptions {
  // Loops that the caller drives: they come first, are never merged or innermost.
  std::vector<int> outer_vars;
};

BlockKernel CompileBlockKernel(const NestStages& stages, const NestStage& stage,
                               const BlockOptions& options = {});

// Ranges of the caller's outer loops.
struct OuterRange {
  int64_t begin = 0, end = 0;
};

// `arrays` by tensor index. Initialises the target where it accumulates (not with outer ranges).
template <typename T>
absl::Status RunBlockKernel(const BlockKernel& kernel, const NestStages& stages,
                            const std::vector<T*>& arrays,
                            const std::vector<OuterRange>& outer = {});

// A hash of the seed and the counters, as a number in [0, 1): SplitMix64's mixing function,
// chained.
double UniformHash(double seed, const double* counters, size_t count);

}  // namespace tandem

#endif  // TANDEM_PCG_KERNEL_BLOCK_KERNEL_H_
