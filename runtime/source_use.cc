#include "runtime/source_use.h"

#include <algorithm>
#include <map>
#include <string>

#include "absl/strings/str_cat.h"
#include "pcg/instance/op_analysis.h"

namespace tandem {
namespace {

// What one operator does with its inputs.
class Reader {
 public:
  explicit Reader(const OpInstance& op) : op_(op), uses_(op.tensors.size()) {
    for (const InstanceEquation& equation : op.equations) Visit(equation.body, {});
    const OpCost cost = AnalyzeOp(op, {}, std::vector<int64_t>(Count(op.num_inputs), 4),
                                  std::vector<int64_t>(Count(op.num_outputs), 4));
    moves_ = cost.kind == OpClass::kCopy;
    contracts_ = cost.contraction_flops > 0;
  }
  const SourceUse& use(size_t input) const { return uses_[input]; }
  bool moves() const { return moves_; }
  bool contracts() const { return contracts_; }

 private:
  struct Around {
    bool factor = false, root = false, summed = false;
  };
  static size_t Count(int n) { return static_cast<size_t>(n); }

  void Visit(ExprId id, Around around) {
    const ExprNode& e = op_.exprs[id];
    if (e.kind == ExprKind::kRead) {
      SourceUse& use = uses_[static_cast<size_t>(e.ref)];
      use.multiplies |= around.factor && !around.summed;
      use.contracted |= around.factor && around.summed;
      use.under_root |= around.root;
    }
    if (e.kind == ExprKind::kCompare && e.name == "==") {
      NoteIndex(e.args[0], e.args[1]);
      NoteIndex(e.args[1], e.args[0]);
    }
    for (size_t i = 0; i < e.args.size(); ++i) {
      Around inner = around;
      inner.summed |= e.kind == ExprKind::kReduce;
      if (e.kind == ExprKind::kMul) inner.factor = true;
      if (e.kind == ExprKind::kAdd || e.kind == ExprKind::kSub) inner.factor = false;
      if (e.kind == ExprKind::kCall && (e.name == "sqrt" || e.name == "rsqrt" || e.name == "log")) {
        inner.root = true;
      }
      if (e.kind == ExprKind::kDiv && i == 1) inner.root = true;
      Visit(e.args[i], inner);
    }
  }

  // read == variable: the read value is an index of the variable's size.
  void NoteIndex(ExprId read, ExprId var) {
    const ExprNode& r = op_.exprs[read];
    const ExprNode& v = op_.exprs[var];
    if (r.kind != ExprKind::kRead || v.kind != ExprKind::kVar) return;
    const int64_t extent =
        op_.sizes[static_cast<size_t>(op_.vars[static_cast<size_t>(v.ref)].size)].extent;
    int64_t& bound = uses_[static_cast<size_t>(r.ref)].index_bound;
    bound = bound == 0 ? extent : std::min(bound, extent);
  }

  const OpInstance& op_;
  std::vector<SourceUse> uses_;
  bool moves_ = false;
  bool contracts_ = false;
};

}  // namespace

absl::StatusOr<std::vector<SourceUse>> UsesOf(const Graph& graph) {
  std::vector<SourceUse> uses(graph.tensors.size());
  // Readers come after producers, so that going backwards each output's use is known.
  for (size_t n = graph.nodes.size(); n-- > 0;) {
    const Node& node = graph.nodes[n];
    absl::StatusOr<OpInstance> op = InstanceOf(graph, NodeId(static_cast<int64_t>(n)));
    if (!op.ok()) return op.status();
    const Reader reader(*op);
    for (size_t i = 0; i < node.inputs.size(); ++i) {
      SourceUse& use = uses[node.inputs[i].index()];
      SourceUse here = reader.use(i);
      if (!reader.contracts()) here.contracted = false;
      if (reader.moves()) here = uses[node.outputs[0].index()];
      if (here.index_bound > 0) {
        use.index_bound =
            use.index_bound == 0 ? here.index_bound : std::min(use.index_bound, here.index_bound);
      }
      if (node.phase != Phase::kForward) {
        // Gradients and updates say nothing of what a forward value may be.
        use.updates_only &= node.phase == Phase::kUpdate;
        continue;
      }
      use.updates_only = false;
      use.multiplies |= here.multiplies;
      use.under_root |= here.under_root;
      use.contracted |= here.contracted;
    }
  }
  return uses;
}

}  // namespace tandem
