#include "substitutions/apply.h"

#include <algorithm>
#include <cctype>
#include <optional>
#include <set>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "pcg/graph/graph_copy.h"
#include "pcg/instance/symbolic_attribute.h"
#include "substitutions/attr_expression.h"

namespace tandem {
namespace {

absl::StatusOr<std::vector<int64_t>> Extents(const std::vector<RuleDim>& dims, const Match& match) {
  std::vector<int64_t> out;
  for (const RuleDim& dim : dims) {
    if (dim.group) {
      auto it = match.groups.find(dim.parts[0]);
      if (it == match.groups.end()) {
        return absl::InvalidArgumentError(absl::StrCat("group ", dim.parts[0], " is not bound"));
      }
      out.insert(out.end(), it->second.begin(), it->second.end());
      continue;
    }
    int64_t extent = 1;
    for (const std::string& part : dim.parts) {
      auto it = match.sizes.find(part);
      if (it == match.sizes.end()) {
        return absl::InvalidArgumentError(absl::StrCat("size ", part, " is not bound"));
      }
      extent *= it->second;
    }
    out.push_back(extent);
  }
  return out;
}

// Every whole occurrence of `name` in `expression`.
std::string ReplaceName(const std::string& expression, const std::string& name,
                        const std::string& text) {
  std::string out;
  auto part = [](char c) { return std::isalnum(static_cast<unsigned char>(c)) != 0 || c == '_'; };
  for (size_t i = 0; i < expression.size();) {
    const size_t end = i + name.size();
    if (expression.compare(i, name.size(), name) == 0 && (i == 0 || !part(expression[i - 1])) &&
        (end >= expression.size() || !part(expression[end]))) {
      out += text;
      i = end;
    } else {
      out += expression[i++];
    }
  }
  return out;
}

absl::StatusOr<AttrValue> TargetAttribute(const RuleAttr& attr, const Match& match, size_t rank) {
  if (attr.kind == RuleAttr::Kind::kList) return AttrValue(attr.list);
  if (attr.kind == RuleAttr::Kind::kSwap) {
    std::vector<int64_t> perm(rank);
    for (size_t i = 0; i < rank; ++i) perm[i] = static_cast<int64_t>(i);
    const int64_t r = static_cast<int64_t>(rank);
    if (r + attr.list[0] < 0 || r + attr.list[1] < 0) {
      return absl::InvalidArgumentError("swap names a dim that is not there");
    }
    std::swap(perm[static_cast<size_t>(r + attr.list[0])],
              perm[static_cast<size_t>(r + attr.list[1])]);
    return AttrValue(perm);
  }
  if (IsBareName(attr.expression)) {
    auto it = match.variables.find(attr.expression);
    if (it != match.variables.end()) return it->second;
  }
  bool integral = true;
  const std::optional<double> value =
      EvaluateAttr(attr.expression, [&](absl::string_view name) -> std::optional<double> {
        auto size = match.sizes.find(std::string(name));
        if (size != match.sizes.end()) return static_cast<double>(size->second);
        auto var = match.variables.find(std::string(name));
        if (var == match.variables.end()) return std::nullopt;
        if (const int64_t* i = std::get_if<int64_t>(&var->second)) return static_cast<double>(*i);
        integral = false;
        if (const double* d = std::get_if<double>(&var->second)) return *d;
        const std::optional<SymbolicAttribute> symbol = AsSymbolic(var->second);
        return symbol ? std::optional<double>(symbol->representative) : std::nullopt;
      });
  if (!value) {
    return absl::InvalidArgumentError(
        absl::StrCat("attribute expression '", attr.expression, "' has no value"));
  }
  integral &= attr.expression.find('.') == std::string::npos &&
              *value == static_cast<double>(static_cast<int64_t>(*value));
  if (integral) return AttrValue(static_cast<int64_t>(*value));
  // The value as the expression it is: the product of two doubles need not be a double, and the
  // proof is about what the rule says, not about its rounding.
  std::string exact = attr.expression;
  for (const std::string& name : NamesIn(attr.expression)) {
    std::string text;
    auto var = match.variables.find(name);
    if (var == match.variables.end()) {
      text = absl::StrCat(match.sizes.at(name));
    } else if (const double* d = std::get_if<double>(&var->second)) {
      text = absl::StrFormat("(%.17g)", *d);
    } else if (const int64_t* i = std::get_if<int64_t>(&var->second)) {
      text = absl::StrCat("(", *i, ")");
    } else {
      text = absl::StrCat("(", AsSymbolic(var->second)->expression, ")");
    }
    exact = ReplaceName(exact, name, text);
  }
  return AttrValue(absl::StrFormat("$%s=%.17g", exact, *value));
}

// Copies a graph with some regions replaced.
class Rewriter {
 public:
  Rewriter(const Graph& before, const ProvedRuleSet::Entry& entry,
           const std::set<std::string>& commutative, const std::function<bool(const Match&)>& where)
      : before_(before),
        entry_(entry),
        commutative_(commutative),
        where_(where),
        copy_(before, GraphCopy::Factors::kInferred) {}

