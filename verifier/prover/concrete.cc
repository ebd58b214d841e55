#include "verifier/prover/concrete.h"

#include <cmath>
#include <limits>

#include "verifier/prover/rational.h"

namespace tandem::prover {
namespace {

constexpr int64_t kMaxSteps = 400'000;

uint64_t Mix(uint64_t h, uint64_t x) {
  h ^= x + 0x9e3779b97f4a7c15ULL + (h << 6) + (h >> 2);
  h *= 0xbf58476d1ce4e5b9ULL;
  return h ^ (h >> 29);
}

long double Uniform(const std::vector<long double>& args) {
  uint64_t h = 0x2545f4914f6cdd1dULL;
  for (long double a : args) h = Mix(h, static_cast<uint64_t>(static_cast<int64_t>(a * 4096)));
  return static_cast<long double>(h >> 11) / static_cast<long double>(1ULL << 53);
}

}  // namespace

ConcreteOp::ConcreteOp(const OpInstance& op, std::vector<ConcreteSize> sizes, Reader reader,
                       const std::map<std::string, double>* symbols)
    : op_(op),
      sizes_(std::move(sizes)),
      reader_(std::move(reader)),
      env_(op.vars.size(), 0),
      symbols_(symbols) {}

std::vector<int64_t> ConcreteOp::Extents(int tensor) const {
  std::vector<int64_t> out;
  for (const auto& dim : op_.tensors[static_cast<size_t>(tensor)].dims) {
    for (int size : dim) out.push_back(sizes_[static_cast<size_t>(size)].extent);
  }
  return out;
}

int64_t ConcreteOp::Formula(ExprId id) {
  formula_ = true;
  auto r = static_cast<int64_t>(Eval(id));
  formula_ = false;
  return r;
}

long double ConcreteOp::At(int tensor, const std::vector<int64_t>& index) {
  if (tensor < op_.num_inputs) return reader_(tensor, index);
  auto key = std::make_pair(tensor, index);
  if (auto it = memo_.find(key); it != memo_.end()) return it->second;
  for (const InstanceEquation& e : op_.equations) {
    if (e.target != tensor) continue;
    auto saved = env_;
    for (size_t i = 0; i < e.vars.size(); ++i) env_[static_cast<size_t>(e.vars[i])] = index[i];
    long double r = Eval(e.body);
    env_ = std::move(saved);
    memo_[key] = r;
    return r;
  }
  throw OutOfRange();
}

// The index of a loop over this very size is local; anything else is a number.
int64_t ConcreteOp::IndexAt(ExprId id, int size) {
  const ExprNode& e = op_.exprs[id];
  if (e.kind == ExprKind::kVar && op_.vars[static_cast<size_t>(e.ref)].size == size) {
    return env_[static_cast<size_t>(e.ref)];
  }
  return static_cast<int64_t>(Eval(id));
}

bool ConcreteOp::Index(ExprId id, const std::vector<int>& factors, std::vector<int64_t>* out) {
  const ExprNode& e = op_.exprs[id];
  if (e.kind == ExprKind::kTuple && e.args.size() == factors.size()) {
    for (size_t f = 0; f < factors.size(); ++f) {
      int64_t i = IndexAt(e.args[f], factors[f]);
      if (i < 0 || i >= sizes_[static_cast<size_t>(factors[f])].extent) return false;
      out->push_back(i);
    }
    return true;
  }
  int64_t flat = IndexAt(id, factors.size() == 1 ? factors[0] : -1);
  int64_t extent = 1;
  for (int size : factors) extent *= sizes_[static_cast<size_t>(size)].extent;
  if (flat < 0 || flat >= extent) return false;
  for (int size : factors) {
    extent /= sizes_[static_cast<size_t>(size)].extent;
    out->push_back(flat / extent);
    flat %= extent;
  }
  return true;
}

long double ConcreteOp::Read(const ExprNode& e) {
  const auto& dims = op_.tensors[static_cast<size_t>(e.ref)].dims;
  std::vector<int64_t> index;
  for (size_t d = 0; d < dims.size(); ++d) {
    if (!Index(e.args[d], dims[d], &index)) {
      if (!e.has_else) throw OutOfRange();
      return Eval(e.args[dims.size()]);
    }
  }
  return At(e.ref, index);
}

long double ConcreteOp::Reduce(const ExprNode& e) {
  std::vector<int64_t> extents, at(e.bound.size(), 0);
  int64_t count = 1;
  for (const BoundVar& b : e.bound) {
    int size = op_.vars[static_cast<size_t>(b.var)].size;
    extents.push_back(sizes_[static_cast<size_t>(size)].extent);
    count *= extents.back();
  }
  bool sum = e.name == "sum", prod = e.name == "prod", min = e.name == "min";
  long double inf = std::numeric_limits<long double>::infinity();
  long double r = sum ? 0 : prod ? 1 : min ? inf : -inf;
  int64_t best = 0;
  for (int64_t n = 0; n < count; ++n) {
    int64_t rest = n;
    for (size_t i = extents.size(); i-- > 0;) {
      env_[static_cast<size_t>(e.bound[i].var)] = rest % extents[i];
      rest /= extents[i];
    }
    long double v = Eval(e.args[0]);
    if (sum) {
      r += v;
    } else if (prod) {
      r *= v;
    } else if (min ? v < r : v > r) {
      r = v;
      best = n;
    }
  }
  return e.name == "argmax" ? static_cast<long double>(best) : r;
}

long double ConcreteOp::Eval(ExprId id) {
  if (++steps_ > kMaxSteps) throw LimitExceeded("evaluation takes too long");
  const ExprNode& e = op_.exprs[id];
  auto arg = [&](size_t i) { return Eval(e.args[i]); };
  switch (e.kind) {
    case ExprKind::kNumber:
      return e.number;
    case ExprKind::kVar: {
      int size = op_.vars[static_cast<size_t>(e.ref)].size;
      return static_cast<long double>(env_[static_cast<size_t>(e.ref)] +
                                      sizes_[static_cast<size_t>(size)].offset);
    }
    case ExprKind::kSize:
      return static_cast<long double>(sizes_[static_cast<size_t>(e.ref)].value);
    case ExprKind::kRead:
      return Read(e);
    case ExprKind::kAdd:
      return arg(0) + arg(1);
    case ExprKind::kSub:
      return arg(0) - arg(1);
    case ExprKind::kMul:
      return arg(0) * arg(1);
    case ExprKind::kDiv: {
      long double a = arg(0), b = arg(1);
      if (formula_) return std::floor(a / b);
      return b == 0 ? 0 : a / b;
    }
    case ExprKind::kNeg:
      return -arg(0);
    case ExprKind::kFloorDiv:
      return std::floor(arg(0) / arg(1));
    case ExprKind::kMod: {
      long double a = arg(0), b = arg(1);
      return a - b * std::floor(a / b);
    }
    case ExprKind::kNoGrad:
      return arg(0);
    case ExprKind::kSelect:
      return arg(0) != 0 ? arg(1) : arg(2);
    case ExprKind::kAnd:
      return arg(0) != 0 && arg(1) != 0;
    case ExprKind::kOr:
      return arg(0) != 0 || arg(1) != 0;
    case ExprKind::kNot:
      return arg(0) == 0;
    case ExprKind::kReduce: {
      auto saved = env_;
      long double r = Reduce(e);
      env_ = std::move(saved);
      return r;
    }
    case ExprKind::kCompare: {
      long double a = Eval(e.args[0]), b = Eval(e.args[1]);
      if (e.name == "==") return a == b;
      if (e.name == "!=") return a != b;
      if (e.name == "<") return a < b;
      if (e.name == "<=") return a <= b;
      if (e.name == ">") return a > b;
      return a >= b;
    }
    case ExprKind::kCall: {
      std::vector<long double> x;
      for (size_t i = 0; i < e.args.size(); ++i) x.push_back(arg(i));
      if (e.name == "exp") return std::exp(x[0]);
      if (e.name == "log") return std::log(x[0]);
      if (e.name == "sqrt") return std::sqrt(x[0]);
      if (e.name == "rsqrt") return x[0] == 0 ? 0 : 1 / std::sqrt(x[0]);
      if (e.name == "tanh") return std::tanh(x[0]);
      if (e.name == "erf") return std::erf(x[0]);
      if (e.name == "sin") return std::sin(x[0]);
      if (e.name == "cos") return std::cos(x[0]);
      if (e.name == "abs") return std::fabs(x[0]);
      if (e.name == "sign") return x[0] > 0 ? 1 : x[0] < 0 ? -1 : 0;
      if (e.name == "floor") return std::floor(x[0]);
      if (e.name == "pow") return x[0] == 0 && x[1] < 0 ? 0 : std::pow(x[0], x[1]);
      if (e.name == "max") return std::max(x[0], x[1]);
      if (e.name == "min") return std::min(x[0], x[1]);
      if (e.name == "isnan") return std::isnan(x[0]);
      if (e.name == "uniform") return Uniform(x);
      throw LimitExceeded("function " + e.name);
    }
    case ExprKind::kAttr:
      if (symbols_ != nullptr) {
        if (auto it = symbols_->find(e.name); it != symbols_->end()) return it->second;
      }
      break;
    case ExprKind::kTuple:
      break;
  }
  throw OutOfRange();
}

long double SampleValue(ElementKind kind, uint64_t seed, uint64_t tensor,
                        const std::vector<int64_t>& index, int64_t bound) {
  uint64_t h = Mix(Mix(seed, tensor), 0x51ed27);
  for (int64_t i : index) h = Mix(h, static_cast<uint64_t>(i) + 1);
  h = Mix(h, index.size());
  if (kind == ElementKind::kInt) {
    return static_cast<long double>(h % static_cast<uint64_t>(std::max<int64_t>(bound, 1)));
  }
  if (kind == ElementKind::kBool) return static_cast<long double>(h & 1);
  auto x = static_cast<long double>(static_cast<int64_t>(h % 19) - 9) / 4;
  // Every third seed is positive throughout, so that log and sqrt have something to show.
  return seed % 3 == 0 ? std::fabs(x) + 0.25L : x;
}

bool NearlyEqual(long double a, long double b) {
  if (std::isnan(a) || std::isnan(b)) return std::isnan(a) && std::isnan(b);
  if (a == b) return true;
  if (std::isinf(a) || std::isinf(b)) return false;
  return std::fabs(a - b) <= 1e-10L * (1 + std::fabs(a) + std::fabs(b));
}

}  // namespace tandem::prover
