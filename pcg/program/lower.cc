#include "pcg/program/lower.h"

#include <algorithm>
#include <array>
#include <map>
#include <optional>
#include <string>
#include <tuple>
#include <utility>

#include "absl/strings/str_cat.h"
#include "pcg/layout/factor_table.h"
#include "pcg/program/issue_order.h"
#include "pcg/program/program_liveness.h"

namespace tandem {
namespace {

using Kind = AxisPlacement::Kind;

// Where an instruction runs, or where a value is first known.
enum class Region : uint8_t { kBefore, kLoop, kAfter };

const char* PhaseName(Phase phase) {
  switch (phase) {
    case Phase::kForward:
      return "forward";
    case Phase::kBackward:
      return "backward";
    case Phase::kUpdate:
      return "update";
  }
  return "?";
}

// A tensor at hand: a buffer, the layout it has, and where it is known.
struct Held {
  BufferId buffer;
  Layout layout;
  Region region = Region::kBefore;
};

class Lowering {
 public:
  Lowering(const Graph& graph, const Strategy& strategy, const StepCost& cost)
      : graph_(graph),
        strategy_(strategy),
        mesh_(strategy.mesh),
        temporal_(mesh_.TemporalAxis()),
        last_(temporal_ < 0 ? Region::kBefore : Region::kAfter),
        resharder_(mesh_, cost) {}

  absl::StatusOr<Program> Run() {
    if (absl::Status s = CheckStrategy(); !s.ok()) return s;
    if (absl::Status s = AddSources(); !s.ok()) return s;
    if (absl::Status s = PlaceNodes(); !s.ok()) return s;
    for (NodeId n : IssueOrder(graph_, Sent(), late_)) {
      if (absl::Status s = EmitNode(n); !s.ok()) return s;
    }
    if (absl::Status s = Finish(); !s.ok()) return s;
    return std::move(program_);
  }

 private:
  absl::Status CheckStrategy() {
    if (strategy_.nodes.size() != graph_.nodes.size() ||
        strategy_.sources.size() != graph_.tensors.size()) {
      return absl::InvalidArgumentError(
          absl::StrCat("the strategy is for ", strategy_.nodes.size(), " nodes and ",
                       strategy_.sources.size(), " tensors, graph ", graph_.name, " has ",
                       graph_.nodes.size(), " and ", graph_.tensors.size()));
    }
    for (size_t a = 0; a + 1 < mesh_.axes.size(); ++a) {
      if (mesh_.axes[a].temporal) {
        return absl::InvalidArgumentError("the temporal axis must be the mesh's last");
      }
    }
    for (const Strategy::Relay& relay : strategy_.relays) {
      if (!relay.tensor.valid() || relay.tensor.index() >= graph_.tensors.size() ||
          !relays_.emplace(std::make_pair(relay.tensor, relay.phase), &relay).second) {
        return absl::InvalidArgumentError(
            absl::StrCat("relay of tensor ", relay.tensor.value, " in the ", PhaseName(relay.phase),
                         " phase: no such tensor, or its second relay"));
      }
    }
    return absl::OkStatus();
  }

  bool InLoop(const Layout& layout) const {
    return temporal_ >= 0 && layout.axes[static_cast<size_t>(temporal_)].kind != Kind::kReplicated;
  }

  absl::Status AddSources() {
    held_.resize(graph_.tensors.size());
    for (size_t t = 0; t < graph_.tensors.size(); ++t) {
      const Tensor& tensor = graph_.tensors[t];
      if (tensor.role == TensorRole::kActivation) continue;
      const Layout& layout = strategy_.sources[t];
      if (absl::Status s = CheckLayout(tensor.shape, layout, mesh_); !s.ok()) {
        return absl::InvalidArgumentError(
            absl::StrCat("tensor \"", tensor.name, "\": ", std::string(s.message())));
      }
      if (layout.IsPartial() || InLoop(layout)) {
        return absl::InvalidArgumentError(
            absl::StrCat("tensor \"", tensor.name, "\" cannot be stored as ", ToString(layout),
                         "; a source is replicated or split over spatial axes"));
      }
      const TensorId id(static_cast<int64_t>(t));
      held_[t] = {AddBuffer(id, layout, tensor.name, RoleOf(tensor)), layout, Region::kBefore};
      if (tensor.role == TensorRole::kParameter || tensor.role == TensorRole::kState) {
        program_.states.push_back(held_[t].buffer);
      }
    }
    return absl::OkStatus();
  }

