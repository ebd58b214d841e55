#include "pcg/kernel/nest_exprs.h"

#include <cmath>
#include <utility>

namespace tandem {

bool NestExprs::KnownInRange(int node, int64_t extent) const {
  const NestNode& entry = nodes_[static_cast<size_t>(node)];
  if (entry.op == NestOp::kMod) {
    const NestNode& by = nodes_[static_cast<size_t>(entry.args[1])];
    return by.op == NestOp::kConst && by.number > 0 && by.number <= static_cast<double>(extent);
  }
  if (entry.op != NestOp::kAffine) return false;
  const auto [low, high] = RangeOf(entry.affine, extents_);
  return low >= 0 && high < extent;
}

int NestExprs::Add(NestNode node) {
  nodes_.push_back(std::move(node));
  return static_cast<int>(nodes_.size()) - 1;
}

int NestExprs::Const(double number) {
  NestNode node;
  node.number = number;
  return Add(std::move(node));
}

int NestExprs::Affine(IntAffine affine) {
  NestNode node;
  node.op = NestOp::kAffine;
  node.affine = std::move(affine);
  return Add(std::move(node));
}

// A node as integers, if it is.
bool NestExprs::AsAffine(int node, IntAffine& affine) const {
  const NestNode& entry = nodes_[static_cast<size_t>(node)];
  if (entry.op == NestOp::kAffine) {
    affine = entry.affine;
    return true;
  }
  if (entry.op != NestOp::kConst || entry.number != std::floor(entry.number) ||
      std::abs(entry.number) > 1e15) {
    return false;
  }
  affine = {};
  affine.constant = static_cast<int64_t>(entry.number);
  return true;
}

int NestExprs::Binary(NestOp op, int a, int b) {
  IntAffine left, right;
  if (AsAffine(a, left) && AsAffine(b, right)) {
    if (op == NestOp::kAdd) return Affine(Sum(left, right, 1));
    if (op == NestOp::kSub) return Affine(Sum(left, right, -1));
    if (op == NestOp::kMul && left.terms.empty()) return Affine(Scaled(right, left.constant));
    if (op == NestOp::kMul && right.terms.empty()) return Affine(Scaled(left, right.constant));
    const bool divides = op == NestOp::kFloorDiv || op == NestOp::kMod;
    if (divides && right.terms.empty() && right.constant > 0) {
      const int folded = Divided(op, left, right.constant);
      if (folded >= 0) return folded;
    }
  }
  NestNode node;
  node.op = op;
  node.args = {a, b};
  return Add(std::move(node));
}

// (d*q + r) // d and % d where r is known to be in [0, d).
int NestExprs::Divided(NestOp op, const IntAffine& value, int64_t by) {
  IntAffine multiple, rest;
  for (const auto& [var, coefficient] : value.terms) {
    (coefficient % by == 0 ? multiple : rest).terms.emplace_back(var, coefficient);
  }
  rest.constant = ((value.constant % by) + by) % by;
  multiple.constant = value.constant - rest.constant;
  const auto [low, high] = RangeOf(rest, extents_);
  if (low < 0 || high >= by) return -1;
  if (op == NestOp::kMod) return Affine(rest);
  for (auto& [var, coefficient] : multiple.terms) coefficient /= by;
  multiple.constant /= by;
  return Affine(multiple);
}

int NestExprs::Unary(NestOp op, int a) {
  IntAffine affine;
  if (op == NestOp::kNeg && AsAffine(a, affine)) return Affine(Scaled(affine, -1));
  NestNode node;
  node.op = op;
  node.args = {a};
  return Add(std::move(node));
}

}  // namespace tandem
