#include <algorithm>
#include <cmath>
#include <optional>

#include "absl/strings/string_view.h"
#include "substitutions/apply.h"
#include "substitutions/attr_expression.h"

namespace tandem {
namespace {

std::optional<double> AsNumber(const AttrValue& value) {
  if (const int64_t* i = std::get_if<int64_t>(&value)) return static_cast<double>(*i);
  if (const double* d = std::get_if<double>(&value)) return *d;
  return std::nullopt;
}

class Matcher {
 public:
  Matcher(const Graph& graph, const Rule& rule, const std::set<std::string>& commutative)
      : graph_(graph), rule_(rule), commutative_(commutative) {
    readers_ = graph.Readers();
  }

  std::vector<Match> All() {
    // Anchor at the last statement; walk backwards from it, then forwards for other outputs.
    std::vector<Match> matches;
    for (size_t n = 0; n < graph_.nodes.size(); ++n) {
      if (graph_.nodes[n].op != rule_.source.back().op) continue;
      State state;
      state.nodes.assign(rule_.source.size(), NodeId());
      std::vector<State> found;
      Bind(state, static_cast<int>(rule_.source.size()) - 1, NodeId(static_cast<int64_t>(n)),
           found);
      for (const State& s : found) {
        if (std::optional<Match> m = Finish(s)) {
          matches.push_back(*std::move(m));
          break;  // one match an anchor: others are the same up to commutation
        }
      }
    }
    return matches;
  }

 private:
  struct State {
    std::map<std::string, TensorId> tensors;
    std::vector<NodeId> nodes;
    std::map<std::string, AttrValue> variables;
  };

  int Producer(const std::string& name) const {
    for (size_t i = 0; i < rule_.source.size(); ++i) {
      const auto& outs = rule_.source[i].outputs;
      if (std::find(outs.begin(), outs.end(), name) != outs.end()) return static_cast<int>(i);
    }
    return -1;
  }

  // Tries node `id` for statement `index`, then goes on with what is still unbound.
  void Bind(const State& state, int index, NodeId id, std::vector<State>& found) {
    const RuleStatement& statement = rule_.source[static_cast<size_t>(index)];
    const Node& node = graph_.node(id);
    if (node.op != statement.op || node.inputs.size() != statement.inputs.size()) return;
    if (node.outputs.size() < statement.outputs.size()) return;
    if (std::find(state.nodes.begin(), state.nodes.end(), id) != state.nodes.end()) return;
    State base = state;
    base.nodes[static_cast<size_t>(index)] = id;
    if (!BindAttributes(statement, node, base)) return;
    for (size_t k = 0; k < statement.outputs.size(); ++k) {
      auto [it, fresh] = base.tensors.emplace(statement.outputs[k], node.outputs[k]);
      if (!fresh && it->second != node.outputs[k]) return;
    }
    const bool swappable = commutative_.count(node.op) > 0 && node.inputs.size() == 2;
    for (bool swapped : {false, true}) {
      if (swapped && (!swappable || node.inputs[0] == node.inputs[1])) break;
      State next = base;
      bool ok = true;
      for (size_t k = 0; k < node.inputs.size() && ok; ++k) {
        const TensorId actual = node.inputs[swapped ? 1 - k : k];
        auto [it, fresh] = next.tensors.emplace(statement.inputs[k], actual);
        ok = fresh || it->second == actual;
      }
      if (ok) Continue(next, found);
    }
  }

  void Continue(const State& state, std::vector<State>& found) {
    if (found.size() >= 64) return;
    // A statement with a bound output but no node: its producer is known.
    for (int i = static_cast<int>(rule_.source.size()) - 1; i >= 0; --i) {
      if (state.nodes[static_cast<size_t>(i)].valid()) continue;
      for (const std::string& name : rule_.source[static_cast<size_t>(i)].outputs) {
        auto it = state.tensors.find(name);
        if (it == state.tensors.end()) continue;
        const NodeId producer = graph_.tensor(it->second).producer;
        if (producer.valid()) Bind(state, i, producer, found);
        return;
      }
    }
    // Else a statement with a bound input: any earlier-unused reader of it.
    for (size_t i = 0; i < rule_.source.size(); ++i) {
      if (state.nodes[i].valid()) continue;
      for (const std::string& name : rule_.source[i].inputs) {
        auto it = state.tensors.find(name);
        if (it == state.tensors.end()) continue;
        for (NodeId reader : readers_[it->second.index()]) {
          Bind(state, static_cast<int>(i), reader, found);
        }
        return;
      }
      return;  // not connected: no match
    }
    found.push_back(state);
  }

