#include "optimizer/optimize.h"

#include <atomic>
#include <chrono>
#include <csignal>
#include <iostream>
#include <memory>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "absl/strings/str_join.h"
#include "optimizer/make_plan.h"
#include "pcg/io/file_io.h"
#include "pcg/plural.h"
#include "pcg/program/plan.h"
#include "tools/cli/command.h"
#include "tools/cli/inputs.h"
#include "tools/cli/proved_rules.h"
#include "tools/cli/summary.h"
#include "tools/report/report.h"
#include "verifier/program/plan_proof.h"

namespace tandem::cli {
namespace {

constexpr size_t kMostAxes = 4;

std::atomic<bool> interrupted{false};
// The first Ctrl-C ends the search with the best plan so far, a second one ends the process.
void Interrupt(int) {
  interrupted = true;
  std::signal(SIGINT, SIG_DFL);
}

struct Arguments {
  ModelInput model;
  MachineInput machine;
  TrainingInput training;
  std::string out;
  std::string mode = "train";
  std::string memory_limit;
  std::string outputs = "auto";
  std::string strategy = "none";
  std::vector<int64_t> mesh;
  int64_t micro_batches = 0;
  int max_axes = 0;
  bool no_baselines = false;
  bool no_verify = false;
  bool json = false;
  bool quiet = false;
};

double Seconds(std::chrono::steady_clock::time_point since) {
  return std::chrono::duration<double>(std::chrono::steady_clock::now() - since).count();
}

void SayAssumptions(const Arguments& a, const Graph& graph, const ImportReport& report,
                    const TrainingOptions& training) {
  std::cerr << "model " << graph.name << ": "
            << Plural(static_cast<int64_t>(graph.nodes.size()), "node") << ", batch " << graph.batch
            << "\n";
  if (a.mode == "train") {
    std::cerr << "training: loss " << training.loss << ", optimizer " << training.optimizer
              << ", precision " << DTypeName(training.precision) << "\n";
  }
  for (const std::string& note : report.notes) std::cerr << "taken for granted: " << note << "\n";
}

// A mesh that was asked for has the machine's devices, on few axes.
absl::Status CheckMesh(const std::vector<int64_t>& mesh, const Machine& machine) {
  if (mesh.empty()) return absl::OkStatus();
  const std::string text = absl::StrCat("--mesh ", absl::StrJoin(mesh, " "));
  if (mesh.size() > kMostAxes) {
    return absl::InvalidArgumentError(
        absl::StrCat(text, ": ", mesh.size(), " axes; at most ", kMostAxes, " are searched"));
  }
  double devices = 1;  // no overflow
  for (int64_t extent : mesh) devices *= static_cast<double>(extent);
  if (devices != machine.devices) {
    return absl::InvalidArgumentError(
        absl::StrCat(text, ": the extents multiply to ", devices, " devices, ", machine.name,
                     " has ", machine.devices, "; give extents of that product, or --devices"));
  }
  return absl::OkStatus();
}

// A verdict for summary.json: without times, so that the same plan has the same bytes.
nlohmann::ordered_json Verification(const PlanVerdict& verdict) {
  return {{"verdict", PlanVerdictName(verdict.kind)},
          {"obligations", verdict.obligations},
          {"proofs", verdict.proofs}};
}

// Each rule that was used, with what its certificate says.
void AddProofs(const CertificateBook& certificates, const std::vector<RuleApplication>& used,
               nlohmann::ordered_json& summary) {
  for (nlohmann::ordered_json& rule : summary["rules"]) {
    for (const RuleApplication& r : used) {
      if (r.rule != rule["name"]) continue;
      const CertificateEntry* e = certificates.FindHash(r.certificate);
      rule["certificate"] = r.certificate;
      if (e == nullptr) break;
      rule["facts"] = e->certificate.facts;
      rule["queries"] = e->certificate.queries;
      break;
    }
  }
}

// Certificates of the rules a plan used.
CertificateBook Used(const CertificateBook& all, const std::vector<RuleApplication>& rules) {
  CertificateBook used;
  for (const RuleApplication& r : rules) {
    const CertificateEntry* e = all.FindHash(r.certificate);
    if (e != nullptr) used.Add(e->kind, e->name, e->certificate);
  }
  return used;
}

int Run(const Arguments& a) {
  const auto start = std::chrono::steady_clock::now();
  absl::StatusOr<Machine> machine = a.machine.Load();
  if (!machine.ok()) return Fail(machine.status());
  if (absl::Status s = CheckMesh(a.mesh, *machine); !s.ok()) return Fail(s);
  // Not after minutes of search.
  if (!a.out.empty()) {
    if (absl::Status s = CreateDirectory(a.out); !s.ok()) return Fail(s);
  }
  ImportReport report;
  absl::StatusOr<Graph> forward = a.model.Load(&report, a.training.train);
  if (!forward.ok()) return Fail(forward.status());
  OptimizeOptions options;
  absl::StatusOr<TrainingOptions> training = a.training.Options(*machine, *forward, report);
  if (!training.ok()) return Fail(training.status());
  options.training = *training;
  options.serve = a.mode == "serve";
  if (options.serve) {
    options.training.loss = "none";
    options.training.optimizer = "none";
  }
  options.force = a.strategy;
  options.mesh = a.mesh;
  options.micro_batches = a.micro_batches;
  options.baselines = !a.no_baselines;
  if (a.outputs == "drop" && options.training.loss == "none") {
    return Fail(absl::InvalidArgumentError(absl::StrCat(
        "--outputs drop: ", options.serve ? "serving" : "--loss none",
        " computes nothing but the model's outputs; leave it out, or train for a loss")));
  }
  options.training.outputs = a.outputs != "drop";
  options.may_drop_outputs = a.outputs == "auto";
  if (a.max_axes > 0) options.max_axes = a.max_axes;
  if (!a.memory_limit.empty()) {
    absl::StatusOr<int64_t> bytes = ParseBytes(a.memory_limit);
    if (!bytes.ok()) return Fail(bytes.status());
    options.memory_limit_bytes = *bytes;
  }
  options.cancel = &interrupted;
  if (!a.quiet) {
    SayAssumptions(a, *forward, report, options.training);
    options.progress = [start](const std::string& line) {
      std::cerr << absl::StrFormat("[%6.2f s] ", Seconds(start)) << line << "\n";
    };
  }
  absl::StatusOr<RuleVerdicts> rules = ProveBuiltinRules();
  if (!rules.ok()) return Fail(rules.status());
  std::signal(SIGINT, Interrupt);
  absl::StatusOr<OptimizeResult> result = Optimize(*forward, rules->rules, *machine, options);
  std::signal(SIGINT, SIG_DFL);
  if (!result.ok()) return Fail(result.status());

  nlohmann::ordered_json summary = SummaryJson(*result, *machine, options.training);
  const double search_seconds = Seconds(start);
  absl::StatusOr<std::string> text = MachineText(a.machine.name);
  if (!text.ok()) return Fail(text.status());
  absl::StatusOr<Plan> made = MakePlan(a.model.path, *text, *forward, options, *result);
  if (!made.ok()) return Fail(made.status());
  Plan plan = *std::move(made);
  AddProofs(rules->certificates, plan.rules, summary);
  PlanVerdict verdict;
  if (!a.no_verify) {
    const auto began = std::chrono::steady_clock::now();
    verdict = VerifyPlan(plan);
    summary["verification"] = Verification(verdict);
    if (!a.quiet) {
      std::cerr << absl::StrFormat("%s: %d obligations, %d distinct proofs, in %.2f s\n",
                                   PlanVerdictName(verdict.kind), verdict.obligations,
                                   verdict.proofs, Seconds(began));
    }
  }
  if (!a.out.empty()) {
    // The seconds a search took are not part of what it found: the plan's bytes stay the same.
    plan.summary_json = JsonText(summary);
    if (absl::Status s = WritePlan(plan, a.out); !s.ok()) return Fail(s);
    CertificateBook certificates = Used(rules->certificates, plan.rules);
    certificates.AddAll(verdict.certificates);
    if (absl::Status s = WriteFileAtomically(a.out + "/" + kCertificatesFile,
                                             certificates.ToText(/*with_subjects=*/true));
        !s.ok()) {
      return Fail(s);
    }
    nlohmann::ordered_json with_time = summary;
    with_time["search_seconds"] = search_seconds;
    if (absl::Status s = WriteReport(plan, *machine, JsonText(with_time), a.out); !s.ok()) {
      return Fail(s);
    }
  }
  summary["search_seconds"] = search_seconds;
  if (a.json) {
    std::cout << JsonText(summary);
  } else {
    std::cout << SummaryTable(*result, *machine, options.training);
    std::cout << absl::StrFormat("found in %.2f s", search_seconds);
    if (!a.out.empty()) {
      std::cout << "; written to " << a.out << " (plan.pb, summary.json, report.html, trace.json, "
                << kCertificatesFile << ")";
    }
    std::cout << "\n";
    if (!a.no_verify) {
      std::cout << absl::StrFormat("%s: %d obligations, %d distinct proofs\n",
                                   PlanVerdictName(verdict.kind), verdict.obligations,
                                   verdict.proofs);
    }
  }
  if (a.no_verify || verdict.kind == PlanVerdict::Kind::kProved) return kDone;
  std::cerr << "tandem: the plan's own verification is not passed; tandem verify says where\n";
  return kNo;
}

}  // namespace

void AddOptimize(CLI::App& app, Chosen& chosen) {
  auto a = std::make_shared<Arguments>();
  CLI::App* c = app.add_subcommand(
      "optimize",
      "Finds the fastest way to train a model on a machine.\n"
      "Example: tandem optimize model.onnx --machine dgx-h100 --nodes 4 --global-batch 512 "
      "--out plan/");
  a->model.Add(*c);
  a->machine.Add(*c, true);
  a->training.Add(*c);
  c->add_option("--out", a->out,
                "Folder for plan.pb, summary.json, report.html, trace.json and "
                "certificates.textproto; without it nothing is written")
      ->check(NotEmpty());
  c->add_option("--mode", a->mode, "What the plan is for; serve: the forward pass alone")
      ->check(CLI::IsMember({"train", "serve"}))
      ->capture_default_str();
  c->add_option("--memory-limit", a->memory_limit,
                "Bytes a device may use, for example 40GiB; default: 94% of what the device has")
      ->check(NotEmpty());
  c->add_option("--outputs", a->outputs,
                "Whether a training step gives the model's outputs beside the loss; auto: unless "
                "they take memory that is needed")
      ->check(CLI::IsMember({"auto", "keep", "drop"}))
      ->capture_default_str();
  c->add_option(
       "--strategy", a->strategy,
       "Fixes the kind of parallelism; none: all are searched, fsdp: the batch and what is "
       "stored, mixed: first axis data, the others tensor")
      ->check(CLI::IsMember({"none", "data", "fsdp", "tensor", "sequence", "mixed"}))
      ->capture_default_str();
  c->add_option("--mesh", a->mesh, "Fixes the device mesh: --mesh 4 8")->check(AtLeastOne());
  c->add_option("--micro-batches", a->micro_batches,
                "Fixes the number of micro-batches (gradient accumulation)")
      ->check(AtLeastOne());
  c->add_option("--max-axes", a->max_axes, "Most axes of a mesh that the search tries; default: 2")
      ->check(CLI::Range(1, 3));
  c->add_flag("--no-baselines", a->no_baselines, "Skips the comparison plans");
  c->add_flag("--no-verify", a->no_verify, "Does not prove the plan (tandem verify does it later)");
  c->add_flag("--json", a->json, "Prints summary.json");
  c->add_flag("--quiet", a->quiet, "No progress");
  c->callback([a, &chosen] { chosen.body = [a] { return Run(*a); }; });
}

}  // namespace tandem::cli