  BufferRole RoleOf(const Tensor& tensor) const {
    switch (tensor.role) {
      case TensorRole::kInput:
      case TensorRole::kStepInput:
        return BufferRole::kInput;
      case TensorRole::kParameter:
        return BufferRole::kParameter;
      case TensorRole::kState:
        return BufferRole::kState;
      case TensorRole::kConstant:
        return BufferRole::kConstant;
      case TensorRole::kActivation:
        break;
    }
    return graph_.node(tensor.producer).phase == Phase::kBackward ? BufferRole::kGradient
                                                                  : BufferRole::kActivation;
  }

  BufferId AddBuffer(TensorId tensor, const Layout& layout, std::string name, BufferRole role) {
    Buffer buffer;
    buffer.name = std::move(name);
    buffer.tensor = tensor;
    buffer.layout = layout;
    buffer.local_shape = LocalShape(graph_.tensor(tensor).shape, layout, mesh_);
    buffer.dtype = graph_.tensor(tensor).dtype;
    buffer.role = role;
    buffer.bytes = DTypeBytes(buffer.dtype) * ElementCount(buffer.local_shape);
    program_.buffers.push_back(std::move(buffer));
    return BufferId(static_cast<int64_t>(program_.buffers.size()) - 1);
  }

  // Layouts and regions of all nodes, before anything is emitted: early reductions look ahead.
  absl::Status PlaceNodes() {
    for (size_t n = 0; n < graph_.nodes.size(); ++n) {
      const Node& node = graph_.nodes[n];
      absl::StatusOr<OpInstance> instance = InstanceOf(graph_, NodeId(static_cast<int64_t>(n)));
      if (!instance.ok()) return instance.status();
      absl::StatusOr<NodeLayouts> layouts =
          LayoutsOf(*instance, FactorTable(*instance), strategy_.nodes[n], mesh_);
      if (!layouts.ok()) return AtNode(node, layouts.status());
      bool in_loop = false;
      for (size_t i = 0; i < layouts->inputs.size() + layouts->outputs.size(); ++i) {
        const bool input = i < layouts->inputs.size();
        const size_t at = input ? i : i - layouts->inputs.size();
        Layout& layout = input ? layouts->inputs[at] : layouts->outputs[at];
        const TensorId tensor = input ? node.inputs[at] : node.outputs[at];
        absl::StatusOr<Layout> own = Refactored(layout, instance->ShapeOf(static_cast<int>(i)),
                                                graph_.tensor(tensor).shape, mesh_);
        if (!own.ok()) return AtNode(node, own.status());
        layout = *std::move(own);
        in_loop |= InLoop(layout);
        if (!input) held_[tensor.index()].layout = layout;
      }
      Region region = in_loop ? Region::kLoop : Region::kBefore;
      for (size_t i = 0; i < node.inputs.size(); ++i) {
        const Held& input = held_[node.inputs[i].index()];
        const Region known =
            InLoop(input.layout) && !InLoop(layouts->inputs[i]) ? Region::kAfter : input.region;
        if (in_loop && known == Region::kAfter) return NeedsWhole(node, node.inputs[i]);
        region = std::max(region, known);
      }
      for (TensorId output : node.outputs) held_[output.index()].region = region;
      regions_.push_back(region);
      layouts_.push_back(*std::move(layouts));
    }
    readers_ = graph_.Readers();
    late_ = LateNodes(graph_);
    for (size_t n = 0; n < graph_.nodes.size(); ++n) {
      // What hands a partial gradient on does so at once: the reduction is still to come.
      if (graph_.nodes[n].phase != Phase::kBackward) continue;
      for (const Layout& output : layouts_[n].outputs) late_[n] = late_[n] && !output.IsPartial();
    }
    return absl::OkStatus();
  }

