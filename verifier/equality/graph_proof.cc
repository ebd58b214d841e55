#include "verifier/equality/graph_proof.h"

#include <algorithm>
#include <map>
#include <set>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "verifier/certificates/statement.h"
#include "verifier/equality/equality_proof.h"

namespace tandem {
namespace {

// Tensors of a graph that may end a cone, and their names.
using Names = std::map<std::string, TensorId>;

Names NamesOf(const Graph& g) {
  Names names;
  for (size_t i = 0; i < g.tensors.size(); ++i) {
    names.emplace(g.tensors[i].name, TensorId(static_cast<int64_t>(i)));
  }
  return names;
}

// The part of a graph that computes `root` from tensors in `leaves` (and from sources).
struct Cone {
  std::set<int32_t> nodes;
  std::set<std::string> leaves;
};

Cone ConeOf(const Graph& g, TensorId root, const std::set<std::string>& leaves) {
  Cone cone;
  std::vector<TensorId> stack = {root};
  std::set<int32_t> seen;
  while (!stack.empty()) {
    const TensorId t = stack.back();
    stack.pop_back();
    if (!seen.insert(t.value).second) continue;
    const NodeId p = g.tensor(t).producer;
    if (!p.valid() || (t != root && leaves.count(g.tensor(t).name) > 0)) {
      cone.leaves.insert(g.tensor(t).name);
      continue;
    }
    cone.nodes.insert(p.value);
    for (TensorId in : g.node(p).inputs) stack.push_back(in);
  }
  return cone;
}

// The cone as a graph of its own, whose sources are its leaves.
absl::StatusOr<Graph> Extract(const Graph& g, TensorId root, const Cone& cone) {
  Graph out;
  out.name = g.tensor(root).name;
  out.operators = g.operators;
  std::map<int32_t, TensorId> map;
  for (int32_t n : cone.nodes) {  // ascending = topological
    const Node& node = g.node(NodeId(n));
    Node copy = node;
    copy.outputs.clear();
    for (TensorId& in : copy.inputs) {
      auto it = map.find(in.value);
      if (it == map.end()) {
        Tensor source = g.tensor(in);
        source.producer = NodeId();
        source.producer_output = 0;
        if (source.role == TensorRole::kActivation) source.role = TensorRole::kInput;
        it = map.emplace(in.value, out.AddSource(std::move(source))).first;
      }
      in = it->second;
    }
    std::vector<DType> dtypes;
    for (TensorId t : node.outputs) dtypes.push_back(g.tensor(t).dtype);
    absl::StatusOr<NodeId> id = out.AddNode(std::move(copy), dtypes);
    if (!id.ok()) return id.status();
    for (size_t k = 0; k < node.outputs.size(); ++k) {
      map[node.outputs[k].value] = out.node(*id).outputs[k];
      out.tensors[out.node(*id).outputs[k].index()].name = g.tensor(node.outputs[k]).name;
    }
  }
  if (map.count(root.value) == 0) {
    Tensor source = g.tensor(root);
    source.producer = NodeId();
    map[root.value] = out.AddSource(std::move(source));
  }
  out.outputs = {map.at(root.value)};
  return out;
}

// What tells cones apart: operators, attributes, shapes of leaves and how they are wired. Names do
// not matter, but the two sides must agree on which leaf is which.
std::string Key(const Graph& source, const Graph& target) {
  std::map<std::string, int> leaf;
  std::string key;
  for (const Graph* g : {&source, &target}) {
    std::map<int32_t, std::string> ref;
    for (size_t i = 0; i < g->tensors.size(); ++i) {
      const Tensor& t = g->tensors[i];
      if (t.producer.valid()) continue;
      const int number = leaf.emplace(t.name, static_cast<int>(leaf.size())).first->second;
      absl::StrAppend(&key, "L", number, "[");
      for (const Factors& dim : t.shape) {
        for (int64_t f : dim) absl::StrAppend(&key, f, " ");
        absl::StrAppend(&key, ",");
      }
      absl::StrAppend(&key, "]", std::string(1, ElementLetter(t.dtype)));
      if (t.role == TensorRole::kConstant) {
        for (double v : t.values) absl::StrAppendFormat(&key, "%a ", v);
      }
      ref[static_cast<int32_t>(i)] = absl::StrCat("L", number);
    }
    for (size_t n = 0; n < g->nodes.size(); ++n) {
      const Node& node = g->nodes[n];
      absl::StatusOr<OpInstance> instance = InstanceOf(*g, NodeId(static_cast<int64_t>(n)));
      absl::StrAppend(&key, ";", instance.ok() ? InstanceStatement(*instance) : node.name, "(");
      for (TensorId in : node.inputs) absl::StrAppend(&key, ref[in.value], ",");
      absl::StrAppend(&key, ")");
      for (size_t k = 0; k < node.outputs.size(); ++k) {
        ref[node.outputs[k].value] = absl::StrCat("N", n, ".", k);
        key += ElementLetter(g->tensor(node.outputs[k]).dtype);
      }
    }
    absl::StrAppend(&key, "=>", ref[g->outputs[0].value], "|");
  }
  return key;
}

class Prover {
 public:
  Prover(const Graph& original, const Graph& rewritten)
      : original_(original), rewritten_(rewritten), names_(NamesOf(original)) {
    for (const auto& [name, id] : names_) all_names_.insert(name);
  }

