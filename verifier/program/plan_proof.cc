#include "verifier/program/plan_proof.h"

#include <map>
#include <utility>

#include "absl/strings/str_cat.h"
#include "pcg/autodiff/loss.h"
#include "pcg/autodiff/training.h"
#include "verifier/equality/graph_proof.h"
#include "verifier/program/program_check.h"
#include "verifier/program/value_numbers.h"
#include "verifier/splits/split_proof.h"

namespace tandem {
namespace {

class PlanChecker {
 public:
  explicit PlanChecker(const Plan& plan) : plan_(plan) {}

  PlanVerdict Run() {
    const std::pair<const Graph*, const char*> graphs[] = {
        {&plan_.forward, "the imported graph"},
        {&plan_.rewritten_forward, "the rewritten graph"},
        {&plan_.serial, "the training graph"},
        {&plan_.pcg, "the parallel computation graph"}};
    for (const auto& [graph, what] : graphs) {
      ++out_.obligations;
      if (absl::Status s = CheckGraph(*graph); !s.ok()) {
        Fail("graph", what, s.message());
      }
    }
    if (!out_.failures.empty()) return Verdict();
    Rewrites();
    Training();
    Programs();
    return Verdict();
  }

 private:
  void Fail(const std::string& program, const std::string& name, absl::string_view reason) {
    out_.failures.push_back({program, -1, name, std::string(reason)});
  }

  PlanVerdict Verdict() {
    out_.kind = out_.failures.empty() ? PlanVerdict::Kind::kProved
                : only_unknown_       ? PlanVerdict::Kind::kUnknown
                                      : PlanVerdict::Kind::kRefuted;
    return std::move(out_);
  }

  // 1. F' = F and its loss, from one tensor both have by name to the next.
  void Rewrites() {
    const absl::StatusOr<Graph> forward = WithLoss(plan_.forward, plan_.training);
    if (!forward.ok()) return Fail("graph", "loss", forward.status().message());
    const GraphProof proof = ProveRewrite(*forward, plan_.rewritten_forward);
    out_.obligations += proof.claims;
    out_.proofs += proof.proofs;
    out_.certificates.AddAll(proof.certificates);
    for (const GraphProofFailure& f : proof.failures) {
      Note(f.refuted);
      Fail("graph", f.tensor, absl::StrCat("rewritten forward graph: ", f.reason));
    }
  }

  // 2. The PCG computes what the training graph of F' computes.
  void Training() {
    absl::StatusOr<Graph> reference = TrainLoss(plan_.rewritten_forward, plan_.training);
    absl::StatusOr<Graph> serial = MakeTrainingGraph(plan_.forward, plan_.training);
    for (const auto* g : {&reference, &serial}) {
      ++out_.obligations;
      if (!g->ok()) return Fail("graph", "training", g->status().message());
    }
    ValueNumbers numbers;
    Compare(numbers, *serial, plan_.serial, "the stored serial training graph");
    values_ = Compare(numbers, *reference, plan_.pcg, "the parallel computation graph");
  }

  std::vector<int> Compare(ValueNumbers& numbers, const Graph& reference, const Graph& graph,
                           const std::string& what) {
    const std::vector<int> want = numbers.Of(reference);
    std::vector<int> have = numbers.Of(graph);
    auto same = [&](TensorId a, TensorId b, const std::string& role) {
      ++out_.obligations;
      if (want[a.index()] == have[b.index()]) return;
      only_unknown_ = false;
      Fail("graph", graph.tensor(b).name,
           absl::StrCat(role, " of ", what, " is not computed as in the training graph"));
    };
    ++out_.obligations;
    if (reference.outputs.size() != graph.outputs.size() ||
        reference.loss.has_value() != graph.loss.has_value() ||
        reference.updates.size() != graph.updates.size()) {
      only_unknown_ = false;
      Fail("graph", graph.name,
           absl::StrCat(what,
                        " has other outputs, loss or updates than the "
                        "training graph"));
      return have;
    }
    for (size_t i = 0; i < graph.outputs.size(); ++i) {
      same(reference.outputs[i], graph.outputs[i], "output");
    }
    if (graph.loss) same(*reference.loss, *graph.loss, "loss");
    std::map<std::string, TensorId> next;
    for (const StateUpdate& u : graph.updates) next[graph.tensor(u.state).name] = u.next;
    for (const StateUpdate& u : reference.updates) {
      auto it = next.find(reference.tensor(u.state).name);
      ++out_.obligations;
      if (it == next.end()) {
        only_unknown_ = false;
        Fail("graph", reference.tensor(u.state).name,
             absl::StrCat(what, " does not update this state"));
      } else {
        same(u.next, it->second, "update");
      }
    }
    return have;
  }

  // 3. and 4. Every Program.
  void Programs() {
    ++out_.obligations;
    if (plan_.programs.size() != 1) {
      Fail("programs", "",
           absl::StrCat("the plan has ", plan_.programs.size(),
                        " programs; one class of devices is expected"));
      only_unknown_ = false;
      return;
    }
    if (values_.size() != plan_.pcg.tensors.size()) return;
    const RowProver prove = [this](const Graph&, NodeId, const OpInstance& instance,
                                   const SplitRow& row) {
      const tandem::Verdict& v = prover_.Prove(instance, row);
      if (IsProved(v)) return RowAnswer{RowAnswer::Kind::kProved, ""};
      return RowAnswer{IsRefuted(v) ? RowAnswer::Kind::kRefuted : RowAnswer::Kind::kUnknown,
                       ToString(v)};
    };
    for (size_t i = 0; i < plan_.programs.size(); ++i) {
      ProgramCheck check =
          CheckProgram(plan_.pcg, values_, plan_.programs[i], absl::StrCat("program ", i), prove);
      out_.obligations += check.obligations;
      if (check.failures.empty()) continue;
      only_unknown_ = only_unknown_ && check.only_unknown;
      out_.failures.insert(out_.failures.end(), check.failures.begin(), check.failures.end());
    }
    out_.proofs += prover_.proofs();
    out_.certificates.AddAll(prover_.Certificates());
  }

  void Note(bool refuted) { only_unknown_ = only_unknown_ && !refuted; }

  const Plan& plan_;
  PlanVerdict out_;
  bool only_unknown_ = true;
  std::vector<int> values_;
  SplitProver prover_;
};

}  // namespace

const char* PlanVerdictName(PlanVerdict::Kind kind) {
  switch (kind) {
    case PlanVerdict::Kind::kProved:
      return "proved";
    case PlanVerdict::Kind::kRefuted:
      return "refuted";
    case PlanVerdict::Kind::kUnknown:
      return "unknown";
  }
  return "unknown";
}

PlanVerdict VerifyPlan(const Plan& plan) { return PlanChecker(plan).Run(); }

}  // namespace tandem
