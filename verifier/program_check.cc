#include "verifier/program_check.h"

#include <algorithm>
#include <map>
#include <set>

#include "absl/strings/str_cat.h"

namespace tandem {
namespace {

using Kind = AxisPlacement::Kind;

// Axes that split (dim, factor) in `layout` beside those in `axes`, and lie inside (after) any of
// them: if there are some, taking `axes` away would tear pieces apart.
bool InnermostOn(const Layout& layout, int dim, int factor, const std::vector<int>& axes) {
  const int first = axes.front();
  for (int a : layout.SplitAxes(dim, factor)) {
    if (a > first && std::find(axes.begin(), axes.end(), a) == axes.end()) return false;
  }
  return true;
}

class Checker {
 public:
  Checker(const Graph& pcg, const std::vector<int>& values, const Program& program,
          const std::string& name, const RowProver& prove)
      : pcg_(pcg), values_(values), p_(program), name_(name), prove_(prove) {
    temporal_ = p_.mesh.TemporalAxis();
  }

  ProgramCheck Run() {
    if (!CheckShape()) return std::move(out_);
    state_.assign(p_.buffers.size(), State::kEmpty);
    Sources();
    for (size_t i = 0; i < p_.instructions.size(); ++i) {
      at_ = static_cast<int>(i);
      if (at_ == p_.loop_end) LeaveLoop();
      One(p_.instructions[i]);
    }
    if (p_.loop_end == static_cast<int>(p_.instructions.size())) LeaveLoop();
    at_ = -1;
    Results();
    return std::move(out_);
  }

 private:
  enum class State : uint8_t { kEmpty, kHolds, kAfterLoop, kFreed, kLoopOnly };

  void Fail(absl::string_view reason) {
    PlanFailure f;
    f.program = name_;
    f.instruction = at_;
    if (at_ >= 0) f.name = p_.instructions[static_cast<size_t>(at_)].name;
    f.reason = std::string(reason);
    out_.only_unknown = false;
    out_.failures.push_back(std::move(f));
  }
  bool Check(bool ok, absl::string_view reason) {
    ++out_.obligations;
    if (!ok) Fail(reason);
    return ok;
  }

  // Ids in range, layouts legal, local shapes as the layouts say: what the rest relies on.
  bool CheckShape() {
    const size_t before = out_.failures.size();
    auto in_range = [&](BufferId b) { return b.valid() && b.index() < p_.buffers.size(); };
    for (size_t i = 0; i < p_.buffers.size(); ++i) {
      const Buffer& b = p_.buffers[i];
      if (!b.tensor.valid() || b.tensor.index() >= pcg_.tensors.size()) {
        Check(false, absl::StrCat("buffer ", b.name, " claims a tensor that the graph lacks"));
        continue;
      }
      const Tensor& t = pcg_.tensor(b.tensor);
      const absl::Status legal = CheckLayout(t.shape, b.layout, p_.mesh);
      if (!Check(legal.ok(), absl::StrCat("buffer ", b.name, ": ", legal.message()))) continue;
      Check(b.local_shape == LocalShape(t.shape, b.layout, p_.mesh),
            absl::StrCat("buffer ", b.name, " has another shape than its layout says"));
    }
    for (size_t i = 0; i < p_.instructions.size(); ++i) {
      at_ = static_cast<int>(i);
      const Instruction& ins = p_.instructions[i];
      for (BufferId b : ins.inputs) Check(in_range(b), "reads a buffer that does not exist");
      for (BufferId b : ins.outputs) Check(in_range(b), "writes a buffer that does not exist");
      for (int a : ins.axes) {
        Check(a >= 0 && a < static_cast<int>(p_.mesh.axes.size()),
              "names a mesh axis that is not "
              "there");
      }
      Check(std::is_sorted(ins.axes.begin(), ins.axes.end()) &&
                std::adjacent_find(ins.axes.begin(), ins.axes.end()) == ins.axes.end(),
            "mesh axes are not in order");
    }
    at_ = -1;
    for (const auto* list : {&p_.inputs, &p_.outputs, &p_.states}) {
      for (BufferId b : *list) Check(in_range(b), "a buffer list names a buffer that is not there");
    }
    const int n = static_cast<int>(p_.instructions.size());
    Check(p_.loop_begin >= 0 && p_.loop_begin <= p_.loop_end && p_.loop_end <= n,
          "the micro-batch loop is not inside the program");
    std::vector<int64_t> devices = p_.devices;
    std::sort(devices.begin(), devices.end());
    bool all = static_cast<int64_t>(devices.size()) == p_.mesh.Devices();
    for (size_t i = 0; i < devices.size() && all; ++i) all = devices[i] == static_cast<int64_t>(i);
    Check(all, absl::StrCat("the program runs on ", devices.size(), " devices, the mesh has ",
                            p_.mesh.Devices()));
    return out_.failures.size() == before;
  }