  // By node: a result goes to a reader that wants it in another layout than it has.
  std::vector<bool> Sent() const {
    std::vector<bool> sent(graph_.nodes.size(), false);
    for (size_t n = 0; n < graph_.nodes.size(); ++n) {
      const Node& node = graph_.nodes[n];
      for (size_t i = 0; i < node.inputs.size(); ++i) {
        const NodeId producer = graph_.tensor(node.inputs[i]).producer;
        if (!producer.valid()) continue;
        const Layout& made = held_[node.inputs[i].index()].layout;
        if (made != layouts_[n].inputs[i]) sent[producer.index()] = true;
      }
    }
    return sent;
  }

  absl::Status AtNode(const Node& node, const absl::Status& status) const {
    return absl::InvalidArgumentError(
        absl::StrCat("node \"", node.name, "\": ", std::string(status.message())));
  }

  absl::Status NeedsWhole(const Node& node, TensorId tensor) const {
    return absl::InvalidArgumentError(absl::StrCat(
        "node \"", node.name, "\" (operator ", node.op, ") runs once a micro-batch and needs \"",
        graph_.tensor(tensor).name, "\" of the whole batch, which is known only after the last ",
        "micro-batch; use one micro-batch, or split neither along the batch"));
  }

  absl::Status EmitNode(NodeId id) {
    const Node& node = graph_.node(id);
    const NodeLayouts& layouts = layouts_[id.index()];
    const Region region = regions_[id.index()];
    Instruction kernel;
    kernel.kind = InstructionKind::kKernel;
    kernel.name = node.name;
    kernel.node = id;
    kernel.op = node.op;
    kernel.attributes = node.attributes;
    kernel.size_axes = layouts.size_axes;
    for (size_t i = 0; i < node.inputs.size(); ++i) {
      absl::StatusOr<BufferId> input = Want(node.inputs[i], node.phase, layouts.inputs[i], region);
      if (!input.ok()) return AtNode(node, input.status());
      kernel.inputs.push_back(*input);
    }
    for (size_t o = 0; o < node.outputs.size(); ++o) {
      const TensorId tensor = node.outputs[o];
      held_[tensor.index()] = {AddBuffer(tensor, layouts.outputs[o], graph_.tensor(tensor).name,
                                         RoleOf(graph_.tensor(tensor))),
                               layouts.outputs[o], region};
      kernel.outputs.push_back(held_[tensor.index()].buffer);
    }
    Code(region).push_back(std::move(kernel));
    for (TensorId output : node.outputs) {
      if (absl::Status s = ReduceEarly(output, id); !s.ok()) return AtNode(node, s);
    }
    return absl::OkStatus();
  }

  // What leaves the loop does so where it is made; a gradient is reduced for its update as soon as
  // it is complete; a new state is stored at once.
  absl::Status ReduceEarly(TensorId tensor, NodeId producer) {
    const Layout layout = held_[tensor.index()].layout;
    for (NodeId reader : readers_[tensor.index()]) {
      const Node& node = graph_.node(reader);
      const bool leaves = InLoop(layout) && regions_[reader.index()] == Region::kAfter;
      const bool gradient = late_[reader.index()] && !late_[producer.index()];
      if (!leaves && !gradient) continue;
      for (size_t i = 0; i < node.inputs.size(); ++i) {
        if (node.inputs[i] != tensor) continue;
        absl::StatusOr<BufferId> buffer =
            Want(tensor, node.phase, layouts_[reader.index()].inputs[i], regions_[reader.index()]);
        if (!buffer.ok()) return AtNode(node, buffer.status());
      }
    }
    for (size_t u = 0; u < graph_.updates.size(); ++u) {
      if (graph_.updates[u].next != tensor) continue;
      if (absl::Status s = Store(graph_.updates[u]); !s.ok()) return s;
    }
    const bool output =
        std::find(graph_.outputs.begin(), graph_.outputs.end(), tensor) != graph_.outputs.end() ||
        graph_.loss == tensor;
    if (output) return Final(tensor, graph_.loss == tensor).status();
    return absl::OkStatus();
  }

