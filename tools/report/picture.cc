#include "tools/report/picture.h"

#include <algorithm>
#include <map>
#include <set>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"

namespace tandem::report {
namespace {

constexpr int kLongestName = 30;
constexpr size_t kMostOperands = 6;

// The end of a name is what tells it from others.
std::string Short(std::string name, const std::string& prefix) {
  if (!prefix.empty() && absl::StartsWith(name, prefix)) name = name.substr(prefix.size());
  if (TextLength(name) <= kLongestName) return name;
  size_t cut = name.size() - kLongestName;
  while (cut < name.size() && (static_cast<unsigned char>(name[cut]) & 0xc0) == 0x80) ++cut;
  return absl::StrCat("…", name.substr(cut));
}

bool IsHeavy(const std::string& op) {
  for (const char* part : {"matmul", "linear", "conv", "attention", "contract", "einsum"}) {
    if (absl::StrContains(op, part)) return true;
  }
  return false;
}

std::string ChainTitle(const std::vector<std::string>& ops) {
  if (ops.size() <= 3) return absl::StrJoin(ops, " · ");
  return absl::StrCat(ops.front(), " · … · ", ops.back(), " (", ops.size(), " operators)");
}

// Names that were made from an operator and a number: "add_7", "add_7.grad.0".
bool IsCounter(const Graph& pcg, const std::string& name) {
  const std::string first = name.substr(0, name.find_first_of("./"));
  const size_t end = first.rfind('_');
  return end != std::string::npos && end + 1 < first.size() &&
         first.find_first_not_of("0123456789", end + 1) == std::string::npos &&
         pcg.operators.Find(first.substr(0, end)) != nullptr;
}

// The longest path that more than three quarters of the names are under, beside counters.
std::string CommonPrefix(const Graph& pcg, const std::vector<NodeId>& nodes) {
  std::map<std::string, size_t> under;
  size_t names = 0;
  for (NodeId id : nodes) {
    const std::string& name = pcg.node(id).name;
    if (IsCounter(pcg, name)) continue;
    ++names;
    for (size_t end = name.find_first_of("./"); end != std::string::npos;
         end = name.find_first_of("./", end + 1)) {
      ++under[name.substr(0, end + 1)];
    }
  }
  std::string longest;
  for (const auto& [path, count] : under) {
    if (count > 1 && 4 * count > 3 * names && path.size() > longest.size()) longest = path;
  }
  return longest;
}

// Operators of the backward pass carry a hash of their text, which says nothing in a picture.
std::string ShownOp(const std::string& op) {
  const size_t end = op.rfind('_');
  const bool hash = end != std::string::npos && op.size() - end == 9 &&
                    op.find_first_not_of("0123456789abcdef", end + 1) == std::string::npos;
  return hash ? op.substr(0, end) : op;
}

class Painter {
 public:
  Painter(const Graph& pcg, const Program& program, const Flow& flow,
          const std::vector<bool>& prepared, const BlockClass& block)
      : pcg_(pcg), program_(program), flow_(flow), prepared_(prepared), block_(block) {}

  Picture Paint() {
    picture_.prefix = CommonPrefix(pcg_, block_.nodes);
    picture_.nodes = block_.nodes.size();
    for (NodeId id : block_.nodes) (EndsInUpdate(id) ? tails_ : inside_).insert(id);
    for (NodeId id : block_.nodes) {
      if (inside_.count(id) != 0) AddNode(id);
    }
    for (NodeId id : block_.nodes) {
      if (inside_.count(id) == 0) continue;
      for (const Operand& operand : flow_.nodes[id.index()].inputs) Connect(id, operand);
      Leave(id);
    }
    return std::move(picture_);
  }