  bool Varies(BufferId b) const {
    return temporal_ >= 0 &&
           p_.buffer(b).layout.axes[static_cast<size_t>(temporal_)].kind != Kind::kReplicated;
  }
  bool InLoop() const { return at_ >= p_.loop_begin && at_ < p_.loop_end; }
  int Value(BufferId b) const { return values_[p_.buffer(b).tensor.index()]; }
  std::string Name(BufferId b) const { return p_.buffer(b).name; }

  void Sources() {
    std::set<int32_t> given;
    auto give = [&](BufferId b) {
      const Tensor& t = pcg_.tensor(p_.buffer(b).tensor);
      if (!Check(!t.producer.valid(), absl::StrCat("buffer ", Name(b),
                                                   " is given from outside, "
                                                   "but tensor ",
                                                   t.name, " is computed"))) {
        return;
      }
      Check(!p_.buffer(b).layout.IsPartial() && !Varies(b),
            absl::StrCat("source ", Name(b), " is partial or varies with the micro-batch"));
      state_[b.index()] = State::kHolds;
      given.insert(p_.buffer(b).tensor.value);
    };
    for (BufferId b : p_.inputs) give(b);
    for (BufferId b : p_.states) give(b);
    for (size_t i = 0; i < p_.inputs.size(); ++i) {
      Check(i < pcg_.inputs.size() && p_.buffer(p_.inputs[i]).tensor == pcg_.inputs[i],
            absl::StrCat("input ", i, " is not the graph's"));
    }
    Check(p_.inputs.size() == pcg_.inputs.size(), "the number of inputs is not the graph's");
    for (size_t i = 0; i < pcg_.tensors.size(); ++i) {
      const Tensor& t = pcg_.tensors[i];
      if (t.producer.valid() || t.role == TensorRole::kConstant) continue;
      Check(given.count(static_cast<int32_t>(i)) > 0,
            absl::StrCat("tensor ", t.name, " has no buffer in the program"));
    }
    // Constants are known everywhere.
    for (size_t i = 0; i < p_.buffers.size(); ++i) {
      const Buffer& b = p_.buffers[i];
      if (pcg_.tensor(b.tensor).role == TensorRole::kConstant && b.role == BufferRole::kConstant) {
        state_[i] = State::kHolds;
      }
    }
  }

  // Values of one micro-batch end with the loop; accumulated ones become whole.
  void LeaveLoop() {
    for (size_t i = 0; i < state_.size(); ++i) {
      if (state_[i] == State::kAfterLoop) state_[i] = State::kHolds;
      if (state_[i] == State::kLoopOnly) state_[i] = State::kFreed;
    }
  }

  bool Readable(BufferId b) {
    switch (state_[b.index()]) {
      case State::kHolds:
      case State::kLoopOnly:
        return Check(true, "");
      case State::kEmpty:
        return Check(false, absl::StrCat("reads ", Name(b), " before anything wrote it"));
      case State::kAfterLoop:
        return Check(
            false, absl::StrCat("reads ", Name(b), " inside the loop that is still adding to it"));
      case State::kFreed:
        return Check(false, absl::StrCat("reads ", Name(b),
                                         ", which is gone (freed, or of another "
                                         "micro-batch)"));
    }
    return false;
  }

  void Written(BufferId b, bool after_loop = false) {
    Check(state_[b.index()] == State::kEmpty, absl::StrCat("writes ", Name(b), " a second time"));
    if (after_loop) {
      state_[b.index()] = State::kAfterLoop;
    } else {
      state_[b.index()] = InLoop() ? State::kLoopOnly : State::kHolds;
    }
  }

