// A machine: identical devices in nodes, joined by levels of links. Read from a textproto
// (machine.proto; the presets of simulator/machines are part of the binary), checked once, then
// plain numbers that the cost functions read.
//
// Invariants of a loaded Machine: every rate is finite and positive, every time is finite and not
// negative; `levels` is innermost first and not empty; devices are numbered so that those of a unit
// of any level are contiguous; there is a contraction rate for every precision (one that the
// hardware lacks runs at the rate of fp32). Units: seconds, bytes, FLOP/s (a multiply-add is two),
// bytes per second.
#ifndef TANDEM_SIMULATOR_MACHINE_H_
#define TANDEM_SIMULATOR_MACHINE_H_

#include <array>
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"

namespace tandem {

// What a contraction is computed in; tf32 is fp32 data on
// tensor cores.
enum class Precision { kFp64, kFp32, kTf32, kBf16, kFp16, kFp8 };
inline constexpr int kPrecisions = 6;
absl::string_view PrecisionName(Precision precision);
std::optional<Precision> PrecisionFromName(absl::string_view name);

// Kinds of kernels that differ in what bounds them. The first three are costed by arithmetic and
// bytes, the rest by the share of the memory bandwidth that kernels of their kind reach.
enum class KernelKind {
  kGemm,
  kConv,
  kAttention,
  kNorm,
  kSoftmax,
  kReduction,
  kPool,
  kEmbedding,
  kElementwise,
  kCopy,
  kOptimizer,
};
inline constexpr int kKernelKinds = 11;
absl::string_view KernelKindName(KernelKind kind);

// t = launch + ((flops / flops_per_second)^q + (bytes / bytes_per_second)^q)^(1/q), q the
// smoothness.
struct ContractionRate {
  double peak_flops =
      0;  // Datasheet; 0 where the hardware has no such units. For utilisation only.
  double flops_per_second = 0;
  double bytes_per_second = 0;
  double launch_seconds = 0;
  double smoothness = 1;
  double conv_fraction = 1;
};

struct AttentionRate {
  double flops_per_second = 0;  // 16-bit, head of 128, long sequences.
  double half_rate_sequence = 0;
  double bytes_per_second = 0;
  double launch_seconds = 0;
  double smoothness = 1;
  double backward_fraction = 1;
};

struct KernelKindRate {
  double efficiency = 1;  // Of memory_bandwidth.
  double launch_seconds = 0;
};

struct Device {
  std::string name;
  int64_t memory_bytes = 0;
  double memory_bandwidth = 0;
  int compute_units = 0;
  double vector_flops_fp32 = 0;
  double vector_flops_fp64 = 0;
  double sustained_fraction = 1;  // Contractions in a long run over those in a short benchmark.
  double unaligned_fraction = 1;
  std::array<ContractionRate, kPrecisions> contraction;
  AttentionRate attention;
  std::array<KernelKindRate, kKernelKinds> kind;
};

struct LinkProtocol {
  std::string name;
  double step_seconds = 0;
  double bandwidth_fraction = 1;
};

struct AllReduceFactor {
  int from = 0;  // Ranks on the innermost level, units on the others.
  double factor = 1;
};

// A level joins `extent` units of the level below: devices on the innermost one, nodes on the last.
struct LinkLevel {
  std::string name;
  int extent = 0;               // 0: as many as there are. On the last level only.
  double bandwidth = 0;         // Innermost: of a device. Others: of a unit's port. Per direction.
  double peer_bandwidth = 0;    // Innermost, without a switch: of one pair; 0 with a switch.
  double device_bandwidth = 0;  // Others: what one device drives of the port.
  double launch_seconds = 0;
  std::vector<LinkProtocol> protocols;
  double efficiency = 1;
  std::vector<AllReduceFactor> all_reduce_factors;  // Ascending in `from`.
  double all_to_all_factor = 1;
  double local_copy_bandwidth = 0;  // Innermost only.
};

struct Host {
  double kernel_launch_seconds = 0;
  double collective_launch_seconds = 0;
  double step_seconds = 0;
};

struct Machine {
  std::string name;
  std::string description;
  Device device;
  std::vector<LinkLevel> levels;
  Host host;
  double overlap_contention =
      0;  // Overlapping a with b seconds takes max(a, b) + this * min(a, b).
  bool asynchronous_communication = true;  // Collectives run beside kernels.
  int devices = 0;
  int devices_per_node = 0;  // Of a whole node, also where only a part of one is used.
  int nodes = 0;
};

// How much of a machine: nothing (its default), nodes, devices, or both where they agree. Devices
// are less than one node or whole nodes.
struct MachineSize {
  std::optional<int64_t> nodes = std::nullopt;
  std::optional<int64_t> devices = std::nullopt;
};

struct MachineSummary {
  std::string name;
  std::string description;
};

// The presets, by name.
std::vector<MachineSummary> ListMachines();

// The textproto of a preset or file, comments and sources included. NotFound lists the presets.
absl::StatusOr<std::string> MachineText(absl::string_view name_or_path);

// Reads, checks and sizes a machine. InvalidArgument names the file, the field and its value, and
// what to do.
absl::StatusOr<Machine> LoadMachine(absl::string_view name_or_path, const MachineSize& size = {});

// The same from text; `origin` stands for the file in errors.
absl::StatusOr<Machine> ParseMachine(absl::string_view text, absl::string_view origin,
                                     const MachineSize& size = {});

}  // namespace tandem

#endif  // TANDEM_SIMULATOR_MACHINE_H_
