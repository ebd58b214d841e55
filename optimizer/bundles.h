// How small collectives are put together (pcg/program/bundle.h).
#ifndef TANDEM_OPTIMIZER_BUNDLES_H_
#define TANDEM_OPTIMIZER_BUNDLES_H_

#include <array>
#include <cstdint>

namespace tandem {

// What the search's tables take for granted: on the plateau of every preset's bandwidth curve, and
// small enough to leave before the backward pass ends.
inline constexpr int64_t kBundleBytes = 32 << 20;

// Tried on the Program of a chosen strategy; the best by the timeline is kept. Zero: every value by
// itself.
inline constexpr std::array<int64_t, 4> kBundleChoices = {kBundleBytes, 0, 8 << 20, 128 << 20};

}  // namespace tandem

#endif  // TANDEM_OPTIMIZER_BUNDLES_H_
