// Text of terms, for messages and certificates.
#include "verifier/prover/store.h"

namespace tandem::prover {
namespace {

std::string Join(const std::vector<std::string>& parts, const std::string& separator) {
  std::string out;
  for (size_t i = 0; i < parts.size(); ++i) out += (i ? separator : "") + parts[i];
  return out;
}

}  // namespace

std::string Store::ToString(Atom a) const {
  const AtomData& data = (*this)[a];
  switch (data.kind) {
    case AtomKind::kSize:
    case AtomKind::kVar:
      return data.name;
    case AtomKind::kBound:
      return "$" + std::to_string(data.depth) + "." + std::to_string(data.k);
    case AtomKind::kDiv:
      return "floor((" + ToString(data.a) + ")/(" + ToString(data.b) + "))";
    case AtomKind::kMod:
      return "((" + ToString(data.a) + ") mod (" + ToString(data.b) + "))";
    case AtomKind::kValue:
      return "{" + ToString(data.value) + "}";
  }
  return "?";
}

std::string Store::ToString(Poly p) const {
  std::string out;
  for (const auto& [m, c] : (*this)[p].terms) {
    std::vector<std::string> parts;
    if (m.empty() || (c != 1 && c != -1)) parts.push_back(std::to_string(c < 0 ? -c : c));
    for (Atom a : m) parts.push_back(ToString(a));
    out += out.empty() ? (c < 0 ? "-" : "") : (c < 0 ? " - " : " + ");
    out += Join(parts, "*");
  }
  return out.empty() ? "0" : out;
}

std::string Store::ToString(Guard g) const {
  const GuardData& data = (*this)[g];
  std::vector<std::string> parts;
  for (Guard a : data.args) parts.push_back(ToString(a));
  switch (data.kind) {
    case GuardKind::kTrue:
      return "true";
    case GuardKind::kFalse:
      return "false";
    case GuardKind::kGe:
      return ToString(data.poly) + " >= 0";
    case GuardKind::kEq:
      return ToString(data.poly) + " = 0";
    case GuardKind::kAnd:
      return "(" + Join(parts, " and ") + ")";
    case GuardKind::kOr:
      return "(" + Join(parts, " or ") + ")";
    case GuardKind::kNot:
      return "not (" + parts[0] + ")";
    case GuardKind::kValueGe:
      return ToString(data.value) + " >= 0";
    case GuardKind::kValueEq:
      return ToString(data.value) + " = 0";
  }
  return "?";
}

std::string Store::ToString(Factor f) const {
  const FactorData& data = (*this)[f];
  std::vector<std::string> parts;
  for (const auto& dim : data.index) {
    std::vector<std::string> digits;
    for (Poly p : dim) digits.push_back(ToString(p));
    parts.push_back(digits.size() == 1 ? digits[0] : "(" + Join(digits, ",") + ")");
  }
  for (Value v : data.args) parts.push_back(ToString(v));
  for (const Branch& b : data.branches) {
    parts.push_back("[" + ToString(b.guard) + "] " + ToString(b.value));
  }
  switch (data.kind) {
    case FactorKind::kRead:
      return tensor(data.tensor).name + "[" + Join(parts, ",") + "]";
    case FactorKind::kIndex:
      return "(" + ToString(data.poly) + ")";
    case FactorKind::kConstant:
      return std::to_string(data.number);
    case FactorKind::kFn:
    case FactorKind::kOpaque:
      return data.name + "(" + Join(parts, ", ") + ")";
    case FactorKind::kGroup:
      return "(" + parts[0] + ")";
    case FactorKind::kMax:
      return "max{" + Join(parts, "; ") + "}";
  }
  return "?";
}

std::string Store::ToString(Value v) const {
  std::string out;
  for (const auto& [b, c] : (*this)[v].terms) {
    const BodyData& body = (*this)[b];
    std::vector<std::string> parts;
    for (auto [a, e] : body.sizes) {
      parts.push_back(ToString(a) + (e == 1 ? "" : "^" + std::to_string(e)));
    }
    if (!body.ranges.empty()) parts.push_back("SUM" + std::to_string(body.ranges.size()));
    if (body.guard != true_) parts.push_back("[" + ToString(body.guard) + "]");
    for (auto [f, e] : body.factors) {
      parts.push_back(ToString(f) + (e == 1 ? "" : "^" + std::to_string(e)));
    }
    if (parts.empty() || c != Rational(1)) parts.insert(parts.begin(), c.ToString());
    out += (out.empty() ? "" : " + ") + Join(parts, "*");
  }
  return out.empty() ? "0" : out;
}

}  // namespace tandem::prover
