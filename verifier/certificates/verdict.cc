#include "verifier/certificates/verdict.h"

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"

namespace tandem {
namespace {

constexpr size_t kLongestLine = 200;

}  // namespace

std::string ToString(const Counterexample& e) {
  std::string sizes;
  for (const auto& [name, value] : e.sizes) {
    absl::StrAppend(&sizes, sizes.empty() ? "" : " ", name, "=", value);
  }
  std::string text = absl::StrCat(e.what, sizes.empty() ? "" : " at ", sizes);
  const bool split = e.degree > 1;
  if (split) absl::StrAppend(&text, ", degree ", e.degree);
  if (e.what != "value") return text;
  if (split) absl::StrAppend(&text, ", device ", e.device);
  absl::StrAppend(&text, ": ", e.tensor, "[", absl::StrJoin(e.index, ","), "] is ", e.expected,
                  split ? ", the pieces give " : ", the other side gives ", e.got, " (seed ",
                  e.seed, ")");
  for (size_t i = 0; i < e.given.size(); ++i) {
    const std::string next = absl::StrCat(i == 0 ? " for " : ", ", e.given[i]);
    if (text.size() + next.size() > kLongestLine) return absl::StrCat(text, ", ...");
    text += next;
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
