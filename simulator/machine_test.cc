#include "simulator/machine.h"

#include <catch2/catch.hpp>
#include <fstream>
#include <random>
#include <string>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_replace.h"

namespace tandem {
namespace {

using Catch::Matchers::Contains;

std::string Text(const std::string& name) { return *MachineText(name); }

// Expects a refusal whose message has all the words.
void ExpectRefused(const absl::StatusOr<Machine>& machine,
                   std::initializer_list<const char*> words) {
  REQUIRE_FALSE(machine.ok());
  for (const char* word : words)
    CHECK_THAT(std::string(machine.status().message()), Contains(word));
}

absl::StatusOr<Machine> ParseEdited(const std::string& from, const std::string& to) {
  const std::string text = Text("dgx-a100");
  REQUIRE(absl::StrContains(text, from));
  return ParseMachine(absl::StrReplaceAll(text, {{from, to}}), "edited.textproto");
}

TEST_CASE("every preset loads, with a source for what it says") {
  const auto machines = ListMachines();
  REQUIRE(machines.size() >= 4);
  for (const MachineSummary& summary : machines) {
    INFO(summary.name);
    const auto machine = LoadMachine(summary.name);
    REQUIRE(machine.ok());
    CHECK(machine->name == summary.name);
    CHECK(machine->description == summary.description);
    CHECK(machine->devices >= 1);
    CHECK(machine->devices <= machine->devices_per_node);
    CHECK_THAT(Text(summary.name), Contains("source: \""));
    CHECK_THAT(Text(summary.name), !Contains("source: \"\""));
    for (int i = 0; i < kPrecisions; ++i) {
      const ContractionRate& rate = machine->device.contraction[i];
      INFO(PrecisionName(static_cast<Precision>(i)));
      CHECK(rate.flops_per_second > 0);
      if (rate.peak_flops > 0) CHECK(rate.flops_per_second < rate.peak_flops);
    }
  }
}

TEST_CASE("numbers that no machine has are refused with their path") {
  for (const char* number : {"nan", "inf", "-1", "0", "1e300", "1e-300"}) {
    INFO(number);
    ExpectRefused(ParseEdited("bandwidth: 246.2e9", absl::StrCat("bandwidth: ", number)),
                  {"edited.textproto", "level[0].bandwidth is "});
  }
  for (const char* number : {"nan", "inf", "-1", "101", "1e300"}) {
    INFO(number);
    ExpectRefused(ParseEdited("step_seconds: 100e-6", absl::StrCat("step_seconds: ", number)),
                  {"edited.textproto", "host.step_seconds is "});
  }
}

TEST_CASE("what is not a file is no machine") {
  for (const char* path : {"/", "/dev/zero", "/nowhere/machine.textproto", ""}) {
    ExpectRefused(LoadMachine(path), {"neither a preset", "dgx-a100"});
  }
}

TEST_CASE("random changes to a preset never crash the reader") {
  const std::string text = Text("dgx-h100");
  std::mt19937 random(3);
  int refused = 0;
  for (int round = 0; round < 600; ++round) {
    std::string changed = text;
    for (uint32_t changes = 1 + random() % 3; changes > 0; --changes) {
      const size_t at = random() % changed.size();
      const size_t from = random() % changed.size();
      switch (random() % 4) {
        case 0:
          changed[at] = static_cast<char>(random());
          break;
        case 1:
          changed.erase(at, 1 + random() % 40);
          break;
        case 2:
          changed.insert(at, changed.substr(from, 1 + random() % 60));
          break;
        default:
          changed.resize(at + 1);
      }
    }
    const auto machine = ParseMachine(changed, "changed.textproto", {.devices = 8});
    if (machine.ok()) continue;
    ++refused;
    CHECK_THAT(std::string(machine.status().message()), Contains("changed.textproto"));
  }
  CHECK(refused > 200);
  CHECK(refused < 600);
}

TEST_CASE("preset facts") {
  const auto summit = LoadMachine("summit-v100", {.nodes = 4});
  REQUIRE(summit.ok());
  CHECK(summit->devices == 24);
  CHECK(summit->devices_per_node == 6);
  CHECK(summit->device.memory_bytes == 16000000000);
  CHECK(summit->levels.back().bandwidth == 25e9);
  const auto a100 = LoadMachine("dgx-a100", {.nodes = 4});
  REQUIRE(a100.ok());
  CHECK(a100->devices == 32);
  CHECK(a100->nodes == 4);
  CHECK(a100->levels.back().bandwidth == 200e9);
  const auto h100 = LoadMachine("dgx-h100", {.devices = 16});
  REQUIRE(h100.ok());
  CHECK(h100->nodes == 2);
  CHECK(h100->levels.back().bandwidth == 400e9);
  // What the hardware lacks runs as fp32 and has no peak of its own.
  const auto& contraction = summit->device.contraction;
  CHECK(contraction[static_cast<int>(Precision::kBf16)].flops_per_second ==
        contraction[static_cast<int>(Precision::kFp32)].flops_per_second);
  CHECK(contraction[static_cast<int>(Precision::kBf16)].peak_flops == 0);
}

TEST_CASE("sizes") {
  for (int devices : {1, 2, 3, 5, 6, 7, 64}) {
    const auto cpu = LoadMachine("cpu", {.devices = devices});
    REQUIRE(cpu.ok());
    CHECK(cpu->devices == devices);
    CHECK(cpu->nodes == 1);
  }
  const auto part = LoadMachine("dgx-a100", {.devices = 3});
  REQUIRE(part.ok());
  CHECK(part->devices == 3);
  CHECK(part->devices_per_node == 8);
  CHECK(part->nodes == 1);
  CHECK(LoadMachine("dgx-a100", {.nodes = 2, .devices = 16})->devices == 16);
}

TEST_CASE("sizes that are refused") {
  ExpectRefused(LoadMachine("dgx-a100", {.devices = 0}), {"dgx-a100", "0 devices", "at least one"});
  ExpectRefused(LoadMachine("dgx-a100", {.nodes = -1}), {"-1 nodes"});
  ExpectRefused(LoadMachine("dgx-a100", {.devices = 12}), {"12 devices", "8 each", "8 and 16"});
  ExpectRefused(LoadMachine("summit-v100", {.devices = 8}), {"6 and 12"});
  ExpectRefused(LoadMachine("dgx-a100", {.nodes = 2, .devices = 8}), {"2 nodes", "16", "not 8"});
  ExpectRefused(LoadMachine("cpu", {.nodes = 2}), {"cpu", "one node", "use devices"});
  ExpectRefused(LoadMachine("cpu", {.devices = int64_t{1} << 40}), {"supported"});
  ExpectRefused(LoadMachine("dgx-a100", {.nodes = 1 << 20}), {"supported"});
}

TEST_CASE("an unknown name lists the presets") {
  const auto machine = LoadMachine("dgx-b300");
  CHECK(machine.status().code() == absl::StatusCode::kNotFound);
  ExpectRefused(machine, {"dgx-b300", "cpu, dgx-a100, dgx-h100, summit-v100"});
  ExpectRefused(LoadMachine("/"), {"neither a preset"});
}

TEST_CASE("a file on disk is a machine, too") {
  const std::string path = absl::StrCat(std::getenv("TEST_TMPDIR"), "/mine.textproto");
  std::ofstream(path) << absl::StrReplaceAll(Text("dgx-a100"), {{"\"dgx-a100\"", "\"mine\""}});
  const auto machine = LoadMachine(path, {.nodes = 2});
  REQUIRE(machine.ok());
  CHECK(machine->name == "mine");
  CHECK(machine->devices == 16);
}

TEST_CASE("files that are refused, with the place") {
  ExpectRefused(ParseMachine("name: \"x\"\nnodes 3", "m.textproto"), {"m.textproto:2", "nodes"});
  ExpectRefused(ParseMachine("", "m.textproto"), {"m.textproto", "missing", "name", "device"});
  ExpectRefused(ParseMachine("\xff\x00\x01 garbage", "m.textproto"), {"m.textproto"});
  ExpectRefused(ParseEdited("  memory_bandwidth: 2.039e12\n", ""),
                {"edited.textproto", "device.memory_bandwidth"});
  ExpectRefused(ParseEdited("bandwidth: 200e9", "bandwidth: -200e9"),
                {"level[1].bandwidth is -2e+11", "above zero"});
  ExpectRefused(ParseEdited("bandwidth: 200e9", "bandwidth: inf"),
                {"level[1].bandwidth", "finite"});
  ExpectRefused(ParseEdited("memory_bytes: 80000000000", "memory_bytes: 0"),
                {"device.memory_bytes is 0"});
  ExpectRefused(ParseEdited("default_devices: 8", "default_devices: 0"), {"default_devices is 0"});
  ExpectRefused(ParseEdited("extent: 8", "extent: 0"), {"level[0].extent is 0"});
  ExpectRefused(ParseEdited("extent: 8", ""), {"level[0]", "extent"});
  ExpectRefused(ParseEdited("precision: \"tf32\"", "precision: \"tf16\""),
                {"contraction[2]", "'tf16'", "fp64"});
  ExpectRefused(ParseEdited("precision: \"tf32\"", "precision: \"bf16\""), {"'bf16' occurs twice"});
  ExpectRefused(ParseEdited("precision: \"fp64\"", "precision: \"fp8\""), {"no rate for fp64"});
  ExpectRefused(ParseEdited("kind: \"norm\"", "kind: \"nrm\""), {"'nrm'", "none of"});
  ExpectRefused(ParseEdited("kind: \"norm\"", "kind: \"copy\""), {"'copy' occurs twice"});
  ExpectRefused(ParseEdited("sustained_fraction: 0.907", "sustained_fraction: 1.3"),
                {"sustained_fraction is 1.3"});
  ExpectRefused(ParseEdited("  device_bandwidth: 25e9\n", ""),
                {"level[1].device_bandwidth", "missing"});
  ExpectRefused(ParseEdited("overlap_contention: 0.125", "overlap_contention: 2"),
                {"overlap_contention is 2"});
}

TEST_CASE("a machine without levels has no way to join devices") {
  std::string text = Text("cpu");
  text = text.substr(0, text.find("level {")) + text.substr(text.find("host {"));
  ExpectRefused(ParseMachine(text, "m"), {"no level"});
}

}  // namespace
}  // namespace tandem
