#include "pcg/graph/initializer.h"

#include <algorithm>
#include <cmath>
#include <optional>
#include <vector>

#include "absl/status/status.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "absl/strings/strip.h"

namespace tandem {
namespace {

using Kind = Initializer::Kind;

// The numbers between "(" and ")"; empty where some is none.
std::vector<double> Numbers(absl::string_view list) {
  std::vector<double> numbers;
  if (!absl::ConsumePrefix(&list, "(") || !absl::ConsumeSuffix(&list, ")")) return numbers;
  for (absl::string_view part : absl::StrSplit(list, ',')) {
    double value = 0;
    if (!absl::SimpleAtod(part, &value) || !std::isfinite(value)) return {};
    numbers.push_back(value);
  }
  return numbers;
}

std::optional<Initializer> Parsed(absl::string_view text) {
  const size_t open = std::min(text.find('('), text.size());
  const absl::string_view name = text.substr(0, open);
  const std::vector<double> numbers = Numbers(text.substr(open));
  if (name == "constant" && numbers.size() == 1) return Initializer{Kind::kConstant, numbers[0], 0};
  if (name == "normal" && numbers.size() == 1) return Initializer{Kind::kNormal, 0, numbers[0]};
  if ((name == "normal" || name == "uniform") && numbers.size() == 2) {
    return Initializer{name == "normal" ? Kind::kNormal : Kind::kUniform, numbers[0], numbers[1]};
  }
  return std::nullopt;
}

}  // namespace

absl::StatusOr<Initializer> ParseInitializer(absl::string_view text) {
  const std::optional<Initializer> parsed = Parsed(text);
  if (parsed) return *parsed;
  return absl::InvalidArgumentError(
      absl::StrCat("initializer '", text,
                   "' is not constant(value), normal(deviation), normal(mean,deviation) or "
                   "uniform(low,high) of finite numbers"));
}

}  // namespace tandem
