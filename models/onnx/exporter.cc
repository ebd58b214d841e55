#include "models/onnx/exporter.h"

#include <google/protobuf/io/coded_stream.h>

#include <algorithm>
#include <set>
#include <vector>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "absl/strings/string_view.h"

namespace tandem {
namespace {

constexpr char kSignature[] = "pkg.torch.export.ExportedProgram.graph_signature";
constexpr uint32_t kGraphMetadata = 16;  // GraphProto.metadata_props
constexpr uint32_t kLengthDelimited = 2;

// The signature among the graph's metadata, or nothing. Versions of ONNX's schema before 1.16 do
// not know that field: it is among the unknown ones then.
template <typename GraphProto>
std::string SignatureOf(const GraphProto& graph) {
  if constexpr (requires { graph.metadata_props(); }) {
    for (const auto& entry : graph.metadata_props()) {
      if (entry.key() == kSignature) return entry.value();
    }
  } else {
    const std::string& unknown = graph.unknown_fields();
    google::protobuf::io::CodedInputStream in(reinterpret_cast<const uint8_t*>(unknown.data()),
                                              static_cast<int>(unknown.size()));
    while (const uint32_t tag = in.ReadTag()) {
      uint64_t bytes = 0;
      switch (tag & 7) {
        case 0:
          if (!in.ReadVarint64(&bytes)) return "";
          continue;
        case 1:
          if (!in.Skip(8)) return "";
          continue;
        case 5:
          if (!in.Skip(4)) return "";
          continue;
        case kLengthDelimited:
          break;
        default:
          return "";
      }
      if (!in.ReadVarint64(&bytes) || bytes > unknown.size()) return "";
      std::string text;
      if (!in.ReadString(&text, static_cast<int>(bytes))) return "";
      onnx::StringStringEntryProto entry;
      if (tag >> 3 == kGraphMetadata && entry.ParseFromString(text) && entry.key() == kSignature) {
        return entry.value();
      }
    }
  }
  return "";
}

// The modules around a node of PyTorch's older exporter: "/a/b.0/MatMul" is in a, b.0.
std::vector<std::string> ModulesOf(const onnx::NodeProto& node) {
  std::vector<std::string> path = absl::StrSplit(node.name(), '/', absl::SkipEmpty());
  if (!path.empty()) path.pop_back();
  return path;
}

// Where the paths part, each goes on to a module that has parameters under its own name. A module
// that is applied again goes by another name, but has none.
bool InDifferentModules(const onnx::NodeProto& a, const onnx::NodeProto& b,
                        const std::set<std::string>& parameters) {
  const std::vector<std::string> p = ModulesOf(a), q = ModulesOf(b);
  size_t same = 0;
  while (same < p.size() && same < q.size() && p[same] == q[same]) ++same;
  if (same == p.size() || same == q.size()) return false;
  const auto owns = [&](const std::vector<std::string>& path) {
    std::string prefix;
    for (size_t k = 0; k <= same; ++k) absl::StrAppend(&prefix, path[k], ".");
    const auto it = parameters.lower_bound(prefix);
    return it != parameters.end() && absl::StartsWith(*it, prefix);
  };
  return owns(p) && owns(q);
}

}  // namespace

Exporter::Exporter(const onnx::ModelProto& model) {
  const onnx::GraphProto& graph = model.graph();
  ReadSignature(graph);
  // The older exporter names nodes after modules; the newer "node_...".
  torch_script_ = kinds_.empty() && model.producer_name() == "pytorch" &&
                  std::none_of(graph.node().begin(), graph.node().end(), [](const auto& node) {
                    return absl::StartsWith(node.name(), "node_");
                  });
  if (torch_script_) FindCopies(graph);
  std::set<std::string> names;
  bool all_listed = true;
  for (const onnx::TensorProto& tensor : graph.initializer()) {
    names.insert(tensor.name());
    all_listed = all_listed && kinds_.count(tensor.name()) != 0;
  }
  for (const auto& [name, kind] : kinds_) {
    lacks_parameters_ = lacks_parameters_ || (kind == Kind::kParameter && names.count(name) == 0);
  }
  // Optimisation leaves no Constant nodes. Without it, parameters that lack are other names of
  // parameters that are there.
  const bool as_exported =
      std::any_of(graph.node().begin(), graph.node().end(),
                  [](const onnx::NodeProto& node) { return node.op_type() == "Constant"; });
  exact_ = torch_script_ ? as_exported || !copies_.empty()
                         : !kinds_.empty() && all_listed && (as_exported || !lacks_parameters_);
}

void Exporter::ReadSignature(const onnx::GraphProto& graph) {
  // One entry a tensor, in one of two ways of writing: "p_w: PARAMETER target='w'", or
  // "InputSpec(kind=<InputKind.PARAMETER: 2>, ..., target='w', ...)". Inputs come before outputs.
  const std::string signature = SignatureOf(graph);
  absl::string_view rest = signature;
  constexpr absl::string_view kTarget = "target='";
  for (size_t at = rest.find(kTarget); at != absl::string_view::npos; at = rest.find(kTarget)) {
    const absl::string_view before = rest.substr(0, at);
    rest.remove_prefix(at + kTarget.size());
    const size_t end = rest.find('\'');
    if (end == absl::string_view::npos) break;
    const auto last = [&](absl::string_view word) {
      const size_t found = before.rfind(word);
      return found == absl::string_view::npos ? 0 : found + 1;
    };
    const size_t parameter = last("PARAMETER");
    const size_t other = std::max(last("BUFFER"), last("CONSTANT_TENSOR"));
    if (parameter != other) {
      kinds_.emplace(std::string(rest.substr(0, end)),
                     parameter > other ? Kind::kParameter : Kind::kBuffer);
    }
    rest.remove_prefix(end);
  }
}

void Exporter::FindCopies(const onnx::GraphProto& graph) {
  std::map<std::string, size_t> ranks;
  std::set<std::string> parameters;
  for (const onnx::TensorProto& tensor : graph.initializer()) {
    ranks[tensor.name()] = static_cast<size_t>(tensor.dims_size());
    if (!MadeUp(tensor.name())) parameters.insert(tensor.name());
  }
  std::map<std::string, std::string> same;
  std::map<std::string, const onnx::NodeProto*> weights;  // first layer that each is the weight of
  for (const onnx::NodeProto& node : graph.node()) {
    const std::string& op = node.op_type();
    if (op == "Identity" && node.input_size() == 1 && node.output_size() == 1) {
      const auto it = same.find(node.input(0));
      const std::string& original = it == same.end() ? node.input(0) : it->second;
      if (ranks.count(original) == 0) continue;
      same[node.output(0)] = original;
      if (!MadeUp(node.output(0))) parameters.insert(node.output(0));
    } else if (node.input_size() > 1 && (op == "MatMul" || op == "Gemm" || op == "Conv")) {
      weights.emplace(node.input(1), &node);
    }
  }
  for (const auto& [name, original] : same) {
    if (!MadeUp(name)) {
      copies_[name] = original;
      continue;
    }
    // A matrix transposed by the exporter: of a layer applied again, or of a copy of the layer.
    const auto here = weights.find(name), there = weights.find(original);
    if (ranks[original] == 2 && here != weights.end() && there != weights.end() &&
        InDifferentModules(*here->second, *there->second, parameters)) {
      copies_[name] = original;
    }
  }
}

bool Exporter::Apart(const std::string& a, const std::string& b) const {
  if (IsParameter(a) && IsParameter(b)) return true;
  const auto of_a = copies_.find(a), of_b = copies_.find(b);
  if (of_a == copies_.end() && of_b == copies_.end()) return false;
  return (of_a == copies_.end() ? a : of_a->second) == (of_b == copies_.end() ? b : of_b->second);
}

bool Exporter::MadeUp(const std::string& name) const {
  if (!kinds_.empty()) return KindOf(name) == Kind::kNone;
  if (absl::StartsWith(name, "onnx::") || absl::StartsWith(name, "/")) return true;
  if (torch_script_) return name.find_first_not_of("0123456789") == std::string::npos;
  return !absl::StrContains(name, '.');  // a person's have dots ("layer.0.bias")
}

}  // namespace tandem
