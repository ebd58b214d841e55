#include "verifier/program/program_check.h"

#include <algorithm>
#include <map>
#include <set>

#include "absl/strings/str_cat.h"
#include "verifier/program/step_check.h"

namespace tandem {
namespace {

using Kind = AxisPlacement::Kind;

class Checker {
 public:
  Checker(const Graph& pcg, const std::vector<int>& values, const Program& program,
          const std::string& name, const RowProver& prove)
      : pcg_(pcg), values_(values), p_(program), prove_(prove), log_(program, name) {
    temporal_ = p_.mesh.TemporalAxis();
  }

  ProgramCheck Run() {
    if (!CheckShape()) return log_.Take();
    state_.assign(p_.buffers.size(), State::kEmpty);
    Sources();
    for (size_t i = 0; i < p_.instructions.size(); ++i) {
      log_.SetInstruction(static_cast<int>(i));
      if (log_.instruction() == p_.loop_end) LeaveLoop();
      One(p_.instructions[i]);
    }
    if (p_.loop_end == static_cast<int>(p_.instructions.size())) LeaveLoop();
    log_.SetInstruction(-1);
    Results();
    return log_.Take();
  }

 private:
  enum class State : uint8_t { kEmpty, kHolds, kAfterLoop, kFreed, kLoopOnly };

  bool Check(bool ok, absl::string_view reason) { return log_.Check(ok, reason); }

  // Ids in range, layouts legal, local shapes as the layouts say: what the rest relies on.
  bool CheckShape() {
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
      log_.SetInstruction(static_cast<int>(i));
      const Instruction& ins = p_.instructions[i];
      for (BufferId b : ins.inputs) Check(in_range(b), "reads a buffer that does not exist");
      for (BufferId b : ins.outputs) Check(in_range(b), "writes a buffer that does not exist");
      for (int a : ins.axes) {
        Check(a >= 0 && a < static_cast<int>(p_.mesh.axes.size()),
              "names a mesh axis that is not there");
      }
      Check(std::is_sorted(ins.axes.begin(), ins.axes.end()) &&
                std::adjacent_find(ins.axes.begin(), ins.axes.end()) == ins.axes.end(),
            "mesh axes are not in order");
    }
    log_.SetInstruction(-1);
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
    return !log_.any_failure();
  }

  bool Varies(BufferId b) const {
    return temporal_ >= 0 &&
           p_.buffer(b).layout.axes[static_cast<size_t>(temporal_)].kind != Kind::kReplicated;
  }
  bool InLoop() const {
    return log_.instruction() >= p_.loop_begin && log_.instruction() < p_.loop_end;
  }
  int Value(BufferId b) const { return values_[p_.buffer(b).tensor.index()]; }
  std::string Name(BufferId b) const { return p_.buffer(b).name; }

  void Sources() {
    std::set<int32_t> given;
    // From outside come pieces of whole values, once a step.
    auto hold = [&](BufferId b) {
      Check(!p_.buffer(b).layout.IsPartial() && !Varies(b),
            absl::StrCat("source ", Name(b), " is partial or varies with the micro-batch"));
      state_[b.index()] = State::kHolds;
    };
    auto give = [&](BufferId b) {
      const Tensor& t = pcg_.tensor(p_.buffer(b).tensor);
      if (!Check(!t.producer.valid(),
                 absl::StrCat("buffer ", Name(b), " is given from outside, but tensor ", t.name,
                              " is computed"))) {
        return;
      }
      hold(b);
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
        hold(BufferId(static_cast<int64_t>(i)));
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
                                         ", which is gone (freed, or of another micro-batch)"));
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
          ok &= Check(
              !Varies(b),
              absl::StrCat(Name(b), " belongs to one micro-batch, but is used outside the loop"));
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
      if (!instance.ok()) log_.Fail(instance.status().message());
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
    log_.Count();
    if (trivial) return;  // every device computes the same from the same
    const RowAnswer answer = prove_(pcg_, ins.node, instance, row);
    if (answer.kind == RowAnswer::Kind::kProved) return;
    log_.Fail(absl::StrCat("mesh axis ", p_.mesh.axes[static_cast<size_t>(axis)].name, ": ",
                           answer.kind == RowAnswer::Kind::kRefuted ? "wrong: " : "not proved: ",
                           answer.reason),
              answer.kind == RowAnswer::Kind::kUnknown);
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
    for (size_t i = 0; i < ins.inputs.size(); ++i) {
      const Buffer& in = p_.buffer(ins.inputs[i]);
      const Buffer& out = p_.buffer(ins.outputs[i]);
      Check(Value(ins.inputs[i]) == Value(ins.outputs[i]),
            absl::StrCat("moves ", pcg_.tensor(in.tensor).name, " but claims ",
                         pcg_.tensor(out.tensor).name));
      CheckStep(pcg_, p_.mesh, ins, in, out, log_);
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
  const RowProver& prove_;
  int temporal_ = -1;
  std::vector<State> state_;
  std::set<int32_t> stored_;
  std::map<int32_t, OpInstance> instances_;
  CheckLog log_;
};

}  // namespace

ProgramCheck CheckProgram(const Graph& pcg, const std::vector<int>& values, const Program& program,
                          const std::string& program_name, const RowProver& prove) {
  return Checker(pcg, values, program, program_name, prove).Run();
}

}  // namespace tandem
