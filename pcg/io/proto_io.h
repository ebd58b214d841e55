// Protobuf messages from and to bytes and text, with our errors: located, nothing printed on
// stderr, and nothing silently ignored (an unknown field is corruption or a newer version).
#ifndef TANDEM_PCG_IO_PROTO_IO_H_
#define TANDEM_PCG_IO_PROTO_IO_H_

#include <string>

#include "absl/status/status.h"
#include "absl/status/statusor.h"

namespace google {
namespace protobuf {
class Message;
}  // namespace protobuf
}  // namespace google

namespace tandem {

// Same message, same bytes.
absl::StatusOr<std::string> ToBytes(const google::protobuf::Message& message);
absl::StatusOr<std::string> ToText(const google::protobuf::Message& message);

// `what` ("a Tandem graph") and `file` go into messages.
absl::Status FromBytes(const std::string& bytes, const std::string& file, const std::string& what,
                       google::protobuf::Message* message);
// Errors say file:line:column.
absl::Status FromText(const std::string& text, const std::string& file,
                      google::protobuf::Message* message);

}  // namespace tandem

#endif  // TANDEM_PCG_IO_PROTO_IO_H_
