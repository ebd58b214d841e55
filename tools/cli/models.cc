#include <iostream>
#include <memory>
#include <nlohmann/json.hpp>

#include "absl/status/status.h"
#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "absl/strings/str_join.h"
#include "models/load_model.h"
#include "models/model_summary.h"
#include "models/zoo.h"
#include "pcg/io/file_io.h"
#include "pcg/plural.h"
#include "pcg/program/plan.h"
#include "tools/cli/command.h"
#include "tools/cli/inputs.h"

namespace tandem::cli {
namespace {

constexpr int64_t kShownDim = 128;  // what `show` takes a symbolic dim for; the notes say so

int List(bool json) {
  nlohmann::ordered_json all = nlohmann::ordered_json::array();
  for (const ZooEntry& e : ZooEntries()) {
    if (json) {
      all.push_back(
          {{"name", e.name}, {"description", e.description}, {"default_batch", e.default_batch}});
    } else {
      std::cout << absl::StrFormat("%-14s %s\n", e.name, e.description);
    }
  }
  if (json) std::cout << JsonText(all);
  return kDone;
}

int Show(const ModelInput& input, bool json, bool tensors) {
  ImportReport report;
  absl::StatusOr<Graph> graph = input.Load(&report);
  if (!graph.ok()) {
    // What is unsupported is still worth a summary.
    if (json && !report.unsupported.empty()) std::cout << ToJson(SummarizeReport(report)) << "\n";
    return Fail(graph.status());
  }
  absl::StatusOr<ModelSummary> s = Summarize(*graph, &report);
  if (!s.ok()) return Fail(s.status());
  if (json) {
    std::cout << ToJson(*s) << "\n";
    return kDone;
  }
  std::cout << absl::StrFormat("%s: %s, %s (%d trainable, %s), %.4g forward FLOPs\n", graph->name,
                               Plural(s->nodes, "node"), Plural(s->parameters, "parameter"),
                               s->trainable_parameters, BytesText(s->parameter_bytes),
                               s->forward_flops);
  for (const auto& [ports, what] :
       {std::make_pair(&s->inputs, "input"), std::make_pair(&s->outputs, "output")}) {
    for (const ModelSummary::Port& p : *ports) {
      std::cout << absl::StrFormat("  %-7s %s %s [%s]\n", what, p.name, p.dtype,
                                   absl::StrJoin(p.shape, ", "));
    }
  }
  for (const std::string& note : s->notes) std::cout << "note: " << note << "\n";
  if (tensors) {
    for (const Tensor& t : graph->tensors) {
      if (t.producer.valid() || t.role == TensorRole::kInput) continue;
      const char* role = t.role == TensorRole::kParameter ? "parameter"
                         : t.role == TensorRole::kState   ? "state"
                                                          : "constant";
      std::cout << absl::StrFormat("  %-9s %s [%s]%s\n", role, t.name,
                                   absl::StrJoin(PlainShape(t.shape), ", "),
                                   t.note.empty() ? "" : " " + t.note);
    }
  }
  return kDone;
}

int Emit(const ModelInput& input, const std::string& out) {
  const bool text = absl::EndsWith(out, ".textproto") || absl::EndsWith(out, ".txtpb");
  if (!text && !absl::EndsWith(out, ".pb")) {
    return Fail(absl::InvalidArgumentError(
        absl::StrCat("--out ", out,
                     ": the name does not say the form; end it in .pb (binary), or in .textproto "
                     "or .txtpb (text)")));
  }
  ImportReport report;
  absl::StatusOr<Graph> graph = input.Load(&report);
  if (!graph.ok()) return Fail(graph.status());
  absl::StatusOr<std::string> bytes = text ? GraphToText(*graph) : SerializeGraph(*graph);
  if (!bytes.ok()) return Fail(bytes.status());
  const absl::Status written = WriteFileAtomically(out, *bytes);
  return written.ok() ? kDone : Fail(written);
}

}  // namespace

void AddModels(CLI::App& app, Chosen& chosen) {
  CLI::App* models = app.add_subcommand("models", "The zoo, and what model files contain.");
  models->require_subcommand(1);
  auto json = std::make_shared<bool>(false);
  auto input = std::make_shared<ModelInput>();
  input->default_dim = kShownDim;
  CLI::App* list = models->add_subcommand("list", "The zoo.\nExample: tandem models list");
  list->add_flag("--json", *json, "Prints JSON");
  list->callback([json, &chosen] { chosen.body = [json] { return List(*json); }; });
  auto tensors = std::make_shared<bool>(false);
  CLI::App* show = models->add_subcommand(
      "show",
      "What a model contains: sizes, parameters, FLOPs, what is unsupported.\n"
      "Example: tandem models show model.onnx");
  input->Add(*show);
  show->add_flag("--json", *json, "Prints JSON");
  show->add_flag("--tensors", *tensors, "Each stored tensor, what it was taken for, and why");
  show->callback([=, &chosen] { chosen.body = [=] { return Show(*input, *json, *tensors); }; });
  auto out = std::make_shared<std::string>();
  auto emitted = std::make_shared<ModelInput>();
  CLI::App* emit = models->add_subcommand(
      "emit",
      "Writes a model as protobuf, binary (.pb) or text (.textproto, .txtpb).\n"
      "Example: tandem models emit bert-large --out bert.pb");
  emitted->Add(*emit);
  emit->add_option("--out", *out, "File to write; its name ends in .pb, .textproto or .txtpb")
      ->required();
  emit->callback([=, &chosen] { chosen.body = [=] { return Emit(*emitted, *out); }; });
}

}  // namespace tandem::cli
