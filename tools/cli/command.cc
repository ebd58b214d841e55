#include "tools/cli/command.h"

#include <iostream>

namespace tandem::cli {

int Fail(const absl::Status& status) {
  std::cerr << "tandem: " << status.message() << "\n";
  switch (status.code()) {
    case absl::StatusCode::kResourceExhausted:
      return kNo;
    case absl::StatusCode::kInternal:
    case absl::StatusCode::kUnknown:
      return kInternal;
    default:
      return kBadInput;
  }
}

}  // namespace tandem::cli