 private:
  int NewBox(Box box) {
    picture_.boxes.push_back(std::move(box));
    return static_cast<int>(picture_.boxes.size()) - 1;
  }
  void Arrow(int from, int to) {
    if (from != to && arrows_.insert({from, to}).second) picture_.arrows.emplace_back(from, to);
  }
  Chips BufferChips(BufferId id) const {
    if (!id.valid() || id.index() >= program_.buffers.size()) return {};
    const Buffer& buffer = program_.buffer(id);
    return ShapeChips(pcg_.tensor(buffer.tensor).shape, buffer.layout, program_.mesh);
  }
  bool SameStream(const Operand& operand) const {
    return operand.producer.valid() && !prepared_[operand.producer.index()] &&
           pcg_.node(operand.producer).phase == block_.phase;
  }
  bool IsArrow(const Operand& operand) const {
    if (SameStream(operand)) return true;
    return !operand.producer.valid() && operand.tensor.valid() &&
           pcg_.tensor(operand.tensor).role == TensorRole::kInput;
  }

  // Casts of gradients on their way to the update are not drawn; the row of the node before says
  // it.
  bool EndsInUpdate(NodeId id) const {
    if (pcg_.node(id).op != "cast" || flow_.readers[id.index()].empty()) return false;
    const std::vector<Operand>& inputs = flow_.nodes[id.index()].inputs;
    if (inputs.size() != 1 || !SameStream(inputs[0]) ||
        std::count(block_.nodes.begin(), block_.nodes.end(), inputs[0].producer) == 0) {
      return false;
    }
    return std::all_of(flow_.readers[id.index()].begin(), flow_.readers[id.index()].end(),
                       [&](const auto& r) { return pcg_.node(r.first).phase == Phase::kUpdate; });
  }

  // In large pictures, a light node that continues its only input, read by nothing else, in the
  // same layout, joins that one's box.
  int Continues(NodeId id) const {
    if (block_.nodes.size() <= kMostSingleNodes || IsHeavy(pcg_.node(id).op)) return -1;
    const Operand* only = nullptr;
    for (const Operand& operand : flow_.nodes[id.index()].inputs) {
      if (!IsArrow(operand)) continue;
      if (only != nullptr) return -1;
      only = &operand;
    }
    if (only == nullptr || !only->producer.valid() || inside_.count(only->producer) == 0 ||
        only->Moves(program_) || IsHeavy(pcg_.node(only->producer).op) ||
        flow_.readers[only->producer.index()].size() != 1) {
      return -1;
    }
    return box_of_.at(only->producer);
  }

  void AddNode(NodeId id) {
    const Node& node = pcg_.node(id);
    const NodeFlow& flow = flow_.nodes[id.index()];
    const int continued = Continues(id);
    if (continued >= 0) {
      Box& box = picture_.boxes[static_cast<size_t>(continued)];
      box.kind = Box::Kind::kChain;
      absl::StrAppend(&box.hint, "\n", node.op, ": ", node.name);
      std::vector<std::string>& ops = chains_[continued];
      ops.push_back(ShownOp(node.op));
      box.rows[0] = {{Chip::Kind::kStrong, ChainTitle(ops), ""}};
      if (!flow.outputs.empty() && box.rows.size() > 1) box.rows[1] = BufferChips(flow.outputs[0]);
      box_of_[id] = continued;
      return;
    }
    Box box;
    box.kind = IsHeavy(node.op) ? Box::Kind::kHeavy : Box::Kind::kNode;
    box.hint = absl::StrCat(node.op, ": ", node.name);
    if (!node.origin.empty()) absl::StrAppend(&box.hint, "\nmade by ", node.origin);
    box.rows.push_back({{Chip::Kind::kStrong, ShownOp(node.op), ""},
                        {Chip::Kind::kMuted, Short(node.name, picture_.prefix), ""}});
    for (BufferId output : flow.outputs) box.rows.push_back(BufferChips(output));
    box_of_[id] = NewBox(std::move(box));
    chains_[box_of_[id]] = {ShownOp(node.op)};
  }

  // Appends the chips of the steps of an operand to a row.
  void AppendSteps(Chips& row, const std::vector<int>& steps) const {
    for (int i : steps) {
      if (!IsMove(program_.instructions[static_cast<size_t>(i)])) continue;
      const Chips chips = StepChips(program_, i);
      row.insert(row.end(), chips.begin(), chips.end());
    }
  }