  void One(const Instruction& ins) {
    if (ins.kind == InstructionKind::kFree) {
      for (BufferId b : ins.inputs) {
        Check(state_[b.index()] != State::kFreed && state_[b.index()] != State::kEmpty,
              absl::StrCat("frees ", Name(b), ", which holds nothing"));
        Check(std::find(p_.states.begin(), p_.states.end(), b) == p_.states.end(),
              absl::StrCat("frees the stored state ", Name(b)));
        state_[b.index()] = State::kFreed;
      }
      return;
    }
    bool ok = true;
    for (BufferId b : ins.inputs) ok &= Readable(b);
    if (temporal_ >= 0 && !InLoop()) {
      for (const auto* side : {&ins.inputs, &ins.outputs}) {
        for (BufferId b : *side) {
          ok &= Check(!Varies(b), absl::StrCat(Name(b),
                                               " belongs to one micro-batch, but is used outside "
                                               "the loop"));
        }
      }
    }
    switch (ins.kind) {
      case InstructionKind::kKernel:
        if (ok) Kernel(ins);
        for (BufferId b : ins.outputs) Written(b);
        break;
      case InstructionKind::kCollective:
      case InstructionKind::kLocal:
        if (ok) Step(ins);
        for (BufferId b : ins.outputs) Written(b);
        break;
      case InstructionKind::kLoop:
        if (ok) Step(ins);
        Check(InLoop(), "accumulates outside the micro-batch loop");
        for (BufferId b : ins.outputs) Written(b, true);
        break;
      case InstructionKind::kStoreState:
        if (ok) Store(ins);
        break;
      case InstructionKind::kFree:
        break;
    }
  }

  // --- kernels -----------------------------------------------------------------------------------

  void Kernel(const Instruction& ins) {
    if (!Check(ins.node.valid() && ins.node.index() < pcg_.nodes.size(),
               "executes a node that the graph lacks")) {
      return;
    }
    const Node& node = pcg_.node(ins.node);
    if (!Check(node.op == ins.op && node.attributes == ins.attributes,
               absl::StrCat("operator or attributes differ from node ", node.name)) ||
        !Check(ins.inputs.size() == node.inputs.size() && ins.outputs.size() == node.outputs.size(),
               absl::StrCat("takes or gives another number of tensors than node ", node.name))) {
      return;
    }
    bool ok = true;
    for (size_t i = 0; i < ins.inputs.size(); ++i) {
      ok &= Check(
          Value(ins.inputs[i]) == values_[node.inputs[i].index()],
          absl::StrCat("input ", i, " holds ", pcg_.tensor(p_.buffer(ins.inputs[i]).tensor).name,
                       ", node ", node.name, " needs ", pcg_.tensor(node.inputs[i]).name));
    }
    for (size_t k = 0; k < ins.outputs.size(); ++k) {
      ok &= Check(Value(ins.outputs[k]) == values_[node.outputs[k].index()],
                  absl::StrCat("output ", k, " is claimed to be ",
                               pcg_.tensor(p_.buffer(ins.outputs[k]).tensor).name, ", node ",
                               node.name, " computes ", pcg_.tensor(node.outputs[k]).name));
    }
    if (!ok) return;
    const OpInstance& instance = Instance(ins.node);
    if (!Check(ins.size_axes.size() == instance.sizes.size(),
               "says nothing of some of the operator's sizes")) {
      return;
    }
    for (size_t a = 0; a < p_.mesh.axes.size(); ++a) Axis(ins, instance, static_cast<int>(a));
  }

  const OpInstance& Instance(NodeId id) {
    auto it = instances_.find(id.value);
    if (it == instances_.end()) {
      absl::StatusOr<OpInstance> instance = InstanceOf(pcg_, id);
      if (!instance.ok()) Fail(instance.status().message());
      it = instances_.emplace(id.value, instance.ok() ? *instance : OpInstance{}).first;
    }
    return it->second;
  }

  // The claim about one mesh axis: the operator on pieces split (or not) so, inputs and outputs
  // placed so. Axes are independent: pieces along one axis are an instance of the same operator
  // with smaller sizes, and each proof holds for all sizes.
  void Axis(const Instruction& ins, const OpInstance& instance, int axis) {
    SplitRow row;
    for (size_t s = 0; s < ins.size_axes.size(); ++s) {
      const auto& axes = ins.size_axes[s];
      if (std::find(axes.begin(), axes.end(), axis) == axes.end()) continue;
      if (!Check(row.size < 0,
                 absl::StrCat("mesh axis ", p_.mesh.axes[static_cast<size_t>(axis)].name,
                              " splits two sizes"))) {
        return;
      }
      row.size = static_cast<int>(s);
      Check(instance.sizes[s].extent % p_.mesh.axes[static_cast<size_t>(axis)].extent == 0,
            absl::StrCat("mesh axis ", p_.mesh.axes[static_cast<size_t>(axis)].name,
                         " does not divide size ", instance.sizes[s].name));
    }
    // Kernels are given the base of their piece wherever an index is used as a number.
    row.needs_offset = row.size >= 0;
    bool trivial = row.size < 0;
    for (BufferId b : ins.inputs) {
      row.inputs.push_back(p_.buffer(b).layout.axes[static_cast<size_t>(axis)]);
      trivial &= row.inputs.back().kind == Kind::kReplicated;
    }
    for (BufferId b : ins.outputs) {
      row.outputs.push_back(p_.buffer(b).layout.axes[static_cast<size_t>(axis)]);
      trivial &= row.outputs.back().kind == Kind::kReplicated;
    }
    ++out_.obligations;
    if (trivial) return;  // every device computes the same from the same
    const RowAnswer answer = prove_(pcg_, ins.node, instance, row);
    if (answer.kind == RowAnswer::Kind::kProved) return;
    const bool unknown = answer.kind == RowAnswer::Kind::kUnknown && out_.only_unknown;
    Fail(absl::StrCat(
        "mesh axis ", p_.mesh.axes[static_cast<size_t>(axis)].name, ": ",
        answer.kind == RowAnswer::Kind::kRefuted ? "wrong: " : "not proved: ", answer.reason));
    out_.only_unknown = unknown;
  }

