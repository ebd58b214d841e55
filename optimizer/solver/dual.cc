#include "optimizer/solver/dual.h"

#include <algorithm>
#include <utility>

#include "optimizer/solver/descent.h"
#include "optimizer/solver/min_plus.h"

namespace tandem::solver {
namespace {

// Local search after every one of the first sweeps, then now and then: labels settle early.
constexpr int32_t kEagerSweeps = 12;
constexpr int32_t kSweepsPerDescent = 5;
constexpr int32_t kDescentRounds = 5;

int32_t MostStates(const Model& model) {
  int32_t most = 1;
  for (int32_t k = 0; k < model.size(); ++k) most = std::max(most, model.states(k));
  return most;
}

}  // namespace

Dual::Dual(const Model& model)
    : model_(model),
      messages_(model.message_size(), 0.0),
      theta_(model.unary),
      scratch_(MostStates(model)),
      choice_(MostStates(model)),
      labels_(model.size(), 0) {}

void Dual::SetMessages(std::vector<double> messages) {
  messages_ = std::move(messages);
  lower_ = -kInfinity;
  ExactBound();
}

void Dual::Offer(const std::vector<int32_t>& plan) {
  const double value = model_.Value(plan);
  if (value < upper_) {
    upper_ = value;
    plan_ = plan;
  }
}

double* Dual::message(int32_t place, const Arc& arc) {
  const bool is_i = model_.links[arc.link].i == place;
  return messages_.data() + (is_i ? model_.message_i(arc.link) : model_.message_j(arc.link));
}

// Takes from every link to an earlier neighbour all that it can give, leaving its minimum for each
// state of `place` at zero.
void Dual::Pull(int32_t place, absl::Span<const Arc> before) {
  const int32_t states = model_.states(place);
  double* theta = theta_.data() + model_.first[place];
  for (const Arc& arc : before) {
    const Link& link = model_.links[arc.link];
    const PairTable& table = model_.table(link);
    const bool is_i = link.i == place;
    const double* columns = is_i ? table.by_j.data() : table.by_i.data();
    ColumnMinima(columns, model_.states(arc.neighbour), states, message(arc.neighbour, arc),
                 scratch_.data());
    double* mine = message(place, arc);
    for (int32_t s = 0; s < states; ++s) {
      theta[s] += scratch_[s] - mine[s];
      mine[s] = scratch_[s];
    }
  }
}

// Chooses the state given the labels of earlier neighbours and the messages of later ones.
void Dual::Label(int32_t place, absl::Span<const Arc> before, absl::Span<const Arc> after) {
  const int32_t states = model_.states(place);
  std::copy_n(model_.costs(place), states, choice_.data());
  for (const Arc& arc : before) {
    const double* row = model_.row(place, arc, labels_[arc.neighbour]);
    for (int32_t s = 0; s < states; ++s) choice_[s] += row[s];
  }
  for (const Arc& arc : after) {
    const double* mine = message(place, arc);
    for (int32_t s = 0; s < states; ++s) choice_[s] += mine[s];
  }
  labels_[place] = static_cast<int32_t>(
      std::min_element(choice_.begin(), choice_.begin() + states) - choice_.begin());
}

// Spreads the node's costs evenly over the links to later neighbours.
void Dual::Push(int32_t place, size_t before_count, absl::Span<const Arc> after) {
  if (after.empty()) return;
  const int32_t states = model_.states(place);
  double* theta = theta_.data() + model_.first[place];
  const double share = 1.0 / static_cast<double>(std::max(before_count, after.size()));
  for (int32_t s = 0; s < states; ++s) scratch_[s] = share * theta[s];
  for (const Arc& arc : after) {
    double* mine = message(place, arc);
    for (int32_t s = 0; s < states; ++s) {
      mine[s] -= scratch_[s];
      theta[s] -= scratch_[s];
    }
  }
}

std::optional<double> Dual::Sweep(bool forward, const std::atomic<bool>* cancel) {
  for (int32_t q = 0; q < model_.size(); ++q) {
    if (cancel != nullptr && cancel->load(std::memory_order_relaxed)) return std::nullopt;
    const int32_t place = forward ? q : model_.size() - 1 - q;
    const absl::Span<const Arc> all = model_.arcs_of(place);
    const size_t earlier = model_.arc_middle[place] - model_.arc_first[place];
    const absl::Span<const Arc> low = all.subspan(0, earlier);
    const absl::Span<const Arc> high = all.subspan(earlier);
    const absl::Span<const Arc> before = forward ? low : high;
    const absl::Span<const Arc> after = forward ? high : low;
    Pull(place, before);
    Label(place, before, after);
    Push(place, before.size(), after);
  }
  double bound = 0.0;
  for (int32_t k = 0; k < model_.size(); ++k) {
    bound +=
        *std::min_element(theta_.begin() + model_.first[k], theta_.begin() + model_.first[k + 1]);
  }
  return bound;
}

void Dual::Improve() {
  if (sweeps_ <= kEagerSweeps || sweeps_ % kSweepsPerDescent == 0) {
    Descend(model_, kDescentRounds, labels_);
  }
  Offer(labels_);
}

DualStop Dual::Run(const DualOptions& options) {
  DualStop stop = DualStop::kBudget;
  for (int32_t k = 1; k <= options.max_sweeps; ++k) {
    const std::optional<double> bound = Sweep((sweeps_ + 1) % 2 == 1, options.cancel);
    if (!bound.has_value()) {
      stop = DualStop::kCancelled;
      break;
    }
    ++sweeps_;
    lower_ = std::max(lower_, *bound);
    Improve();
    if (lower_ >= options.closed || lower_ >= upper_) {
      stop = DualStop::kClosed;
      break;
    }
    if (lower_ > options.incumbent) {
      stop = DualStop::kDropped;
      break;
    }
  }
  // Sums that drifted over many sweeps are replaced by fresh ones before anybody relies on the
  // bound.
  lower_ = ExactBound();
  return stop;
}

double Dual::ExactBound() {
  theta_ = model_.unary;
  double bound = 0.0;
  for (size_t l = 0; l < model_.links.size(); ++l) {
    const Link& link = model_.links[l];
    const PairTable& table = model_.table(link);
    const double* at_i = messages_.data() + model_.message_i(static_cast<int32_t>(l));
    const double* at_j = messages_.data() + model_.message_j(static_cast<int32_t>(l));
    for (int32_t s = 0; s < table.states_i; ++s) theta_[model_.first[link.i] + s] += at_i[s];
    for (int32_t s = 0; s < table.states_j; ++s) theta_[model_.first[link.j] + s] += at_j[s];
    ColumnMinima(table.by_i.data(), table.states_i, table.states_j, at_i, scratch_.data());
    double least = kInfinity;
    for (int32_t s = 0; s < table.states_j; ++s) least = std::min(least, scratch_[s] - at_j[s]);
    bound += least;
  }
  for (int32_t k = 0; k < model_.size(); ++k) {
    bound +=
        *std::min_element(theta_.begin() + model_.first[k], theta_.begin() + model_.first[k + 1]);
  }
  lower_ = bound;
  return bound;
}

std::vector<double> Dual::Excess() const {
  std::vector<double> excess = theta_;
  for (int32_t k = 0; k < model_.size(); ++k) {
    const auto begin = excess.begin() + model_.first[k];
    const auto end = excess.begin() + model_.first[k + 1];
    const double least = *std::min_element(begin, end);
    for (auto it = begin; it != end; ++it) *it -= least;
  }
  std::vector<double> minima(scratch_.size());
  for (size_t l = 0; l < model_.links.size(); ++l) {
    const Link& link = model_.links[l];
    const PairTable& table = model_.table(link);
    const double* at_i = messages_.data() + model_.message_i(static_cast<int32_t>(l));
    const double* at_j = messages_.data() + model_.message_j(static_cast<int32_t>(l));
    const auto add = [&](int32_t place, int32_t states, const double* mine) {
      double least = kInfinity;
      for (int32_t s = 0; s < states; ++s) least = std::min(least, minima[s] -= mine[s]);
      for (int32_t s = 0; s < states; ++s) excess[model_.first[place] + s] += minima[s] - least;
    };
    ColumnMinima(table.by_i.data(), table.states_i, table.states_j, at_i, minima.data());
    add(link.j, table.states_j, at_j);
    ColumnMinima(table.by_j.data(), table.states_j, table.states_i, at_j, minima.data());
    add(link.i, table.states_i, at_i);
  }
  return excess;
}

}  // namespace tandem::solver
