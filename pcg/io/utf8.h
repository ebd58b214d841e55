// Text that others will read as UTF-8: names come from files and may be any bytes.
#ifndef TANDEM_PCG_IO_UTF8_H_
#define TANDEM_PCG_IO_UTF8_H_

#include <string>

#include "absl/strings/string_view.h"

namespace tandem {

// `text` with every byte that starts no well-formed sequence (surrogates, overlong forms and
// numbers above U+10FFFF are none) replaced by U+FFFD.
std::string ValidUtf8(absl::string_view text);

}  // namespace tandem

#endif  // TANDEM_PCG_IO_UTF8_H_