  void Connect(NodeId id, const Operand& operand) {
    const int to = box_of_.at(id);
    if (!IsArrow(operand)) {
      AddOperandRow(to, operand);
      return;
    }
    int from = 0;
    if (operand.producer.valid() && inside_.count(operand.producer) != 0) {
      from = box_of_.at(operand.producer);
    } else {
      from = Port(operand);
    }
    if (!operand.Moves(program_)) {
      Arrow(from, to);
      return;
    }
    const auto [it, added] = moves_.emplace(operand.read, -1);
    if (added) {
      Box box;
      box.kind = Box::Kind::kMove;
      for (int i : operand.steps) {
        if (IsMove(program_.instructions[static_cast<size_t>(i)])) {
          box.rows.push_back(StepChips(program_, i));
        }
      }
      box.hint = program_.buffer(operand.read).name;
      it->second = NewBox(std::move(box));
    }
    Arrow(from, it->second);
    Arrow(it->second, to);
  }

  // Whether the other block is this one's neighbour, which is said instead of its number: the
  // picture stands for many blocks.
  bool NextTo(int block) const {
    const int own = block_.blocks[0];
    return block_.blocks.size() > 1 && own >= 0 && (block == own - 1 || block == own + 1);
  }

  int Port(const Operand& operand) {
    const auto [it, added] = ports_.emplace(operand.tensor, -1);
    if (!added) return it->second;
    Box box;
    box.kind = Box::Kind::kPort;
    const Tensor& tensor = pcg_.tensor(operand.tensor);
    std::string from = "input";
    if (operand.producer.valid()) {
      const int block = pcg_.node(operand.producer).block;
      from = block < 0 || block == block_.blocks[0] ? "from before"
             : NextTo(block)                        ? "from the block before"
                                                    : absl::StrCat("from block ", block);
    }
    box.rows.push_back({{Chip::Kind::kMuted, from, ""},
                        {Chip::Kind::kText, Short(tensor.name, picture_.prefix), ""}});
    box.rows.push_back(BufferChips(operand.made));
    box.hint = tensor.name;
    return it->second = NewBox(std::move(box));
  }

  void AddOperandRow(int to, const Operand& operand) {
    if (!operand.tensor.valid()) return;
    Box& box = picture_.boxes[static_cast<size_t>(to)];
    const Origin origin = OriginOf(program_, flow_, prepared_, operand);
    const Tensor& tensor = pcg_.tensor(origin.source);
    if (tensor.role == TensorRole::kStepInput) return;
    const size_t operands = ++operands_[to];
    if (operands > kMostOperands) {
      if (operands == kMostOperands + 1) {
        box.rows.push_back({{Chip::Kind::kMuted, "and more operands", ""}});
      }
      return;
    }
    const bool saved = tensor.producer.valid();
    Chips row = {{Chip::Kind::kMuted, saved ? "reads" : "weight", ""}};
    if (!saved && tensor.role == TensorRole::kConstant) row[0].text = "constant";
    if (!saved && tensor.role == TensorRole::kInput) row[0].text = "input";
    if (!saved && tensor.role == TensorRole::kState) row[0].text = "state";
    std::string name = Short(tensor.name, picture_.prefix);
    if (origin.others > 0) absl::StrAppend(&name, " +", origin.others);
    row.push_back({Chip::Kind::kMuted, name + ":", ""});
    const Chips shape = BufferChips(origin.others > 0 ? operand.made : origin.stored);
    row.insert(row.end(), shape.begin(), shape.end());
    Chips steps;
    AppendSteps(steps, origin.steps);
    // What happens to it on the way has a row of its own: one row of both makes wide boxes.
    box.rows.push_back(std::move(row));
    if (!steps.empty()) {
      steps.insert(steps.begin(), {Chip::Kind::kMuted, "  then", ""});
      box.rows.push_back(std::move(steps));
    }
    absl::StrAppend(&box.hint, "\nreads ", tensor.name);
  }

  void AddUpdateRow(int box, const std::vector<int>& steps) {
    Chips row = {{Chip::Kind::kMuted, "→ update", ""}};
    AppendSteps(row, steps);
    picture_.boxes[static_cast<size_t>(box)].rows.push_back(std::move(row));
  }

