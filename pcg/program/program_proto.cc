#include "pcg/program/program_proto.h"

#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "pcg/graph/graph_proto.h"

namespace tandem {
namespace {

static_assert(static_cast<int>(Combiner::kMin) == proto::MIN);
static_assert(static_cast<int>(AxisPlacement::Kind::kPartial) == proto::Placement::PARTIAL);
static_assert(static_cast<int>(BufferRole::kGradient) == proto::Buffer::GRADIENT);
static_assert(static_cast<int>(InstructionKind::kStoreState) == proto::Instruction::STORE_STATE);
static_assert(static_cast<int>(StepKind::kKeepFirst) == proto::Instruction::KEEP_FIRST);

constexpr int kFormat = 1;
constexpr int64_t kMostDevices = int64_t{1} << 24;

absl::Status Bad(const std::string& where, const std::string& message) {
  return absl::InvalidArgumentError(absl::StrCat(where, ": ", message));
}

void MeshToProto(const Mesh& mesh, proto::Mesh* out) {
  for (const MeshAxis& axis : mesh.axes) {
    proto::MeshAxis* entry = out->add_axis();
    entry->set_name(axis.name);
    entry->set_extent(axis.extent);
    if (axis.temporal) entry->set_temporal(true);
  }
}

absl::StatusOr<Mesh> MeshFromProto(const proto::Mesh& in, const std::string& where) {
  Mesh mesh;
  int64_t product = 1;
  for (int i = 0; i < in.axis_size(); ++i) {
    const proto::MeshAxis& axis = in.axis(i);
    if (axis.extent() < 1 || axis.extent() > kMostDevices / product) {
      return Bad(where,
                 absl::StrCat("mesh axis '", axis.name(), "' of extent ", axis.extent(),
                              "; extents are at least 1, all together at most ", kMostDevices));
    }
    product *= axis.extent();
    if (axis.temporal() && i + 1 != in.axis_size()) {
      return Bad(where, absl::StrCat("temporal mesh axis '", axis.name(), "' is not the last"));
    }
    mesh.axes.push_back({axis.name(), axis.extent(), axis.temporal()});
  }
  return mesh;
}

void LayoutToProto(const Layout& layout, proto::Layout* out) {
  for (const AxisPlacement& placement : layout.axes) {
    proto::Placement* entry = out->add_axis();
    switch (placement.kind) {
      case AxisPlacement::Kind::kReplicated:
        break;
      case AxisPlacement::Kind::kSplit:
        entry->set_kind(proto::Placement::SPLIT);
        if (placement.dim != 0) entry->set_dim(placement.dim);
        if (placement.factor != 0) entry->set_factor(placement.factor);
        break;
      case AxisPlacement::Kind::kPartial:
        entry->set_kind(proto::Placement::PARTIAL);
        if (placement.combiner != Combiner::kSum) {
          entry->set_combiner(static_cast<proto::Combiner>(placement.combiner));
        }
        break;
    }
  }
}

// `shape` is the logical or the local one: both have the same dims and factors. Null = unknown.
absl::StatusOr<Layout> LayoutFromProto(const proto::Layout& in, const Mesh& mesh,
                                       const FactoredShape* shape, const std::string& where) {
  if (in.axis_size() != static_cast<int>(mesh.axes.size())) {
    return Bad(where, absl::StrCat("a layout of ", in.axis_size(), " axes on a mesh of ",
                                   mesh.axes.size()));
  }
  Layout layout;
  for (const proto::Placement& entry : in.axis()) {
    switch (entry.kind()) {
      case proto::Placement::REPLICATED:
        layout.axes.push_back(AxisPlacement::Replicated());
        break;
      case proto::Placement::SPLIT: {
        const bool in_range =
            entry.dim() >= 0 && entry.factor() >= 0 &&
            (shape == nullptr || (entry.dim() < static_cast<int>(shape->size()) &&
                                  entry.factor() < static_cast<int>((*shape)[entry.dim()].size())));
        if (!in_range) {
          return Bad(where, absl::StrCat("split of factor ", entry.factor(), " of dim ",
                                         entry.dim(), ", which does not exist"));
        }
        layout.axes.push_back(AxisPlacement::Split(entry.dim(), entry.factor()));
        break;
      }
      case proto::Placement::PARTIAL:
        layout.axes.push_back(AxisPlacement::Partial(static_cast<Combiner>(entry.combiner())));
        break;
    }
  }
  return layout;
}

void BufferToProto(const Buffer& buffer, proto::Buffer* out) {
  out->set_name(buffer.name);
  out->set_tensor(buffer.tensor.value);
  LayoutToProto(buffer.layout, out->mutable_layout());
  ShapeToProto(buffer.local_shape, out->mutable_local_shape());
  if (buffer.dtype != DType::kF32) out->set_dtype(DTypeToProto(buffer.dtype));
  if (buffer.role != BufferRole::kActivation) {
    out->set_role(static_cast<proto::Buffer::Role>(buffer.role));
  }
  out->set_bytes(buffer.bytes);
}

void InstructionToProto(const Instruction& instruction, proto::Instruction* out) {
  if (instruction.kind != InstructionKind::kKernel) {
    out->set_kind(static_cast<proto::Instruction::Kind>(instruction.kind));
  }
  out->set_name(instruction.name);
  for (BufferId id : instruction.inputs) out->add_input(id.value);
  for (BufferId id : instruction.outputs) out->add_output(id.value);
  if (instruction.node.valid()) out->set_node(instruction.node.value);
  if (!instruction.op.empty()) out->set_op(instruction.op);
  AttributesToProto(instruction.attributes, out->mutable_attribute());
  for (const std::vector<int>& axes : instruction.size_axes) {
    out->add_size_axes()->mutable_axis()->Add(axes.begin(), axes.end());
  }
  if (instruction.step != StepKind::kSlice) {
    out->set_step(static_cast<proto::Instruction::Step>(instruction.step));
  }
  out->mutable_axis()->Add(instruction.axes.begin(), instruction.axes.end());
  if (instruction.combiner != Combiner::kSum) {
    out->set_combiner(static_cast<proto::Combiner>(instruction.combiner));
  }
}

// Reads one Program; mesh and buffers first, then what refers to them.
class Reader {
 public:
  Reader(const proto::Program& in, const std::string& file) : in_(in), file_(file) {}

