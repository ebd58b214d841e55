#include "pcg/io/proto_io.h"

#include <google/protobuf/descriptor.h>
#include <google/protobuf/io/coded_stream.h>
#include <google/protobuf/io/tokenizer.h>
#include <google/protobuf/io/zero_copy_stream_impl_lite.h>
#include <google/protobuf/message.h>
#include <google/protobuf/text_format.h>
#include <google/protobuf/unknown_field_set.h>

#include <cstdint>
#include <vector>

#include "absl/strings/str_cat.h"
#include "pcg/io/file_io.h"

namespace tandem {
namespace {

using google::protobuf::FieldDescriptor;
using google::protobuf::Message;
using google::protobuf::Reflection;

// Dotted path of the first message that holds an unknown field, or "".
std::string UnknownFieldIn(const Message& message, const std::string& path) {
  const Reflection* reflection = message.GetReflection();
  const auto& unknown = reflection->GetUnknownFields(message);
  if (unknown.field_count() > 0) return absl::StrCat(path, " #", unknown.field(0).number());
  std::vector<const FieldDescriptor*> fields;
  reflection->ListFields(message, &fields);
  for (const FieldDescriptor* field : fields) {
    if (field->cpp_type() != FieldDescriptor::CPPTYPE_MESSAGE) continue;
    const int count = field->is_repeated() ? reflection->FieldSize(message, field) : 1;
    for (int i = 0; i < count; ++i) {
      const Message& child = field->is_repeated()
                                 ? reflection->GetRepeatedMessage(message, field, i)
                                 : reflection->GetMessage(message, field);
      std::string found = UnknownFieldIn(child, absl::StrCat(path, ".", field->name()));
      if (!found.empty()) return found;
    }
  }
  return "";
}

class FirstError : public google::protobuf::io::ErrorCollector {
 public:
  void AddError(int line, int column, const std::string& message) override {
    if (!message_.empty()) return;
    message_ = absl::StrCat(line + 1, ":", column + 1, ": ", message);
  }
  void AddWarning(int, int, const std::string&) override {}
  const std::string& message() const { return message_; }

 private:
  std::string message_;
};

}  // namespace

absl::StatusOr<std::string> ToBytes(const Message& message) {
  const size_t size = message.ByteSizeLong();
  if (size > static_cast<size_t>(kLargestFileBytes)) {
    return absl::ResourceExhaustedError(
        absl::StrCat(size, " bytes do not fit into one protobuf message (", kLargestFileBytes,
                     " at most); keep the weights in an external file"));
  }
  std::string bytes;
  {
    google::protobuf::io::StringOutputStream stream(&bytes);
    google::protobuf::io::CodedOutputStream coded(&stream);
    coded.SetSerializationDeterministic(true);
    if (!message.SerializeToCodedStream(&coded)) {
      return absl::InternalError(absl::StrCat("cannot serialise ", message.GetTypeName()));
    }
  }
  return bytes;
}

absl::StatusOr<std::string> ToText(const Message& message) {
  google::protobuf::TextFormat::Printer printer;
  printer.SetUseShortRepeatedPrimitives(true);
  std::string text;
  if (!printer.PrintToString(message, &text)) {
    return absl::InternalError(absl::StrCat("cannot print ", message.GetTypeName()));
  }
  return text;
}

absl::Status FromBytes(const std::string& bytes, const std::string& file, const std::string& what,
                       Message* message) {
  if (!message->ParseFromString(bytes)) {
    return absl::InvalidArgumentError(absl::StrCat(
        file, ": not ", what, ": the protobuf is truncated, damaged or of another kind (",
        bytes.size(), " bytes); write or export the file again"));
  }
  const std::string unknown = UnknownFieldIn(*message, message->GetDescriptor()->name());
  if (!unknown.empty()) {
    return absl::InvalidArgumentError(
        absl::StrCat(file, ": not ", what, " that this version can read: unknown field ", unknown,
                     "; the file is damaged, of another kind or from a newer version"));
  }
  return absl::OkStatus();
}

absl::Status FromText(const std::string& text, const std::string& file, Message* message) {
  FirstError errors;
  google::protobuf::TextFormat::Parser parser;
  parser.RecordErrorsTo(&errors);
  parser.SetRecursionLimit(100);
  if (!parser.ParseFromString(text, message)) {
    return absl::InvalidArgumentError(absl::StrCat(
        file, ":", errors.message().empty() ? "1:1: not a text protobuf" : errors.message(),
        "; see docs/formats.md for the fields"));
  }
  return absl::OkStatus();
}

}  // namespace tandem