  // Arrows out of the block, and gradients on their way to the update.
  void Leave(NodeId id) {
    const int from = box_of_.at(id);
    std::set<int> elsewhere;
    std::set<BufferId> updates;
    for (const auto& [reader, input] : flow_.readers[id.index()]) {
      const Node& node = pcg_.node(reader);
      const Operand& operand = flow_.nodes[reader.index()].inputs[static_cast<size_t>(input)];
      if (tails_.count(reader) != 0) {
        for (const auto& [update, at] : flow_.readers[reader.index()]) {
          const Operand& last = flow_.nodes[update.index()].inputs[static_cast<size_t>(at)];
          if (!updates.insert(last.read).second) continue;
          std::vector<int> steps = operand.steps;
          steps.insert(steps.end(), last.steps.begin(), last.steps.end());
          AddUpdateRow(from, steps);
        }
      } else if (node.phase == Phase::kUpdate && updates.insert(operand.read).second) {
        AddUpdateRow(from, operand.steps);
      } else if (node.phase == block_.phase && inside_.count(reader) == 0) {
        elsewhere.insert(node.block);
      }
    }
    std::string to;
    if (!elsewhere.empty()) {
      const bool here = elsewhere.count(block_.blocks[0]) != 0 || elsewhere.count(-1) != 0;
      to = here ? "to what follows"
           : elsewhere.size() == 1 && NextTo(*elsewhere.begin())
               ? "to the next block"
               : absl::StrCat("to block ", BlockRanges({elsewhere.begin(), elsewhere.end()}));
    }
    for (TensorId output : pcg_.node(id).outputs) {
      if (std::count(pcg_.outputs.begin(), pcg_.outputs.end(), output) != 0) to = "model output";
      if (pcg_.loss == output) to = "loss";
    }
    if (to.empty()) return;
    Box box;
    box.kind = Box::Kind::kPort;
    box.rows.push_back({{Chip::Kind::kMuted, to, ""}});
    box.hint = pcg_.node(id).name;
    Arrow(from, NewBox(std::move(box)));
  }

  const Graph& pcg_;
  const Program& program_;
  const Flow& flow_;
  const std::vector<bool>& prepared_;
  const BlockClass& block_;
  Picture picture_;
  std::set<NodeId> inside_;
  std::set<NodeId> tails_;
  std::set<std::pair<int, int>> arrows_;
  std::map<NodeId, int> box_of_;
  std::map<TensorId, int> ports_;
  std::map<BufferId, int> moves_;
  std::map<int, size_t> operands_;
  std::map<int, std::vector<std::string>> chains_;  // operators, by box
};

}  // namespace

Picture PictureOf(const Graph& pcg, const Program& program, const Flow& flow,
                  const std::vector<bool>& prepared, const BlockClass& block) {
  return Painter(pcg, program, flow, prepared, block).Paint();
}

Origin OriginOf(const Program& program, const Flow& flow, const std::vector<bool>& prepared,
                const Operand& operand) {
  Origin origin;
  origin.source = operand.tensor;
  origin.stored = operand.made;
  std::set<TensorId> sources;
  std::vector<const Operand*> open = {&operand};
  std::set<NodeId> seen;
  while (!open.empty()) {
    const Operand* at = open.back();
    open.pop_back();
    for (auto it = at->steps.rbegin(); it != at->steps.rend(); ++it) {
      if (IsMove(program.instructions[static_cast<size_t>(*it)])) origin.steps.push_back(*it);
    }
    const NodeId producer = at->producer;
    const std::vector<Operand>* inputs = nullptr;
    if (producer.valid() && prepared[producer.index()]) {
      inputs = &flow.nodes[producer.index()].inputs;
    }
    if (inputs != nullptr && !inputs->empty()) {
      if (!seen.insert(producer).second) continue;
      for (auto it = inputs->rbegin(); it != inputs->rend(); ++it) open.push_back(&*it);
      continue;
    }
    if (!at->tensor.valid()) continue;
    if (sources.empty()) {
      origin.source = at->tensor;
      origin.stored = at->made;
    }
    sources.insert(at->tensor);
  }
  origin.others = std::max(0, static_cast<int>(sources.size()) - 1);
  std::reverse(origin.steps.begin(), origin.steps.end());
  return origin;
}

}  // namespace tandem::report
