// Counts and sizes in sentences for people.
#ifndef TANDEM_PCG_PLURAL_H_
#define TANDEM_PCG_PLURAL_H_

#include <cstdint>
#include <string>

#include "absl/strings/string_view.h"

namespace tandem {

// "1 block", "2 blocks", "0 micro-batches": an s, or es after a hissing sound.
std::string Plural(int64_t count, absl::string_view one);

// "0.19 KiB", "384.00 MiB": in the largest unit, up to GiB, of which there is at least one.
std::string BytesText(int64_t bytes);

}  // namespace tandem

#endif  // TANDEM_PCG_PLURAL_H_
