#include "substitutions/attr_expression.h"

#include <cctype>
#include <cstdlib>

namespace tandem {
namespace {

bool NameStart(char c) { return std::isalpha(static_cast<unsigned char>(c)) || c == '_'; }
bool NameChar(char c) { return std::isalnum(static_cast<unsigned char>(c)) || c == '_'; }

class Evaluator {
 public:
  Evaluator(absl::string_view text, const NameValue& value) : text_(text), value_(value) {}

  std::optional<double> All() {
    std::optional<double> v = Sum();
    Skip();
    return pos_ == text_.size() ? v : std::nullopt;
  }

 private:
  void Skip() {
    while (pos_ < text_.size() && text_[pos_] == ' ') ++pos_;
  }
  bool Take(char c) {
    Skip();
    if (pos_ >= text_.size() || text_[pos_] != c) return false;
    ++pos_;
    return true;
  }
  std::optional<double> Sum() {
    std::optional<double> v = Product();
    while (v) {
      if (Take('+')) {
        std::optional<double> w = Product();
        v = w ? std::optional<double>(*v + *w) : std::nullopt;
      } else if (Take('-')) {
        std::optional<double> w = Product();
        v = w ? std::optional<double>(*v - *w) : std::nullopt;
      } else {
        break;
      }
    }
    return v;
  }
  std::optional<double> Product() {
    std::optional<double> v = Unary();
    while (v) {
      if (Take('*')) {
        std::optional<double> w = Unary();
        v = w ? std::optional<double>(*v * *w) : std::nullopt;
      } else if (Take('/')) {
        std::optional<double> w = Unary();
        v = w && *w != 0 ? std::optional<double>(*v / *w) : std::nullopt;
      } else {
        break;
      }
    }
    return v;
  }
  std::optional<double> Unary() {
    if (Take('-')) {
      std::optional<double> v = Unary();
      return v ? std::optional<double>(-*v) : std::nullopt;
    }
    if (Take('(')) {
      std::optional<double> v = Sum();
      return Take(')') ? v : std::nullopt;
    }
    Skip();
    if (pos_ >= text_.size()) return std::nullopt;
    if (NameStart(text_[pos_])) {
      const size_t start = pos_;
      while (pos_ < text_.size() && NameChar(text_[pos_])) ++pos_;
      return value_(text_.substr(start, pos_ - start));
    }
    const std::string rest(text_.substr(pos_));
    char* end = nullptr;
    const double v = std::strtod(rest.c_str(), &end);
    if (end == rest.c_str()) return std::nullopt;
    pos_ += static_cast<size_t>(end - rest.c_str());
    return v;
  }

  absl::string_view text_;
  const NameValue& value_;
  size_t pos_ = 0;
};

}  // namespace

std::optional<double> EvaluateAttr(absl::string_view expression, const NameValue& value) {
  return Evaluator(expression, value).All();
}

bool IsBareName(absl::string_view expression) {
  if (expression.empty() || !NameStart(expression[0])) return false;
  for (char c : expression) {
    if (!NameChar(c)) return false;
  }
  return true;
}

std::set<std::string> NamesIn(absl::string_view expression) {
  std::set<std::string> names;
  for (size_t i = 0; i < expression.size();) {
    if (NameStart(expression[i])) {
      size_t j = i;
      while (j < expression.size() && NameChar(expression[j])) ++j;
      names.insert(std::string(expression.substr(i, j - i)));
      i = j;
    } else {
      ++i;
    }
  }
  return names;
}

}  // namespace tandem
