#include <set>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "substitutions/attr_expression.h"
#include "substitutions/rule.h"

namespace tandem {
namespace {

constexpr int64_t kPrimes[] = {3, 5, 7, 11, 13, 17, 19, 23, 29, 31, 37, 41};

class Builder {
 public:
  Builder(const Rule& rule, const OperatorLibrary& operators)
      : rule_(rule), operators_(operators) {}

  absl::StatusOr<RuleGraphs> Run() {
    RuleGraphs out;
    for (const std::string& v : rule_.variables) {
      values_[v] = 0.375 + 0.25 * static_cast<double>(values_.size() + 1);
    }
    for (const RuleInput& input : rule_.inputs) {
      for (size_t d = 0; d < input.dims.size(); ++d) {
        for (size_t f = 0; f < input.dims[d].parts.size(); ++f) {
          if (absl::Status s = Size(input.dims[d].parts[f]); !s.ok()) return s;
          out.sizes.emplace(input.dims[d].parts[f],
                            RuleSizeRef{input.name, static_cast<int>(d), static_cast<int>(f)});
        }
      }
    }
    for (auto* side : {&rule_.source, &rule_.target}) {
      for (const RuleStatement& s : *side) {
        for (const RuleDim& dim : s.shape) {
          for (const std::string& part : dim.parts) {
            if (absl::Status st = Size(part); !st.ok()) return st;
          }
        }
      }
    }
    if (absl::Status s = Regroup(); !s.ok()) return s;
    if (absl::Status s = Side(rule_.source, out.source); !s.ok()) return s;
    if (absl::Status s = Side(rule_.target, out.target); !s.ok()) return s;
    out.outputs = rule_.Outputs();
    for (Graph* g : {&out.source, &out.target}) {
      if (absl::Status s = PropagateFactors(*g); !s.ok()) return s;
    }
    return out;
  }

 private:
  absl::Status Error(int line, absl::string_view what) const {
    return absl::InvalidArgumentError(absl::StrCat(rule_.source_text, ": rule ", rule_.name,
                                                   line > 0 ? absl::StrCat(", line ", line) : "",
                                                   ": ", what));
  }

  absl::Status Size(const std::string& name) {
    if (sizes_.count(name)) return absl::OkStatus();
    if (sizes_.size() >= std::size(kPrimes)) return Error(0, "more than 12 sizes");
    const int64_t extent = kPrimes[sizes_.size()];
    sizes_[name] = extent;
    return absl::OkStatus();
  }

  // A group that occurs only in written shapes of reshapes (m.., n..) is some regrouping of the
  // input; representatives must have the same number of elements, so it gets the input's dims.
  absl::Status Regroup() {
    std::set<std::string> given;
    for (const RuleInput& input : rule_.inputs) {
      for (const RuleDim& dim : input.dims) given.insert(dim.parts.begin(), dim.parts.end());
    }
    for (auto* side : {&rule_.source, &rule_.target}) {
      for (const RuleStatement& s : *side) {
        if (s.shape.size() == 1 && s.shape[0].group && !given.count(s.shape[0].parts[0])) {
          regrouped_.insert(s.shape[0].parts[0]);
        }
      }
    }
    return absl::OkStatus();
  }

  FactoredShape ShapeOf(const std::vector<RuleDim>& dims) const {
    FactoredShape shape;
    for (const RuleDim& dim : dims) {
      Factors factors;
      for (const std::string& part : dim.parts) factors.push_back(sizes_.at(part));
      if (factors.empty()) factors.push_back(1);
      shape.push_back(factors);
    }
    return shape;
  }

