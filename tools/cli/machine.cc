#include "simulator/machine.h"

#include <iostream>
#include <memory>
#include <nlohmann/json.hpp>

#include "absl/strings/str_format.h"
#include "tools/cli/command.h"
#include "tools/cli/inputs.h"

namespace tandem::cli {
namespace {

int List(bool json) {
  nlohmann::ordered_json all = nlohmann::ordered_json::array();
  for (const MachineSummary& m : ListMachines()) {
    if (json) {
      all.push_back({{"name", m.name}, {"description", m.description}});
    } else {
      std::cout << absl::StrFormat("%-14s %s\n", m.name, m.description);
    }
  }
  if (json) std::cout << JsonText(all);
  return kDone;
}

int Show(const MachineInput& input, bool json) {
  if (!json && input.nodes == 0 && input.devices == 0) {
    absl::StatusOr<std::string> text = MachineText(input.name);
    if (!text.ok()) return Fail(text.status());
    std::cout << *text;
    return kDone;
  }
  absl::StatusOr<Machine> machine = input.Load();
  if (!machine.ok()) return Fail(machine.status());
  nlohmann::ordered_json j;
  j["name"] = machine->name;
  j["devices"] = machine->devices;
  j["nodes"] = machine->nodes;
  j["devices_per_node"] = machine->devices_per_node;
  j["device"] = machine->device.name;
  j["memory_bytes"] = machine->device.memory_bytes;
  j["memory_bandwidth"] = machine->device.memory_bandwidth;
  nlohmann::ordered_json peaks = nlohmann::ordered_json::object();
  for (int p = 0; p < kPrecisions; ++p) {
    peaks[std::string(PrecisionName(static_cast<Precision>(p)))] =
        machine->device.contraction[static_cast<size_t>(p)].peak_flops;
  }
  j["peak_flops"] = peaks;
  std::cout << JsonText(j);
  return kDone;
}

}  // namespace

void AddMachine(CLI::App& app, Chosen& chosen) {
  CLI::App* machine = app.add_subcommand("machine", "Machine descriptions.");
  machine->require_subcommand(1);
  auto json = std::make_shared<bool>(false);
  CLI::App* list = machine->add_subcommand("list", "The presets.\nExample: tandem machine list");
  list->add_flag("--json", *json, "Prints JSON");
  list->callback([json, &chosen] { chosen.body = [json] { return List(*json); }; });
  CLI::App* show = machine->add_subcommand(
      "show",
      "A machine's description: its text, or with --json, --nodes or --devices what it comes to.\n"
      "Example: tandem machine show dgx-h100");
  auto input = std::make_shared<MachineInput>();
  show->add_option("name", input->name, "A preset or a textproto file")->required();
  input->AddSize(*show);
  show->add_flag("--json", *json, "Prints JSON");
  show->callback(
      [input, json, &chosen] { chosen.body = [input, json] { return Show(*input, *json); }; });
}

}  // namespace tandem::cli
