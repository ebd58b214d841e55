#include "optimizer/layout_problem.h"

#include <algorithm>
#include <map>
#include <memory>
#include <set>
#include <tuple>
#include <utility>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "pcg/program/issue_order.h"

namespace tandem {
namespace {

// A variable's possible layouts of one tensor slot, as interned ids, one a state.
using Slot = std::vector<int>;

struct ClassStates {
  std::vector<NodeStrategy> strategies;
  std::vector<double> seconds;
  std::vector<Slot> inputs;   // per input: layout id a state
  std::vector<Slot> outputs;  // per output
};

class Builder {
 public:
  Builder(const Graph& graph, const NodeClasses& classes, const Machine& machine, const Mesh& mesh,
          ReshardCosts& costs, const std::optional<BatchAxis>& micro,
          const LayoutRestrictions& restrictions)
      : graph_(graph),
        classes_(classes),
        machine_(machine),
        micro_(micro),
        restrictions_(restrictions),
        costs_(costs) {
    out_.mesh = mesh;
    temporal_ = mesh.TemporalAxis();
  }

  absl::StatusOr<LayoutProblem> Run() {
    late_ = LateNodes(graph_);
    stored_ = NodesOfStoredValues(graph_);
    if (absl::Status s = AddSources(); !s.ok()) return s;
    if (absl::Status s = AddNodes(); !s.ok()) return s;
    AddEdges();
    return std::move(out_);
  }

 private:
  // --- states ------------------------------------------------------------------------------------

  // The states of a node: classes share them unless a restriction looks at the node itself.
  absl::StatusOr<int> StatesOf(NodeId id) {
    const int cls = classes_.of_node[id.index()];
    const int micro_row = micro_ ? micro_->rows[id.index()] : -1;
    std::vector<std::vector<int>> allowed = AllowedRows(id, micro_row);
    const auto key = std::make_pair(cls, allowed);
    auto it = class_states_.find(key);
    if (it != class_states_.end()) return it->second;
    ClassStates states;
    const NodeClass& c = classes_.classes[static_cast<size_t>(cls)];
    NodeStrategy strategy;
    strategy.rows.assign(out_.mesh.axes.size(), 0);
    if (absl::Status s = Enumerate(c, allowed, 0, strategy, states); !s.ok()) return s;
    if (states.strategies.empty()) {
      return absl::InternalError(
          absl::StrCat("node ", graph_.node(id).name, " has no legal layout on this mesh"));
    }
    const int index = static_cast<int>(states_.size());
    out_.node_states.push_back(states.strategies);
    states_.push_back(std::move(states));
    class_states_.emplace(key, index);
    return index;
  }

  std::vector<std::vector<int>> AllowedRows(NodeId id, int micro_row) const {
    const NodeClass& c = classes_.Of(id);
    std::vector<std::vector<int>> allowed(out_.mesh.axes.size());
    for (size_t a = 0; a < allowed.size(); ++a) {
      if (static_cast<int>(a) == temporal_) {
        allowed[a] = {micro_row};
        continue;
      }
      for (size_t r = 0; r < c.table.size(); ++r) {
        if (!c.usable[r]) continue;
        const int size = c.table[r].size;
        // The micro-batches are the temporal axis's to split.
        if (size >= 0 && static_cast<int>(r) == micro_row) continue;
        if (size >= 0 &&
            c.instance.sizes[static_cast<size_t>(size)].extent % out_.mesh.axes[a].extent != 0) {
          continue;
        }
        if (restrictions_.node &&
            !restrictions_.node(id, static_cast<int>(a), static_cast<int>(r))) {
          continue;
        }
        allowed[a].push_back(static_cast<int>(r));
      }
    }
    return allowed;
  }

