// The problem as the algorithms want it: nodes renumbered into sweep order (block, position, id),
// edges of one pair merged into one link, every table in both orientations, costs in one flat
// array.
//
// Invariants: link.i < link.j; arcs of a node are sorted by neighbour, so the ones to earlier nodes
// come first; a table's `by_i` is states(i) x states(j) and `by_j` its transpose. Everything inside
// optimizer/solver except the public entries speaks in places (positions of the sweep order).
#ifndef OPTIMIZER_SOLVER_MODEL_H_
#define OPTIMIZER_SOLVER_MODEL_H_

#include <cstdint>
#include <memory>
#include <vector>

#include "absl/types/span.h"
#include "optimizer/solver/problem.h"

namespace tandem::solver {

struct PairTable {
  int32_t states_i = 0;
  int32_t states_j = 0;
  std::vector<double> by_i;
  std::vector<double> by_j;
};

struct Link {
  int32_t i = 0;
  int32_t j = 0;
  int32_t table = 0;
};

struct Arc {
  int32_t link = 0;
  int32_t neighbour = 0;
};

struct Model {
  std::vector<int64_t> first;  // first[k] .. first[k + 1]: the states of place k in flat arrays
  std::vector<double> unary;   // seconds (priced)
  std::vector<int32_t> block;  // nondecreasing
  std::vector<Link> links;     // sorted by (i, j)
  std::vector<std::shared_ptr<const PairTable>> tables;
  std::vector<int64_t> arc_first;   // arcs of place k: arc_first[k] .. arc_first[k + 1]
  std::vector<int64_t> arc_middle;  // first arc of k whose neighbour is later than k
  std::vector<Arc> arcs;
  std::vector<int64_t> message_first;  // link l: message into i here, into j after states(i) more

  int32_t size() const { return static_cast<int32_t>(block.size()); }
  int32_t states(int32_t place) const {
    return static_cast<int32_t>(first[place + 1] - first[place]);
  }
  const double* costs(int32_t place) const { return unary.data() + first[place]; }
  const PairTable& table(const Link& link) const { return *tables[link.table]; }
  int64_t message_size() const { return message_first.back(); }
  int64_t message_i(int32_t link) const { return message_first[link]; }
  int64_t message_j(int32_t link) const {
    return message_first[link] + tables[links[link].table]->states_i;
  }
  absl::Span<const Arc> arcs_of(int32_t place) const {
    return {arcs.data() + arc_first[place],
            static_cast<size_t>(arc_first[place + 1] - arc_first[place])};
  }
  // The costs that `arc`, seen from `place`, adds to each state of `place` when its neighbour is in
  // state `other`: contiguous.
  const double* row(int32_t place, const Arc& arc, int32_t other) const {
    const Link& link = links[arc.link];
    const PairTable& t = *tables[link.table];
    return link.i == place ? t.by_j.data() + static_cast<int64_t>(other) * t.states_i
                           : t.by_i.data() + static_cast<int64_t>(other) * t.states_j;
  }
  double Value(absl::Span<const int32_t> plan) const;
  int64_t Cells() const;  // sum over links of states(i) * states(j): the work of half a sweep

  // Fills first, arcs and message_first from unary sizes, block and links.
  void Index(const std::vector<int32_t>& states);
};

// A model together with the way back to the problem it was made from.
struct CompiledProblem {
  Model model;
  std::vector<int32_t> node_of_place;
  std::vector<int32_t> place_of_node;
  std::vector<int32_t> link_of_edge;
  // What every plan pays: price times each node's least memory. Kept out of the model, so that a
  // high price does not drown the forbidden cost.
  double constant_seconds = 0.0;

  Plan ToProblem(absl::Span<const int32_t> places) const;
  std::vector<int32_t> FromProblem(absl::Span<const int32_t> plan) const;
};

// Objective = seconds + price * bytes = model value + constant_seconds. Needs a valid problem.
CompiledProblem Compile(const Problem& problem, double price_seconds_per_byte);

// Recomputes only the node costs, for another price.
void SetPrice(const Problem& problem, double price_seconds_per_byte, CompiledProblem& compiled);

// The model with only the states in keep[place] (ascending, not empty). Shared tables with equal
// kept sets stay shared.
Model Restrict(const Model& model, const std::vector<std::vector<int32_t>>& keep);

// Renumbers a plan of a restricted model back.
std::vector<int32_t> Unrestrict(const std::vector<std::vector<int32_t>>& keep,
                                absl::Span<const int32_t> plan);

}  // namespace tandem::solver

#endif  // OPTIMIZER_SOLVER_MODEL_H_