  absl::StatusOr<Program> Read() {
    if (in_.has_format() && in_.format() != kFormat) {
      return Bad(file_,
                 absl::StrCat("Program format ", in_.format(), "; this version reads ", kFormat));
    }
    auto mesh = MeshFromProto(in_.mesh(), file_);
    if (!mesh.ok()) return mesh.status();
    program_.mesh = *std::move(mesh);
    const int64_t devices = program_.mesh.Devices();
    for (int64_t device : in_.device()) {
      if (device < 0 || device >= devices) {
        return Bad(file_, absl::StrCat("device ", device, " on a mesh of ", devices));
      }
      program_.devices.push_back(device);
    }
    for (const proto::Buffer& buffer : in_.buffer()) {
      if (absl::Status s = ReadBuffer(buffer); !s.ok()) return s;
    }
    for (const proto::Instruction& instruction : in_.instruction()) {
      if (absl::Status s = ReadInstruction(instruction); !s.ok()) return s;
    }
    if (absl::Status s = ReadEnds(); !s.ok()) return s;
    return std::move(program_);
  }

 private:
  absl::Status ReadBuffer(const proto::Buffer& in) {
    const std::string where = absl::StrCat(file_, ": buffer '", in.name(), "'");
    Buffer buffer;
    buffer.name = in.name();
    if (in.tensor() < -1) return Bad(where, absl::StrCat("tensor ", in.tensor()));
    buffer.tensor = TensorId(in.tensor());
    auto shape = ShapeFromProto(in.local_shape(), where);
    if (!shape.ok()) return shape.status();
    buffer.local_shape = *std::move(shape);
    auto layout = LayoutFromProto(in.layout(), program_.mesh, &buffer.local_shape, where);
    if (!layout.ok()) return layout.status();
    buffer.layout = *std::move(layout);
    buffer.dtype = DTypeFromProto(in.dtype());
    buffer.role = static_cast<BufferRole>(in.role());
    if (in.bytes() < 0) return Bad(where, absl::StrCat(in.bytes(), " bytes"));
    buffer.bytes = in.bytes();
    program_.buffers.push_back(std::move(buffer));
    return absl::OkStatus();
  }

