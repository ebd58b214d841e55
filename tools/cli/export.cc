#include <algorithm>
#include <iostream>
#include <memory>
#include <optional>
#include <string>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "pcg/io/file_io.h"
#include "pcg/io/record.h"
#include "pcg/program/plan.h"
#include "simulator/machine.h"
#include "simulator/timeline.h"
#include "tools/cli/command.h"
#include "tools/report/dot.h"

namespace tandem::cli {
namespace {

struct Arguments {
  std::string directory;
  std::string to;
  std::string machine;  // a preset or file; "" = the plan's own
  std::string out;      // "" = stdout
};

absl::StatusOr<std::string> Trace(const Plan& plan, const Arguments& a) {
  if (plan.programs.empty()) {
    return absl::InvalidArgumentError(
        absl::StrCat(a.directory, ": the plan has no Program; make it again with tandem optimize"));
  }
  Record all;
  for (const Program& program : plan.programs) {
    const MachineSize size = {.nodes = std::nullopt, .devices = program.mesh.Devices()};
    absl::StatusOr<Machine> machine = a.machine.empty()
                                          ? ParseMachine(plan.machine, a.directory, size)
                                          : LoadMachine(a.machine, size);
    if (!machine.ok()) return machine.status();
    TimelineOptions options;
    options.record = true;
    absl::StatusOr<Timeline> t = SimulateProgram(plan.pcg, program, *machine, options);
    if (!t.ok()) return t.status();
    all.step_seconds = std::max(all.step_seconds, t->record.step_seconds);
    all.spans.insert(all.spans.end(), t->record.spans.begin(), t->record.spans.end());
  }
  return TraceJson(all, plan.model);
}

int Export(const Arguments& a) {
  if (a.to == "dot" && !a.machine.empty()) {
    return Fail(absl::InvalidArgumentError(
        absl::StrCat("--machine ", a.machine,
                     ": dot shows the plan, which no machine changes; leave --machine out, or "
                     "export --to perfetto")));
  }
  absl::StatusOr<Plan> plan = ReadPlan(a.directory);
  if (!plan.ok()) return Fail(plan.status());
  absl::StatusOr<std::string> text = a.to == "dot" ? PlanDot(*plan) : Trace(*plan, a);
  if (!text.ok()) return Fail(text.status());
  if (!a.out.empty()) {
    absl::Status written = WriteFileAtomically(a.out, *text);
    return written.ok() ? kDone : Fail(written);
  }
  std::cout << *text;
  return kDone;
}

}  // namespace

void AddExport(CLI::App& app, Chosen& chosen) {
  auto a = std::make_shared<Arguments>();
  CLI::App* c = app.add_subcommand(
      "export",
      "A plan in another tool's form: dot (the graph with its layouts and collectives, for "
      "Graphviz) or perfetto (the timeline of one step).\n"
      "Example: tandem export plan/ --to dot --out plan.dot\n"
      "Example: tandem export plan/ --to perfetto --machine dgx-h100 --out step.json");
  c->add_option("plan", a->directory, "A plan's folder")->required();
  c->add_option("--to", a->to, "The form")->required()->check(CLI::IsMember({"dot", "perfetto"}));
  c->add_option("--machine", a->machine,
                "For perfetto only: a preset or a textproto file; default: the plan's own machine")
      ->check(NotEmpty());
  c->add_option("--out", a->out, "File to write; default: standard output")->check(NotEmpty());
  c->callback([a, &chosen] { chosen.body = [a] { return Export(*a); }; });
}

}  // namespace tandem::cli
