// The layout problem in the abstract: choose one state per node so that the sum of node costs and
// of pairwise costs over edges is least, optionally with the sum of a second, additive node cost
// (bytes) under a limit. Nothing here knows of operators, tensors or machines.
//
// Invariants (Validate checks them):
//  * every node has at least one state; all costs are finite; none exceeds kForbidden;
//  * an edge joins two different nodes, and its table is states(i) x states(j), row-major;
//  * several edges may join the same pair, in either direction: their tables add up;
//  * a forbidden state or pair costs kForbidden, a large *finite* number (infinities would poison
//  the
//    messages of the dual). The best permitted plan must cost less than kForbidden / 2.
// Tables and vectors are interned: equal contents get equal ids, so a problem of thousands of nodes
// holds about a hundred tables, and equality of ids is equality of costs.
#ifndef OPTIMIZER_SOLVER_PROBLEM_H_
#define OPTIMIZER_SOLVER_PROBLEM_H_

#include <cstdint>
#include <string>
#include <unordered_map>
#include <vector>

#include "absl/status/status.h"
#include "absl/types/span.h"

namespace tandem::solver {

inline constexpr double kForbidden = 1e6;  // seconds, more than any step
inline bool IsForbidden(double cost) { return cost >= 0.5 * kForbidden; }

// A state index for every node, in node order.
using Plan = std::vector<int32_t>;

struct Table {
  int32_t rows = 0;
  int32_t cols = 0;
  std::vector<double> cost;  // seconds; cost[r * cols + c]
};

struct Node {
  std::string name;      // for progress and errors only
  int32_t unary = -1;    // vector id: seconds per state; its length is the number of states
  int32_t memory = -1;   // vector id: bytes per state, or -1 for none
  int32_t block = 0;     // layer: the unit of windows, mixing and repetition
  int32_t position = 0;  // place inside the block; with `block` it gives the sweep order
};

struct Edge {
  int32_t i = -1;
  int32_t j = -1;
  int32_t table = -1;  // rows are states of i, columns states of j
};

class Problem {
 public:
  // Adds or finds. Ids are dense, in order of first appearance.
  int32_t AddVector(std::vector<double> values);
  int32_t AddTable(Table table);

  int32_t AddNode(Node node);
  void AddEdge(int32_t i, int32_t j, int32_t table);

  int32_t node_count() const { return static_cast<int32_t>(nodes_.size()); }
  const std::vector<Node>& nodes() const { return nodes_; }
  const std::vector<Edge>& edges() const { return edges_; }
  const std::vector<Table>& tables() const { return tables_; }
  const std::vector<std::vector<double>>& vectors() const { return vectors_; }

  // The four below need a valid problem.
  int32_t states(int32_t node) const { return static_cast<int32_t>(unary(node).size()); }
  const std::vector<double>& unary(int32_t node) const { return vectors_[nodes_[node].unary]; }
  double unary_seconds(int32_t node, int32_t state) const { return unary(node)[state]; }
  double memory_bytes(int32_t node, int32_t state) const {
    return nodes_[node].memory < 0 ? 0.0 : vectors_[nodes_[node].memory][state];
  }

 private:
  std::vector<Node> nodes_;
  std::vector<Edge> edges_;
  std::vector<Table> tables_;
  std::vector<std::vector<double>> vectors_;
  // Content hash -> ids, looked up only, never walked.
  std::unordered_map<uint64_t, std::vector<int32_t>> table_index_;
  std::unordered_map<uint64_t, std::vector<int32_t>> vector_index_;
};

// InvalidArgument, naming node or edge, value and remedy, when an invariant above is broken.
absl::Status Validate(const Problem& problem);

// InvalidArgument unless `plan` has a state in range for every node.
absl::Status ValidatePlan(const Problem& problem, absl::Span<const int32_t> plan);

// Sums over the plan. Both need a valid problem and plan.
double ObjectiveSeconds(const Problem& problem, absl::Span<const int32_t> plan);
double MemoryBytes(const Problem& problem, absl::Span<const int32_t> plan);

// True when no node or edge of the plan is forbidden.
bool IsPermitted(const Problem& problem, absl::Span<const int32_t> plan);

// The first node or edge without any permitted choice, in words; empty when there is none. Needs a
// valid problem.
std::string DescribeStuck(const Problem& problem);

}  // namespace tandem::solver

#endif  // OPTIMIZER_SOLVER_PROBLEM_H_