  absl::Status Enumerate(const NodeClass& c, const std::vector<std::vector<int>>& allowed,
                         size_t axis, NodeStrategy& strategy, ClassStates& states) {
    if (axis < allowed.size()) {
      for (int row : allowed[axis]) {
        strategy.rows[axis] = row;
        if (absl::Status s = Enumerate(c, allowed, axis + 1, strategy, states); !s.ok()) return s;
      }
      return absl::OkStatus();
    }
    absl::StatusOr<NodeLayouts> layouts = LayoutsOf(c.instance, c.table, strategy, out_.mesh);
    if (!layouts.ok()) return absl::OkStatus();  // does not divide, or partial kinds mix
    std::vector<int64_t> extents;
    bool varies = false;
    for (size_t s = 0; s < c.instance.sizes.size(); ++s) {
      int64_t extent = c.instance.sizes[s].extent;
      for (int a : layouts->size_axes[s]) {
        extent /= out_.mesh.axes[static_cast<size_t>(a)].extent;
        varies |= a == temporal_;
      }
      extents.push_back(extent);
    }
    if (temporal_ >= 0) {
      for (const auto* side : {&layouts->inputs, &layouts->outputs}) {
        for (const Layout& l : *side) {
          varies |= l.axes[static_cast<size_t>(temporal_)].kind != AxisPlacement::Kind::kReplicated;
        }
      }
    }
    double seconds = NodeSeconds(machine_, c.instance, extents, c.inputs, c.outputs);
    if (varies) seconds *= static_cast<double>(out_.mesh.MicroBatches());
    if (states.strategies.empty()) {
      states.inputs.resize(layouts->inputs.size());
      states.outputs.resize(layouts->outputs.size());
    }
    states.strategies.push_back(strategy);
    states.seconds.push_back(seconds);
    for (size_t i = 0; i < layouts->inputs.size(); ++i) {
      states.inputs[i].push_back(costs_.InternLayout(layouts->inputs[i]));
    }
    for (size_t k = 0; k < layouts->outputs.size(); ++k) {
      states.outputs[k].push_back(costs_.InternLayout(layouts->outputs[k]));
    }
    return absl::OkStatus();
  }

  // Stored layouts of a source: every spatial axis splits some factor of some dim, or none.
  std::vector<Layout> SourceLayouts(const Tensor& t) const {
    std::vector<Layout> all = {Layout::Replicated(out_.mesh)};
    if (t.role == TensorRole::kConstant || t.role == TensorRole::kStepInput) return all;
    for (size_t a = 0; a < out_.mesh.axes.size(); ++a) {
      if (out_.mesh.axes[a].temporal) continue;
      const size_t count = all.size();
      for (size_t i = 0; i < count; ++i) {
        for (size_t d = 0; d < t.shape.size(); ++d) {
          for (size_t f = 0; f < t.shape[d].size(); ++f) {
            if (t.shape[d][f] < out_.mesh.axes[a].extent) continue;
            Layout next = all[i];
            next.axes[a] = AxisPlacement::Split(static_cast<int>(d), static_cast<int>(f));
            if (CheckLayout(t.shape, next, out_.mesh).ok()) all.push_back(std::move(next));
          }
        }
      }
    }
    return all;
  }

  // --- variables ---------------------------------------------------------------------------------

  // Order in the sweep: block, then order of addition.
  int AddVariable(LayoutProblem::Variable v, solver::Node node) {
    node.position = out_.problem.node_count();
    out_.variables.push_back(v);
    return out_.problem.AddNode(std::move(node));
  }

  double LocalBytes(const Tensor& t, int layout) const {
    return static_cast<double>(
        ElementCount(LocalShape(t.shape, costs_.LayoutOf(layout), out_.mesh)) *
        DTypeBytes(t.dtype));
  }

  absl::Status AddSources() {
    readers_ = graph_.Readers();
    source_variable_.assign(graph_.tensors.size(), -1);
    source_slots_.resize(graph_.tensors.size());
    for (size_t i = 0; i < graph_.tensors.size(); ++i) {
      const Tensor& t = graph_.tensors[i];
      if (t.producer.valid()) continue;
      std::vector<Layout> layouts;
      Slot slot;
      std::vector<double> bytes;
      for (Layout& l : SourceLayouts(t)) {
        if (restrictions_.source && !restrictions_.source(TensorId(static_cast<int64_t>(i)), l)) {
          continue;
        }
        slot.push_back(costs_.InternLayout(l));
        bytes.push_back(LocalBytes(t, slot.back()));
        layouts.push_back(std::move(l));
      }
      if (slot.empty()) {
        return absl::InternalError(absl::StrCat("tensor ", t.name, " has no allowed layout"));
      }
      LayoutProblem::Variable v;
      v.kind = LayoutProblem::Variable::Kind::kSource;
      v.tensor = TensorId(static_cast<int64_t>(i));
      v.states = static_cast<int>(out_.layout_states.size());
      out_.layout_states.push_back(std::move(layouts));
      solver::Node node;
      node.name = t.name;
      node.unary = out_.problem.AddVector(std::vector<double>(slot.size(), 0.0));
      node.memory = out_.problem.AddVector(std::move(bytes));
      node.block = SourceBlock(i);
      source_variable_[i] = AddVariable(v, std::move(node));
      source_slots_[i] = std::move(slot);
    }
    return absl::OkStatus();
  }

