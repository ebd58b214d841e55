// What is known of the adjoint of an operator's output where differentiation starts: a tensor, the
// constant 1 (the output is the loss itself), or 0 (no output of interest depends on it).
#ifndef TANDEM_PCG_AUTODIFF_GRADIENT_SEED_H_
#define TANDEM_PCG_AUTODIFF_GRADIENT_SEED_H_

#include <cstdint>

namespace tandem {

enum class GradientSeed : uint8_t { kGiven, kOne, kZero };

}  // namespace tandem

#endif  // TANDEM_PCG_AUTODIFF_GRADIENT_SEED_H_