  absl::StatusOr<AttrValue> Attribute(const RuleStatement& s, const RuleAttr& attr,
                                      size_t rank) const {
    if (attr.kind == RuleAttr::Kind::kList) return AttrValue(attr.list);
    if (attr.kind == RuleAttr::Kind::kSwap) {
      std::vector<int64_t> perm(rank);
      for (size_t i = 0; i < rank; ++i) perm[i] = static_cast<int64_t>(i);
      const int64_t r = static_cast<int64_t>(rank);
      if (r + attr.list[0] < 0 || r + attr.list[1] < 0) {
        return Error(s.line, "swap names a dim that is not there");
      }
      std::swap(perm[static_cast<size_t>(r + attr.list[0])],
                perm[static_cast<size_t>(r + attr.list[1])]);
      return AttrValue(perm);
    }
    const std::optional<double> value =
        EvaluateAttr(attr.expression, [&](absl::string_view name) -> std::optional<double> {
          auto size = sizes_.find(std::string(name));
          if (size != sizes_.end()) return static_cast<double>(size->second);
          auto var = values_.find(std::string(name));
          if (var != values_.end()) return var->second;
          return std::nullopt;
        });
    if (!value) {
      return Error(s.line, absl::StrCat("attribute '", attr.expression,
                                        "' uses a name that is neither a variable nor a size"));
    }
    if (NamesIn(attr.expression).empty()) {
      const int64_t whole = static_cast<int64_t>(*value);
      if (static_cast<double>(whole) == *value && attr.expression.find('.') == std::string::npos) {
        return AttrValue(whole);
      }
      return AttrValue(*value);
    }
    // A symbol, with a representative value for shape inference.
    return AttrValue(absl::StrCat("$", attr.expression, "=", *value));
  }

  absl::Status Side(const std::vector<RuleStatement>& side, Graph& graph) {
    graph.name = rule_.name;
    graph.operators = operators_;
    std::map<std::string, TensorId> tensors;
    for (const RuleInput& input : rule_.inputs) {
      Tensor t;
      t.name = input.name;
      t.role = TensorRole::kInput;
      t.dtype = input.integer ? DType::kI64 : DType::kF64;
      t.shape = ShapeOf(input.dims);
      tensors[input.name] = graph.AddSource(std::move(t));
    }
    for (const RuleStatement& s : side) {
      Node node;
      node.op = s.op;
      node.name = s.outputs[0];
      for (const std::string& input : s.inputs) node.inputs.push_back(tensors.at(input));
      const size_t rank = node.inputs.empty() ? 0 : graph.tensor(node.inputs[0]).shape.size();
      for (const auto& [key, attr] : s.attributes) {
        absl::StatusOr<AttrValue> value = Attribute(s, attr, rank);
        if (!value.ok()) return value.status();
        node.attributes[key] = *std::move(value);
      }
      const OpSpec* spec = operators_.Find(s.op);
      if (spec == nullptr) return Error(s.line, absl::StrCat("unknown operator ", s.op));
      for (const AttrSpec& a : spec->attributes) {
        if (a.name != "shape" || !s.has_shape) continue;
        const bool regroup =
            s.shape.size() == 1 && s.shape[0].group && regrouped_.count(s.shape[0].parts[0]) > 0;
        if (regroup && node.inputs.empty()) {
          return Error(s.line, absl::StrCat(s.op, " needs an input"));
        }
        node.attributes["shape"] =
            regroup ? PlainShape(graph.tensor(node.inputs[0]).shape) : PlainShape(ShapeOf(s.shape));
      }
      if (node.inputs.size() < spec->inputs.size()) {
        std::vector<int64_t> absent;
        for (size_t i = node.inputs.size(); i < spec->inputs.size(); ++i) {
          absent.push_back(static_cast<int64_t>(i));
        }
        node.attributes["absent"] = absent;
      }
      absl::StatusOr<NodeId> id = graph.AddNode(std::move(node));
      if (!id.ok()) return Error(s.line, id.status().message());
      for (size_t k = 0; k < s.outputs.size(); ++k) {
        const TensorId t = graph.node(*id).outputs[k];
        graph.tensors[t.index()].name = s.outputs[k];
        tensors[s.outputs[k]] = t;
      }
    }
    for (const std::string& name : rule_.Outputs()) graph.outputs.push_back(tensors.at(name));
    return absl::OkStatus();
  }

  const Rule& rule_;
  const OperatorLibrary& operators_;
  std::map<std::string, int64_t> sizes_;
  std::map<std::string, double> values_;
  std::set<std::string> regrouped_;
};

}  // namespace

absl::StatusOr<RuleGraphs> GraphsOf(const Rule& rule, const OperatorLibrary& operators) {
  return Builder(rule, operators).Run();
}

}  // namespace tandem
