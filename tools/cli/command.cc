#include "tools/cli/command.h"

#include <cmath>
#include <iostream>

#include "absl/strings/escaping.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"

namespace tandem::cli {

int Fail(const absl::Status& status) {
  std::cerr << "tandem: " << status.message() << "\n";
  switch (status.code()) {
    case absl::StatusCode::kResourceExhausted:
    case absl::StatusCode::kCancelled:
      return kNo;
    case absl::StatusCode::kInternal:
    case absl::StatusCode::kUnknown:
      return kInternal;
    default:
      return kBadInput;
  }
}

std::string JsonText(const nlohmann::ordered_json& json) {
  return json.dump(2, ' ', false, nlohmann::ordered_json::error_handler_t::replace) + "\n";
}

namespace {

CLI::Validator AtLeast(int64_t least) {
  return CLI::Validator(
      [least](std::string& text) {
        int64_t value = 0;
        if (absl::SimpleAtoi(text, &value) && value >= least) return std::string();
        return absl::StrCat("'", absl::CEscape(text), "' is not a whole number of at least ",
                            least);
      },
      "");
}

}  // namespace

CLI::Validator AtLeastZero() { return AtLeast(0); }
CLI::Validator AtLeastOne() { return AtLeast(1); }

CLI::Validator AboveZero() {
  return CLI::Validator(
      [](std::string& text) {
        double value = 0;
        if (absl::SimpleAtod(text, &value) && std::isfinite(value) && value > 0) {
          return std::string();
        }
        return absl::StrCat("'", absl::CEscape(text), "' is not a finite number above 0");
      },
      "");
}

CLI::Validator NotEmpty() {
  return CLI::Validator(
      [](std::string& text) { return std::string(text.empty() ? "it is empty" : ""); }, "");
}

CLI::Option* AddRepeated(CLI::App& command, const std::string& name,
                         std::vector<std::string>& values, const std::string& description) {
  return command.add_option(name, values, description + "; may be given several times")
      ->allow_extra_args(false);
}

}  // namespace tandem::cli