  absl::Status AddNodes() {
    // A tensor stays until its last reader's phase; what one phase hands to the next is memory.
    for (size_t n = 0; n < graph_.nodes.size(); ++n) {
      const Node& node = graph_.nodes[n];
      absl::StatusOr<int> index = StatesOf(NodeId(static_cast<int64_t>(n)));
      if (!index.ok()) return index.status();
      const ClassStates& states = states_[static_cast<size_t>(*index)];
      std::vector<double> bytes(states.strategies.size(), 0.0);
      for (size_t k = 0; k < node.outputs.size(); ++k) {
        const Tensor& t = graph_.tensor(node.outputs[k]);
        bool kept = false;
        for (NodeId r : readers_[node.outputs[k].index()]) {
          kept |= graph_.node(r).phase != node.phase;
        }
        if (!kept) continue;
        for (size_t s = 0; s < bytes.size(); ++s) bytes[s] += LocalBytes(t, states.outputs[k][s]);
      }
      LayoutProblem::Variable v;
      v.kind = LayoutProblem::Variable::Kind::kNode;
      v.node = NodeId(static_cast<int64_t>(n));
      v.states = *index;
      solver::Node problem_node;
      problem_node.name = node.name;
      problem_node.unary = out_.problem.AddVector(states.seconds);
      problem_node.memory = out_.problem.AddVector(std::move(bytes));
      problem_node.block = Block(node);
      node_variable_.push_back(AddVariable(v, std::move(problem_node)));
      node_states_index_.push_back(*index);
    }
    return absl::OkStatus();
  }

  int Block(const Node& node) const { return node.block < 0 ? 0 : node.block; }

  // A source belongs to the block of its first reader.
  int SourceBlock(size_t tensor) const {
    int block = -1;
    for (NodeId r : readers_[tensor]) {
      const int b = Block(graph_.node(r));
      block = block < 0 ? b : std::min(block, b);
    }
    return std::max(block, 0);
  }

  // --- edges -------------------------------------------------------------------------------------

  int EdgeTable(int shape, const Slot& from, const Slot& to) {
    auto key = std::make_tuple(shape, from, to);
    auto it = tables_.find(key);
    if (it != tables_.end()) return it->second;
    solver::Table table;
    table.rows = static_cast<int32_t>(from.size());
    table.cols = static_cast<int32_t>(to.size());
    table.cost.reserve(from.size() * to.size());
    for (int f : from) {
      for (int t : to) table.cost.push_back(costs_.Seconds(shape, f, t));
    }
    out_.table_cells += table.rows * static_cast<int64_t>(table.cols);
    const int id = out_.problem.AddTable(std::move(table));
    tables_.emplace(std::move(key), id);
    return id;
  }

  void Connect(const Tensor& t, int from_variable, const Slot& from, int to_variable,
               const Slot& to, bool waits) {
    const int shape = costs_.InternShape(t.shape, DTypeBytes(t.dtype), waits);
    out_.problem.AddEdge(from_variable, to_variable, EdgeTable(shape, from, to));
  }

  struct Reader {
    NodeId node;
    size_t input;
  };

  void AddEdges() {
    std::vector<std::vector<Reader>> readers(graph_.tensors.size());
    for (size_t n = 0; n < graph_.nodes.size(); ++n) {
      const Node& node = graph_.nodes[n];
      for (size_t i = 0; i < node.inputs.size(); ++i) {
        readers[node.inputs[i].index()].push_back({NodeId(static_cast<int64_t>(n)), i});
      }
    }
    for (size_t i = 0; i < graph_.tensors.size(); ++i) {
      const Tensor& t = graph_.tensors[i];
      int from = source_variable_[i];
      const Slot* slot = &source_slots_[i];
      if (t.producer.valid()) {
        from = node_variable_[t.producer.index()];
        const ClassStates& states =
            states_[static_cast<size_t>(node_states_index_[t.producer.index()])];
        slot = &states.outputs[static_cast<size_t>(t.producer_output)];
      }
      for (Phase phase : {Phase::kForward, Phase::kBackward, Phase::kUpdate}) {
        std::vector<Reader> here;
        for (const Reader& r : readers[i]) {
          if (graph_.node(r.node).phase == phase) here.push_back(r);
        }
        if (here.empty()) continue;
        const bool waits = Waits(t, here);
        if (here.size() >= 2) {
          const auto [relay, relay_slot] = AddRelay(t, static_cast<int64_t>(i), phase, here, *slot);
          Connect(t, from, *slot, relay, *relay_slot, waits);
          for (const Reader& r : here) ConnectReader(t, relay, *relay_slot, r, waits);
        } else {
          ConnectReader(t, from, *slot, here[0], waits);
        }
      }
    }
    for (const StateUpdate& u : graph_.updates) {
      const Tensor& next = graph_.tensor(u.next);
      const Slot& stored = source_slots_[u.state.index()];
      if (!next.producer.valid()) continue;
      const ClassStates& states =
          states_[static_cast<size_t>(node_states_index_[next.producer.index()])];
      Connect(next, node_variable_[next.producer.index()],
              states.outputs[static_cast<size_t>(next.producer_output)],
              source_variable_[u.state.index()], stored, /*waits=*/true);
    }
  }

