#include "verifier/certificates/verdict.h"

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"

namespace tandem {

std::string ToString(const Counterexample& e) {
  std::string sizes;
  for (const auto& [name, value] : e.sizes) {
    absl::StrAppend(&sizes, sizes.empty() ? "" : " ", name, "=", value);
  }
  std::string text = absl::StrCat(e.what, " at ", sizes, ", degree ", e.degree);
  if (e.what == "value") {
    absl::StrAppend(&text, ", device ", e.device, ": ", e.tensor, "[", absl::StrJoin(e.index, ","),
                    "] is ", e.expected, ", the pieces give ", e.got, " (seed ", e.seed, ")");
  }
  return text;
}

std::string ToString(const Verdict& verdict) {
  if (IsProved(verdict)) return "proved";
  if (const auto* r = std::get_if<Refuted>(&verdict)) {
    return "refuted: " + ToString(r->counterexample);
  }
  return "unknown: " + std::get<Unknown>(verdict).reason;
}

}  // namespace tandem
