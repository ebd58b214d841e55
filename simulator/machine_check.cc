#include "simulator/machine_check.h"

#include <cmath>
#include <set>
#include <string>
#include <vector>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "google/protobuf/descriptor.h"
#include "google/protobuf/message.h"
#include "simulator/machine.h"
#include "simulator/machine.pb.h"

namespace tandem {
namespace {

using google::protobuf::FieldDescriptor;
using google::protobuf::Message;
using google::protobuf::Reflection;

constexpr double kLongestSeconds = 100;
constexpr double kSmallestNumber = 1e-15;
constexpr double kLargestNumber = 1e24;

absl::Status Bad(absl::string_view origin, absl::string_view message) {
  return absl::InvalidArgumentError(absl::StrCat(origin, ": ", message));
}

// By the field's name: times may be zero, fractions are at most one, everything else is above zero.
absl::Status CheckNumber(absl::string_view path, const FieldDescriptor& field, double value,
                         absl::string_view origin) {
  const std::string& name = field.name();
  const auto must = [&](absl::string_view what) {
    return Bad(origin, absl::StrCat(path, " is ", value, ", but must be ", what));
  };
  if (!std::isfinite(value)) return must("a finite number");
  // Absurd but finite numbers would make every cost infinite or nothing.
  if (absl::EndsWith(name, "_seconds") && value > kLongestSeconds) {
    return must(absl::StrCat("at most ", kLongestSeconds));
  }
  if (value != 0 && std::abs(value) < kSmallestNumber) {
    return must(absl::StrCat("zero or at least ", kSmallestNumber));
  }
  if (value > kLargestNumber) return must(absl::StrCat("at most ", kLargestNumber));
  if (absl::EndsWith(name, "_seconds") || name == "overlap_contention") {
    if (value < 0) return must("zero or more");
    if (name == "overlap_contention" && value > 1) return must("at most 1");
    return absl::OkStatus();
  }
  if (value <= 0) return must("above zero");
  const bool fraction = absl::EndsWith(name, "_fraction") || name == "efficiency";
  if (fraction && value > 1) return must("at most 1");
  return absl::OkStatus();
}

absl::Status CheckNumbers(const Message& message, const std::string& prefix,
                          absl::string_view origin) {
  const Reflection& reflection = *message.GetReflection();
  std::vector<const FieldDescriptor*> fields;
  reflection.ListFields(message, &fields);
  for (const FieldDescriptor* field : fields) {
    const std::string path = prefix + field->name();
    if (field->cpp_type() == FieldDescriptor::CPPTYPE_MESSAGE) {
      const int count = field->is_repeated() ? reflection.FieldSize(message, field) : 1;
      for (int i = 0; i < count; ++i) {
        const Message& child = field->is_repeated()
                                   ? reflection.GetRepeatedMessage(message, field, i)
                                   : reflection.GetMessage(message, field);
        const std::string where =
            field->is_repeated() ? absl::StrCat(path, "[", i, "].") : path + ".";
        if (absl::Status status = CheckNumbers(child, where, origin); !status.ok()) return status;
      }
      continue;
    }
    double value = 1;
    if (field->cpp_type() == FieldDescriptor::CPPTYPE_DOUBLE)
      value = reflection.GetDouble(message, field);
    if (field->cpp_type() == FieldDescriptor::CPPTYPE_INT32)
      value = reflection.GetInt32(message, field);
    if (field->cpp_type() == FieldDescriptor::CPPTYPE_INT64) {
      value = static_cast<double>(reflection.GetInt64(message, field));
    }
    if (absl::Status status = CheckNumber(path, *field, value, origin); !status.ok()) return status;
  }
  return absl::OkStatus();
}

absl::Status CheckDevice(const simulator::DeviceProto& device, absl::string_view origin) {
  std::set<std::string> precisions;
  for (int i = 0; i < device.contraction_size(); ++i) {
    const std::string& name = device.contraction(i).precision();
    const std::string path = absl::StrCat("device.contraction[", i, "].precision");
    if (!PrecisionFromName(name)) {
      return Bad(origin, absl::StrCat(path, " is '", name,
                                      "', which is none of fp64, fp32, tf32, bf16, fp16, fp8"));
    }
    if (!precisions.insert(name).second)
      return Bad(origin, absl::StrCat(path, " '", name, "' occurs twice"));
  }
  for (const char* needed : {"fp32", "fp64"}) {
    if (precisions.count(needed) == 0) {
      return Bad(origin, absl::StrCat("device.contraction has no rate for ", needed,
                                      ": add a stanza for it"));
    }
  }
  std::set<std::string> missing;
  for (int i = 0; i < kKernelKinds; ++i) {
    const auto kind = static_cast<KernelKind>(i);
    const bool own_form =
        kind == KernelKind::kGemm || kind == KernelKind::kConv || kind == KernelKind::kAttention;
    if (!own_form) missing.insert(std::string(KernelKindName(kind)));
  }
  const std::set<std::string> kinds = missing;
  for (int i = 0; i < device.kernel_kind_size(); ++i) {
    const std::string& name = device.kernel_kind(i).kind();
    const std::string path = absl::StrCat("device.kernel_kind[", i, "].kind");
    if (kinds.count(name) == 0) {
      return Bad(origin, absl::StrCat(path, " is '", name, "', which is none of ",
                                      absl::StrJoin(kinds, ", ")));
    }
    if (missing.erase(name) == 0)
      return Bad(origin, absl::StrCat(path, " '", name, "' occurs twice"));
  }
  if (!missing.empty()) {
    return Bad(origin, absl::StrCat("device.kernel_kind lacks ", absl::StrJoin(missing, ", ")));
  }
  return absl::OkStatus();
}

absl::Status CheckLevels(const simulator::MachineProto& proto, absl::string_view origin) {
  if (proto.level_size() == 0)
    return Bad(origin, "there is no level: add one that says how devices are joined");
  if (proto.level_size() > 4)
    return Bad(origin, absl::StrCat(proto.level_size(), " levels, but at most 4 are supported"));
  for (int i = 0; i < proto.level_size(); ++i) {
    const simulator::LinkLevelProto& level = proto.level(i);
    const std::string path = absl::StrCat("level[", i, "]");
    if (!level.has_extent() && i + 1 < proto.level_size()) {
      return Bad(origin, absl::StrCat(path, " (", level.name(),
                                      ") has no extent, which only the last level may lack"));
    }
    if (level.protocol_size() == 0)
      return Bad(origin, absl::StrCat(path, " (", level.name(), ") has no protocol"));
    if (i == 0 && !level.has_local_copy_bandwidth())
      return Bad(origin, path + ".local_copy_bandwidth is missing");
    if (i > 0 && !level.has_device_bandwidth())
      return Bad(origin, path + ".device_bandwidth is missing");
    for (int j = 1; j < level.all_reduce_factor_size(); ++j) {
      if (level.all_reduce_factor(j).from() <= level.all_reduce_factor(j - 1).from()) {
        return Bad(origin, absl::StrCat(path, ".all_reduce_factor[", j, "].from is ",
                                        level.all_reduce_factor(j).from(),
                                        ", but must be above that of the stanza before"));
      }
    }
  }
  return absl::OkStatus();
}

}  // namespace

absl::Status CheckMachine(const simulator::MachineProto& proto, absl::string_view origin) {
  std::vector<std::string> missing;
  proto.FindInitializationErrors(&missing);
  if (!missing.empty()) {
    return Bad(origin, absl::StrCat("missing ", absl::StrJoin(missing, ", "),
                                    " (docs/machines.md says what each means)"));
  }
  if (absl::Status status = CheckNumbers(proto, "", origin); !status.ok()) return status;
  if (absl::Status status = CheckDevice(proto.device(), origin); !status.ok()) return status;
  return CheckLevels(proto, origin);
}

}  // namespace tandem