  absl::Status ReadIds(const google::protobuf::RepeatedField<int32_t>& in, const std::string& where,
                       std::vector<BufferId>* out) const {
    for (int32_t id : in) {
      if (id < 0 || id >= static_cast<int64_t>(program_.buffers.size())) {
        return Bad(where, absl::StrCat("buffer ", id, " of ", program_.buffers.size()));
      }
      out->push_back(BufferId(id));
    }
    return absl::OkStatus();
  }

  absl::Status ReadAxes(const google::protobuf::RepeatedField<int32_t>& in,
                        const std::string& where, std::vector<int>* out) const {
    for (int32_t axis : in) {
      if (axis < 0 || axis >= static_cast<int>(program_.mesh.axes.size()) ||
          (!out->empty() && axis <= out->back())) {
        return Bad(where, absl::StrCat("mesh axis ", axis, "; axes are ascending, below ",
                                       program_.mesh.axes.size()));
      }
      out->push_back(axis);
    }
    return absl::OkStatus();
  }

  absl::Status ReadInstruction(const proto::Instruction& in) {
    const std::string where =
        absl::StrCat(file_, ": instruction ", program_.instructions.size(), " '", in.name(), "'");
    Instruction instruction;
    instruction.kind = static_cast<InstructionKind>(in.kind());
    instruction.name = in.name();
    instruction.op = in.op();
    instruction.step = static_cast<StepKind>(in.step());
    instruction.combiner = static_cast<Combiner>(in.combiner());
    if (in.node() < -1) return Bad(where, absl::StrCat("node ", in.node()));
    instruction.node = NodeId(in.node());
    auto attributes = AttributesFromProto(in.attribute());
    if (!attributes.ok()) return Bad(where, std::string(attributes.status().message()));
    instruction.attributes = *std::move(attributes);
    absl::Status s = ReadIds(in.input(), where, &instruction.inputs);
    if (s.ok()) s = ReadIds(in.output(), where, &instruction.outputs);
    if (s.ok()) s = ReadAxes(in.axis(), where, &instruction.axes);
    for (const proto::Axes& axes : in.size_axes()) {
      if (!s.ok()) break;
      s = ReadAxes(axes.axis(), where, &instruction.size_axes.emplace_back());
    }
    if (!s.ok()) return s;
    program_.instructions.push_back(std::move(instruction));
    return absl::OkStatus();
  }

  absl::Status ReadEnds() {
    const int64_t count = static_cast<int64_t>(program_.instructions.size());
    if (in_.loop_begin() < 0 || in_.loop_end() < in_.loop_begin() || in_.loop_end() > count) {
      return Bad(file_, absl::StrCat("loop [", in_.loop_begin(), ", ", in_.loop_end(), ") of ",
                                     count, " instructions"));
    }
    program_.loop_begin = in_.loop_begin();
    program_.loop_end = in_.loop_end();
    absl::Status s = ReadIds(in_.input(), absl::StrCat(file_, ": inputs"), &program_.inputs);
    if (s.ok()) s = ReadIds(in_.output(), absl::StrCat(file_, ": outputs"), &program_.outputs);
    if (s.ok()) s = ReadIds(in_.state(), absl::StrCat(file_, ": states"), &program_.states);
    if (!s.ok()) return s;
    if (in_.loss() < -1 || in_.loss() >= static_cast<int64_t>(program_.buffers.size())) {
      return Bad(file_, absl::StrCat("loss is buffer ", in_.loss()));
    }
    program_.loss = BufferId(in_.loss());
    return absl::OkStatus();
  }

