#include "optimizer/solver/repeat.h"

#include <algorithm>
#include <limits>
#include <map>
#include <numeric>
#include <tuple>
#include <utility>

namespace tandem::solver {
namespace {

constexpr int32_t kKeptBlocks = 4;
constexpr int32_t kCompletingSweeps = 12;

// An edge as seen from its block: places of both ends inside their blocks, table, and whether the
// edge starts at the later block.
using EdgeShape = std::tuple<int32_t, int32_t, int32_t, bool>;

struct Block {
  int32_t id = 0;
  std::vector<int32_t> nodes;                        // by position
  std::vector<std::pair<int32_t, int32_t>> vectors;  // unary and memory ids of the nodes
  std::vector<EdgeShape> inside;
  std::vector<EdgeShape> to_next;
  bool reaches_far = false;  // an edge to a block that is not next to it
};

struct Blocks {
  std::vector<Block> all;              // by rising id
  std::vector<int32_t> block_of_node;  // index into `all`
  std::vector<int32_t> place_of_node;  // index into Block::nodes
};

Blocks Gather(const Problem& problem) {
  Blocks blocks;
  const int32_t n = problem.node_count();
  std::vector<int32_t> order(n);
  std::iota(order.begin(), order.end(), 0);
  std::stable_sort(order.begin(), order.end(), [&](int32_t a, int32_t b) {
    const Node& x = problem.nodes()[a];
    const Node& y = problem.nodes()[b];
    return std::tie(x.block, x.position) < std::tie(y.block, y.position);
  });
  blocks.block_of_node.resize(n);
  blocks.place_of_node.resize(n);
  for (int32_t node : order) {
    const Node& fields = problem.nodes()[node];
    if (blocks.all.empty() || blocks.all.back().id != fields.block) {
      blocks.all.emplace_back();
      blocks.all.back().id = fields.block;
    }
    Block& block = blocks.all.back();
    blocks.block_of_node[node] = static_cast<int32_t>(blocks.all.size()) - 1;
    blocks.place_of_node[node] = static_cast<int32_t>(block.nodes.size());
    block.nodes.push_back(node);
    block.vectors.push_back({fields.unary, fields.memory});
  }
  for (const Edge& edge : problem.edges()) {
    const int32_t i = blocks.block_of_node[edge.i];
    const int32_t j = blocks.block_of_node[edge.j];
    const EdgeShape shape = {blocks.place_of_node[edge.i], blocks.place_of_node[edge.j], edge.table,
                             i > j};
    if (i == j) {
      blocks.all[i].inside.push_back(shape);
    } else if (i - j == 1 || j - i == 1) {
      blocks.all[std::min(i, j)].to_next.push_back(shape);
    } else {
      blocks.all[i].reaches_far = true;
      blocks.all[j].reaches_far = true;
    }
  }
  for (Block& block : blocks.all) {
    std::sort(block.inside.begin(), block.inside.end());
    std::sort(block.to_next.begin(), block.to_next.end());
  }
  return blocks;
}

bool SameInside(const Block& a, const Block& b) {
  return a.vectors == b.vectors && a.inside == b.inside;
}

// Runs as index ranges [first, last] into Blocks::all.
std::vector<std::pair<int32_t, int32_t>> RunRanges(const Blocks& blocks) {
  std::vector<std::pair<int32_t, int32_t>> runs;
  const auto count = static_cast<int32_t>(blocks.all.size());
  for (int32_t first = 0; first < count;) {
    int32_t last = first;
    while (last + 1 < count && SameInside(blocks.all[first], blocks.all[last + 1]) &&
           blocks.all[last].to_next == blocks.all[first].to_next &&
           (last == first || !blocks.all[last].reaches_far)) {
      ++last;
    }
    if (last > first) runs.push_back({first, last});
    first = last + 1;
  }
  return runs;
}

}  // namespace

std::vector<BlockRun> FindRuns(const Problem& problem) {
  const Blocks blocks = Gather(problem);
  std::vector<BlockRun> runs;
  for (const auto& [first, last] : RunRanges(blocks)) {
    runs.push_back({blocks.all[first].id, blocks.all[last].id, last - first + 1});
  }
  return runs;
}

bool Repeats(const Problem& problem) {
  const std::vector<BlockRun> runs = FindRuns(problem);
  return std::any_of(runs.begin(), runs.end(),
                     [](const BlockRun& run) { return run.count > kKeptBlocks; });
}

FoldedProblem Fold(const Problem& problem, const std::vector<BlockRun>& runs) {
  const Blocks blocks = Gather(problem);
  // For every block the kept block that stands for it; for every pair (block, next) the kept pair.
  std::vector<int32_t> stand_in(blocks.all.size());
  std::iota(stand_in.begin(), stand_in.end(), 0);
  std::vector<std::pair<int32_t, int32_t>> pair_stand_in(blocks.all.size());
  for (size_t b = 0; b < blocks.all.size(); ++b) {
    pair_stand_in[b] = {static_cast<int32_t>(b), static_cast<int32_t>(b) + 1};
  }
  for (const BlockRun& run : runs) {
    if (run.count <= kKeptBlocks) continue;
    const auto at = std::find_if(blocks.all.begin(), blocks.all.end(),
                                 [&](const Block& block) { return block.id == run.first_block; });
    const auto first = static_cast<int32_t>(at - blocks.all.begin());
    const int32_t last = first + run.count - 1;
    for (int32_t b = first + 1; b <= last - 2; ++b) {
      stand_in[b] = first + 1;
      pair_stand_in[b] = {first + 1, last - 1};
    }
  }

  FoldedProblem fold;
  // The same ids for vectors and tables, as both are interned in the same order.
  for (const std::vector<double>& vector : problem.vectors()) fold.problem.AddVector(vector);
  for (const Table& table : problem.tables()) fold.problem.AddTable(table);
  fold.image.assign(problem.node_count(), -1);
  for (int32_t n = 0; n < problem.node_count(); ++n) {
    const int32_t b = blocks.block_of_node[n];
    if (stand_in[b] == b) fold.image[n] = fold.problem.AddNode(problem.nodes()[n]);
  }
  for (int32_t n = 0; n < problem.node_count(); ++n) {
    const Block& block = blocks.all[stand_in[blocks.block_of_node[n]]];
    fold.image[n] = fold.image[block.nodes[blocks.place_of_node[n]]];
  }
  // An edge of the fold is known by its ends and table, and by how often that came before.
  std::map<std::tuple<int32_t, int32_t, int32_t, int32_t>, int32_t> known;
  std::map<std::tuple<int32_t, int32_t, int32_t>, int32_t> seen;
  for (const Edge& edge : problem.edges()) {
    const int32_t repeat = seen[{edge.i, edge.j, edge.table}]++;
    int32_t bi = blocks.block_of_node[edge.i];
    int32_t bj = blocks.block_of_node[edge.j];
    if (bi == bj) {
      bi = bj = stand_in[bi];
    } else if (bj == bi + 1) {
      std::tie(bi, bj) = pair_stand_in[bi];
    } else if (bi == bj + 1) {
      std::tie(bj, bi) = pair_stand_in[bj];
    }
    const int32_t i = fold.image[blocks.all[bi].nodes[blocks.place_of_node[edge.i]]];
    const int32_t j = fold.image[blocks.all[bj].nodes[blocks.place_of_node[edge.j]]];
    const auto [it, added] = known.insert(
        {{i, j, edge.table, repeat}, static_cast<int32_t>(fold.problem.edges().size())});
    if (added) fold.problem.AddEdge(i, j, edge.table);
    fold.edge_image.push_back(it->second);
  }
  return fold;
}

absl::StatusOr<SolveResult> SolveRepeated(const Problem& problem, const SolveOptions& options) {
  absl::Status status = Validate(problem);
  if (!status.ok()) return status;
  if (!Repeats(problem) || options.start_plan != nullptr || options.start_messages != nullptr) {
    return Solve(problem, options);
  }
  const FoldedProblem fold = Fold(problem, FindRuns(problem));
  SolveOptions fold_options = options;
  fold_options.want_messages = true;
  fold_options.cut = false;
  // The fold's objective is not the whole's.
  fold_options.incumbent_seconds = std::numeric_limits<double>::infinity();
  fold_options.progress = nullptr;
  absl::StatusOr<SolveResult> small = Solve(fold.problem, fold_options);
  if (!small.ok()) return small.status();

  Plan plan(problem.node_count());
  for (int32_t n = 0; n < problem.node_count(); ++n) plan[n] = small->plan[fold.image[n]];
  Messages messages;
  messages.to.resize(2 * problem.edges().size());
  for (size_t e = 0; e < problem.edges().size(); ++e) {
    messages.to[2 * e] = small->messages.to[2 * fold.edge_image[e]];
    messages.to[2 * e + 1] = small->messages.to[2 * fold.edge_image[e] + 1];
  }
  SolveOptions whole_options = options;
  whole_options.start_plan = &plan;
  whole_options.start_messages = &messages;
  // Where elimination is not wanted, what the fold left open stays open: only its messages are
  // completed.
  if (!options.exact && small->status == SolveStatus::kFeasible) {
    whole_options.max_sweeps = std::min(options.max_sweeps, kCompletingSweeps);
  }
  absl::StatusOr<SolveResult> result = Solve(problem, whole_options);
  if (!result.ok()) return result.status();
  result->steps.sweeps += small->steps.sweeps;
  result->steps.dual_cells += small->steps.dual_cells;
  result->steps.elimination_cells += small->steps.elimination_cells;
  result->steps.windows += small->steps.windows;
  return result;
}

}  // namespace tandem::solver
