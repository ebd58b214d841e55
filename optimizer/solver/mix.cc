#include "optimizer/solver/mix.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <numeric>
#include <utility>

#include "optimizer/solver/windows.h"

namespace tandem::solver {
namespace {

constexpr double kLeastGainSeconds = 1e-15;

// A plan whose value and bytes are kept as single nodes change.
class Tracked {
 public:
  Tracked(const WeightedModel& weighted, std::vector<int32_t> plan)
      : weighted_(&weighted),
        plan_(std::move(plan)),
        value_(weighted.model.Value(plan_)),
        bytes_(weighted.Bytes(plan_)) {}

  // What the value would change by.
  double Change(int32_t place, int32_t state) const {
    const Model& model = weighted_->model;
    double change = model.costs(place)[state] - model.costs(place)[plan_[place]];
    for (const Arc& arc : model.arcs_of(place)) {
      const double* row = model.row(place, arc, plan_[arc.neighbour]);
      change += row[state] - row[plan_[place]];
    }
    return change;
  }
  double BytesChange(int32_t place, int32_t state) const {
    const int64_t first = weighted_->model.first[place];
    return weighted_->bytes[first + state] - weighted_->bytes[first + plan_[place]];
  }
  void Set(int32_t place, int32_t state) {
    if (plan_[place] == state) return;
    value_ += Change(place, state);
    bytes_ += BytesChange(place, state);
    plan_[place] = state;
  }

  const std::vector<int32_t>& plan() const { return plan_; }
  double value() const { return value_; }
  double bytes() const { return bytes_; }

