#include "optimizer/solver/problem.h"

#include <algorithm>
#include <cstring>
#include <utility>

#include "absl/strings/str_cat.h"

namespace tandem::solver {
namespace {

constexpr double kMostBytes = 1e18;

uint64_t HashDoubles(const std::vector<double>& values, uint64_t seed) {
  uint64_t hash = 0xcbf29ce484222325ULL ^ (seed * 0x9e3779b97f4a7c15ULL);
  for (double value : values) {
    uint64_t bits;
    std::memcpy(&bits, &value, sizeof(bits));
    hash = (hash ^ bits) * 0x9e3779b97f4a7c15ULL;
    hash ^= hash >> 32;
  }
  return hash;
}

// Equality of bits, so that interning also ends for values that are not equal to themselves; those
// are refused later by Validate.
bool SameBits(const std::vector<double>& a, const std::vector<double>& b) {
  return a.size() == b.size() &&
         (a.empty() || std::memcmp(a.data(), b.data(), a.size() * sizeof(double)) == 0);
}

std::string NodeText(const Problem& problem, int32_t node) {
  return absl::StrCat("node ", node, " (", problem.nodes()[node].name, ")");
}

absl::Status CheckCosts(const std::vector<double>& costs, double least, double most,
                        const std::string& what) {
  for (size_t k = 0; k < costs.size(); ++k) {
    if (!(costs[k] >= least && costs[k] <= most)) {
      return absl::InvalidArgumentError(
          absl::StrCat(what, ": entry ", k, " is ", costs[k], "; it must lie in [", least, ", ",
                       most, "] (a forbidden choice is written as ", kForbidden, " seconds)"));
    }
  }
  return absl::OkStatus();
}

}  // namespace

int32_t Problem::AddVector(std::vector<double> values) {
  std::vector<int32_t>& candidates = vector_index_[HashDoubles(values, 1)];
  for (int32_t id : candidates) {
    if (SameBits(vectors_[id], values)) return id;
  }
  const int32_t id = static_cast<int32_t>(vectors_.size());
  candidates.push_back(id);
  vectors_.push_back(std::move(values));
  return id;
}

int32_t Problem::AddTable(Table table) {
  const uint64_t shape = (static_cast<uint64_t>(static_cast<uint32_t>(table.rows)) << 32) |
                         static_cast<uint32_t>(table.cols);
  std::vector<int32_t>& candidates = table_index_[HashDoubles(table.cost, shape)];
  for (int32_t id : candidates) {
    const Table& other = tables_[id];
    if (other.rows == table.rows && other.cols == table.cols && SameBits(other.cost, table.cost)) {
      return id;
    }
  }
  const int32_t id = static_cast<int32_t>(tables_.size());
  candidates.push_back(id);
  tables_.push_back(std::move(table));
  return id;
}

int32_t Problem::AddNode(Node node) {
  nodes_.push_back(std::move(node));
  return node_count() - 1;
}

void Problem::AddEdge(int32_t i, int32_t j, int32_t table) { edges_.push_back({i, j, table}); }

absl::Status Validate(const Problem& problem) {
  const auto vector_count = static_cast<int32_t>(problem.vectors().size());
  const auto table_count = static_cast<int32_t>(problem.tables().size());
  for (int32_t n = 0; n < problem.node_count(); ++n) {
    const Node& node = problem.nodes()[n];
    if (node.unary < 0 || node.unary >= vector_count || problem.unary(n).empty()) {
      return absl::InvalidArgumentError(
          absl::StrCat(NodeText(problem, n), " has no states; give it at least one"));
    }
    if (node.memory < -1 || node.memory >= vector_count ||
        (node.memory >= 0 && problem.vectors()[node.memory].size() != problem.unary(n).size())) {
      return absl::InvalidArgumentError(absl::StrCat(
          NodeText(problem, n), " has ", problem.states(n), " states but its memory vector (id ",
          node.memory, ") has another length; give one entry per state"));
    }
    absl::Status status =
        CheckCosts(problem.unary(n), -kForbidden, kForbidden, NodeText(problem, n));
    if (!status.ok()) return status;
    if (node.memory < 0) continue;
    status = CheckCosts(problem.vectors()[node.memory], 0.0, kMostBytes,
                        absl::StrCat("memory of ", NodeText(problem, n)));
    if (!status.ok()) return status;
  }
  for (int32_t t = 0; t < table_count; ++t) {
    const Table& table = problem.tables()[t];
    if (table.rows <= 0 || table.cols <= 0 ||
        table.cost.size() != static_cast<size_t>(table.rows) * static_cast<size_t>(table.cols)) {
      return absl::InvalidArgumentError(absl::StrCat("table ", t, " is ", table.rows, " x ",
                                                     table.cols, " but holds ", table.cost.size(),
                                                     " costs; give rows * cols of them"));
    }
    absl::Status status =
        CheckCosts(table.cost, -kForbidden, kForbidden, absl::StrCat("table ", t));
    if (!status.ok()) return status;
  }
  for (size_t e = 0; e < problem.edges().size(); ++e) {
    const Edge& edge = problem.edges()[e];
    const int32_t n = problem.node_count();
    if (edge.i < 0 || edge.i >= n || edge.j < 0 || edge.j >= n || edge.i == edge.j) {
      return absl::InvalidArgumentError(
          absl::StrCat("edge ", e, " joins ", edge.i, " and ", edge.j, " of ", n,
                       " nodes; it must join two different ones (a cost of one node alone "
                       "belongs in its vector)"));
    }
    if (edge.table < 0 || edge.table >= table_count) {
      return absl::InvalidArgumentError(
          absl::StrCat("edge ", e, " names table ", edge.table, " of ", table_count));
    }
    const Table& table = problem.tables()[edge.table];
    if (table.rows != problem.states(edge.i) || table.cols != problem.states(edge.j)) {
      return absl::InvalidArgumentError(absl::StrCat(
          "edge ", e, " joins ", NodeText(problem, edge.i), " with ", problem.states(edge.i),
          " states and ", NodeText(problem, edge.j), " with ", problem.states(edge.j),
          ", but its table ", edge.table, " is ", table.rows, " x ", table.cols));
    }
  }
  return absl::OkStatus();
}

absl::Status ValidatePlan(const Problem& problem, absl::Span<const int32_t> plan) {
  if (plan.size() != problem.nodes().size()) {
    return absl::InvalidArgumentError(absl::StrCat("the plan has ", plan.size(), " entries for ",
                                                   problem.node_count(), " nodes"));
  }
  for (int32_t n = 0; n < problem.node_count(); ++n) {
    if (plan[n] < 0 || plan[n] >= problem.states(n)) {
      return absl::InvalidArgumentError(absl::StrCat(
          "the plan gives ", NodeText(problem, n), " state ", plan[n], " of ", problem.states(n)));
    }
  }
  return absl::OkStatus();
}

double ObjectiveSeconds(const Problem& problem, absl::Span<const int32_t> plan) {
  double sum = 0.0;
  for (int32_t n = 0; n < problem.node_count(); ++n) sum += problem.unary(n)[plan[n]];
  for (const Edge& edge : problem.edges()) {
    const Table& table = problem.tables()[edge.table];
    sum += table.cost[static_cast<size_t>(plan[edge.i]) * table.cols + plan[edge.j]];
  }
  return sum;
}

double MemoryBytes(const Problem& problem, absl::Span<const int32_t> plan) {
  double sum = 0.0;
  for (int32_t n = 0; n < problem.node_count(); ++n) sum += problem.memory_bytes(n, plan[n]);
  return sum;
}

bool IsPermitted(const Problem& problem, absl::Span<const int32_t> plan) {
  for (int32_t n = 0; n < problem.node_count(); ++n) {
    if (IsForbidden(problem.unary(n)[plan[n]])) return false;
  }
  for (const Edge& edge : problem.edges()) {
    const Table& table = problem.tables()[edge.table];
    if (IsForbidden(table.cost[static_cast<size_t>(plan[edge.i]) * table.cols + plan[edge.j]])) {
      return false;
    }
  }
  return true;
}

std::string DescribeStuck(const Problem& problem) {
  for (int32_t n = 0; n < problem.node_count(); ++n) {
    const std::vector<double>& unary = problem.unary(n);
    if (std::all_of(unary.begin(), unary.end(), IsForbidden)) {
      return absl::StrCat("node ", n, " (", problem.nodes()[n].name, ") has only forbidden states");
    }
  }
  std::vector<char> stuck;
  for (const Table& table : problem.tables()) {
    stuck.push_back(std::all_of(table.cost.begin(), table.cost.end(), IsForbidden));
  }
  for (size_t e = 0; e < problem.edges().size(); ++e) {
    const Edge& edge = problem.edges()[e];
    if (!stuck[edge.table]) continue;
    return absl::StrCat("edge ", e, " between node ", edge.i, " (", problem.nodes()[edge.i].name,
                        ") and node ", edge.j, " (", problem.nodes()[edge.j].name,
                        ") has only forbidden pairs");
  }
  return "";
}

}  // namespace tandem::solver
