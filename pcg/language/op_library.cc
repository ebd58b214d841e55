#include <algorithm>
#include <cstdlib>
#include <iostream>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "pcg/language/op_parser.h"
#include "pcg/operators/builtin_operators.h"

namespace tandem {
namespace {

// Levenshtein distance, for "did you mean".
size_t EditDistance(absl::string_view a, absl::string_view b) {
  std::vector<size_t> row(b.size() + 1);
  for (size_t j = 0; j <= b.size(); ++j) row[j] = j;
  for (size_t i = 1; i <= a.size(); ++i) {
    size_t diagonal = row[0];
    row[0] = i;
    for (size_t j = 1; j <= b.size(); ++j) {
      const size_t substituted = diagonal + (a[i - 1] == b[j - 1] ? 0 : 1);
      diagonal = row[j];
      row[j] = std::min({substituted, row[j] + 1, row[j - 1] + 1});
    }
  }
  return row[b.size()];
}

}  // namespace

absl::Status OperatorLibrary::Add(OpSpec spec) {
  if (spec.text.empty()) spec.text = PrintOperator(spec);
  const auto it = specs_.find(spec.name);
  if (it == specs_.end()) {
    std::string name = spec.name;
    specs_.emplace(std::move(name), std::move(spec));
    return absl::OkStatus();
  }
  if (it->second.text == spec.text) return absl::OkStatus();
  return absl::AlreadyExistsError(absl::StrCat(spec.source, ": operator '", spec.name,
                                               "' differs from the one at ", it->second.source,
                                               "; give it another name"));
}

absl::Status OperatorLibrary::AddText(absl::string_view text, absl::string_view file) {
  auto specs = ParseOperators(text, file);
  if (!specs.ok()) return specs.status();
  for (OpSpec& spec : *specs) {
    absl::Status status = Add(std::move(spec));
    if (!status.ok()) return status;
  }
  return absl::OkStatus();
}

const OpSpec* OperatorLibrary::Find(absl::string_view name) const {
  const auto it = specs_.find(name);
  return it == specs_.end() ? nullptr : &it->second;
}

absl::StatusOr<const OpSpec*> OperatorLibrary::Get(absl::string_view name) const {
  if (const OpSpec* spec = Find(name)) return spec;
  std::vector<std::pair<size_t, std::string>> near;
  for (const auto& [candidate, spec] : specs_) {
    const size_t distance = EditDistance(name, candidate);
    if (distance <= 1 + candidate.size() / 3) near.emplace_back(distance, candidate);
  }
  std::sort(near.begin(), near.end());
  if (near.size() > 3) near.resize(3);
  const std::string hint =
      near.empty() ? "declare it in an operator file"
                   : absl::StrCat("did you mean ",
                                  absl::StrJoin(near, " or ",
                                                [](std::string* out, const auto& entry) {
                                                  absl::StrAppend(out, entry.second);
                                                }),
                                  "?");
  return absl::NotFoundError(absl::StrCat("unknown operator '", name, "'; ", hint));
}

const OperatorLibrary& BuiltinOperators() {
  static const auto* library = [] {
    auto* built = new OperatorLibrary;
    for (const EmbeddedFile& file : BuiltinOperatorFiles()) {
      const absl::Status status = built->AddText(file.text, file.name);
      if (!status.ok()) {
        std::cerr << "bug: a built-in operator does not parse: " << status.ToString() << std::endl;
        std::abort();
      }
    }
    return built;
  }();
  return *library;
}

}  // namespace tandem
