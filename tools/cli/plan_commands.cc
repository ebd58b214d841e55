#include <chrono>
#include <iostream>
#include <map>
#include <memory>
#include <nlohmann/json.hpp>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "pcg/io/file_io.h"
#include "pcg/io/record.h"
#include "pcg/plural.h"
#include "pcg/program/plan.h"
#include "simulator/machine.h"
#include "simulator/timeline.h"
#include "tools/cli/command.h"
#include "tools/cli/inputs.h"
#include "tools/cli/summary.h"
#include "verifier/certificates/certificate_book.h"
#include "verifier/program/plan_proof.h"

namespace tandem::cli {
namespace {

using Json = nlohmann::ordered_json;

// --- explain -------------------------------------------------------------------------------------

// What Explain reads of a summary has the types that SummaryJson gives it.
bool IsSummary(const Json& summary) {
  if (!summary.is_object()) return false;
  for (const char* key : {"strategy", "notes"}) {
    const Json lines = summary.value(key, Json::array());
    if (!lines.is_array()) return false;
    for (const Json& line : lines) {
      if (!line.is_string()) return false;
    }
  }
  const Json breakdown = summary.value("breakdown", Json::object());
  if (!breakdown.is_object()) return false;
  for (const Json& seconds : breakdown) {
    if (!seconds.is_number()) return false;
  }
  const Json verification = summary.value("verification", Json());
  if (!verification.is_null()) {
    if (!verification.is_object()) return false;
    if (!verification.value("verdict", Json()).is_string()) return false;
    if (!verification.value("obligations", Json()).is_number_integer()) return false;
  }
  return true;
}

// What a stored certificate says of a rule's proof; null if there is none.
Json Proof(const CertificateEntry* entry) {
  if (entry == nullptr) return nullptr;
  return {{"prover", entry->certificate.prover},
          {"solver", entry->certificate.solver},
          {"queries", entry->certificate.queries},
          {"facts", entry->certificate.facts},
          {"assumptions", entry->certificate.assumptions}};
}

std::string ProofText(const Json& proof) {
  if (proof.is_null()) return "no certificate of this proof is stored with the plan";
  std::string facts;
  for (const Json& f : proof["facts"]) absl::StrAppend(&facts, ", given ", f.get<std::string>());
  return absl::StrCat("proved from the operators' texts by ", proof["prover"].get<std::string>(),
                      " with ", Plural(proof["queries"].get<int>(), "question"), " to ",
                      proof["solver"].get<std::string>(), facts);
}

Json Counts(const CertificateBook& book) {
  int rules = 0, rows = 0, cuts = 0;
  for (const CertificateEntry& e : book.entries()) {
    rules += e.kind == CertificateKind::kRule;
    rows += e.kind == CertificateKind::kRow;
    cuts += e.kind == CertificateKind::kCut;
  }
  return {{"rules", rules}, {"rows", rows}, {"cuts", cuts}};
}

int Explain(const std::string& directory, bool json) {
  absl::StatusOr<Plan> plan = ReadPlan(directory);
  if (!plan.ok()) return Fail(plan.status());
  Json summary = Json::parse(plan->summary_json, nullptr, false);
  if (!IsSummary(summary)) {
    return Fail(absl::InvalidArgumentError(
        absl::StrCat(directory,
                     "/plan.pb: the summary in it is damaged; make the plan again with "
                     "tandem optimize")));
  }
  Json out;
  out["model"] = plan->model;
  out["strategy"] = summary.value("strategy", Json::array());
  out["notes"] = summary.value("notes", Json::array());
  out["breakdown"] = summary.value("breakdown", Json::object());
  CertificateBook certificates;
  const std::string file = absl::StrCat(directory, "/", kCertificatesFile);
  if (std::ifstream(file).good()) {
    absl::StatusOr<std::string> bytes = ReadFile(file);
    if (!bytes.ok()) return Fail(bytes.status());
    absl::StatusOr<CertificateBook> book = CertificateBook::FromText(*bytes, file);
    if (!book.ok()) return Fail(book.status());
    certificates = *std::move(book);
  }
  Json rules = Json::array();
  std::map<std::string, Json> by_rule;
  for (const RuleApplication& r : plan->rules) {
    Json& one = by_rule[r.rule];
    if (one.is_null()) {
      one = {{"name", r.rule},
             {"certificate", r.certificate},
             {"count", 0},
             {"gain_seconds", 0.0},
             {"where", Json::array()},
             {"proof", Proof(certificates.FindHash(r.certificate))}};
    }
    one["count"] = one["count"].get<int64_t>() + 1;
    one["gain_seconds"] = one["gain_seconds"].get<double>() + r.gain_seconds;
    if (one["where"].size() < 3) one["where"].push_back(r.target_nodes);
  }
  for (auto& [name, one] : by_rule) rules.push_back(one);
  out["rules"] = rules;
  out["verification"] = summary.value("verification", Json());
  out["certificates"] = Counts(certificates);
  if (json) {
    std::cout << JsonText(out);
    return kDone;
  }
  std::cout << "model " << plan->model << "\n\nrules (each proved for all sizes):\n";
  if (rules.empty()) std::cout << "  none fired\n";
  for (const Json& r : rules) {
    const double gain = r["gain_seconds"].get<double>();
    std::cout << absl::StrFormat(
        "  %-28s x%-5d %s, certificate %s\n", r["name"].get<std::string>(),
        r["count"].get<int64_t>(),
        gain > 0 ? absl::StrFormat("gains %.3f ms", gain * 1e3) : "gain not measured apart",
        r["certificate"].get<std::string>());
    std::cout << "    " << ProofText(r["proof"]) << "\n";
  }
  if (out["verification"].is_object()) {
    std::cout << absl::StrFormat("\nthe plan: %s, %d obligations\n",
                                 out["verification"].value("verdict", "not known"),
                                 out["verification"].value("obligations", int64_t{0}));
  } else {
    std::cout << "\nthe plan: not verified (tandem verify)\n";
  }
  const Json& counts = out["certificates"];
  std::cout << absl::StrFormat("certificates of %s, %s of factor tables and %s of the graph: %s\n",
                               Plural(counts["rules"].get<int>(), "rule"),
                               Plural(counts["rows"].get<int>(), "row"),
                               Plural(counts["cuts"].get<int>(), "cut"), file);
  std::cout << "\nstrategy:\n";
  for (const Json& line : out["strategy"]) std::cout << "  " << line.get<std::string>() << "\n";
  for (const Json& line : out["notes"]) std::cout << "note: " << line.get<std::string>() << "\n";
  std::cout << "\nwhere a step goes:\n";
  for (const auto& [kind, seconds] : out["breakdown"].items()) {
    std::cout << absl::StrFormat("  %-24s %10.3f ms\n", kind, seconds.get<double>() * 1e3);
  }
  return kDone;
}

// --- verify --------------------------------------------------------------------------------------

int Verify(const std::string& directory, bool json) {
  const auto start = std::chrono::steady_clock::now();
  absl::StatusOr<Plan> plan = ReadPlan(directory);
  if (!plan.ok()) return Fail(plan.status());
  const PlanVerdict verdict = VerifyPlan(*plan);
  const double seconds =
      std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
  if (json) {
    Json out;
    out["verdict"] = PlanVerdictName(verdict.kind);
    out["obligations"] = verdict.obligations;
    out["proofs"] = verdict.proofs;
    out["seconds"] = seconds;
    out["failures"] = Json::array();
    for (const PlanFailure& f : verdict.failures) {
      out["failures"].push_back({{"program", f.program},
                                 {"instruction", f.instruction},
                                 {"name", f.name},
                                 {"reason", f.reason}});
    }
    std::cout << JsonText(out);
  } else {
    std::cout << absl::StrFormat("%s: %d obligations, %d distinct proofs, %.2f s\n",
                                 PlanVerdictName(verdict.kind), verdict.obligations, verdict.proofs,
                                 seconds);
    for (const PlanFailure& f : verdict.failures) {
      std::cout << "  " << f.program;
      if (f.instruction >= 0) std::cout << ", instruction " << f.instruction;
      std::cout << " (" << f.name << "): " << f.reason << "\n";
    }
    if (verdict.kind == PlanVerdict::Kind::kProved) {
      std::cout << "The programs compute the training graph: forward, backward and update, over "
                   "the reals.\nThat the backward pass is the gradient of the forward pass is "
                   "tested, not part of this proof.\n";
    }
  }
  return verdict.kind == PlanVerdict::Kind::kProved ? kDone : kNo;
}

// --- simulate ------------------------------------------------------------------------------------

int Simulate(const std::string& directory, const MachineInput& input, const std::string& trace,
             bool json) {
  absl::StatusOr<Plan> plan = ReadPlan(directory);
  if (!plan.ok()) return Fail(plan.status());
  if (plan->programs.empty()) {
    return Fail(absl::InvalidArgumentError(directory + ": the plan has no program"));
  }
  const Program& program = plan->programs[0];
  absl::StatusOr<Machine> machine =
      input.name.empty()
          ? ParseMachine(plan->machine, directory,
                         {.nodes = std::nullopt, .devices = program.mesh.Devices()})
          : LoadMachine(input.name, {.nodes = std::nullopt, .devices = program.mesh.Devices()});
  if (!machine.ok()) return Fail(machine.status());
  TimelineOptions options;
  options.record = !trace.empty();
  absl::StatusOr<Timeline> t = SimulateProgram(plan->pcg, program, *machine, options);
  if (!t.ok()) return Fail(t.status());
  if (!trace.empty()) {
    const absl::Status s = WriteFileAtomically(trace, TraceJson(t->record, plan->model));
    if (!s.ok()) return Fail(s);
  }
  Json j;
  j["machine"] = machine->name;
  j["devices"] = machine->devices;
  j["step_seconds"] = t->step_seconds;
  j["peak_bytes"] = t->memory.peak_bytes;
  j["breakdown"] = BreakdownJson(t->breakdown);
  Json memory = Json::object();
  for (const auto& [kind, bytes] : t->memory.at_peak) memory[kind] = bytes;
  j["memory_at_peak"] = memory;
  j["fits"] = t->memory.peak_bytes <= machine->device.memory_bytes;
  if (json) {
    std::cout << JsonText(j);
    return kDone;
  }
  std::cout << absl::StrFormat("%s, %s: step %.3f ms, peak %s a device%s\n", machine->name,
                               Plural(machine->devices, "device"), t->step_seconds * 1e3,
                               BytesText(t->memory.peak_bytes),
                               j["fits"].get<bool>() ? "" : " (more than the device has)");
  for (const auto& [kind, seconds] : j["breakdown"].items()) {
    std::cout << absl::StrFormat("  %-24s %10.3f ms\n", kind, seconds.get<double>() * 1e3);
  }
  for (const auto& [kind, bytes] : j["memory_at_peak"].items()) {
    std::cout << absl::StrFormat("  %-24s %13s\n", kind, BytesText(bytes.get<int64_t>()));
  }
  return kDone;
}

}  // namespace

void AddExplain(CLI::App& app, Chosen& chosen) {
  auto directory = std::make_shared<std::string>();
  auto json = std::make_shared<bool>(false);
  CLI::App* c = app.add_subcommand(
      "explain",
      "Which rules fired, what alternatives bought, what proof stands behind each.\n"
      "Example: tandem explain plan/");
  c->add_option("plan", *directory, "A plan's folder")->required();
  c->add_flag("--json", *json, "Prints JSON");
  c->callback([=, &chosen] { chosen.body = [=] { return Explain(*directory, *json); }; });
}

void AddVerify(CLI::App& app, Chosen& chosen) {
  auto directory = std::make_shared<std::string>();
  auto json = std::make_shared<bool>(false);
  CLI::App* c = app.add_subcommand(
      "verify",
      "Proves that a plan's programs compute its training graph, trusting neither the "
      "search nor the lowering.\nExample: tandem verify plan/");
  c->add_option("plan", *directory, "A plan's folder")->required();
  c->add_flag("--json", *json, "Prints JSON");
  c->callback([=, &chosen] { chosen.body = [=] { return Verify(*directory, *json); }; });
}

void AddSimulate(CLI::App& app, Chosen& chosen) {
  auto directory = std::make_shared<std::string>();
  auto machine = std::make_shared<MachineInput>();
  auto trace = std::make_shared<std::string>();
  auto json = std::make_shared<bool>(false);
  CLI::App* c = app.add_subcommand("simulate",
                                   "What a plan takes on its machine, or on another.\n"
                                   "Example: tandem simulate plan/ --machine dgx-h100");
  c->add_option("plan", *directory, "A plan's folder")->required();
  c->add_option("--machine", machine->name,
                "A preset or a textproto file, with as many devices as the plan; default: its own")
      ->check(NotEmpty());
  c->add_option("--trace", *trace, "Writes a trace for Perfetto")->check(NotEmpty());
  c->add_flag("--json", *json, "Prints JSON");
  c->callback([=, &chosen] {
    chosen.body = [=] { return Simulate(*directory, *machine, *trace, *json); };
  });
}

}  // namespace tandem::cli
