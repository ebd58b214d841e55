// Text of a page: escaping, and quantities as people read them. Everything that comes from a model,
// a machine or a rule goes through Escaped or ScriptJson; the rest of the folder concatenates.
#ifndef TANDEM_TOOLS_REPORT_MARKUP_H_
#define TANDEM_TOOLS_REPORT_MARKUP_H_

#include <cstdint>
#include <nlohmann/json.hpp>
#include <string>

#include "absl/strings/string_view.h"
#include "pcg/plural.h"

namespace tandem::report {

// For HTML and SVG text and attributes. Control characters, which HTML does not know, become
// U+FFFD.
std::string Escaped(absl::string_view text);

// JSON that can stand inside <script type="application/json">: no "<", no line separators, bytes
// that are not UTF-8 replaced.
std::string ScriptJson(const nlohmann::ordered_json& json);

// Three significant digits and a unit: "12.3 ms", "3.20 GiB", "1.25 M".
std::string Seconds(double seconds);
std::string Bytes(double bytes);
std::string Count(double count);
std::string Percent(double fraction);  // "42.1%"

// A length in CSS, in percent of the whole, never outside it.
std::string Width(double part, double whole);

// The summary's value if it is there and of that type.
double NumberOr(const nlohmann::ordered_json& json, const char* key, double otherwise);
std::string TextOr(const nlohmann::ordered_json& json, const char* key,
                   const std::string& otherwise);

}  // namespace tandem::report

#endif  // TANDEM_TOOLS_REPORT_MARKUP_H_
