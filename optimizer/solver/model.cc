#include "optimizer/solver/model.h"

#include <algorithm>
#include <map>
#include <numeric>
#include <tuple>
#include <utility>

namespace tandem::solver {
namespace {

// One table of a merged pair: its id, and whether its rows are the later place's states.
using Part = std::pair<int32_t, bool>;

void AddInto(const Table& table, bool flipped, PairTable& sum) {
  for (int32_t r = 0; r < table.rows; ++r) {
    for (int32_t c = 0; c < table.cols; ++c) {
      const double cost = table.cost[static_cast<int64_t>(r) * table.cols + c];
      const int64_t i = flipped ? c : r;
      const int64_t j = flipped ? r : c;
      sum.by_i[i * sum.states_j + j] += cost;
    }
  }
}

void Transpose(PairTable& table) {
  table.by_j.resize(table.by_i.size());
  for (int64_t i = 0; i < table.states_i; ++i) {
    for (int64_t j = 0; j < table.states_j; ++j) {
      table.by_j[j * table.states_i + i] = table.by_i[i * table.states_j + j];
    }
  }
}

std::shared_ptr<const PairTable> MergeTables(const Problem& problem,
                                             const std::vector<Part>& parts) {
  auto sum = std::make_shared<PairTable>();
  const Table& head = problem.tables()[parts[0].first];
  sum->states_i = parts[0].second ? head.cols : head.rows;
  sum->states_j = parts[0].second ? head.rows : head.cols;
  sum->by_i.assign(head.cost.size(), 0.0);
  for (const auto& [id, flipped] : parts) AddInto(problem.tables()[id], flipped, *sum);
  Transpose(*sum);
  return sum;
}

}  // namespace

double Model::Value(absl::Span<const int32_t> plan) const {
  double sum = 0.0;
  for (int32_t k = 0; k < size(); ++k) sum += costs(k)[plan[k]];
  for (const Link& link : links) {
    const PairTable& t = table(link);
    sum += t.by_i[static_cast<int64_t>(plan[link.i]) * t.states_j + plan[link.j]];
  }
  return sum;
}

int64_t Model::Cells() const {
  int64_t cells = 0;
  for (const Link& link : links) {
    cells += static_cast<int64_t>(states(link.i)) * states(link.j);
  }
  return cells;
}

void Model::Index(const std::vector<int32_t>& states) {
  const auto n = static_cast<int32_t>(states.size());
  first.assign(n + 1, 0);
  for (int32_t k = 0; k < n; ++k) first[k + 1] = first[k] + states[k];
  message_first.assign(links.size() + 1, 0);
  arc_first.assign(n + 1, 0);
  for (size_t l = 0; l < links.size(); ++l) {
    message_first[l + 1] = message_first[l] + states[links[l].i] + states[links[l].j];
    ++arc_first[links[l].i + 1];
    ++arc_first[links[l].j + 1];
  }
  for (int32_t k = 0; k < n; ++k) arc_first[k + 1] += arc_first[k];
  arcs.assign(2 * links.size(), Arc());
  std::vector<int64_t> next(arc_first.begin(), arc_first.end() - 1);
  // Links are sorted by (i, j), so the arcs of j come out sorted by i; those to earlier places are
  // all put down before those to later ones.
  for (size_t l = 0; l < links.size(); ++l) {
    arcs[next[links[l].j]++] = {static_cast<int32_t>(l), links[l].i};
  }
  arc_middle = next;
  for (size_t l = 0; l < links.size(); ++l) {
    arcs[next[links[l].i]++] = {static_cast<int32_t>(l), links[l].j};
  }
}

Plan CompiledProblem::ToProblem(absl::Span<const int32_t> places) const {
  Plan plan(places.size());
  for (size_t k = 0; k < places.size(); ++k) plan[node_of_place[k]] = places[k];
  return plan;
}

std::vector<int32_t> CompiledProblem::FromProblem(absl::Span<const int32_t> plan) const {
  std::vector<int32_t> places(plan.size());
  for (size_t n = 0; n < plan.size(); ++n) places[place_of_node[n]] = plan[n];
  return places;
}

void SetPrice(const Problem& problem, double price_seconds_per_byte, CompiledProblem& compiled) {
  Model& model = compiled.model;
  model.unary.resize(model.first.back());
  compiled.constant_seconds = 0.0;
  for (int32_t k = 0; k < model.size(); ++k) {
    const int32_t n = compiled.node_of_place[k];
    const std::vector<double>& unary = problem.unary(n);
    const int32_t memory = problem.nodes()[n].memory;
    double least = 0.0;
    if (memory >= 0) {
      const std::vector<double>& bytes = problem.vectors()[memory];
      least = *std::min_element(bytes.begin(), bytes.end());
    }
    compiled.constant_seconds += price_seconds_per_byte * least;
    for (size_t s = 0; s < unary.size(); ++s) {
      model.unary[model.first[k] + s] =
          unary[s] +
          price_seconds_per_byte * (problem.memory_bytes(n, static_cast<int32_t>(s)) - least);
    }
  }
}

CompiledProblem Compile(const Problem& problem, double price_seconds_per_byte) {
  CompiledProblem compiled;
  Model& model = compiled.model;
  const int32_t n = problem.node_count();
  compiled.node_of_place.resize(n);
  std::iota(compiled.node_of_place.begin(), compiled.node_of_place.end(), 0);
  std::stable_sort(compiled.node_of_place.begin(), compiled.node_of_place.end(),
                   [&](int32_t a, int32_t b) {
                     const Node& x = problem.nodes()[a];
                     const Node& y = problem.nodes()[b];
                     return std::tie(x.block, x.position) < std::tie(y.block, y.position);
                   });
  compiled.place_of_node.resize(n);
  std::vector<int32_t> states(n);
  model.block.resize(n);
  for (int32_t k = 0; k < n; ++k) {
    const int32_t node = compiled.node_of_place[k];
    compiled.place_of_node[node] = k;
    states[k] = problem.states(node);
    model.block[k] = problem.nodes()[node].block;
  }

  // Pairs in order, each with its parts; equal part lists share one table.
  std::map<std::pair<int32_t, int32_t>, std::vector<Part>> pairs;
  std::vector<std::pair<int32_t, int32_t>> pair_of_edge(problem.edges().size());
  for (size_t e = 0; e < problem.edges().size(); ++e) {
    const Edge& edge = problem.edges()[e];
    const int32_t a = compiled.place_of_node[edge.i];
    const int32_t b = compiled.place_of_node[edge.j];
    pair_of_edge[e] = {std::min(a, b), std::max(a, b)};
    pairs[pair_of_edge[e]].push_back({edge.table, a > b});
  }
  std::map<std::vector<Part>, int32_t> known;
  std::map<std::pair<int32_t, int32_t>, int32_t> link_of_pair;
  for (auto& [pair, parts] : pairs) {
    std::sort(parts.begin(), parts.end());
    auto [it, added] = known.insert({parts, static_cast<int32_t>(model.tables.size())});
    if (added) model.tables.push_back(MergeTables(problem, parts));
    link_of_pair[pair] = static_cast<int32_t>(model.links.size());
    model.links.push_back({pair.first, pair.second, it->second});
  }
  compiled.link_of_edge.resize(problem.edges().size());
  for (size_t e = 0; e < problem.edges().size(); ++e) {
    compiled.link_of_edge[e] = link_of_pair[pair_of_edge[e]];
  }
  model.Index(states);
  SetPrice(problem, price_seconds_per_byte, compiled);
  return compiled;
}

Model Restrict(const Model& model, const std::vector<std::vector<int32_t>>& keep) {
  Model out;
  out.block = model.block;
  std::vector<int32_t> states(model.size());
  // Equal kept sets get equal ids, so that a table is cut once per pair of sets.
  std::map<std::vector<int32_t>, int32_t> set_ids;
  std::vector<int32_t> set_of(model.size());
  for (int32_t k = 0; k < model.size(); ++k) {
    states[k] = static_cast<int32_t>(keep[k].size());
    set_of[k] = set_ids.insert({keep[k], static_cast<int32_t>(set_ids.size())}).first->second;
    for (int32_t s : keep[k]) out.unary.push_back(model.costs(k)[s]);
  }
  std::map<std::tuple<int32_t, int32_t, int32_t>, int32_t> known;
  out.links = model.links;
  for (Link& link : out.links) {
    auto [it, added] = known.insert(
        {{link.table, set_of[link.i], set_of[link.j]}, static_cast<int32_t>(out.tables.size())});
    if (added) {
      const PairTable& whole = model.table(link);
      auto cut = std::make_shared<PairTable>();
      cut->states_i = states[link.i];
      cut->states_j = states[link.j];
      cut->by_i.reserve(static_cast<size_t>(cut->states_i) * cut->states_j);
      for (int32_t s : keep[link.i]) {
        const double* row = whole.by_i.data() + static_cast<int64_t>(s) * whole.states_j;
        for (int32_t t : keep[link.j]) cut->by_i.push_back(row[t]);
      }
      Transpose(*cut);
      out.tables.push_back(std::move(cut));
    }
    link.table = it->second;
  }
  out.Index(states);
  return out;
}

std::vector<int32_t> Unrestrict(const std::vector<std::vector<int32_t>>& keep,
                                absl::Span<const int32_t> plan) {
  std::vector<int32_t> out(plan.size());
  for (size_t k = 0; k < plan.size(); ++k) out[k] = keep[k][plan[k]];
  return out;
}

}  // namespace tandem::solver
