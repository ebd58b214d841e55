#include "pcg/plural.h"

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"

namespace tandem {

std::string Plural(int64_t count, absl::string_view one) {
  bool hisses = false;
  for (absl::string_view end : {"s", "x", "z", "ch", "sh"}) hisses |= absl::EndsWith(one, end);
  return absl::StrCat(count, " ", one, count == 1 ? "" : hisses ? "es" : "s");
}

}  // namespace tandem
