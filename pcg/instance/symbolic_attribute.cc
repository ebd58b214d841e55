#include "pcg/instance/symbolic_attribute.h"

#include <cctype>
#include <cstdlib>

namespace tandem {
namespace {

class Parser {
 public:
  Parser(const SymbolicAttribute& attribute, ExprArena& arena)
      : text_(attribute.expression), representative_(attribute.representative), arena_(arena) {}

  std::optional<ExprId> All() {
    std::optional<ExprId> e = Sum();
    Skip();
    return pos_ == text_.size() ? e : std::nullopt;
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
  ExprId Make(ExprKind kind, std::vector<ExprId> args) {
    ExprNode node;
    node.kind = kind;
    node.args = std::move(args);
    return arena_.Add(std::move(node));
  }
  std::optional<ExprId> Sum() {
    std::optional<ExprId> e = Product();
    while (e) {
      const bool plus = Take('+');
      if (!plus && !Take('-')) break;
      const std::optional<ExprId> f = Product();
      e = f ? std::optional(Make(plus ? ExprKind::kAdd : ExprKind::kSub, {*e, *f})) : std::nullopt;
    }
    return e;
  }
  std::optional<ExprId> Product() {
    std::optional<ExprId> e = Leaf();
    while (e) {
      const bool times = Take('*');
      if (!times && !Take('/')) break;
      const std::optional<ExprId> f = Leaf();
      e = f ? std::optional(Make(times ? ExprKind::kMul : ExprKind::kDiv, {*e, *f})) : std::nullopt;
    }
    return e;
  }
  std::optional<ExprId> Leaf() {
    if (Take('-')) {
      const std::optional<ExprId> e = Leaf();
      return e ? std::optional(Make(ExprKind::kNeg, {*e})) : std::nullopt;
    }
    if (Take('(')) {
      const std::optional<ExprId> e = Sum();
      return Take(')') ? e : std::nullopt;
    }
    Skip();
    if (pos_ >= text_.size()) return std::nullopt;
    ExprNode node;
    if (std::isalpha(static_cast<unsigned char>(text_[pos_])) != 0 || text_[pos_] == '_') {
      const size_t start = pos_;
      while (pos_ < text_.size() &&
             (std::isalnum(static_cast<unsigned char>(text_[pos_])) != 0 || text_[pos_] == '_')) {
        ++pos_;
      }
      node.kind = ExprKind::kAttr;
      node.name = "$" + text_.substr(start, pos_ - start);
      node.number = representative_;
      return arena_.Add(std::move(node));
    }
    char* end = nullptr;
    node.number = std::strtod(text_.c_str() + pos_, &end);
    if (end == text_.c_str() + pos_) return std::nullopt;
    pos_ = static_cast<size_t>(end - text_.c_str());
    return arena_.Add(std::move(node));
  }

  const std::string text_;
  double representative_;
  ExprArena& arena_;
  size_t pos_ = 0;
};

}  // namespace

std::optional<SymbolicAttribute> AsSymbolic(const AttrValue& value) {
  const auto* text = std::get_if<std::string>(&value);
  if (text == nullptr || text->empty() || (*text)[0] != '$') return std::nullopt;
  const size_t eq = text->rfind('=');
  if (eq == std::string::npos) return std::nullopt;
  char* end = nullptr;
  const double representative = std::strtod(text->c_str() + eq + 1, &end);
  if (end == text->c_str() + eq + 1 || *end != '\0') return std::nullopt;
  return SymbolicAttribute{text->substr(1, eq - 1), representative};
}

std::optional<ExprId> AddSymbolic(const SymbolicAttribute& attribute, ExprArena& arena) {
  return Parser(attribute, arena).All();
}

}  // namespace tandem
