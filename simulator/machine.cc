#include "simulator/machine.h"

#include <utility>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "google/protobuf/io/tokenizer.h"
#include "google/protobuf/text_format.h"
#include "pcg/io/file_io.h"
#include "simulator/machine.pb.h"
#include "simulator/machine_check.h"
#include "simulator/machine_presets.h"

namespace tandem {
namespace {

using simulator::MachineProto;

constexpr absl::string_view kPrecisionNames[kPrecisions] = {"fp64", "fp32", "tf32",
                                                            "bf16", "fp16", "fp8"};
constexpr absl::string_view kKindNames[kKernelKinds] = {
    "gemm", "conv",      "attention",   "norm", "softmax",  "reduction",
    "pool", "embedding", "elementwise", "copy", "optimizer"};
constexpr int64_t kMaxDevices = 1 << 20;

class Errors : public google::protobuf::io::ErrorCollector {
 public:
  explicit Errors(absl::string_view origin) : origin_(origin) {}
  void AddError(int line, int column, const std::string& message) override {
    if (first_.empty())
      first_ = absl::StrCat(origin_, ":", line + 1, ":", column + 1, ": ", message);
  }
  void AddWarning(int, int, const std::string&) override {}
  const std::string& first() const { return first_; }

 private:
  std::string origin_;
  std::string first_;
};

absl::Status Bad(absl::string_view origin, absl::string_view message) {
  return absl::InvalidArgumentError(absl::StrCat(origin, ": ", message));
}

Device MakeDevice(const simulator::DeviceProto& proto) {
  Device device;
  device.name = proto.name();
  device.memory_bytes = proto.memory_bytes();
  device.memory_bandwidth = proto.memory_bandwidth();
  device.compute_units = proto.compute_units();
  device.vector_flops_fp32 = proto.vector_flops_fp32();
  device.vector_flops_fp64 = proto.vector_flops_fp64();
  device.sustained_fraction = proto.sustained_fraction();
  device.unaligned_fraction = proto.unaligned_fraction();
  std::array<bool, kPrecisions> given{};
  for (const auto& rate : proto.contraction()) {
    const int index = static_cast<int>(*PrecisionFromName(rate.precision()));
    device.contraction[index] = {rate.peak_flops(),       rate.flops_per_second(),
                                 rate.bytes_per_second(), rate.launch_seconds(),
                                 rate.smoothness(),       rate.conv_fraction()};
    given[index] = true;
  }
  for (int i = 0; i < kPrecisions; ++i) {
    if (given[i]) continue;
    device.contraction[i] = device.contraction[static_cast<int>(Precision::kFp32)];
    device.contraction[i].peak_flops = 0;
  }
  const auto& attention = proto.attention();
  device.attention = {attention.flops_per_second(), attention.half_rate_sequence(),
                      attention.bytes_per_second(), attention.launch_seconds(),
                      attention.smoothness(),       attention.backward_fraction()};
  for (const auto& rate : proto.kernel_kind()) {
    for (int i = 0; i < kKernelKinds; ++i) {
      if (KernelKindName(static_cast<KernelKind>(i)) == rate.kind())
        device.kind[i] = {rate.efficiency(), rate.launch_seconds()};
    }
  }
  return device;
}

LinkLevel MakeLevel(const simulator::LinkLevelProto& proto) {
  LinkLevel level;
  level.name = proto.name();
  level.extent = proto.extent();
  level.bandwidth = proto.bandwidth();
  level.peer_bandwidth = proto.peer_bandwidth();
  level.device_bandwidth = proto.device_bandwidth();
  level.launch_seconds = proto.launch_seconds();
  for (const auto& protocol : proto.protocol()) {
    level.protocols.push_back(
        {protocol.name(), protocol.step_seconds(), protocol.bandwidth_fraction()});
  }
  level.efficiency = proto.efficiency();
  for (const auto& factor : proto.all_reduce_factor()) {
    level.all_reduce_factors.push_back({factor.from(), factor.factor()});
  }
  level.all_to_all_factor = proto.all_to_all_factor();
  level.local_copy_bandwidth = proto.local_copy_bandwidth();
  return level;
}

// Sets devices, devices_per_node and nodes.
absl::Status SetSize(const MachineSize& size, int default_devices, absl::string_view origin,
                     Machine& machine) {
  for (const auto& [name, value] :
       {std::pair{"nodes", size.nodes}, std::pair{"devices", size.devices}}) {
    if (!value) continue;
    if (*value <= 0)
      return Bad(origin, absl::StrCat(*value, " ", name, ": a machine has at least one"));
    if (*value > kMaxDevices) {
      return Bad(origin, absl::StrCat(*value, " ", name, ": more than the ", kMaxDevices,
                                      " that are supported"));
    }
  }
  // One level without an extent: one node of any size.
  const bool one_node = machine.levels.size() == 1 && machine.levels[0].extent == 0;
  if (one_node) {
    if (size.nodes && *size.nodes > 1) {
      return Bad(origin, absl::StrCat(machine.name, " is one node of any number of devices, ",
                                      *size.nodes, " nodes were asked for: use devices instead"));
    }
    machine.devices = static_cast<int>(size.devices.value_or(default_devices));
    machine.devices_per_node = machine.devices;
    machine.nodes = 1;
    return absl::OkStatus();
  }
  int64_t per_node = 1;
  for (const LinkLevel& level : machine.levels) {
    if (level.extent != 0) per_node *= level.extent;
    if (per_node > kMaxDevices)
      return Bad(origin, "the extents of the levels multiply to more devices than supported");
  }
  const bool one_level = machine.levels.back().extent != 0;  // No level between nodes.
  int64_t devices = default_devices;
  if (size.nodes) devices = *size.nodes * per_node;
  if (size.devices) {
    if (size.nodes && *size.devices != devices) {
      return Bad(origin, absl::StrCat(*size.nodes, " nodes of ", machine.name, " are ", devices,
                                      " devices, not ", *size.devices, ": give one of the two"));
    }
    devices = *size.devices;
  }
  if (devices > per_node && devices % per_node != 0) {
    const int64_t below = devices / per_node * per_node;
    return Bad(origin, absl::StrCat(devices, " devices are not whole nodes of ", machine.name,
                                    ", which have ", per_node, " each; the nearest are ", below,
                                    " and ", below + per_node, " (or fewer than ", per_node, ")"));
  }
  if (devices > kMaxDevices) {
    return Bad(origin, absl::StrCat(devices, " devices: more than the ", kMaxDevices,
                                    " that are supported"));
  }
  if (one_level && devices > per_node) {
    return Bad(origin, absl::StrCat(devices, " devices, but ", machine.name,
                                    " has no level that joins nodes of ", per_node,
                                    ": add one to its file"));
  }
  machine.devices = static_cast<int>(devices);
  machine.devices_per_node = static_cast<int>(per_node);
  machine.nodes = static_cast<int>((devices + per_node - 1) / per_node);
  return absl::OkStatus();
}

std::string PresetNames() {
  std::vector<std::string> names;
  for (const MachineSummary& summary : ListMachines()) names.push_back(summary.name);
  return absl::StrJoin(names, ", ");
}

}  // namespace

absl::string_view PrecisionName(Precision precision) {
  return kPrecisionNames[static_cast<int>(precision)];
}

std::optional<Precision> PrecisionFromName(absl::string_view name) {
  for (int i = 0; i < kPrecisions; ++i) {
    if (kPrecisionNames[i] == name) return static_cast<Precision>(i);
  }
  return std::nullopt;
}

absl::string_view KernelKindName(KernelKind kind) { return kKindNames[static_cast<int>(kind)]; }

std::vector<MachineSummary> ListMachines() {
  std::vector<MachineSummary> result;
  for (int i = 0; i < kMachinePresetCount; ++i) {
    const auto machine = ParseMachine(kMachinePresets[i].text, kMachinePresets[i].name);
    // A preset that does not load is still listed; a test walks all of them.
    result.push_back({kMachinePresets[i].name,
                      machine.ok() ? machine->description : machine.status().ToString()});
  }
  return result;
}

absl::StatusOr<std::string> MachineText(absl::string_view name_or_path) {
  for (int i = 0; i < kMachinePresetCount; ++i) {
    if (name_or_path == kMachinePresets[i].name) return std::string(kMachinePresets[i].text);
  }
  absl::StatusOr<std::string> text = ReadFile(std::string(name_or_path));
  if (!text.ok()) {
    return absl::NotFoundError(absl::StrCat(
        "machine '", name_or_path, "' is neither a preset (", PresetNames(),
        ") nor a readable file with a machine description: ", text.status().message()));
  }
  return text;
}

absl::StatusOr<Machine> LoadMachine(absl::string_view name_or_path, const MachineSize& size) {
  absl::StatusOr<std::string> text = MachineText(name_or_path);
  if (!text.ok()) return text.status();
  return ParseMachine(*text, name_or_path, size);
}

absl::StatusOr<Machine> ParseMachine(absl::string_view text, absl::string_view origin,
                                     const MachineSize& size) {
  MachineProto proto;
  google::protobuf::TextFormat::Parser parser;
  Errors errors(origin);
  parser.RecordErrorsTo(&errors);
  parser.AllowPartialMessage(true);  // CheckMachine names what is missing by its path.
  parser.SetRecursionLimit(20);
  if (!parser.ParseFromString(std::string(text), &proto)) {
    return absl::InvalidArgumentError(errors.first().empty()
                                          ? absl::StrCat(origin, ": not a machine description")
                                          : errors.first());
  }
  if (absl::Status status = CheckMachine(proto, origin); !status.ok()) return status;
  Machine machine;
  machine.name = proto.name();
  machine.description = proto.description();
  machine.device = MakeDevice(proto.device());
  for (const auto& level : proto.level()) machine.levels.push_back(MakeLevel(level));
  machine.host = {proto.host().kernel_launch_seconds(), proto.host().collective_launch_seconds(),
                  proto.host().step_seconds()};
  machine.overlap_contention = proto.overlap_contention();
  machine.asynchronous_communication = proto.asynchronous_communication();
  if (absl::Status status = SetSize(size, proto.default_devices(), origin, machine); !status.ok())
    return status;
  return machine;
}

}  // namespace tandem
