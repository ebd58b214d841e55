// What a machine file must satisfy, apart from its size: complete, finite, positive, consistent
// levels.
#ifndef TANDEM_SIMULATOR_MACHINE_CHECK_H_
#define TANDEM_SIMULATOR_MACHINE_CHECK_H_

#include "absl/status/status.h"
#include "absl/strings/string_view.h"

namespace tandem {

namespace simulator {
class MachineProto;
}

// InvalidArgument names `origin`, the field by its path (level[1].bandwidth) and its value.
absl::Status CheckMachine(const simulator::MachineProto& proto, absl::string_view origin);

}  // namespace tandem

#endif  // TANDEM_SIMULATOR_MACHINE_CHECK_H_
