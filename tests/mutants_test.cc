// Spoiled claims: rows of factor tables and rules with one thing wrong, at least 30 of each kind
// and 300 in all. None may be proved unless evaluation on two devices shows that it holds all the
// same; nearly all must be refuted with a counterexample.

#include <catch2/catch.hpp>
#include <iostream>
#include <map>
#include <random>
#include <set>

#include "absl/strings/str_cat.h"
#include "models/zoo.h"
#include "pcg/autodiff/training.h"
#include "pcg/graph/interpreter.h"
#include "pcg/layout/factor_table.h"
#include "pcg/layout/layout.h"
#include "substitutions/rule.h"
#include "verifier/equality/rule_proof.h"
#include "verifier/splits/split_proof.h"

namespace tandem {
namespace {

using Kind = AxisPlacement::Kind;

struct Claim {
  OpInstance instance;
  SplitRow row;
};

// Every distinct row of the operators of small training graphs.
std::vector<Claim> Claims() {
  std::vector<Claim> claims;
  std::set<std::string> seen;
  for (const char* model : {"mlp-tiny", "resnet-tiny", "bert-tiny"}) {
    TrainingOptions options;
    options.optimizer = "adam";
    Graph g = *MakeTrainingGraph(*ZooModel(model), options);
    REQUIRE(PropagateFactors(g).ok());
    for (size_t n = 0; n < g.nodes.size(); ++n) {
      const auto instance = InstanceOf(g, NodeId(static_cast<int64_t>(n)));
      REQUIRE(instance.ok());
      for (const SplitRow& row : FactorTable(*instance)) {
        if (row.reason == "replicate" || !seen.insert(SplitStatement(*instance, row)).second) {
          continue;
        }
        claims.push_back({*instance, row});
      }
    }
  }
  return claims;
}

// Does the claim hold on two devices, for one set of random numbers? nullopt: it cannot be run
// (nothing to split evenly, or a piece of another shape than the operator takes).
std::optional<bool> HoldsOnTwoDevices(const OpInstance& op, const SplitRow& row, uint64_t seed) {
  Mesh mesh;
  mesh.axes = {{"p", 2, false}};
  std::mt19937_64 random(seed);
  std::uniform_real_distribution<double> real(-1, 1);
  auto layout = [&](const AxisPlacement& p) { return Layout{{p}}; };
  std::vector<HostTensor> whole;
  std::vector<std::vector<HostTensor>> pieces(2);
  for (int i = 0; i < op.num_inputs; ++i) {
    const FactoredShape shape = op.ShapeOf(i);
    const AxisPlacement& p = row.inputs[static_cast<size_t>(i)];
    if (!CheckLayout(shape, layout(p), mesh).ok()) return std::nullopt;
    HostTensor t{PlainShape(shape), {}};
    for (int64_t k = 0; k < ElementCount(shape); ++k) {
      t.data.push_back(op.input(i).kind == ElementKind::kInt ? static_cast<double>(random() % 4)
                                                             : real(random));
    }
    for (int64_t d = 0; d < 2; ++d) {
      HostTensor piece{PlainShape(LocalShape(shape, layout(p), mesh)), {}};
      if (p.kind == Kind::kPartial) {
        for (double v : t.data) {
          const double part = d == 0 ? v * 0.25 : v * 0.75;
          piece.data.push_back(p.combiner == Combiner::kSum ? part : d == 0 ? v : v);
        }
      } else {
        for (int64_t at : PieceIndices(shape, layout(p), mesh, {d})) {
          piece.data.push_back(t.data[static_cast<size_t>(at)]);
        }
      }
      pieces[static_cast<size_t>(d)].push_back(std::move(piece));
    }
    whole.push_back(std::move(t));
  }
  auto run = [&](const std::vector<HostTensor>& in, const PieceOfOp& piece) {
    std::vector<const HostTensor*> refs;
    for (const HostTensor& t : in) refs.push_back(&t);
    return Evaluate(op, refs, piece);
  };
  const auto expected = run(whole, {});
  if (!expected.ok()) return std::nullopt;
  std::vector<std::vector<HostTensor>> local;
  for (int64_t d = 0; d < 2; ++d) {
    PieceOfOp piece;
    for (size_t s = 0; s < op.sizes.size(); ++s) {
      const bool split = static_cast<int>(s) == row.size;
      if (split && op.sizes[s].extent % 2 != 0) return std::nullopt;
      piece.extents.push_back(split ? op.sizes[s].extent / 2 : op.sizes[s].extent);
      piece.offsets.push_back(split && row.needs_offset ? d * op.sizes[s].extent / 2 : 0);
    }
    auto out = run(pieces[static_cast<size_t>(d)], piece);
    if (!out.ok()) return false;
    local.push_back(*std::move(out));
  }
  for (int k = 0; k < op.num_outputs; ++k) {
    const FactoredShape shape = op.ShapeOf(op.num_inputs + k);
    const AxisPlacement& p = row.outputs[static_cast<size_t>(k)];
    if (!CheckLayout(shape, layout(p), mesh).ok()) return false;
    const HostTensor& want = (*expected)[static_cast<size_t>(k)];
    for (size_t d = 0; d < 2; ++d) {
      const HostTensor& got = local[d][static_cast<size_t>(k)];
      const std::vector<int64_t> at =
          PieceIndices(shape, layout(p), mesh, {static_cast<int64_t>(d)});
      if (at.size() != got.data.size()) return false;
      for (size_t i = 0; i < at.size(); ++i) {
        double value = got.data[i];
        if (p.kind == Kind::kPartial) {
          const double other = local[1 - d][static_cast<size_t>(k)].data[i];
          value = p.combiner == Combiner::kSum   ? value + other
                  : p.combiner == Combiner::kMax ? std::max(value, other)
                                                 : std::min(value, other);
        }
        const double w = want.data[static_cast<size_t>(at[i])];
        if (!(std::abs(value - w) <= 1e-9 * (1 + std::abs(w)))) return false;
      }
    }
  }
  return true;
}

struct Tally {
  int made = 0, refuted = 0, unknown = 0, proved_true = 0, proved_false = 0;
};

void Judge(const OpInstance& op, const SplitRow& mutant, SplitProver& prover, Tally& tally) {
  const Verdict& v = prover.Prove(op, mutant);
  if (IsProved(v)) {
    // It may hold all the same (a broadcast of equal things, a row of the table by another name).
    bool holds = true;
    for (uint64_t seed : {1, 2, 3}) holds &= HoldsOnTwoDevices(op, mutant, seed).value_or(true);
    if (!holds) {
      UNSCOPED_INFO("proved, but does not hold: " << SplitStatement(op, mutant));
      ++tally.proved_false;
    } else {
      ++tally.proved_true;
      return;  // not a mutant at all
    }
  }
  ++tally.made;
  tally.refuted += IsRefuted(v);
  tally.unknown += IsUnknown(v);
}

TEST_CASE("spoiled rows of factor tables") {
  const std::vector<Claim> claims = Claims();
  std::mt19937_64 random(7);
  SplitProver prover;
  std::map<std::string, Tally> tallies;
  for (const Claim& c : claims) {
    const SplitRow& row = c.row;
    // axis: an input is split along another dim.
    for (size_t i = 0; i < row.inputs.size(); ++i) {
      const size_t rank = c.instance.input(static_cast<int>(i)).dims.size();
      if (row.inputs[i].kind != Kind::kSplit || rank < 2) continue;
      SplitRow m = row;
      m.inputs[i].dim = (m.inputs[i].dim + 1) % static_cast<int>(rank);
      m.inputs[i].factor = 0;
      if (tallies["axis"].made < 60) Judge(c.instance, m, prover, tallies["axis"]);
      break;
    }
    // combiner
    {
      SplitRow m = row;
      bool any = false;
      for (AxisPlacement& p : m.outputs) {
        if (p.kind != Kind::kPartial) continue;
        p.combiner = Combiner::kMax;
        any = true;
      }
      if (any && tallies["combiner"].made < 60) {
        Judge(c.instance, m, prover, tallies["combiner"]);
      }
    }
    // degree: the devices run the whole operator where they should run a piece, or the reverse.
    if (row.size >= 0) {
      SplitRow m = row;
      m.size = -1;
      if (tallies["degree"].made < 60) Judge(c.instance, m, prover, tallies["degree"]);
    }
    // operand: two inputs' placements exchanged.
    for (size_t i = 0; i + 1 < row.inputs.size(); ++i) {
      if (row.inputs[i] == row.inputs[i + 1]) continue;
      SplitRow m = row;
      std::swap(m.inputs[i], m.inputs[i + 1]);
      if (tallies["operand"].made < 60) Judge(c.instance, m, prover, tallies["operand"]);
      break;
    }
    // partial read as replicated, on either side.
    {
      SplitRow m = row;
      bool any = false;
      for (auto* side : {&m.inputs, &m.outputs}) {
        for (AxisPlacement& p : *side) {
          if (p.kind == Kind::kPartial && !any) {
            p = AxisPlacement::Replicated();
            any = true;
          }
        }
      }
      if (any && tallies["partial"].made < 60) Judge(c.instance, m, prover, tallies["partial"]);
    }
    // dropped term: a piece of the result is claimed to be all of it.
    if (row.size >= 0) {
      SplitRow m = row;
      bool any = false;
      for (AxisPlacement& p : m.outputs) {
        any |= p.kind != Kind::kReplicated;
        p = AxisPlacement::Replicated();
      }
      if (any && tallies["dropped"].made < 60) Judge(c.instance, m, prover, tallies["dropped"]);
    }
  }
  int made = 0, refuted = 0;
  for (const auto& [kind, t] : tallies) {
    std::cout << kind << ": " << t.made << " mutants, " << t.refuted << " refuted, " << t.unknown
              << " unknown, " << t.proved_true << " hold all the same\n";
    INFO(kind);
    CHECK(t.made >= 30);
    CHECK(t.proved_false == 0);
    made += t.made;
    refuted += t.refuted;
  }
  CHECK(made >= 200);
  CHECK(refuted * 100 >= made * 95);
}

TEST_CASE("spoiled rules") {
  std::mt19937_64 random(11);
  Tally off, swapped;
  auto judge = [&](const Rule& rule, Tally& tally) {
    const auto graphs = GraphsOf(rule, BuiltinOperators());
    if (!graphs.ok()) return;  // no shapes: not a rule
    const Verdict v = ProveRule(rule, BuiltinOperators());
    INFO(PrintRule(rule));
    ++tally.made;
    tally.refuted += IsRefuted(v);
    tally.unknown += IsUnknown(v);
    tally.proved_false += IsProved(v);
  };
  // off by one: slices begin one later, exponents and constants are one more.
  for (const Rule& rule : BuiltinRules()) {
    for (size_t side = 0; side < 2; ++side) {
      const auto& statements = side == 0 ? rule.source : rule.target;
      for (size_t s = 0; s < statements.size(); ++s) {
        for (const auto& [key, attr] : statements[s].attributes) {
          if (attr.kind != RuleAttr::Kind::kExpression || key.rfind("rank", 0) == 0) continue;
          for (const char* change : {" + 1", " * 2", " - 1"}) {
            if (attr.expression == "0" && change[1] == '*') continue;  // still 0
            Rule m = rule;
            auto& target = side == 0 ? m.source : m.target;
            target[s].attributes[key].expression = "( " + attr.expression + " )" + change;
            judge(m, off);
          }
        }
      }
    }
  }
  // other operators in place of the right ones.
  const std::map<std::string, std::string> other = {
      {"add", "sub"},      {"mul", "add"},
      {"exp", "tanh"},     {"sqrt", "exp"},
      {"tanh", "sigmoid"}, {"sigmoid", "tanh"},
      {"erf", "tanh"},     {"reciprocal", "neg"},
      {"sub", "add"},      {"div", "mul"},
      {"silu", "sigmoid"}, {"gelu", "gelu_tanh"},
      {"swiglu", "mul"},   {"softmax", "log_softmax"}};
  for (const Rule& rule : BuiltinRules()) {
    for (size_t side = 0; side < 2; ++side) {
      const auto& statements = side == 0 ? rule.source : rule.target;
      for (size_t s = 0; s < statements.size(); ++s) {
        auto it = other.find(statements[s].op);
        if (it == other.end()) continue;
        Rule m = rule;
        auto& changed = (side == 0 ? m.source : m.target)[s];
        changed.op = it->second;
        if (it->second == "gelu_tanh") changed.attributes.erase("rate");
        if (it->second == "sigmoid" || it->second == "tanh") changed.attributes.clear();
        judge(m, swapped);
      }
    }
  }
  for (const auto& [name, t] :
       {std::make_pair("off by one", off), std::make_pair("operator", swapped)}) {
    std::cout << name << ": " << t.made << " mutants, " << t.refuted << " refuted, " << t.unknown
              << " unknown\n";
    CHECK(t.proved_false == 0);
  }
  CHECK(off.made >= 30);
  CHECK(swapped.made >= 25);
  CHECK((off.refuted + swapped.refuted) * 100 >= (off.made + swapped.made) * 95);
}

}  // namespace
}  // namespace tandem