  // --- steps -------------------------------------------------------------------------------------

  // A collective may carry several values, each of which takes the same step.
  void Step(const Instruction& ins) {
    const bool several = ins.kind == InstructionKind::kCollective;
    if (!Check(!ins.inputs.empty() && ins.inputs.size() == ins.outputs.size() &&
                   (several || ins.inputs.size() == 1),
               several ? "has not one output for each input" : "has not one input and output") ||
        !Check(!ins.axes.empty(), "is over no mesh axis")) {
      return;
    }
    for (size_t i = 0; i < ins.inputs.size(); ++i) StepOf(ins, ins.inputs[i], ins.outputs[i]);
  }

  void StepOf(const Instruction& ins, BufferId from_buffer, BufferId to_buffer) {
    const Buffer& in = p_.buffer(from_buffer);
    const Buffer& out = p_.buffer(to_buffer);
    Check(Value(from_buffer) == Value(to_buffer),
          absl::StrCat("moves ", pcg_.tensor(in.tensor).name, " but claims ",
                       pcg_.tensor(out.tensor).name));
    Check(pcg_.tensor(in.tensor).shape == pcg_.tensor(out.tensor).shape,
          "changes the factors of the tensor");
    for (size_t a = 0; a < p_.mesh.axes.size(); ++a) {
      const bool moved =
          std::find(ins.axes.begin(), ins.axes.end(), static_cast<int>(a)) != ins.axes.end();
      if (!moved) {
        Check(in.layout.axes[a] == out.layout.axes[a],
              absl::StrCat("the claim changes along mesh axis ", p_.mesh.axes[a].name,
                           ", which it is not over"));
      }
    }
    const bool local_kind = ins.step == StepKind::kSlice || ins.step == StepKind::kUnstack;
    const bool loop_kind = ins.step == StepKind::kAccumulate || ins.step == StepKind::kStack;
    Check(ins.kind == (local_kind  ? InstructionKind::kLocal
                       : loop_kind ? InstructionKind::kLoop
                                   : InstructionKind::kCollective),
          "the step is executed by another kind of instruction");
    const bool on_time = loop_kind || ins.step == StepKind::kUnstack;
    for (int a : ins.axes) {
      Check((a == temporal_) == on_time,
            absl::StrCat(StepKindName(ins.step), " over mesh axis ",
                         p_.mesh.axes[static_cast<size_t>(a)].name, " is not possible"));
    }
    auto uniform = [&](const Layout& layout, absl::string_view which) -> const AxisPlacement* {
      const AxisPlacement& first = layout.axes[static_cast<size_t>(ins.axes[0])];
      for (int a : ins.axes) {
        if (!Check(layout.axes[static_cast<size_t>(a)] == first,
                   absl::StrCat("its axes are not alike ", which))) {
          return nullptr;
        }
      }
      return &first;
    };
    const AxisPlacement* before = uniform(in.layout, "before");
    const AxisPlacement* after = uniform(out.layout, "after");
    if (before == nullptr || after == nullptr) return;
    auto from = [&](Kind kind) {
      return Check(before->kind == kind, absl::StrCat(StepKindName(ins.step),
                                                      " of a value that is ", ToString(in.layout)));
    };
    auto to = [&](Kind kind) {
      return Check(after->kind == kind,
                   absl::StrCat(StepKindName(ins.step), " cannot give ", ToString(out.layout)));
    };
    auto innermost = [&](const Layout& layout, const AxisPlacement& p) {
      Check(InnermostOn(layout, p.dim, p.factor, ins.axes),
            "pieces of other mesh axes lie inside those it moves");
    };
    switch (ins.step) {
      case StepKind::kAllGather:
      case StepKind::kStack:
        if (from(Kind::kSplit) && to(Kind::kReplicated)) innermost(in.layout, *before);
        break;
      case StepKind::kAllReduce:
      case StepKind::kAccumulate:
        if (from(Kind::kPartial) && to(Kind::kReplicated)) {
          Check(before->combiner == ins.combiner,
                "combines with another operator than the partial "
                "value needs");
        }
        break;
      case StepKind::kReduceScatter:
        if (from(Kind::kPartial) && to(Kind::kSplit)) {
          Check(before->combiner == ins.combiner,
                "combines with another operator than the partial "
                "value needs");
          innermost(out.layout, *after);
        }
        break;
      case StepKind::kAllToAll:
        if (from(Kind::kSplit) && to(Kind::kSplit)) {
          innermost(in.layout, *before);
          innermost(out.layout, *after);
        }
        break;
      case StepKind::kSlice:
      case StepKind::kUnstack:
        if (from(Kind::kReplicated) && to(Kind::kSplit)) innermost(out.layout, *after);
        break;
    }
  }

