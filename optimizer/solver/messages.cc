#include "optimizer/solver/messages.h"

#include <algorithm>
#include <cstdint>
#include <utility>

#include "absl/strings/str_cat.h"

namespace tandem::solver {
namespace {

// Where an edge's messages lie: its link, and which of its ends is the link's first.
struct Slot {
  int32_t link = 0;
  size_t to_i = 0;
  size_t to_j = 0;
};

Slot SlotOf(const Problem& problem, const CompiledProblem& compiled, size_t edge) {
  const Edge& e = problem.edges()[edge];
  const bool flipped = compiled.place_of_node[e.i] > compiled.place_of_node[e.j];
  return {compiled.link_of_edge[edge], 2 * edge + (flipped ? 1 : 0), 2 * edge + (flipped ? 0 : 1)};
}

}  // namespace

absl::Status ValidateMessages(const Problem& problem, const Messages& messages) {
  const std::vector<std::vector<double>>& to = messages.to;
  if (to.size() != 2 * problem.edges().size()) {
    return absl::InvalidArgumentError(absl::StrCat(
        "messages for ", to.size() / 2, " edges, but the problem has ", problem.edges().size()));
  }
  for (size_t e = 0; e < problem.edges().size(); ++e) {
    const Edge& edge = problem.edges()[e];
    if (static_cast<int32_t>(to[2 * e].size()) == problem.states(edge.i) &&
        static_cast<int32_t>(to[2 * e + 1].size()) == problem.states(edge.j)) {
      continue;
    }
    return absl::InvalidArgumentError(absl::StrCat(
        "messages of edge ", e, " have ", to[2 * e].size(), " and ", to[2 * e + 1].size(),
        " entries for ", problem.states(edge.i), " and ", problem.states(edge.j), " states"));
  }
  return absl::OkStatus();
}

std::vector<double> PackMessages(const Problem& problem, const CompiledProblem& compiled,
                                 const Messages& messages) {
  const Model& model = compiled.model;
  std::vector<double> flat(model.message_size(), 0.0);
  for (size_t e = 0; e < problem.edges().size(); ++e) {
    const Slot slot = SlotOf(problem, compiled, e);
    double* at_i = flat.data() + model.message_i(slot.link);
    double* at_j = flat.data() + model.message_j(slot.link);
    for (double value : messages.to[slot.to_i]) *at_i++ += value;
    for (double value : messages.to[slot.to_j]) *at_j++ += value;
  }
  return flat;
}

Messages UnpackMessages(const Problem& problem, const CompiledProblem& compiled,
                        const std::vector<double>& flat) {
  const Model& model = compiled.model;
  Messages messages;
  messages.to.resize(2 * problem.edges().size());
  std::vector<char> given(model.links.size(), 0);
  for (size_t e = 0; e < problem.edges().size(); ++e) {
    const Slot slot = SlotOf(problem, compiled, e);
    std::vector<double>& to_i = messages.to[slot.to_i];
    std::vector<double>& to_j = messages.to[slot.to_j];
    to_i.assign(model.states(model.links[slot.link].i), 0.0);
    to_j.assign(model.states(model.links[slot.link].j), 0.0);
    if (std::exchange(given[slot.link], 1)) continue;  // the first edge of a pair carries all
    std::copy_n(flat.data() + model.message_i(slot.link), to_i.size(), to_i.data());
    std::copy_n(flat.data() + model.message_j(slot.link), to_j.size(), to_j.data());
  }
  return messages;
}

}  // namespace tandem::solver