  absl::Status Store(const StateUpdate& update) {
    const Layout& stored = strategy_.sources[update.state.index()];
    absl::StatusOr<Layout> wanted = Refactored(stored, graph_.tensor(update.state).shape,
                                               graph_.tensor(update.next).shape, mesh_);
    if (!wanted.ok()) return wanted.status();
    absl::StatusOr<BufferId> next = Want(update.next, Phase::kUpdate, *wanted, last_);
    if (!next.ok()) return next.status();
    Instruction store;
    store.kind = InstructionKind::kStoreState;
    store.name = absl::StrCat("store ", graph_.tensor(update.state).name);
    store.inputs = {*next};
    store.outputs = {held_[update.state.index()].buffer};
    Code(last_).push_back(std::move(store));
    return absl::OkStatus();
  }

  // An output lies as its producer leaves it, but whole: no partial values, no micro-batches.
  absl::StatusOr<BufferId> Final(TensorId tensor, bool everywhere) {
    Layout wanted = held_[tensor.index()].layout;
    for (size_t a = 0; a < wanted.axes.size(); ++a) {
      if (everywhere || wanted.axes[a].kind == Kind::kPartial || static_cast<int>(a) == temporal_) {
        wanted.axes[a] = AxisPlacement::Replicated();
      }
    }
    const Phase phase = graph_.tensor(tensor).producer.valid()
                            ? graph_.node(graph_.tensor(tensor).producer).phase
                            : Phase::kForward;
    absl::StatusOr<BufferId> buffer = Want(tensor, phase, wanted, last_);
    if (!buffer.ok()) {
      return absl::InvalidArgumentError(absl::StrCat(
          "output \"", graph_.tensor(tensor).name, "\": ", std::string(buffer.status().message())));
    }
    return buffer;
  }

  // The tensor in the wanted layout for a reader in `phase` and `reader` region.
  absl::StatusOr<BufferId> Want(TensorId tensor, Phase phase, const Layout& wanted, Region reader) {
    Held held = held_[tensor.index()];
    const auto found = relays_.find({tensor, phase});
    if (found != relays_.end() && wanted != held.layout) {
      const Strategy::Relay& relay = *found->second;
      const bool once =
          relay.before_loop && held.region == Region::kBefore && !InLoop(relay.layout);
      absl::StatusOr<Held> next =
          Bring(tensor, phase, held, relay.layout, once ? Region::kBefore : reader);
      if (!next.ok()) return next.status();
      held = *std::move(next);
    }
    absl::StatusOr<Held> result = Bring(tensor, phase, held, wanted, reader);
    if (!result.ok()) return result.status();
    return result->buffer;
  }

  absl::StatusOr<Held> Bring(TensorId tensor, Phase phase, Held held, const Layout& wanted,
                             Region reader) {
    absl::StatusOr<std::vector<ReshardStep>> steps = resharder_.Cheapest(
        graph_.tensor(tensor).shape, held.layout, wanted, DTypeBytes(graph_.tensor(tensor).dtype));
    if (!steps.ok()) {
      return absl::InvalidArgumentError(absl::StrCat(
          "tensor \"", graph_.tensor(tensor).name, "\": ", std::string(steps.status().message())));
    }
    const bool enters = !InLoop(held.layout) && InLoop(wanted);
    const Region known = held.region;
    for (const ReshardStep& step : *steps) {
      const bool loop = RunsEachMicroBatch(step, mesh_);
      // Before a micro-batch's piece is taken, once is enough.
      Region region = loop ? Region::kLoop : enters ? held.region : std::max(held.region, reader);
      held = Emit(tensor, phase, held, step, region);
      // A piece that is taken out of a whole known only after the loop comes too late.
      if (step.kind == StepKind::kUnstack && known == Region::kAfter) held.region = known;
    }
    if (held.region == Region::kAfter && reader == Region::kLoop) {
      return absl::InvalidArgumentError(absl::StrCat(
          "tensor \"", graph_.tensor(tensor).name, "\" is known only after the loop over ",
          "micro-batches and wanted inside; use one micro-batch"));
    }
    return held;
  }