  // --- results -----------------------------------------------------------------------------------

  void Store(const Instruction& ins) {
    if (!Check(ins.inputs.size() == 1 && ins.outputs.size() == 1, "has not one input and output")) {
      return;
    }
    const BufferId state = ins.outputs[0];
    Check(std::find(p_.states.begin(), p_.states.end(), state) != p_.states.end(),
          absl::StrCat(Name(state), " is no stored state"));
    const TensorId tensor = p_.buffer(state).tensor;
    const StateUpdate* update = nullptr;
    for (const StateUpdate& u : pcg_.updates) {
      if (u.state == tensor) update = &u;
    }
    if (!Check(update != nullptr,
               absl::StrCat("stores into ", Name(state), ", which the graph does not update"))) {
      return;
    }
    Check(Value(ins.inputs[0]) == values_[update->next.index()],
          absl::StrCat("stores ", pcg_.tensor(p_.buffer(ins.inputs[0]).tensor).name,
                       " as the next ", pcg_.tensor(tensor).name, "; the graph says ",
                       pcg_.tensor(update->next).name));
    Check(p_.buffer(ins.inputs[0]).layout == p_.buffer(state).layout,
          absl::StrCat("stores a piece laid out ", ToString(p_.buffer(ins.inputs[0]).layout),
                       " where ", ToString(p_.buffer(state).layout), " is kept"));
    Check(!InLoop(), "stores state inside the micro-batch loop");
    Check(stored_.insert(tensor.value).second,
          absl::StrCat("stores ", pcg_.tensor(tensor).name, " twice"));
  }

  void Results() {
    auto whole = [&](BufferId b, absl::string_view what) {
      Check(state_[b.index()] == State::kHolds,
            absl::StrCat(what, " ", Name(b), " is not there at the end"));
      Check(!p_.buffer(b).layout.IsPartial() && !Varies(b),
            absl::StrCat(what, " ", Name(b), " is not complete"));
    };
    if (Check(p_.outputs.size() == pcg_.outputs.size(),
              "the number of outputs is not the graph's")) {
      for (size_t i = 0; i < p_.outputs.size(); ++i) {
        Check(Value(p_.outputs[i]) == values_[pcg_.outputs[i].index()],
              absl::StrCat("output ", i, " is not ", pcg_.tensor(pcg_.outputs[i]).name));
        whole(p_.outputs[i], "output");
      }
    }
    if (pcg_.loss) {
      if (Check(p_.loss.valid() && p_.loss.index() < p_.buffers.size(),
                "the program has no loss")) {
        Check(Value(p_.loss) == values_[pcg_.loss->index()], "the loss is another tensor");
        whole(p_.loss, "loss");
        for (const AxisPlacement& a : p_.buffer(p_.loss).layout.axes) {
          Check(a.kind == Kind::kReplicated, "the loss is not the same on every device");
        }
      }
    }
    for (const StateUpdate& u : pcg_.updates) {
      Check(stored_.count(u.state.value) > 0,
            absl::StrCat("state ", pcg_.tensor(u.state).name, " is never updated"));
    }
  }

  const Graph& pcg_;
  const std::vector<int>& values_;
  const Program& p_;
  const std::string name_;
  const RowProver& prove_;
  int temporal_ = -1;
  int at_ = -1;
  std::vector<State> state_;
  std::set<int32_t> stored_;
  std::map<int32_t, OpInstance> instances_;
  ProgramCheck out_;
};

}  // namespace

ProgramCheck CheckProgram(const Graph& pcg, const std::vector<int>& values, const Program& program,
                          const std::string& program_name, const RowProver& prove) {
  return Checker(pcg, values, program, program_name, prove).Run();
}

}  // namespace tandem
