// Costs over several places, and what elimination does with them: all that touch one place are
// added up and minimised over its states.
#ifndef OPTIMIZER_SOLVER_BUCKET_H_
#define OPTIMIZER_SOLVER_BUCKET_H_

#include <cstdint>
#include <limits>
#include <vector>

#include "optimizer/solver/model.h"

namespace tandem::solver {

// Scopes are sorted by falling elimination rank, so the place eliminated next is always the last
// one and its states are contiguous: no table is ever transposed.
struct Factor {
  std::vector<int32_t> scope;
  std::vector<double> values;
};

// The model's costs as factors, plus the constant returned: places of one state are folded into
// their neighbours. `rank` gives each open place its turn. With messages (layout of
// Model::message_first; may be null) each factor holds what the messages leave of it above its
// least, which goes to the constant: the sum is the same, no factor is negative, and the constant
// is the bound of the messages.
double SeedFactors(const Model& model, const std::vector<int32_t>& rank,
                   const std::vector<double>* messages, std::vector<Factor>& factors);

// The places of all factors but the last of each, by falling rank.
std::vector<int32_t> JointScope(const std::vector<const Factor*>& factors,
                                const std::vector<int32_t>& rank);

// A value that no sum can come back from.
inline constexpr double kDead = std::numeric_limits<double>::infinity();

// What the walks over joint states may spend and have spent, in cells (joint states times own
// states).
struct WalkBudget {
  int64_t cells_left = std::numeric_limits<int64_t>::max();
  bool spent() const { return cells_left < 0; }
};

// One place, the factors that end with it, and their joint scope without it.
class Bucket {
 public:
  Bucket(const Model& model, int32_t place, std::vector<int32_t> scope,
         const std::vector<const Factor*>& factors);

  // The least sum over the place's states for every joint state of the scope, and where it is first
  // (unless `best` is null). Joint states whose sum is above `most` may come out as kDead: exact
  // only where no factor is negative. Incomplete when the budget is spent.
  void Minimise(double most, WalkBudget& budget, Factor& out, std::vector<uint16_t>* best);

  // The least sum over all joint states of the scope for each state of the place.
  std::vector<double> Marginal(WalkBudget& budget);

 private:
  struct Reader {
    const double* values;
    std::vector<int64_t> stride;  // per place of the scope
    std::vector<int64_t> offset;  // per level, given the states chosen above it
  };

  const double* RowOf(size_t reader, size_t level) const;
  void AddComplete(size_t level, size_t count);
  template <typename Leaf>
  void Walk(size_t level, Leaf& leaf);
  template <typename Leaf>
  void WalkAll(double most, WalkBudget& budget, Leaf& leaf);
  // Both addends of the sums at the current joint state: summed so far, and the last factor's row.
  void LeafRows(const double** sum, const double** last);

  std::vector<int32_t> scope_;
  int32_t own_states_;
  std::vector<int32_t> states_;
  std::vector<Reader> readers_;
  std::vector<std::vector<size_t>> complete_at_;  // level -> readers whose places are all chosen
  std::vector<std::vector<size_t>> open_at_;      // level -> readers not complete before it
  std::vector<int64_t> below_;                    // level -> joint states of the places from it on
  double most_ = kDead;
  WalkBudget* budget_ = nullptr;
  std::vector<double> zeros_;
  std::vector<double> scratch_;
  std::vector<std::vector<double>> sums_;  // per level, over the place's states
};

}  // namespace tandem::solver

#endif  // OPTIMIZER_SOLVER_BUCKET_H_
