#include "pcg/instance/mixed_radix.h"

namespace tandem {

ExprId MixedRadix::SizeProduct(const std::vector<int>& sizes, size_t count) {
  ExprId product = exprs_.Number(1);
  for (size_t i = 0; i < count; ++i) {
    product = exprs_.Binary(ExprKind::kMul, product, exprs_.Size(sizes[i]));
  }
  return product;
}

ExprId MixedRadix::Flat(const std::vector<Digit>& digits) {
  ExprId value = exprs_.Number(0);
  for (size_t i = 0; i < digits.size(); ++i) {
    if (i > 0) value = exprs_.Binary(ExprKind::kMul, value, exprs_.Size(digits[i].size));
    value = exprs_.Binary(ExprKind::kAdd, value, digits[i].expr);
  }
  return value;
}

std::vector<ExprId> MixedRadix::Split(ExprId value, const std::vector<int>& targets) {
  std::vector<ExprId> reversed;
  for (size_t i = targets.size(); i-- > 1;) {
    const ExprId size = exprs_.Size(targets[i]);
    reversed.push_back(exprs_.Binary(ExprKind::kMod, value, size));
    value = exprs_.Binary(ExprKind::kFloorDiv, value, size);
  }
  reversed.push_back(value);
  return {reversed.rbegin(), reversed.rend()};
}

std::vector<ExprId> MixedRadix::Convert(const std::vector<Digit>& digits,
                                        const std::vector<int>& targets, ExprId& excess) {
  std::vector<ExprId> out(targets.size());
  size_t i = digits.size(), j = targets.size();
  while (j > 0) {  // one segment between common strides, from the minor end
    const size_t digits_end = i, targets_end = j;
    int64_t digit_product = i > 0 ? Extent(digits[--i].size) : 1;
    int64_t target_product = Extent(targets[--j]);
    while (digit_product != target_product) {
      if (digit_product < target_product && i > 0) {
        digit_product *= Extent(digits[--i].size);
      } else if (digit_product > target_product && j > 0) {
        target_product *= Extent(targets[--j]);
      } else {  // products that never meet: all that is left
        i = 0;
        j = 0;
        break;
      }
    }
    const std::vector<Digit> from(digits.begin() + static_cast<int64_t>(i),
                                  digits.begin() + static_cast<int64_t>(digits_end));
    const std::vector<int> to(targets.begin() + static_cast<int64_t>(j),
                              targets.begin() + static_cast<int64_t>(targets_end));
    const std::vector<ExprId> part = Split(Flat(from), to);
    for (size_t k = 0; k < part.size(); ++k) out[j + k] = part[k];
  }
  excess = Flat({digits.begin(), digits.begin() + static_cast<int64_t>(i)});
  return out;
}

}  // namespace tandem