 private:
  const WeightedModel* weighted_;
  std::vector<int32_t> plan_;
  double value_;
  double bytes_;
};

// Ranges of blocks: for every first block, as many following ones (cyclic) as fit.
void MixRanges(const WeightedModel& weighted, const std::vector<int32_t>& heavy,
               const std::vector<int32_t>& light, double limit, Tracked& best) {
  const Model& model = weighted.model;
  const std::vector<int32_t> starts = BlockStarts(model);
  const auto blocks = static_cast<int32_t>(starts.size()) - 1;
  for (int32_t first = 0; first < blocks; ++first) {
    Tracked mixed(weighted, light);
    for (int32_t count = 0; count < blocks; ++count) {
      const int32_t b = (first + count) % blocks;
      for (int32_t k = starts[b]; k < starts[b + 1]; ++k) mixed.Set(k, heavy[k]);
      if (mixed.bytes() <= limit && mixed.value() < best.value() - kLeastGainSeconds) best = mixed;
    }
  }
}

// The connected parts of the graph in which the plans differ: changing one does not touch another,
// so their gains add up.
std::vector<std::vector<int32_t>> DifferingParts(const Model& model, const std::vector<int32_t>& a,
                                                 const std::vector<int32_t>& b) {
  std::vector<std::vector<int32_t>> parts;
  std::vector<char> seen(model.size(), 0);
  for (int32_t k = 0; k < model.size(); ++k) {
    if (seen[k] || a[k] == b[k]) continue;
    std::vector<int32_t> part = {k};
    seen[k] = 1;
    for (size_t q = 0; q < part.size(); ++q) {
      for (const Arc& arc : model.arcs_of(part[q])) {
        if (seen[arc.neighbour] || a[arc.neighbour] == b[arc.neighbour]) continue;
        seen[arc.neighbour] = 1;
        part.push_back(arc.neighbour);
      }
    }
    parts.push_back(std::move(part));
  }
  return parts;
}

void MixParts(const WeightedModel& weighted, const std::vector<int32_t>& heavy,
              const std::vector<int32_t>& light, double limit, Tracked& best) {
  const std::vector<std::vector<int32_t>> parts = DifferingParts(weighted.model, heavy, light);
  struct Gain {
    double rate;
    double bytes;
    size_t part;
  };
  std::vector<Gain> gains;
  Tracked mixed(weighted, light);
  for (size_t p = 0; p < parts.size(); ++p) {
    Tracked with = mixed;
    for (int32_t k : parts[p]) with.Set(k, heavy[k]);
    const double saved = mixed.value() - with.value();
    const double bytes = with.bytes() - mixed.bytes();
    if (saved <= 0.0) continue;
    gains.push_back(
        {bytes <= 0.0 ? std::numeric_limits<double>::infinity() : saved / bytes, bytes, p});
  }
  std::stable_sort(gains.begin(), gains.end(),
                   [](const Gain& a, const Gain& b) { return a.rate > b.rate; });
  for (const Gain& gain : gains) {
    if (mixed.bytes() + gain.bytes > limit) continue;
    for (int32_t k : parts[gain.part]) mixed.Set(k, heavy[k]);
  }
  if (mixed.bytes() <= limit && mixed.value() < best.value() - kLeastGainSeconds) best = mixed;
}

// The single change that frees at least `bytes` for the least seconds, not touching `except`, if
// below `most_seconds`. Returns its place, or -1.
int32_t CheapestRoom(const WeightedModel& weighted, const Tracked& tracked, int32_t except,
                     double bytes, double most_seconds, int32_t& state) {
  const Model& model = weighted.model;
  int32_t found = -1;
  for (int32_t k = 0; k < model.size(); ++k) {
    if (k == except) continue;
    for (int32_t s = 0; s < model.states(k); ++s) {
      if (tracked.BytesChange(k, s) > -bytes) continue;
      const double change = tracked.Change(k, s);
      if (change >= most_seconds) continue;
      most_seconds = change;
      found = k;
      state = s;
    }
  }
  return found;
}

}  // namespace

double WeightedModel::Bytes(const std::vector<int32_t>& plan) const {
  double sum = 0.0;
  for (int32_t k = 0; k < model.size(); ++k) sum += bytes[model.first[k] + plan[k]];
  return sum;
}

std::vector<int32_t> MixPlans(const WeightedModel& weighted, const std::vector<int32_t>& heavy,
                              const std::vector<int32_t>& light, double limit) {
  Tracked best(weighted, light);
  MixRanges(weighted, heavy, light, limit, best);
  MixParts(weighted, heavy, light, limit, best);
  return best.plan();
}

void DescendWithin(const WeightedModel& weighted, double limit, int32_t max_rounds,
                   std::vector<int32_t>& plan) {
  const Model& model = weighted.model;
  Tracked tracked(weighted, plan);
  // Searching for room looks at every state: only so often.
  int32_t searches_left =
      std::max(8, 4'000'000 / std::max<int32_t>(1, static_cast<int32_t>(model.unary.size())));
  for (int32_t round = 0; round < max_rounds; ++round) {
    bool changed = false;
    for (int32_t k = 0; k < model.size(); ++k) {
      int32_t best = -1;
      double best_change = -kLeastGainSeconds;
      int32_t wish = -1;
      double wish_change = -kLeastGainSeconds;
      for (int32_t s = 0; s < model.states(k); ++s) {
        if (s == tracked.plan()[k]) continue;
        const double change = tracked.Change(k, s);
        if (tracked.bytes() + tracked.BytesChange(k, s) <= limit) {
          if (change < best_change) {
            best_change = change;
            best = s;
          }
        } else if (change < wish_change) {
          wish_change = change;
          wish = s;
        }
      }
      if (best >= 0) {
        tracked.Set(k, best);
        changed = true;
      } else if (wish >= 0 && searches_left-- > 0) {
        Tracked trial = tracked;
        trial.Set(k, wish);
        int32_t state = 0;
        const int32_t place = CheapestRoom(weighted, trial, k, trial.bytes() - limit,
                                           -wish_change - kLeastGainSeconds, state);
        if (place < 0) continue;
        trial.Set(place, state);
        tracked = trial;
        changed = true;
      }
    }
    if (!changed) break;
  }
  // Sums kept by differences drift: the last word is a fresh one.
  if (weighted.Bytes(tracked.plan()) <= limit && model.Value(tracked.plan()) <= model.Value(plan)) {
    plan = tracked.plan();
  }
}

}  // namespace tandem::solver
