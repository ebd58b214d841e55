#include "runtime/run.h"

#include <iostream>
#include <memory>
#include <nlohmann/json.hpp>

#include "absl/strings/str_format.h"
#include "pcg/io/file_io.h"
#include "pcg/io/record.h"
#include "pcg/plural.h"
#include "pcg/program/plan.h"
#include "tools/cli/command.h"

namespace tandem::cli {
namespace {

struct Arguments {
  std::string plan;
  RunOptions options;
  std::string dtype;
  double lr = 0;
  std::string trace;
  bool json = false;
};

int Execute(Arguments a) {
  absl::StatusOr<Plan> plan = ReadPlan(a.plan);
  if (!plan.ok()) return Fail(plan.status());
  if (!a.dtype.empty()) a.options.dtype = DTypeFromName(a.dtype);
  if (a.lr > 0) a.options.lr = a.lr;
  absl::StatusOr<RunResult> r = RunPlan(*plan, a.options);
  if (!r.ok()) return Fail(r.status());
  if (!a.trace.empty()) {
    const absl::Status s = WriteFileAtomically(a.trace, TraceJson(r->record, plan->model));
    if (!s.ok()) return Fail(s);
  }
  for (const std::string& note : r->notes) std::cerr << note << "\n";
  if (a.json) {
    nlohmann::ordered_json j;
    j["ranks"] = r->ranks;
    j["steps"] = r->steps;
    j["dtype"] = std::string(DTypeName(r->dtype));
    j["losses"] = r->losses;
    if (r->max_abs_difference_from_serial) {
      j["max_abs_difference_from_serial"] = *r->max_abs_difference_from_serial;
      j["equal"] = r->equal;
    }
    if (r->outputs_max_abs_difference) {
      j["outputs_max_abs_difference"] = *r->outputs_max_abs_difference;
    }
    j["step_seconds"] = r->step_seconds;
    j["peak_bytes"] = r->peak_bytes;
    std::cout << JsonText(j);
  } else {
    for (size_t i = 0; i < r->losses.size(); ++i) {
      std::cout << absl::StrFormat("step %d  loss %.10g\n", i + 1, r->losses[i]);
    }
    std::cout << absl::StrFormat("%s, %s, %s: %.3f s a step, peak %.2f MiB a rank\n",
                                 Plural(r->ranks, "rank"), Plural(r->steps, "step"),
                                 DTypeName(r->dtype), r->step_seconds,
                                 static_cast<double>(r->peak_bytes) / (1024.0 * 1024));
    if (r->outputs_max_abs_difference) {
      std::cout << absl::StrFormat("outputs differ from the given ones by at most %.3g\n",
                                   *r->outputs_max_abs_difference);
    }
    if (r->max_abs_difference_from_serial) {
      std::cout << absl::StrFormat(
          "%s the serial model: losses, outputs and weights differ by at most %.3g (%s)\n",
          r->equal ? "equal to" : "NOT equal to", *r->max_abs_difference_from_serial, r->worst);
    }
  }
  return r->equal ? kDone : kNo;
}

}  // namespace

void AddRun(CLI::App& app, Chosen& chosen) {
  auto a = std::make_shared<Arguments>();
  CLI::App* c = app.add_subcommand(
      "run",
      "Executes a plan: training steps, one rank a device of the plan (on a CPU: a thread).\n"
      "Example: tandem run plan/ --backend cpu --ranks 4 --steps 3 --check");
  c->add_option("plan", a->plan, "A plan's folder")->required();
  c->add_option("--backend", a->options.backend, "What executes it")
      ->check(CLI::IsMember({"cpu", "cuda"}))
      ->capture_default_str();
  c->add_option("--ranks", a->options.ranks, "Ranks; must be the plan's number of devices")
      ->check(AtLeastOne());
  c->add_option("--steps", a->options.steps, "Training steps")
      ->check(AtLeastOne())
      ->capture_default_str();
  c->add_option("--dtype", a->dtype, "What is computed in; default: the plan's precision")
      ->check(CLI::IsMember({"fp32", "fp64"}));
  c->add_option("--seed", a->options.seed, "Seed of weights and data")
      ->check(AtLeastZero())
      ->capture_default_str();
  c->add_option("--lr", a->lr, "Learning rate; default: the plan's")->check(AboveZero());
  c->add_option("--data", a->options.data_folder,
                "Folder of input_K.pb, labels.pb and output_K.pb; default: seeded data")
      ->check(NotEmpty());
  c->add_flag("--check", a->options.check, "Compares with the serial model, in fp64");
  c->add_option("--trace", a->trace, "Writes a trace of the last step for Perfetto")
      ->check(NotEmpty());
  c->add_option("--timeout", a->options.timeout_seconds, "Seconds a rank waits for another")
      ->check(AboveZero())
      ->capture_default_str();
  c->add_flag("--json", a->json, "Prints JSON");
  c->callback([a, &chosen] { chosen.body = [a] { return Execute(*a); }; });
}

}  // namespace tandem::cli