  absl::StatusOr<RewriteResult> Run() {
    Choose(FindMatches(before_, entry_.rule, commutative_));
    for (const Tensor& t : before_.tensors) names_.insert(t.name);
    for (const Node& node : before_.nodes) names_.insert(node.name);
    for (size_t n = 0; n < before_.nodes.size(); ++n) {
      if (at_.count(n)) {
        if (absl::Status s = Target(chosen_[at_[n]]); !s.ok()) return s;
      }
      if (replaced_.count(n)) continue;
      if (absl::Status s = copy_.Add(before_.nodes[n]); !s.ok()) return s;
    }
    result_.graph = copy_.Finish();
    if (!chosen_.empty()) Prune();
    return std::move(result_);
  }

 private:
  // What is given to a model stays given, also what nothing reads.
  void Prune() {
    const Graph whole = std::move(result_.graph);
    Graph& pruned = result_.graph = Pruned(whole);
    std::map<std::string, TensorId> known;
    for (TensorId id : pruned.inputs) known[pruned.tensor(id).name] = id;
    std::vector<TensorId> inputs;
    for (TensorId id : whole.inputs) {
      const auto it = known.find(whole.tensor(id).name);
      inputs.push_back(it != known.end() ? it->second : pruned.AddSource(whole.tensor(id)));
    }
    pruned.inputs = std::move(inputs);
  }

  // Takes matches greedily in order. A region is emitted where its first output was produced, so
  // all its inputs must come before: the earliest node of the match that makes an output.
  void Choose(std::vector<Match> matches) {
    const std::vector<std::string> outputs = entry_.rule.Outputs();
    std::set<size_t> used;
    for (Match& match : matches) {
      if (where_ && !where_(match)) continue;
      bool free = true;
      for (NodeId id : match.nodes) free &= used.count(id.index()) == 0;
      size_t first = before_.nodes.size();
      std::vector<size_t> replaced;
      for (const std::string& name : outputs) {
        const NodeId p = before_.tensor(match.tensors.at(name)).producer;
        first = std::min(first, p.index());
        replaced.push_back(p.index());
      }
      for (const RuleInput& input : entry_.rule.inputs) {
        const NodeId p = before_.tensor(match.tensors.at(input.name)).producer;
        free &= !p.valid() || p.index() < first;
        free &= !p.valid() || used.count(p.index()) == 0 || emitted_outputs_.count(p.index());
      }
      if (!free) continue;
      for (NodeId id : match.nodes) used.insert(id.index());
      for (size_t p : replaced) {
        // A producer with further outputs that the rule does not give must stay.
        bool whole = true;
        for (TensorId t : before_.nodes[p].outputs) {
          bool given = false;
          for (const std::string& name : outputs) given |= match.tensors.at(name) == t;
          whole &= given;
        }
        if (whole) replaced_.insert(p);
        emitted_outputs_.insert(p);
      }
      at_[first] = chosen_.size();
      chosen_.push_back(std::move(match));
    }
  }

  std::string Fresh(const std::string& base) {
    std::string name = base;
    for (int k = 1; !names_.insert(name).second; ++k) name = absl::StrCat(base, ".", k);
    return name;
  }