  GraphProof Run() {
    Boundary();
    for (size_t i = 0; i < rewritten_.tensors.size(); ++i) {
      const Tensor& t = rewritten_.tensors[i];
      auto it = names_.find(t.name);
      if (it == names_.end()) continue;
      if (!t.producer.valid()) {
        Source(t, original_.tensor(it->second));
      } else {
        Claim(TensorId(static_cast<int64_t>(i)), it->second);
      }
    }
    return std::move(out_);
  }

 private:
  void Fail(const std::string& tensor, bool refuted, absl::string_view reason) {
    out_.failures.push_back({tensor, refuted, std::string(reason)});
  }

  // Outputs and state updates correspond by position and name.
  void Boundary() {
    auto same = [&](TensorId a, TensorId b) {
      ++out_.claims;
      if (original_.tensor(a).name != rewritten_.tensor(b).name) {
        Fail(original_.tensor(a).name, true,
             absl::StrCat("is replaced by ", rewritten_.tensor(b).name));
      }
    };
    ++out_.claims;
    if (original_.outputs.size() != rewritten_.outputs.size() ||
        original_.inputs.size() != rewritten_.inputs.size() ||
        original_.updates.size() != rewritten_.updates.size() ||
        original_.loss.has_value() != rewritten_.loss.has_value()) {
      Fail(rewritten_.name, true,
           absl::StrCat("has ", rewritten_.inputs.size(), " inputs, ", rewritten_.outputs.size(),
                        " outputs, ", rewritten_.updates.size(), " state updates and ",
                        rewritten_.loss ? "a" : "no", " loss; the original ",
                        original_.inputs.size(), ", ", original_.outputs.size(), ", ",
                        original_.updates.size(), " and ", original_.loss ? "one" : "none"));
      return;
    }
    for (size_t i = 0; i < original_.outputs.size(); ++i) {
      same(original_.outputs[i], rewritten_.outputs[i]);
    }
    if (original_.loss && rewritten_.loss) same(*original_.loss, *rewritten_.loss);
    for (size_t i = 0; i < original_.inputs.size(); ++i) {
      same(original_.inputs[i], rewritten_.inputs[i]);
    }
    for (size_t i = 0; i < original_.updates.size(); ++i) {
      same(original_.updates[i].state, rewritten_.updates[i].state);
      same(original_.updates[i].next, rewritten_.updates[i].next);
    }
  }

  void Source(const Tensor& now, const Tensor& was) {
    ++out_.claims;
    if (was.producer.valid() || was.role != now.role ||
        ElementLetter(was.dtype) != ElementLetter(now.dtype) ||
        PlainShape(was.shape) != PlainShape(now.shape) || was.values != now.values) {
      Fail(now.name, true, "is another tensor than the imported graph's of that name");
    }
  }

