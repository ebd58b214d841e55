// Message passing on the dual of the linear relaxation: gives a plan *and* a bound that no plan can
// beat.
//
// Sequential reweighted message passing (Kolmogorov, "A new look at reweighted message passing",
// TPAMI 2015), which on pairwise problems is TRW-S (Kolmogorov, TPAMI 2006). The costs are only
// ever moved between a node and its links, never changed in sum, so any set of messages gives a
// valid bound:
//   bound = sum over nodes of min theta + sum over links of min (table - messages).
// After a sweep every link's minimum is zero, so the bound costs nothing to read. Sweeps alternate
// in direction; time per sweep is one pass over all table cells.
#ifndef OPTIMIZER_SOLVER_DUAL_H_
#define OPTIMIZER_SOLVER_DUAL_H_

#include <atomic>
#include <cstdint>
#include <limits>
#include <optional>
#include <vector>

#include "optimizer/solver/model.h"

namespace tandem::solver {

inline constexpr double kInfinity = std::numeric_limits<double>::infinity();

struct DualOptions {
  int32_t max_sweeps = 10;
  double closed = kInfinity;     // done once the bound reaches this (or the dual's own plan)
  double incumbent = kInfinity;  // give up once the bound exceeds this
  const std::atomic<bool>* cancel = nullptr;
};

enum class DualStop { kClosed, kDropped, kBudget, kCancelled };

class Dual {
 public:
  explicit Dual(const Model& model);  // keeps the address of `model`

  // Replaces all messages (layout of Model::message_first).
  void SetMessages(std::vector<double> messages);
  // Offers a plan; kept when better than the best one.
  void Offer(const std::vector<int32_t>& plan);

  // Runs sweeps until closed, dropped, cancelled or out of sweeps. May be called again.
  DualStop Run(const DualOptions& options);

  // Recomputes theta and the bound from the messages: exact up to rounding, whatever they are.
  double ExactBound();

  // For every state, how much the bound would rise at least if the state were forced: the state
  // cannot occur in a plan better than `upper` when lower + excess > upper. Flat, as Model::unary.
  std::vector<double> Excess() const;

  double lower() const { return lower_; }
  double upper() const { return upper_; }
  const std::vector<int32_t>& plan() const { return plan_; }
  int32_t sweeps() const { return sweeps_; }
  const std::vector<double>& messages() const { return messages_; }
  const std::vector<double>& theta() const { return theta_; }

 private:
  // The bound after the sweep; nothing when it was cancelled on the way, which leaves valid
  // messages.
  std::optional<double> Sweep(bool forward, const std::atomic<bool>* cancel);
  void Pull(int32_t place, absl::Span<const Arc> before);
  void Label(int32_t place, absl::Span<const Arc> before, absl::Span<const Arc> after);
  void Push(int32_t place, size_t before_count, absl::Span<const Arc> after);
  double* message(int32_t place, const Arc& arc);
  void Improve();

  const Model& model_;
  std::vector<double> messages_;
  std::vector<double> theta_;  // node costs with the messages in
  std::vector<double> scratch_;
  std::vector<double> choice_;
  std::vector<int32_t> labels_;  // plan of the current sweep
  std::vector<int32_t> plan_;    // best so far
  double lower_ = -kInfinity;
  double upper_ = kInfinity;
  int32_t sweeps_ = 0;
};

}  // namespace tandem::solver

#endif  // OPTIMIZER_SOLVER_DUAL_H_
