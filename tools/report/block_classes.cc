#include "tools/report/block_classes.h"

#include <algorithm>
#include <map>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "tools/report/chips.h"

namespace tandem::report {
namespace {

constexpr size_t kSmallestRepeat = 3;  // nodes; less is no block to look for inside another

class Classifier {
 public:
  Classifier(const Graph& pcg, const Program& program, const Flow& flow,
             const std::vector<bool>& prepared)
      : pcg_(pcg), program_(program), flow_(flow), prepared_(prepared) {}

  // What a picture of these nodes shows, without names; with or without sizes.
  std::string Signature(const std::vector<NodeId>& nodes, bool sizes = false) const {
    std::map<NodeId, size_t> place;
    for (size_t i = 0; i < nodes.size(); ++i) place[nodes[i]] = i;
    std::string out;
    for (NodeId id : nodes) {
      const NodeFlow& node = flow_.nodes[id.index()];
      absl::StrAppend(&out, "\n", pcg_.node(id).op);
      for (BufferId b : node.outputs) absl::StrAppend(&out, " ->", BufferText(b, sizes));
      for (const Operand& operand : node.inputs) {
        const auto inside = place.find(operand.producer);
        if (inside != place.end()) {
          absl::StrAppend(&out, " #", inside->second);
        } else {
          absl::StrAppend(&out, " ", Outside(operand));
        }
        absl::StrAppend(&out, BufferText(operand.made, sizes), StepsText(operand));
      }
      for (const auto& [reader, input] : flow_.readers[id.index()]) {
        if (pcg_.node(reader).phase != Phase::kUpdate) continue;
        const Operand& operand = flow_.nodes[reader.index()].inputs[static_cast<size_t>(input)];
        absl::StrAppend(&out, " update", StepsText(operand));
      }
    }
    return out;
  }

 private:
  std::string BufferText(BufferId id, bool sizes) const {
    if (!id.valid() || id.index() >= program_.buffers.size()) return "?";
    const Buffer& buffer = program_.buffer(id);
    const FactoredShape& shape = pcg_.tensor(buffer.tensor).shape;
    return absl::StrCat(DTypeName(buffer.dtype), "(",
                        sizes ? PlainText(ShapeChips(shape, buffer.layout, program_.mesh))
                              : absl::StrCat(shape.size(), " dims ", ToString(buffer.layout)),
                        ")");
  }

  std::string StepsText(const Operand& operand) const {
    std::string out;
    for (int i : operand.steps) {
      const Instruction& step = program_.instructions[static_cast<size_t>(i)];
      if (IsMove(step)) {
        absl::StrAppend(&out, "/", StepKindName(step.step), absl::StrJoin(step.axes, ","));
      }
    }
    return out;
  }

  const char* Outside(const Operand& operand) const {
    if (!operand.producer.valid()) {
      // The first of equal blocks reads what is fed, the others what the one before made.
      const bool fed =
          operand.tensor.valid() && pcg_.tensor(operand.tensor).role == TensorRole::kInput;
      return fed ? "forward" : "source";
    }
    if (prepared_[operand.producer.index()]) return "weight";
    return PhaseName(pcg_.node(operand.producer).phase);
  }

