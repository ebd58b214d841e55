#include "pcg/io/file_io.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <cstdio>
#include <cstring>
#include <filesystem>
#include <system_error>

#include "absl/cleanup/cleanup.h"
#include "absl/strings/str_cat.h"

namespace tandem {
namespace {

absl::Status Failed(const char* what, const std::string& path, int error) {
  const std::string message = absl::StrCat(path, ": cannot ", what, ": ", std::strerror(error));
  return error == ENOENT ? absl::NotFoundError(message) : absl::InvalidArgumentError(message);
}

absl::StatusOr<std::string> ReadRange(const std::string& path, int64_t offset, int64_t length,
                                      int64_t largest_bytes) {
  const int fd = ::open(path.c_str(), O_RDONLY | O_CLOEXEC);
  if (fd < 0) return Failed("open", path, errno);
  const auto closer = absl::MakeCleanup([fd] { ::close(fd); });
  struct stat info;
  if (::fstat(fd, &info) != 0) return Failed("stat", path, errno);
  if (!S_ISREG(info.st_mode)) {
    return absl::InvalidArgumentError(absl::StrCat(path, ": not a regular file; give a file"));
  }
  if (length < 0) length = info.st_size;
  if (length > largest_bytes) {
    return absl::InvalidArgumentError(absl::StrCat(path, ": ", length, " bytes, more than the ",
                                                   largest_bytes, " that one file may have"));
  }
  if (offset < 0 || offset > info.st_size || length > info.st_size - offset) {
    return absl::InvalidArgumentError(absl::StrCat(path, ": has ", info.st_size, " bytes; bytes ",
                                                   offset, " to ", offset, " + ", length,
                                                   " are wanted"));
  }
  std::string bytes(static_cast<size_t>(length), '\0');
  size_t done = 0;
  while (done < bytes.size()) {
    const ssize_t n = ::pread(fd, bytes.data() + done, bytes.size() - done,
                              static_cast<off_t>(offset + static_cast<int64_t>(done)));
    if (n < 0 && errno == EINTR) continue;
    if (n < 0) return Failed("read", path, errno);
    if (n == 0) return absl::InvalidArgumentError(absl::StrCat(path, ": became shorter"));
    done += static_cast<size_t>(n);
  }
  return bytes;
}

absl::Status WriteAll(int fd, const std::string& path, const std::string& bytes) {
  size_t done = 0;
  while (done < bytes.size()) {
    const ssize_t n = ::write(fd, bytes.data() + done, bytes.size() - done);
    if (n < 0 && errno == EINTR) continue;
    if (n < 0) return Failed("write", path, errno);
    done += static_cast<size_t>(n);
  }
  // Pipes and terminals cannot be synchronised, and say EINVAL.
  if (::fsync(fd) != 0 && errno != EINVAL) return Failed("write", path, errno);
  return absl::OkStatus();
}

}  // namespace

absl::StatusOr<std::string> ReadFile(const std::string& path, int64_t largest_bytes) {
  return ReadRange(path, 0, -1, largest_bytes);
}

absl::StatusOr<std::string> ReadFilePart(const std::string& path, int64_t offset, int64_t length) {
  if (length < 0) {
    return absl::InvalidArgumentError(absl::StrCat(path, ": negative length ", length));
  }
  return ReadRange(path, offset, length, length);
}

absl::Status WriteFileAtomically(const std::string& path, const std::string& bytes) {
  // A device or a pipe is written to, never replaced.
  struct stat info;
  if (::stat(path.c_str(), &info) == 0 && !S_ISREG(info.st_mode) && !S_ISDIR(info.st_mode)) {
    const int device = ::open(path.c_str(), O_WRONLY | O_CLOEXEC);
    if (device < 0) return Failed("write", path, errno);
    const absl::Status status = WriteAll(device, path, bytes);
    ::close(device);
    return status;
  }
  const std::string beside = absl::StrCat(path, ".", ::getpid(), ".tmp");
  const int fd = ::open(beside.c_str(), O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0644);
  if (fd < 0) return Failed("write", path, errno);
  absl::Status status = WriteAll(fd, path, bytes);
  if (::close(fd) != 0 && status.ok()) status = Failed("write", path, errno);
  if (status.ok() && std::rename(beside.c_str(), path.c_str()) != 0) {
    status = Failed("replace", path, errno);
  }
  if (!status.ok()) ::unlink(beside.c_str());
  return status;
}

absl::Status CreateDirectory(const std::string& path) {
  std::error_code error;
  std::filesystem::create_directories(path, error);
  if (error) {
    return absl::InvalidArgumentError(
        absl::StrCat(path, ": cannot create the directory: ", error.message()));
  }
  if (!std::filesystem::is_directory(path, error)) {
    return absl::InvalidArgumentError(absl::StrCat(path, ": is not a directory"));
  }
  return absl::OkStatus();
}

}  // namespace tandem