  // The same operator on the same tensors needs no proof.
  bool Same(TensorId now, TensorId was) const {
    const Tensor& a = rewritten_.tensor(now);
    const Tensor& b = original_.tensor(was);
    if (!a.producer.valid() || !b.producer.valid() || a.producer_output != b.producer_output ||
        ElementLetter(a.dtype) != ElementLetter(b.dtype)) {
      return false;
    }
    const Node& x = rewritten_.node(a.producer);
    const Node& y = original_.node(b.producer);
    if (x.op != y.op || x.attributes != y.attributes || x.inputs.size() != y.inputs.size()) {
      return false;
    }
    const OpSpec* xs = rewritten_.operators.Find(x.op);
    const OpSpec* ys = original_.operators.Find(y.op);
    if (xs == nullptr || ys == nullptr || xs->text != ys->text) return false;
    for (size_t i = 0; i < x.inputs.size(); ++i) {
      if (rewritten_.tensor(x.inputs[i]).name != original_.tensor(y.inputs[i]).name) return false;
    }
    return true;
  }

  void Claim(TensorId now, TensorId was) {
    ++out_.claims;
    const std::string& name = rewritten_.tensor(now).name;
    if (PlainShape(rewritten_.tensor(now).shape) != PlainShape(original_.tensor(was).shape)) {
      return Fail(name, true, "has another shape than in the imported graph");
    }
    if (Same(now, was)) return;
    const Cone target = ConeOf(rewritten_, now, all_names_);
    const Cone source = ConeOf(original_, was, target.leaves);
    absl::StatusOr<Graph> s = Extract(original_, was, source);
    absl::StatusOr<Graph> t = Extract(rewritten_, now, target);
    for (const auto* g : {&s, &t}) {
      if (!g->ok()) return Fail(name, false, g->status().message());
    }
    if (absl::Status status = ShareFactors(*s, *t); !status.ok()) {
      return Fail(name, false, status.message());
    }
    const std::string key = Key(*s, *t);
    auto it = verdicts_.find(key);
    if (it == verdicts_.end()) {
      ++out_.proofs;
      it = verdicts_.emplace(key, ProveEqual(*s, *t)).first;
      if (const auto* proved = std::get_if<Proved>(&it->second)) {
        out_.certificates.Add(CertificateKind::kCut, name, proved->certificate);
      }
    }
    if (!IsProved(it->second)) Fail(name, IsRefuted(it->second), ToString(it->second));
  }

  // Both sides see the same factors of every leaf.
  static absl::Status ShareFactors(Graph& a, Graph& b) {
    for (int round = 0; round < 3; ++round) {
      for (Graph* g : {&a, &b}) {
        if (absl::Status s = PropagateFactors(*g); !s.ok()) return s;
      }
      bool changed = false;
      for (Tensor& x : a.tensors) {
        if (x.producer.valid()) continue;
        for (Tensor& y : b.tensors) {
          if (y.producer.valid() || y.name != x.name) continue;
          for (size_t d = 0; d < x.shape.size() && d < y.shape.size(); ++d) {
            if (x.shape[d] == y.shape[d]) continue;
            Factors& finer = x.shape[d].size() > y.shape[d].size() ? x.shape[d] : y.shape[d];
            Factors& coarser = &finer == &x.shape[d] ? y.shape[d] : x.shape[d];
            coarser = finer;
            changed = true;
          }
        }
      }
      if (!changed) break;
    }
    return absl::OkStatus();
  }

  const Graph& original_;
  const Graph& rewritten_;
  const Names names_;
  std::set<std::string> all_names_;
  std::map<std::string, Verdict> verdicts_;
  GraphProof out_;
};

}  // namespace

GraphProof ProveRewrite(const Graph& original, const Graph& rewritten) {
  return Prover(original, rewritten).Run();
}

}  // namespace tandem