  const Graph& pcg_;
  const Program& program_;
  const Flow& flow_;
  const std::vector<bool>& prepared_;
};

// Takes the repeated part out of blocks that occur once: it stands at their front (a head after the
// last layer of the forward pass) or at their end (the same head, backward).
void SplitSingles(const Classifier& classifier, std::vector<BlockClass>& classes) {
  std::map<std::string, size_t> repeated;
  for (size_t c = 0; c < classes.size(); ++c) {
    if (classes[c].blocks.size() > 1 && classes[c].nodes.size() >= kSmallestRepeat) {
      repeated[classifier.Signature(classes[c].nodes)] = c;
    }
  }
  const size_t count = classes.size();
  for (size_t c = 0; c < count; ++c) {
    if (classes[c].blocks.size() != 1) continue;
    const std::vector<NodeId> all = classes[c].nodes;
    for (const auto& [signature, r] : repeated) {
      const size_t n = classes[r].nodes.size();
      if (n >= all.size()) continue;
      const auto middle = static_cast<std::ptrdiff_t>(n);
      const std::vector<NodeId> front(all.begin(), all.begin() + middle);
      const std::vector<NodeId> end(all.end() - middle, all.end());
      const bool at_front = classifier.Signature(front) == signature;
      if (!at_front && classifier.Signature(end) != signature) continue;
      if (at_front) {
        classes[c].nodes.assign(all.begin() + middle, all.end());
      } else {
        classes[c].nodes.assign(all.begin(), all.end() - middle);
      }
      classes[c].rest = true;
      classes[r].sizes_differ |= classifier.Signature(at_front ? front : end, true) !=
                                 classifier.Signature(classes[r].nodes, true);
      classes[r].blocks.push_back(classes[c].blocks[0]);
      std::sort(classes[r].blocks.begin(), classes[r].blocks.end());
      break;
    }
  }
}

}  // namespace

std::vector<bool> PreparedNodes(const Graph& pcg) {
  std::vector<bool> prepared(pcg.nodes.size(), false);
  for (size_t n = 0; n < pcg.nodes.size(); ++n) {
    const Node& node = pcg.nodes[n];
    if (node.phase == Phase::kUpdate) continue;
    prepared[n] = std::all_of(node.inputs.begin(), node.inputs.end(), [&](TensorId id) {
      const Tensor& tensor = pcg.tensor(id);
      if (tensor.producer.valid()) return static_cast<bool>(prepared[tensor.producer.index()]);
      return tensor.role == TensorRole::kParameter || tensor.role == TensorRole::kState ||
             tensor.role == TensorRole::kConstant;
    });
  }
  return prepared;
}

std::vector<BlockClass> BlockClasses(const Graph& pcg, const Program& program, const Flow& flow,
                                     const std::vector<bool>& prepared, Phase phase) {
  std::vector<BlockClass> blocks;  // by first node
  std::map<int, size_t> place;
  for (size_t n = 0; n < pcg.nodes.size(); ++n) {
    const Node& node = pcg.nodes[n];
    if (node.phase != phase || prepared[n] || flow.nodes[n].instruction < 0) continue;
    const auto [it, added] = place.emplace(node.block, blocks.size());
    if (added) {
      blocks.emplace_back();
      blocks.back().phase = phase;
      blocks.back().blocks = {node.block};
    }
    blocks[it->second].nodes.push_back(NodeId(static_cast<int64_t>(n)));
  }
  const Classifier classifier(pcg, program, flow, prepared);
  std::vector<BlockClass> classes;
  std::map<std::string, size_t> found;
  for (BlockClass& block : blocks) {
    const auto [it, added] = found.emplace(classifier.Signature(block.nodes), classes.size());
    if (added) {
      classes.push_back(std::move(block));
    } else {
      BlockClass& same = classes[it->second];
      same.blocks.push_back(block.blocks[0]);
      same.sizes_differ |=
          classifier.Signature(same.nodes, true) != classifier.Signature(block.nodes, true);
    }
  }
  for (BlockClass& c : classes) std::sort(c.blocks.begin(), c.blocks.end());
  SplitSingles(classifier, classes);
  return classes;
}

std::string BlockRanges(const std::vector<int>& blocks) {
  std::vector<std::string> parts;
  for (size_t i = 0; i < blocks.size();) {
    size_t j = i;
    while (j + 1 < blocks.size() && blocks[j + 1] == blocks[j] + 1) ++j;
    parts.push_back(i == j ? absl::StrCat(blocks[i]) : absl::StrCat(blocks[i], "–", blocks[j]));
    i = j + 1;
  }
  return absl::StrJoin(parts, ", ");
}

}  // namespace tandem::report
