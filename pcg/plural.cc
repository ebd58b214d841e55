#include "pcg/plural.h"

#include <iterator>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"

namespace tandem {

std::string Plural(int64_t count, absl::string_view one) {
  bool hisses = false;
  for (absl::string_view end : {"s", "x", "z", "ch", "sh"}) hisses |= absl::EndsWith(one, end);
  return absl::StrCat(count, " ", one, count == 1 ? "" : hisses ? "es" : "s");
}

std::string BytesText(int64_t bytes) {
  const char* const kUnits[] = {"KiB", "MiB", "GiB"};
  size_t unit = 0;
  double value = static_cast<double>(bytes) / 1024;
  while (unit + 1 < std::size(kUnits) && value >= 1024) {
    value /= 1024;
    ++unit;
  }
  return absl::StrFormat("%.2f %s", value, kUnits[unit]);
}

}  // namespace tandem