  bool BindAttributes(const RuleStatement& statement, const Node& node, State& state) const {
    const OpSpec* spec = graph_.operators.Find(node.op);
    if (spec == nullptr) return false;
    auto actual = [&](const std::string& key) -> const AttrValue* {
      auto it = node.attributes.find(key);
      if (it != node.attributes.end()) return &it->second;
      for (const AttrSpec& a : spec->attributes) {
        if (a.name == key && a.has_default) return &a.default_value;
      }
      return nullptr;
    };
    for (const auto& [key, pattern] : statement.attributes) {
      const AttrValue* value = actual(key);
      if (value == nullptr) return false;
      if (pattern.kind == RuleAttr::Kind::kList) {
        const auto* list = std::get_if<std::vector<int64_t>>(value);
        if (list == nullptr || *list != pattern.list) return false;
      } else if (pattern.kind == RuleAttr::Kind::kSwap) {
        const auto* list = std::get_if<std::vector<int64_t>>(value);
        if (list == nullptr || !IsSwap(*list, pattern.list)) return false;
      } else if (IsBareName(pattern.expression)) {
        auto [it, fresh] = state.variables.emplace(pattern.expression, *value);
        if (!fresh && it->second != *value) return false;
      } else {
        const std::optional<double> want =
            EvaluateAttr(pattern.expression, [](absl::string_view) { return std::nullopt; });
        const std::optional<double> have = AsNumber(*value);
        if (!want || !have || *want != *have) return false;
      }
    }
    // What the rule does not mention must be the default (or a shape, checked by extents).
    for (const auto& [key, value] : node.attributes) {
      if (statement.attributes.count(key) || (key == "shape" && statement.has_shape)) continue;
      bool is_default = false;
      for (const AttrSpec& a : spec->attributes) {
        is_default |= a.name == key && a.has_default && a.default_value == value;
      }
      if (key == "absent") is_default = true;  // the number of inputs was compared
      if (!is_default) return false;
    }
    return true;
  }

  static bool IsSwap(const std::vector<int64_t>& perm, const std::vector<int64_t>& dims) {
    const int64_t rank = static_cast<int64_t>(perm.size());
    if (rank + dims[0] < 0 || rank + dims[1] < 0) return false;
    std::vector<int64_t> want(perm.size());
    for (int64_t i = 0; i < rank; ++i) want[static_cast<size_t>(i)] = i;
    std::swap(want[static_cast<size_t>(rank + dims[0])], want[static_cast<size_t>(rank + dims[1])]);
    return perm == want;
  }

  // Unifies declared dims with a tensor's extents. Products need all but one part known; `retry` is
  // set when a later pass may know more.
  bool UnifyShape(const std::vector<RuleDim>& dims, const std::vector<int64_t>& shape, Match& m,
                  bool& retry) const {
    const RuleDim* group = nullptr;
    size_t singles = 0;
    for (const RuleDim& dim : dims) {
      if (dim.group) {
        if (group != nullptr) return false;
        group = &dim;
      } else {
        ++singles;
      }
    }
    if (shape.size() < singles || (group == nullptr && shape.size() != singles)) {
      // A broadcast tensor may lack leading dims altogether.
      const bool all_broadcast =
          std::all_of(dims.begin(), dims.end(), [](const RuleDim& d) { return d.broadcast; });
      return all_broadcast && shape.size() <= dims.size();
    }
    const size_t in_group = shape.size() - singles;
    size_t at = 0;
    for (const RuleDim& dim : dims) {
      if (dim.group) {
        std::vector<int64_t> extents(shape.begin() + static_cast<int64_t>(at),
                                     shape.begin() + static_cast<int64_t>(at + in_group));
        at += in_group;
        if (dim.broadcast) continue;
        auto [it, fresh] = m.groups.emplace(dim.parts[0], extents);
        if (!fresh && it->second != extents) return false;
        continue;
      }
      const int64_t extent = shape[at++];
      if (dim.broadcast && extent == 1) continue;
      int64_t known = 1;
      std::string unknown;
      int unknowns = 0;
      for (const std::string& part : dim.parts) {
        auto it = m.sizes.find(part);
        if (it != m.sizes.end()) {
          known *= it->second;
        } else {
          unknown = part;
          ++unknowns;
        }
      }
      if (unknowns > 1) {
        retry = true;
      } else if (unknowns == 1) {
        if (known == 0 || extent % known != 0) return false;
        m.sizes[unknown] = extent / known;
      } else if (known != extent) {
        return false;
      }
    }
    return true;
  }

  std::optional<Match> Finish(const State& state) const {
    Match m;
    m.tensors = state.tensors;
    m.nodes = state.nodes;
    m.variables = state.variables;
    for (int pass = 0; pass < 3; ++pass) {
      bool retry = false;
      for (const RuleInput& input : rule_.inputs) {
        auto it = m.tensors.find(input.name);
        if (it == m.tensors.end()) return std::nullopt;
        if (!UnifyShape(input.dims, PlainShape(graph_.tensor(it->second).shape), m, retry)) {
          return std::nullopt;
        }
      }
      for (const RuleStatement& s : rule_.source) {
        if (!s.has_shape) continue;
        const Tensor& t = graph_.tensor(m.tensors.at(s.outputs[0]));
        if (!UnifyShape(s.shape, PlainShape(t.shape), m, retry)) return std::nullopt;
      }
      if (!retry) break;
      if (pass == 2) return std::nullopt;
    }
    return m;
  }

  const Graph& graph_;
  const Rule& rule_;
  const std::set<std::string>& commutative_;
  std::vector<std::vector<NodeId>> readers_;
};

}  // namespace

std::vector<Match> FindMatches(const Graph& graph, const Rule& rule,
                               const std::set<std::string>& commutative) {
  return Matcher(graph, rule, commutative).All();
}

}  // namespace tandem
