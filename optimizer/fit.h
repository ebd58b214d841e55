// The fastest plan of one form of the model within the memory: how the step is cut up, and the
// layouts of each way (search_layouts.h), with all rows that the plan uses proved.
#ifndef TANDEM_OPTIMIZER_FIT_H_
#define TANDEM_OPTIMIZER_FIT_H_

#include <cstdint>
#include <functional>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "optimizer/forced.h"
#include "optimizer/forms.h"
#include "optimizer/node_classes.h"
#include "optimizer/optimize.h"
#include "optimizer/reshard_table.h"
#include "optimizer/search_layouts.h"

namespace tandem {

// How a step is cut up to save memory.
struct Saving {
  int64_t micro_batches = 1;
  int recomputed = 0;  // the first so many recomputable blocks
  bool outputs = true;
};

// Why there is no plan.
struct Shortfall {
  std::string reason;
  int64_t least_bytes = 0;  // that a device needs by the least that was found, or at least; 0: it
                            // is not the memory
};

class Fitter {
 public:
  using Meshes = std::vector<std::vector<int64_t>>;
  // Keeps references to all of them.
  Fitter(const Machine& machine, const OptimizeOptions& options, int64_t memory_limit_bytes,
         RowProofs& proofs, Forms& forms)
      : machine_(machine),
        options_(options),
        limit_(memory_limit_bytes),
        proofs_(proofs),
        forms_(forms) {}

  // None if nothing fits: `shortfall` says why. `kinds`: one an axis of the meshes, or none.
  absl::StatusOr<std::optional<Evaluated>> Fit(int form, const std::vector<AxisKind>& kinds,
                                               const Meshes& meshes, Shortfall& shortfall);
  // Of another form than that of `best`, cut up in the same way; none where it does not fit, or is
  // not cheaper than `drop_factor` times the best by the search's own cost.
  absl::StatusOr<std::optional<Evaluated>> FitLike(const Evaluated& best, int form,
                                                   const std::vector<AxisKind>& kinds,
                                                   const Meshes& meshes,
                                                   double drop_factor = LayoutSearch().drop_factor);

  // Of the last search that found a plan (LayoutSearchResult::meshes).
  const Meshes& worth_a_look() const { return worth_a_look_; }
  int64_t steps() const { return steps_; }  // of the solver, in all

 private:
  // One form on some meshes.
  struct Task {
    int form = 0;
    const std::vector<AxisKind>& kinds;
    std::set<int> blocks;  // that can be recomputed
    Shortfall& shortfall;
  };
  // What one way to cut up a step came to.
  struct Tried {
    std::optional<Evaluated> plan;  // one that fits
    bool too_large = false;         // there are plans, and none fits
    double free_bytes = 0;          // of the fastest layouts, by the search's own sum
  };
  using Attempt = std::function<absl::StatusOr<Tried>(const Saving&, const Meshes&)>;

  absl::StatusOr<std::optional<Evaluated>> Proved(
      const std::function<absl::StatusOr<std::optional<Evaluated>>()>& search);
  absl::StatusOr<std::optional<Evaluated>> Search(const Task& task, const Meshes& meshes);
  absl::Status RecomputeLess(Saving saving, const Tried& none, const Tried& most,
                             const Attempt& attempt) const;
  absl::StatusOr<Tried> Try(const Task& task, const Saving& saving, const Meshes& meshes,
                            const Evaluated* incumbent, double drop_factor);
  std::vector<int64_t> MicroBatchCounts(const Graph& training) const;
  void Say(const std::string& line) const {
    if (options_.progress) options_.progress(line);
  }
  bool Cancelled() const { return options_.cancel != nullptr && *options_.cancel; }

  const Machine& machine_;
  const OptimizeOptions& options_;
  const int64_t limit_;
  RowProofs& proofs_;
  Forms& forms_;
  ReshardCache costs_;
  Meshes worth_a_look_;
  int64_t steps_ = 0;
};

}  // namespace tandem

#endif  // TANDEM_OPTIMIZER_FIT_H_
