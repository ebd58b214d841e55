#include "optimizer/solver/bucket.h"

#include <algorithm>
#include <limits>
#include <utility>

#include "optimizer/solver/min_plus.h"

namespace tandem::solver {
namespace {

double TakeLeast(std::vector<double>& costs) {
  const double least = *std::min_element(costs.begin(), costs.end());
  for (double& cost : costs) cost -= least;
  return least;
}

}  // namespace

double SeedFactors(const Model& model, const std::vector<int32_t>& rank,
                   const std::vector<double>* messages, std::vector<Factor>& factors) {
  double constant = 0.0;
  std::vector<std::vector<double>> unary(model.size());
  for (int32_t k = 0; k < model.size(); ++k) {
    unary[k].assign(model.costs(k), model.costs(k) + model.states(k));
  }
  for (size_t l = 0; l < model.links.size(); ++l) {
    const Link& link = model.links[l];
    const PairTable& table = model.table(link);
    const bool open_i = table.states_i > 1;
    const bool open_j = table.states_j > 1;
    const bool i_first = rank[link.i] > rank[link.j];
    std::vector<double> costs = i_first ? table.by_i : table.by_j;
    if (messages != nullptr) {
      const double* at_i = messages->data() + model.message_i(static_cast<int32_t>(l));
      const double* at_j = messages->data() + model.message_j(static_cast<int32_t>(l));
      for (int32_t s = 0; s < table.states_i; ++s) unary[link.i][s] += at_i[s];
      for (int32_t t = 0; t < table.states_j; ++t) unary[link.j][t] += at_j[t];
      const double* rows = i_first ? at_i : at_j;
      const double* cols = i_first ? at_j : at_i;
      const int32_t row_count = i_first ? table.states_i : table.states_j;
      const int32_t col_count = i_first ? table.states_j : table.states_i;
      for (int32_t r = 0; r < row_count; ++r) {
        for (int32_t c = 0; c < col_count; ++c) {
          costs[static_cast<int64_t>(r) * col_count + c] -= rows[r] + cols[c];
        }
      }
    }
    if (messages != nullptr) constant += TakeLeast(costs);
    if (open_i && open_j) {
      factors.push_back(
          {i_first ? std::vector<int32_t>{link.i, link.j} : std::vector<int32_t>{link.j, link.i},
           std::move(costs)});
    } else if (open_i || open_j) {
      std::vector<double>& sum = unary[open_i ? link.i : link.j];
      for (size_t s = 0; s < sum.size(); ++s) sum[s] += costs[s];
    } else {
      constant += costs[0];
    }
  }
  for (int32_t k = 0; k < model.size(); ++k) {
    if (messages != nullptr) constant += TakeLeast(unary[k]);
    if (model.states(k) == 1) {
      constant += unary[k][0];
    } else {
      factors.push_back({{k}, std::move(unary[k])});
    }
  }
  return constant;
}

std::vector<int32_t> JointScope(const std::vector<const Factor*>& factors,
                                const std::vector<int32_t>& rank) {
  std::vector<int32_t> scope;
  for (const Factor* factor : factors) {
    scope.insert(scope.end(), factor->scope.begin(), factor->scope.end() - 1);
  }
  std::sort(scope.begin(), scope.end(), [&](int32_t a, int32_t b) { return rank[a] > rank[b]; });
  scope.erase(std::unique(scope.begin(), scope.end()), scope.end());
  return scope;
}

Bucket::Bucket(const Model& model, int32_t place, std::vector<int32_t> scope,
               const std::vector<const Factor*>& factors)
    : scope_(std::move(scope)), own_states_(model.states(place)) {
  for (int32_t p : scope_) states_.push_back(model.states(p));
  complete_at_.resize(scope_.size() + 1);
  open_at_.resize(scope_.size() + 1);
  zeros_.assign(own_states_, 0.0);
  scratch_.assign(own_states_, 0.0);
  sums_.assign(scope_.size() + 1, std::vector<double>(own_states_, 0.0));
  for (const Factor* factor : factors) {
    Reader reader{factor->values.data(), std::vector<int64_t>(scope_.size(), 0), {}};
    int64_t stride = own_states_;
    size_t level = 0;
    for (size_t q = factor->scope.size() - 1; q-- > 0;) {
      const size_t at = std::find(scope_.begin(), scope_.end(), factor->scope[q]) - scope_.begin();
      reader.stride[at] = stride;
      stride *= states_[at];
      level = std::max(level, at + 1);
    }
    reader.offset.assign(scope_.size() + 1, 0);
    complete_at_[level].push_back(readers_.size());
    for (size_t q = 0; q < level; ++q) open_at_[q].push_back(readers_.size());
    readers_.push_back(std::move(reader));
  }
}

const double* Bucket::RowOf(size_t reader, size_t level) const {
  return readers_[reader].values + readers_[reader].offset[level];
}

// `count` of the readers whose places are all chosen at `level`, into its sums.
void Bucket::AddComplete(size_t level, size_t count) {
  double* sum = sums_[level].data();
  for (size_t q = 0; q < count; ++q) {
    const double* row = RowOf(complete_at_[level][q], level);
    for (int32_t s = 0; s < own_states_; ++s) sum[s] += row[s];
  }
}

// The last factor's row is not added: whoever minimises adds it on the way.
void Bucket::LeafRows(const double** sum, const double** last) {
  const size_t level = scope_.size();
  const std::vector<size_t>& complete = complete_at_[level];
  *last = complete.empty() ? zeros_.data() : RowOf(complete.back(), level);
  if (level > 0 && complete.size() <= 1) {
    *sum = sums_[level - 1].data();
    return;
  }
  std::vector<double>& own = sums_[level];
  if (level > 0) {
    std::copy(sums_[level - 1].begin(), sums_[level - 1].end(), own.begin());
  } else {
    std::fill(own.begin(), own.end(), 0.0);
  }
  if (!complete.empty()) AddComplete(level, complete.size() - 1);
  *sum = own.data();
}

template <typename Leaf>
void Bucket::Walk(size_t level, Leaf& leaf) {
  if (level == scope_.size()) {
    leaf.Visit();
    return;
  }
  if (level + 1 == scope_.size()) {
    budget_->cells_left -= static_cast<int64_t>(states_[level]) * own_states_;
    if (budget_->spent()) return;
  }
  const bool inner = level + 1 < scope_.size();
  const bool prune = inner && most_ < kDead && !complete_at_[level + 1].empty();
  for (int32_t s = 0; s < states_[level]; ++s) {
    for (size_t r : open_at_[level]) {
      Reader& reader = readers_[r];
      reader.offset[level + 1] = reader.offset[level] + reader.stride[level] * s;
    }
    if (inner) {
      std::vector<double>& sum = sums_[level + 1];
      std::copy(sums_[level].begin(), sums_[level].end(), sum.begin());
      AddComplete(level + 1, complete_at_[level + 1].size());
      if (prune && !(*std::min_element(sum.begin(), sum.end()) <= most_)) {
        leaf.Skip(below_[level + 1]);
        continue;
      }
    }
    Walk(level + 1, leaf);
  }
}

template <typename Leaf>
void Bucket::WalkAll(double most, WalkBudget& budget, Leaf& leaf) {
  most_ = most;
  budget_ = &budget;
  below_.assign(scope_.size() + 1, 1);
  for (size_t level = scope_.size(); level-- > 0;) {
    below_[level] = below_[level + 1] * states_[level];
  }
  if (!scope_.empty()) {
    std::fill(sums_[0].begin(), sums_[0].end(), 0.0);
    AddComplete(0, complete_at_[0].size());
  }
  Walk(0, leaf);
}

void Bucket::Minimise(double most, WalkBudget& budget, Factor& out, std::vector<uint16_t>* best) {
  int64_t cells = 1;
  for (int32_t s : states_) cells *= s;
  out.scope = scope_;
  out.values.resize(cells);
  if (best != nullptr) best->resize(cells);
  struct Leaf {
    Bucket& bucket;
    double most;
    double* value;
    uint16_t* where;
    void Visit() {
      const double* sum;
      const double* last;
      bucket.LeafRows(&sum, &last);
      int32_t least = 0;
      const double v = LeastSum(sum, last, bucket.own_states_, bucket.scratch_.data(), &least);
      *value++ = v <= most ? v : kDead;
      if (where != nullptr) *where++ = static_cast<uint16_t>(least);
    }
    void Skip(int64_t count) {
      std::fill_n(value, count, kDead);
      value += count;
      if (where != nullptr) where += count;
    }
  };
  Leaf leaf{*this, most, out.values.data(), best == nullptr ? nullptr : best->data()};
  WalkAll(most, budget, leaf);
}

std::vector<double> Bucket::Marginal(WalkBudget& budget) {
  std::vector<double> marginal(own_states_, kDead);
  struct Leaf {
    Bucket& bucket;
    std::vector<double>& marginal;
    void Visit() {
      const double* sum;
      const double* last;
      bucket.LeafRows(&sum, &last);
      for (size_t s = 0; s < marginal.size(); ++s) {
        marginal[s] = std::min(marginal[s], sum[s] + last[s]);
      }
    }
    void Skip(int64_t) {}
  };
  Leaf leaf{*this, marginal};
  WalkAll(kDead, budget, leaf);
  return marginal;
}

}  // namespace tandem::solver