  Held Emit(TensorId tensor, Phase phase, const Held& from, const ReshardStep& step,
            Region region) {
    const bool leaves = step.kind == StepKind::kAccumulate || step.kind == StepKind::kStack;
    const Region known = leaves ? Region::kAfter : region;
    const auto key = std::make_tuple(tensor, phase, known, step.after);
    const auto found = copies_.find(key);
    if (found != copies_.end()) return {found->second, step.after, known};
    const Tensor& t = graph_.tensor(tensor);
    const BufferId buffer = AddBuffer(
        tensor, step.after, absl::StrCat(t.name, "@", ToString(step.after), ":", PhaseName(phase)),
        // A piece of a constant is computed: only the constant itself is known everywhere.
        t.role == TensorRole::kConstant ? BufferRole::kActivation : RoleOf(t));
    Instruction code;
    code.step = step.kind;
    code.axes = step.axes;
    code.name = absl::StrCat(StepKindName(step.kind), " ", t.name);
    code.inputs = {from.buffer};
    code.outputs = {buffer};
    for (int a : step.axes) {
      for (const Layout* side : {&step.before, &step.after}) {
        const AxisPlacement& p = side->axes[static_cast<size_t>(a)];
        if (p.kind == Kind::kPartial) code.combiner = p.combiner;
      }
    }
    code.kind = leaves ? InstructionKind::kLoop
                : step.kind == StepKind::kSlice || step.kind == StepKind::kUnstack ||
                        step.kind == StepKind::kKeepFirst
                    ? InstructionKind::kLocal
                    : InstructionKind::kCollective;
    Code(region).push_back(std::move(code));
    copies_.emplace(key, buffer);
    return {buffer, step.after, known};
  }

  absl::Status Finish() {
    for (const StateUpdate& update : graph_.updates) {
      if (graph_.tensor(update.next).producer.valid()) continue;  // stored when it was made
      if (absl::Status s = Store(update); !s.ok()) return s;
    }
    for (TensorId input : graph_.inputs) program_.inputs.push_back(held_[input.index()].buffer);
    for (TensorId output : graph_.outputs) {
      absl::StatusOr<BufferId> buffer = Final(output, /*everywhere=*/false);
      if (!buffer.ok()) return buffer.status();
      program_.outputs.push_back(*buffer);
    }
    if (graph_.loss) {
      absl::StatusOr<BufferId> buffer = Final(*graph_.loss, /*everywhere=*/true);
      if (!buffer.ok()) return buffer.status();
      program_.loss = *buffer;
    }
    program_.mesh = mesh_;
    for (int64_t d = 0; d < mesh_.Devices(); ++d) program_.devices.push_back(d);
    for (Region region : {Region::kBefore, Region::kLoop, Region::kAfter}) {
      if (region == Region::kLoop) program_.loop_begin = Size();
      for (Instruction& code : Code(region)) program_.instructions.push_back(std::move(code));
      if (region == Region::kLoop) program_.loop_end = Size();
    }
    AddFrees(program_);
    return absl::OkStatus();
  }

  int Size() const { return static_cast<int>(program_.instructions.size()); }
  std::vector<Instruction>& Code(Region region) { return code_[static_cast<size_t>(region)]; }

  const Graph& graph_;
  const Strategy& strategy_;
  const Mesh& mesh_;
  const int temporal_;
  const Region last_;  // where a step's results are known
  Resharder resharder_;
  Program program_;
  std::array<std::vector<Instruction>, 3> code_;
  std::vector<Held> held_;            // per tensor: where its producer leaves it
  std::vector<NodeLayouts> layouts_;  // per node
  std::vector<Region> regions_;       // per node
  std::vector<std::vector<NodeId>> readers_;
  std::vector<bool> late_;  // per node
  std::map<std::pair<TensorId, Phase>, const Strategy::Relay*> relays_;
  std::map<std::tuple<TensorId, Phase, Region, Layout>, BufferId> copies_;
};

}  // namespace

absl::StatusOr<Program> Lower(const Graph& graph, const Strategy& strategy, const StepCost& cost) {
  return Lowering(graph, strategy, cost).Run();
}

}  // namespace tandem
