#include "verifier/sample_instances.h"

#include <map>
#include <set>
#include <stdexcept>

#include "absl/strings/str_cat.h"
#include "pcg/autodiff/autodiff.h"
#include "pcg/language/op_parser.h"

namespace tandem {
namespace {

// Attributes without a default. Numbers are chosen so that every operator is defined on its shapes.
const std::map<std::string, Attributes>& KnownAttributes() {
  using List = std::vector<int64_t>;
  static const auto* known = new std::map<std::string, Attributes>{
      {"max_pool2d",
       {{"kernel_h", int64_t{3}},
        {"kernel_w", int64_t{3}},
        {"stride_h", int64_t{2}},
        {"pad_top", int64_t{1}}}},
      {"avg_pool2d", {{"kernel_h", int64_t{3}}, {"kernel_w", int64_t{3}}}},
      {"conv1d", {{"stride", int64_t{2}}, {"pad", int64_t{3}}, {"pad_end", int64_t{3}}}},
      {"conv2d",
       {{"stride_h", int64_t{2}},
        {"pad_top", int64_t{1}},
        {"dilation_w", int64_t{2}},
        {"pad_left", int64_t{3}},
        {"pad_right", int64_t{3}}}},
      {"lrn", {{"alpha", 1e-4}, {"beta", 0.75}, {"bias", 1.0}, {"size", int64_t{5}}}},
      {"scale", {{"value", 0.5}}},
      {"shift", {{"value", 0.5}}},
      {"power", {{"exponent", 2.0}}},
      {"leaky_relu", {{"alpha", 0.01}}},
      {"clip", {{"low", 0.0}, {"high", 6.0}}},
      {"hard_sigmoid", {{"alpha", 0.2}, {"beta", 0.5}}},
      {"dropout", {{"ratio", 0.25}, {"seed", int64_t{7}}}},
      {"transpose", {{"perm", List{1, 0}}}},
      {"reshape", {{"shape", List{24}}}},
      {"expand", {{"shape", List{4, 6}}}},
      {"slice", {{"start", int64_t{1}}, {"size", int64_t{2}}}},
      {"pad", {{"low", int64_t{1}}, {"high", int64_t{2}}}},
      {"fill", {{"shape", List{6, 4}}, {"value", 1.0}}},
      {"iota", {{"size", int64_t{6}}}},
      {"causal_mask", {{"rows", int64_t{6}}, {"cols", int64_t{6}}, {"low", -1e9}}},
      {"group_norm", {{"groups", int64_t{6}}}},
      {"running_average", {{"momentum", 0.9}}},
      {"attention", {{"scale", 0.125}}},
      {"causal_attention", {{"scale", 0.125}}},
  };
  return *known;
}

int RankOf(const std::string& group) { return group == "b" || group == "d" ? 2 : 1; }

}  // namespace

absl::StatusOr<OpInstance> SampleInstance(const OpSpec& spec) {
  std::map<std::string, int64_t> extents;
  auto extent = [&](const std::string& size) {
    auto [it, inserted] = extents.try_emplace(size, 4 + 2 * (extents.size() % 3));
    return it->second;
  };
  std::vector<FactoredShape> shapes;
  std::set<std::string> groups;
  for (const OperandSpec& operand : spec.inputs) {
    FactoredShape shape;
    for (const DimSpec& dim : operand.dims) {
      switch (dim.kind) {
        case DimSpec::Kind::kGroup:
          groups.insert(dim.name);
          for (int i = 0; i < RankOf(dim.name); ++i) {
            shape.push_back({extent(absl::StrCat(dim.name, ".", i))});
          }
          break;
        case DimSpec::Kind::kTuple: {
          Factors factors;
          for (const std::string& part : dim.parts) factors.push_back(extent(part));
          shape.push_back(std::move(factors));
          break;
        }
        case DimSpec::Kind::kConstant:
          shape.push_back({dim.constant});
          break;
        default:
          shape.push_back({extent(dim.name)});
      }
    }
    shapes.push_back(std::move(shape));
  }
  Attributes attributes;
  auto it = KnownAttributes().find(spec.name);
  if (it != KnownAttributes().end()) attributes = it->second;
  absl::StatusOr<OpInstance> plain = Instantiate(spec, attributes, shapes);
  if (plain.ok()) return plain;
  // Ranks that do not follow from the inputs.
  for (const std::string& group : groups) {
    if (group != "a") attributes[absl::StrCat("rank_", group)] = int64_t{RankOf(group)};
  }
  absl::StatusOr<OpInstance> ranked = Instantiate(spec, attributes, shapes);
  return ranked.ok() ? ranked : plain;
}

absl::StatusOr<std::vector<OpInstance>> GradientInstances(const OpInstance& forward) {
  std::vector<int> wanted;
  for (int i = 0; i < forward.num_inputs; ++i) {
    if (forward.input(i).kind == ElementKind::kFloat) wanted.push_back(i);
  }
  std::vector<OpInstance> out;
  if (wanted.empty()) return out;
  auto gradients = GradientsOf(forward, wanted);
  if (!gradients.ok()) return out;
  for (const GradientOp& g : *gradients) {
    std::vector<FactoredShape> shapes;
    for (const GradientOp::Operand& o : g.inputs) {
      const bool input = o.source == GradientOp::Source::kInput;
      shapes.push_back(forward.ShapeOf(input ? o.position : forward.num_inputs + o.position));
    }
    auto instance = Instantiate(g.spec, g.attributes, shapes);
    if (!instance.ok()) return instance.status();
    out.push_back(*std::move(instance));
  }
  return out;
}

OpInstance InstanceOfText(const std::string& text, const std::vector<FactoredShape>& inputs,
                          const Attributes& attributes) {
  auto specs = ParseOperators(text, "test");
  if (!specs.ok()) throw std::runtime_error(std::string(specs.status().message()));
  auto instance = Instantiate(specs->at(0), attributes, inputs);
  if (!instance.ok()) throw std::runtime_error(std::string(instance.status().message()));
  return *std::move(instance);
}

}  // namespace tandem
