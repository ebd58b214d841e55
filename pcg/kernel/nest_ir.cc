#include "pcg/kernel/nest_ir.h"

#include <limits>

namespace tandem {

int64_t IntAffine::Coefficient(int var) const {
  for (const auto& [v, coefficient] : terms) {
    if (v == var) return coefficient;
  }
  return 0;
}

IntAffine Sum(const IntAffine& a, const IntAffine& b, int64_t scale_b) {
  IntAffine out;
  out.constant = a.constant + scale_b * b.constant;
  size_t i = 0, j = 0;
  while (i < a.terms.size() || j < b.terms.size()) {
    const bool from_a =
        j == b.terms.size() || (i < a.terms.size() && a.terms[i].first <= b.terms[j].first);
    const bool from_b =
        i == a.terms.size() || (j < b.terms.size() && b.terms[j].first <= a.terms[i].first);
    const int var = from_a ? a.terms[i].first : b.terms[j].first;
    const int64_t coefficient =
        (from_a ? a.terms[i++].second : 0) + (from_b ? scale_b * b.terms[j++].second : 0);
    if (coefficient != 0) out.terms.emplace_back(var, coefficient);
  }
  return out;
}

IntAffine Scaled(const IntAffine& a, int64_t scale) { return Sum({}, a, scale); }

double Identity(NestReduction reduction) {
  switch (reduction) {
    case NestReduction::kProd:
      return 1;
    case NestReduction::kMax:
    case NestReduction::kArgMax:
      return -std::numeric_limits<double>::infinity();
    case NestReduction::kMin:
      return std::numeric_limits<double>::infinity();
    default:
      return 0;
  }
}

std::set<int> VarsOf(const NestStage& stage, int node) {
  std::set<int> vars;
  std::set<int> seen;
  std::vector<int> open = {node};
  while (!open.empty()) {
    const int id = open.back();
    open.pop_back();
    if (!seen.insert(id).second) continue;
    const NestNode& entry = stage.nodes[static_cast<size_t>(id)];
    for (const auto& [var, coefficient] : entry.affine.terms) vars.insert(var);
    open.insert(open.end(), entry.args.begin(), entry.args.end());
  }
  return vars;
}

std::pair<int64_t, int64_t> RangeOf(const IntAffine& affine, const std::vector<int64_t>& extents) {
  int64_t low = affine.constant, high = affine.constant;
  for (const auto& [var, coefficient] : affine.terms) {
    const int64_t reach = coefficient * (extents[static_cast<size_t>(var)] - 1);
    (reach < 0 ? low : high) += reach;
  }
  return {low, high};
}

}  // namespace tandem
