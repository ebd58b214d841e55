#include "tools/report/markup.h"

#include <algorithm>
#include <cmath>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "pcg/io/utf8.h"

namespace tandem::report {
namespace {

// Three significant digits, no exponent.
std::string Digits(double value) {
  const double magnitude = std::fabs(value);
  if (magnitude >= 99.95) return absl::StrFormat("%.0f", value);
  if (magnitude >= 9.995) return absl::StrFormat("%.1f", value);
  return absl::StrFormat("%.2f", value);
}

}  // namespace

std::string Escaped(absl::string_view text) {
  std::string out;
  out.reserve(text.size());
  for (char c : ValidUtf8(text)) {
    switch (c) {
      case '&':
        out += "&amp;";
        break;
      case '<':
        out += "&lt;";
        break;
      case '>':
        out += "&gt;";
        break;
      case '"':
        out += "&quot;";
        break;
      case '\'':
        out += "&#39;";
        break;
      default: {
        const unsigned char u = static_cast<unsigned char>(c);
        const bool control = (u < 0x20 && c != '\n' && c != '\t') || u == 0x7f;
        out += control ? "\xef\xbf\xbd" : std::string(1, c);
      }
    }
  }
  return out;
}

std::string ScriptJson(const nlohmann::ordered_json& json) {
  const std::string text =
      json.dump(-1, ' ', /*ensure_ascii=*/true, nlohmann::ordered_json::error_handler_t::replace);
  std::string out;
  out.reserve(text.size());
  for (char c : text) {
    // Only strings contain these, and there the escape means the same.
    if (c == '<') {
      out += "\\u003c";
    } else if (c == '>') {
      out += "\\u003e";
    } else if (c == '&') {
      out += "\\u0026";
    } else {
      out += c;
    }
  }
  return out;
}

std::string Seconds(double seconds) {
  if (!std::isfinite(seconds)) return "not known";
  const double magnitude = std::fabs(seconds);
  if (magnitude == 0) return "0 s";
  if (magnitude >= 0.9995) return Digits(seconds) + " s";
  if (magnitude >= 0.9995e-3) return Digits(seconds * 1e3) + " ms";
  if (magnitude >= 0.9995e-6) return Digits(seconds * 1e6) + " µs";
  return Digits(seconds * 1e9) + " ns";
}

std::string Bytes(double bytes) {
  if (!std::isfinite(bytes)) return "not known";
  const char* units[] = {"B", "KiB", "MiB", "GiB", "TiB", "PiB"};
  size_t unit = 0;
  while (std::fabs(bytes) >= 1023.5 && unit + 1 < std::size(units)) {
    bytes /= 1024;
    ++unit;
  }
  return unit == 0 ? absl::StrFormat("%.0f B", bytes) : Digits(bytes) + " " + units[unit];
}

std::string Count(double count) {
  if (!std::isfinite(count)) return "not known";
  const char* units[] = {"", " k", " M", " G", " T", " P"};
  size_t unit = 0;
  while (std::fabs(count) >= 999.5 && unit + 1 < std::size(units)) {
    count /= 1000;
    ++unit;
  }
  if (unit == 0 && count == std::floor(count)) return absl::StrFormat("%.0f", count);
  return Digits(count) + units[unit];
}

std::string Percent(double fraction) {
  if (!std::isfinite(fraction)) return "not known";
  return absl::StrFormat(std::fabs(fraction) < 0.0995 ? "%.2f%%" : "%.1f%%", 100 * fraction);
}

std::string Width(double part, double whole) {
  const double share = whole > 0 && std::isfinite(part) ? 100 * part / whole : 0;
  return absl::StrFormat("%.3f%%", std::clamp(share, 0.0, 100.0));
}

double NumberOr(const nlohmann::ordered_json& json, const char* key, double otherwise) {
  if (!json.is_object()) return otherwise;
  const auto it = json.find(key);
  return it != json.end() && it->is_number() ? it->get<double>() : otherwise;
}

std::string TextOr(const nlohmann::ordered_json& json, const char* key,
                   const std::string& otherwise) {
  if (!json.is_object()) return otherwise;
  const auto it = json.find(key);
  return it != json.end() && it->is_string() ? it->get<std::string>() : otherwise;
}

}  // namespace tandem::report
