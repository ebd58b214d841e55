// Whole files in and out. Reading refuses what is not a regular file or is larger than a limit, so
// that a wrong path is an error message and not an exhausted memory; writing replaces a file
// atomically, so that a reader sees the old bytes or the new ones.
#ifndef TANDEM_PCG_IO_FILE_IO_H_
#define TANDEM_PCG_IO_FILE_IO_H_

#include <cstdint>
#include <string>

#include "absl/status/status.h"
#include "absl/status/statusor.h"

namespace tandem {

// Protobuf's own limit.
inline constexpr int64_t kLargestFileBytes = (int64_t{1} << 31) - 1;

absl::StatusOr<std::string> ReadFile(const std::string& path,
                                     int64_t largest_bytes = kLargestFileBytes);
// `length` bytes from `offset`; an error if the file is shorter.
absl::StatusOr<std::string> ReadFilePart(const std::string& path, int64_t offset, int64_t length);

// Writes beside the file, then renames.
absl::Status WriteFileAtomically(const std::string& path, const std::string& bytes);
// With all parents; fine if it is there.
absl::Status CreateDirectory(const std::string& path);

}  // namespace tandem

#endif  // TANDEM_PCG_IO_FILE_IO_H_
