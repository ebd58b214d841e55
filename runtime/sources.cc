#include "runtime/sources.h"

#include <algorithm>
#include <cmath>
#include <numeric>
#include <optional>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "pcg/graph/initializer.h"
#include "runtime/random.h"
#include "runtime/source_use.h"

namespace tandem {
namespace {

using Kind = SourceRule::Kind;

SourceRule Rule(Kind kind, double a, double b = 0) {
  SourceRule rule;
  rule.kind = kind;
  rule.a = a;
  rule.b = b;
  return rule;
}

absl::StatusOr<SourceRule> RuleOf(const Tensor& tensor) {
  const absl::StatusOr<Initializer> initializer = ParseInitializer(tensor.initializer);
  if (!initializer.ok()) {
    return absl::InvalidArgumentError(
        absl::StrCat("tensor '", tensor.name, "': ", initializer.status().message()));
  }
  switch (initializer->kind) {
    case Initializer::Kind::kConstant:
      return Rule(Kind::kConstant, initializer->a);
    case Initializer::Kind::kNormal:
      return Rule(Kind::kNormal, initializer->a, initializer->b);
    case Initializer::Kind::kUniform:
      return Rule(Kind::kUniform, initializer->a, initializer->b);
  }
  return absl::InternalError("no such kind of initializer");
}

// Glorot's deviation, with everything but the first two dims as the receptive field.
double WeightDeviation(const std::vector<int64_t>& shape) {
  double fans = static_cast<double>(shape[0] + shape[1]);
  for (size_t d = 2; d < shape.size(); ++d) fans *= static_cast<double>(shape[d]);
  return std::sqrt(2 / fans);
}

SourceRule DefaultRule(const Tensor& tensor, const SourceUse& use) {
  const std::vector<int64_t> shape = PlainShape(tensor.shape);
  if (!IsFloat(tensor.dtype)) {
    // Without a table to index: flags and masks, set.
    return use.index_bound > 0 ? Rule(Kind::kInteger, static_cast<double>(use.index_bound))
                               : Rule(Kind::kConstant, 1);
  }
  if (use.under_root) return Rule(Kind::kUniform, 0.5, 1.5);
  if (tensor.role == TensorRole::kInput) return Rule(Kind::kNormal, 0, 1);
  if (use.updates_only && tensor.role == TensorRole::kState) return Rule(Kind::kConstant, 0);
  if (shape.size() >= 2 && (use.contracted || !use.multiplies)) {
    return Rule(Kind::kNormal, 0, WeightDeviation(shape));
  }
  return use.multiplies ? Rule(Kind::kNormal, 1, 0.1) : Rule(Kind::kNormal, 0, 0.1);
}

std::string ShapeText(const std::vector<int64_t>& shape) {
  return absl::StrCat("(", absl::StrJoin(shape, ","), ")");
}

// Integers that are compared with an index name a row or a class: one that does not exist would
// silently give zeros.
absl::Status CheckIntegers(const Tensor& tensor, const SourceUse& use, const HostTensor& given) {
  if (IsFloat(tensor.dtype)) return absl::OkStatus();
  for (size_t i = 0; i < given.data.size(); ++i) {
    const double value = given.data[i];
    const bool in_range =
        use.index_bound == 0 || (value >= 0 && value < static_cast<double>(use.index_bound));
    if (value == std::floor(value) && in_range) continue;
    return absl::InvalidArgumentError(absl::StrCat(
        "data for '", tensor.name, "': element ", i, " is ", value, "; it must be an integer",
        use.index_bound == 0 ? "" : absl::StrCat(" from 0 to ", use.index_bound - 1)));
  }
  return absl::OkStatus();
}

absl::StatusOr<SourceRule> RuleFor(const Tensor& tensor, const SourceUse& use,
                                   const std::map<std::string, HostTensor>& data) {
  SourceRule rule;
  if (const auto given = data.find(tensor.name); given != data.end()) {
    if (given->second.shape != PlainShape(tensor.shape)) {
      return absl::InvalidArgumentError(
          absl::StrCat("data for '", tensor.name, "' has shape ", ShapeText(given->second.shape),
                       ", the graph wants ", ShapeText(PlainShape(tensor.shape)),
                       "; give data of that shape or plan for this batch (--global-batch)"));
    }
    if (absl::Status s = CheckIntegers(tensor, use, given->second); !s.ok()) return s;
    rule.kind = Kind::kGiven;
    rule.given = &given->second.data;
    return rule;
  }
  if (tensor.role == TensorRole::kStepInput) {
    if (tensor.name != "lr" && tensor.name != "step") {
      return absl::InvalidArgumentError(absl::StrCat(
          "step input '", tensor.name, "' is neither 'lr' nor 'step'; a run knows only these"));
    }
    rule.kind = Kind::kStep;
    rule.step_input = tensor.name;
    return rule;
  }
  if (!tensor.values.empty()) {
    if (static_cast<int64_t>(tensor.values.size()) != ElementCount(tensor.shape)) {
      return absl::InvalidArgumentError(absl::StrCat("tensor '", tensor.name, "' has ",
                                                     tensor.values.size(), " values, its shape ",
                                                     ElementCount(tensor.shape)));
    }
    rule.kind = Kind::kGiven;
    rule.given = &tensor.values;
    return rule;
  }
  return tensor.initializer.empty() ? DefaultRule(tensor, use) : RuleOf(tensor);
}

}  // namespace

absl::StatusOr<Sources> Sources::Create(const std::vector<const Graph*>& graphs, uint64_t seed,
                                        double lr, const std::map<std::string, HostTensor>& data) {
  Sources sources;
  sources.seed_ = seed;
  sources.lr_ = lr;
  for (const Graph* graph : graphs) {
    if (absl::Status s = sources.Add(*graph, data); !s.ok()) return s;
  }
  return sources;
}

absl::Status Sources::Add(const Graph& graph, const std::map<std::string, HostTensor>& data) {
  absl::StatusOr<std::vector<SourceUse>> uses = UsesOf(graph);
  if (!uses.ok()) return uses.status();
  for (size_t t = 0; t < graph.tensors.size(); ++t) {
    const Tensor& tensor = graph.tensors[t];
    if (tensor.producer.valid() || rules_.count(tensor.name) > 0) continue;
    absl::StatusOr<SourceRule> rule = RuleFor(tensor, (*uses)[t], data);
    if (!rule.ok()) return rule.status();
    seeded_parameters_ += rule->kind != Kind::kGiven && tensor.role == TensorRole::kParameter;
    rules_.emplace(tensor.name, *std::move(rule));
  }
  return absl::OkStatus();
}

double Sources::Value(const SourceRule& rule, const RandomStream& random, int64_t index,
                      int64_t step) const {
  switch (rule.kind) {
    case Kind::kGiven:
      return (*rule.given)[static_cast<size_t>(index)];
    case Kind::kStep:
      return rule.step_input == "lr" ? lr_ : static_cast<double>(step);
    case Kind::kConstant:
      return rule.a;
    case Kind::kNormal:
      return rule.a + rule.b * random.Normal(index);
    case Kind::kUniform:
      return rule.a + (rule.b - rule.a) * random.Uniform(index);
    case Kind::kInteger:
      return static_cast<double>(random.Integer(index, static_cast<int64_t>(rule.a)));
  }
  return 0;
}

template <typename T>
void Sources::Fill(const std::string& name, const std::vector<int64_t>& indices, int64_t step,
                   T* values) const {
  const SourceRule& rule = rules_.at(name);
  const RandomStream random(seed_, name);
  for (size_t i = 0; i < indices.size(); ++i) {
    values[i] = static_cast<T>(Value(rule, random, indices[i], step));
  }
}
template void Sources::Fill(const std::string&, const std::vector<int64_t>&, int64_t, float*) const;
template void Sources::Fill(const std::string&, const std::vector<int64_t>&, int64_t,
                            double*) const;

HostTensor Sources::Whole(const Tensor& tensor, int64_t step) const {
  std::vector<int64_t> indices(static_cast<size_t>(ElementCount(tensor.shape)));
  std::iota(indices.begin(), indices.end(), 0);
  HostTensor whole;
  whole.shape = PlainShape(tensor.shape);
  whole.data.resize(indices.size());
  Fill(tensor.name, indices, step, whole.data.data());
  return whole;
}

}  // namespace tandem