  absl::Status Target(const Match& match) {
    const Rule& rule = entry_.rule;
    const std::vector<std::string> outputs = rule.Outputs();
    const Tensor& main = before_.tensor(match.tensors.at(outputs.back()));
    const Node& anchor = before_.node(main.producer);
    std::map<std::string, TensorId> local;
    for (const RuleInput& input : rule.inputs) {
      local[input.name] = copy_.At(match.tensors.at(input.name));
    }
    RuleApplication application{rule.name, entry_.certificate, {}, {}, 0};
    for (NodeId id : match.nodes) application.source_nodes.push_back(before_.node(id).name);
    Graph& g = copy_.graph();
    for (const RuleStatement& s : rule.target) {
      Node node;
      node.op = s.op;
      node.phase = anchor.phase;
      node.block = anchor.block;
      node.origin = rule.name;
      for (const std::string& input : s.inputs) node.inputs.push_back(local.at(input));
      const size_t rank = node.inputs.empty() ? 0 : g.tensor(node.inputs[0]).shape.size();
      for (const auto& [key, attr] : s.attributes) {
        absl::StatusOr<AttrValue> value = TargetAttribute(attr, match, rank);
        if (!value.ok()) return value.status();
        node.attributes[key] = *std::move(value);
      }
      const OpSpec* spec = g.operators.Find(s.op);
      if (s.has_shape && spec != nullptr) {
        for (const AttrSpec& a : spec->attributes) {
          if (a.name != "shape") continue;
          absl::StatusOr<std::vector<int64_t>> shape = Extents(s.shape, match);
          if (!shape.ok()) return shape.status();
          node.attributes["shape"] = *std::move(shape);
        }
      }
      if (spec != nullptr && node.inputs.size() < spec->inputs.size()) {
        std::vector<int64_t> absent;
        for (size_t i = node.inputs.size(); i < spec->inputs.size(); ++i) {
          absent.push_back(static_cast<int64_t>(i));
        }
        node.attributes["absent"] = absent;
      }
      const bool is_output =
          std::find(outputs.begin(), outputs.end(), s.outputs[0]) != outputs.end();
      const std::string base =
          is_output ? before_.node(before_.tensor(match.tensors.at(s.outputs[0])).producer).name
                    : absl::StrCat(anchor.name, "~", s.outputs[0]);
      node.name = is_output ? base : Fresh(base);
      application.target_nodes.push_back(node.name);
      absl::StatusOr<NodeId> id = g.AddNode(std::move(node), {main.dtype});
      if (!id.ok()) return id.status();
      for (size_t k = 0; k < s.outputs.size(); ++k) {
        const TensorId fresh = g.node(*id).outputs[k];
        local[s.outputs[k]] = fresh;
        auto old = match.tensors.find(s.outputs[k]);
        if (std::find(outputs.begin(), outputs.end(), s.outputs[k]) != outputs.end()) {
          const Tensor& was = before_.tensor(old->second);
          if (PlainShape(was.shape) != PlainShape(g.tensor(fresh).shape)) {
            return absl::InternalError(
                absl::StrCat("rule ", rule.name, " changes the shape of ", was.name));
          }
          g.tensors[fresh.index()].name = was.name;
          copy_.At(old->second) = fresh;
        } else {
          g.tensors[fresh.index()].name = Fresh(g.tensors[fresh.index()].name + "~");
        }
      }
    }
    result_.applications.push_back(std::move(application));
    return absl::OkStatus();
  }

  const Graph& before_;
  const ProvedRuleSet::Entry& entry_;
  const std::set<std::string>& commutative_;
  const std::function<bool(const Match&)>& where_;
  GraphCopy copy_;
  std::vector<Match> chosen_;
  std::map<size_t, size_t> at_;  // node index -> chosen match emitted there
  std::set<size_t> replaced_;    // producers of outputs that the target gives
  std::set<size_t> emitted_outputs_;
  std::set<std::string> names_;
  RewriteResult result_;
};

}  // namespace

Site SiteOf(const Match& match) { return {match.sizes, match.groups, match.variables}; }

absl::StatusOr<RewriteResult> ApplyEverywhere(const Graph& graph, const ProvedRuleSet::Entry& entry,
                                              const std::set<std::string>& commutative,
                                              const std::function<bool(const Match&)>& where) {
  return Rewriter(graph, entry, commutative, where).Run();
}

absl::StatusOr<RewriteResult> Normalize(const Graph& graph, const ProvedRuleSet& rules,
                                        int max_passes) {
  RewriteResult all;
  all.graph = graph;
  for (int pass = 0; pass < max_passes; ++pass) {
    bool fired = false;
    for (const ProvedRuleSet::Entry& entry : rules.entries()) {
      if (entry.rule.use != RuleUse::kNormalize) continue;
      absl::StatusOr<RewriteResult> step = ApplyEverywhere(all.graph, entry, rules.commutative());
      if (!step.ok()) return step.status();
      if (step->applications.empty()) continue;
      fired = true;
      all.graph = std::move(step->graph);
      all.applications.insert(all.applications.end(),
                              std::make_move_iterator(step->applications.begin()),
                              std::make_move_iterator(step->applications.end()));
    }
    if (!fired) break;
  }
  return all;
}

}  // namespace tandem