  const proto::Program& in_;
  const std::string& file_;
  Program program_;
};

}  // namespace

void StrategyToProto(const Strategy& strategy, proto::Strategy* out) {
  MeshToProto(strategy.mesh, out->mutable_mesh());
  for (const NodeStrategy& node : strategy.nodes) {
    out->add_node()->mutable_row()->Add(node.rows.begin(), node.rows.end());
  }
  for (const Layout& layout : strategy.sources) LayoutToProto(layout, out->add_source());
  for (const Strategy::Relay& relay : strategy.relays) {
    proto::Relay* entry = out->add_relay();
    entry->set_tensor(relay.tensor.value);
    if (relay.phase != Phase::kForward) {
      entry->set_phase(static_cast<proto::Node::Phase>(relay.phase));
    }
    LayoutToProto(relay.layout, entry->mutable_layout());
    if (relay.before_loop) entry->set_before_loop(true);
  }
}

absl::StatusOr<Strategy> StrategyFromProto(const proto::Strategy& in, const Graph& graph,
                                           const std::string& file) {
  Strategy strategy;
  auto mesh = MeshFromProto(in.mesh(), absl::StrCat(file, ": strategy"));
  if (!mesh.ok()) return mesh.status();
  strategy.mesh = *std::move(mesh);
  if (in.node_size() != static_cast<int>(graph.nodes.size()) ||
      (in.source_size() != 0 && in.source_size() != static_cast<int>(graph.tensors.size()))) {
    return Bad(file, absl::StrCat("a strategy for ", in.node_size(), " nodes and ",
                                  in.source_size(), " tensors; the graph has ", graph.nodes.size(),
                                  " and ", graph.tensors.size()));
  }
  for (int i = 0; i < in.node_size(); ++i) {
    const auto& rows = in.node(i).row();
    if (rows.size() != static_cast<int>(strategy.mesh.axes.size())) {
      return Bad(file, absl::StrCat("strategy of node '", graph.nodes[i].name, "': ", rows.size(),
                                    " rows for ", strategy.mesh.axes.size(), " mesh axes"));
    }
    for (int row : rows) {
      if (row < 0) return Bad(file, absl::StrCat("negative row of '", graph.nodes[i].name, "'"));
    }
    strategy.nodes.push_back({{rows.begin(), rows.end()}});
  }
  for (int i = 0; i < in.source_size(); ++i) {
    if (in.source(i).axis_size() == 0) {
      strategy.sources.emplace_back();
      continue;
    }
    const Tensor& tensor = graph.tensors[i];
    auto layout = LayoutFromProto(in.source(i), strategy.mesh, &tensor.shape,
                                  absl::StrCat(file, ": layout of '", tensor.name, "'"));
    if (!layout.ok()) return layout.status();
    strategy.sources.push_back(*std::move(layout));
  }
  for (const proto::Relay& relay : in.relay()) {
    if (relay.tensor() < 0 || relay.tensor() >= static_cast<int64_t>(graph.tensors.size())) {
      return Bad(file, absl::StrCat("relay of tensor ", relay.tensor()));
    }
    const Tensor& tensor = graph.tensors[relay.tensor()];
    auto layout = LayoutFromProto(relay.layout(), strategy.mesh, &tensor.shape,
                                  absl::StrCat(file, ": relay of '", tensor.name, "'"));
    if (!layout.ok()) return layout.status();
    strategy.relays.push_back({TensorId(relay.tensor()), static_cast<Phase>(relay.phase()),
                               *std::move(layout), relay.before_loop()});
  }
  return strategy;
}

void ProgramToProto(const Program& program, proto::Program* out) {
  out->set_format(kFormat);
  MeshToProto(program.mesh, out->mutable_mesh());
  out->mutable_device()->Add(program.devices.begin(), program.devices.end());
  for (const Buffer& buffer : program.buffers) BufferToProto(buffer, out->add_buffer());
  for (const Instruction& instruction : program.instructions) {
    InstructionToProto(instruction, out->add_instruction());
  }
  out->set_loop_begin(program.loop_begin);
  out->set_loop_end(program.loop_end);
  for (BufferId id : program.inputs) out->add_input(id.value);
  for (BufferId id : program.outputs) out->add_output(id.value);
  out->set_loss(program.loss.value);
  for (BufferId id : program.states) out->add_state(id.value);
}

absl::StatusOr<Program> ProgramFromProto(const proto::Program& in, const std::string& file) {
  return Reader(in, file).Read();
}

}  // namespace tandem