  // Stored values and what is made of them alone are there before they are needed; late nodes need
  // what they read long after it is there.
  bool Waits(const Tensor& t, const std::vector<Reader>& here) const {
    if (!t.producer.valid()) return true;
    if (stored_[t.producer.index()]) return true;
    return std::all_of(here.begin(), here.end(),
                       [&](const Reader& r) { return bool{late_[r.node.index()]}; });
  }

  void ConnectReader(const Tensor& t, int from, const Slot& slot, const Reader& r, bool waits) {
    const int to = node_variable_[r.node.index()];
    const ClassStates& states = states_[static_cast<size_t>(node_states_index_[r.node.index()])];
    if (from == to) return;
    Connect(t, from, slot, to, states.inputs[r.input], waits);
  }

  std::pair<int, const Slot*> AddRelay(const Tensor& t, int64_t tensor, Phase phase,
                                       const std::vector<Reader>& here, const Slot& producer) {
    std::set<int> ids(producer.begin(), producer.end());
    int block = 0;
    for (const Reader& r : here) {
      const ClassStates& states = states_[static_cast<size_t>(node_states_index_[r.node.index()])];
      ids.insert(states.inputs[r.input].begin(), states.inputs[r.input].end());
      block = std::max(block, Block(graph_.node(r.node)));
    }
    std::vector<Layout> layouts;
    Slot slot;
    for (int id : ids) {
      slot.push_back(id);
      layouts.push_back(costs_.LayoutOf(id));
    }
    LayoutProblem::Variable v;
    v.kind = LayoutProblem::Variable::Kind::kRelay;
    v.tensor = TensorId(tensor);
    v.phase = phase;
    v.states = static_cast<int>(out_.layout_states.size());
    out_.layout_states.push_back(std::move(layouts));
    solver::Node node;
    node.name = absl::StrCat("relay ", t.name);
    node.unary = out_.problem.AddVector(std::vector<double>(slot.size(), 0.0));
    node.block = block;
    const int variable = AddVariable(v, std::move(node));
    relay_slots_.push_back(std::make_unique<Slot>(std::move(slot)));
    return {variable, relay_slots_.back().get()};
  }

  const Graph& graph_;
  const NodeClasses& classes_;
  const Machine& machine_;
  const std::optional<BatchAxis>& micro_;
  const LayoutRestrictions& restrictions_;
  ReshardCosts& costs_;
  LayoutProblem out_;
  int temporal_ = -1;
  std::vector<ClassStates> states_;
  std::map<std::pair<int, std::vector<std::vector<int>>>, int> class_states_;
  std::vector<int> source_variable_;
  std::vector<Slot> source_slots_;
  std::vector<bool> late_, stored_;  // by node: LateNodes, NodesOfStoredValues
  std::vector<int> node_variable_;
  std::vector<int> node_states_index_;
  std::vector<std::vector<NodeId>> readers_;
  std::vector<std::unique_ptr<Slot>> relay_slots_;
  std::map<std::tuple<int, Slot, Slot>, int> tables_;
};

}  // namespace

Strategy LayoutProblem::ToStrategy(const Graph& graph, const solver::Plan& plan) const {
  Strategy strategy;
  strategy.mesh = mesh;
  strategy.nodes.resize(graph.nodes.size());
  strategy.sources.assign(graph.tensors.size(), Layout::Replicated(mesh));
  for (size_t v = 0; v < variables.size(); ++v) {
    const Variable& variable = variables[v];
    const size_t state = static_cast<size_t>(plan[v]);
    const size_t list = static_cast<size_t>(variable.states);
    switch (variable.kind) {
      case Variable::Kind::kNode:
        strategy.nodes[variable.node.index()] = node_states[list][state];
        break;
      case Variable::Kind::kSource:
        strategy.sources[variable.tensor.index()] = layout_states[list][state];
        break;
      case Variable::Kind::kRelay:
        strategy.relays.push_back({variable.tensor, variable.phase, layout_states[list][state]});
        break;
    }
  }
  return strategy;
}

absl::StatusOr<LayoutProblem> BuildLayoutProblem(const Graph& graph, const NodeClasses& classes,
                                                 const Machine& machine, const Mesh& mesh,
                                                 ReshardCosts& costs,
                                                 const std::optional<BatchAxis>& micro,
                                                 const LayoutRestrictions& restrictions) {
  return Builder(graph, classes, machine, mesh, costs, micro, restrictions).Run();
}

}  // namespace tandem
