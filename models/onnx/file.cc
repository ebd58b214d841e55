#include "models/onnx/file.h"

#include <cstring>
#include <filesystem>
#include <map>
#include <set>
#include <utility>

#include "absl/container/flat_hash_map.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "pcg/io/file_io.h"

namespace tandem {
namespace {

constexpr int kOldestOpset = 7;
constexpr int64_t kLargestElements = int64_t{1} << 48;
constexpr int64_t kLargestInlineElements = int64_t{1} << 31;

absl::Status Bad(const std::string& where, const std::string& message) {
  return absl::InvalidArgumentError(absl::StrCat(where, ": ", message));
}

std::string NodeName(const onnx::NodeProto& node) {
  if (!node.name().empty()) return node.name();
  return node.output_size() > 0 ? node.output(0) : node.op_type();
}

absl::StatusOr<int64_t> Elements(const onnx::TensorProto& tensor, const std::string& where) {
  int64_t elements = 1;
  for (int64_t extent : tensor.dims()) {
    if (extent < 0 || (extent > 0 && elements > kLargestElements / extent)) {
      return Bad(where, absl::StrCat("dim of ", extent, " makes no tensor that can be stored"));
    }
    elements *= extent;
  }
  return elements;
}

// Bytes of one element in raw data.
int64_t RawBytes(int type) {
  switch (type) {
    case onnx::TensorProto::DOUBLE:
    case onnx::TensorProto::INT64:
    case onnx::TensorProto::UINT64:
      return 8;
    case onnx::TensorProto::FLOAT:
    case onnx::TensorProto::INT32:
    case onnx::TensorProto::UINT32:
      return 4;
    case onnx::TensorProto::FLOAT16:
    case onnx::TensorProto::BFLOAT16:
    case onnx::TensorProto::INT16:
    case onnx::TensorProto::UINT16:
      return 2;
    default:
      return 1;
  }
}

double HalfToDouble(uint16_t half) {
  const int exponent = (half >> 10) & 31;
  const double sign = (half & 0x8000) != 0 ? -1 : 1;
  const double mantissa = half & 1023;
  if (exponent == 31) return mantissa == 0 ? sign * HUGE_VAL : std::nan("");
  if (exponent == 0) return sign * std::ldexp(mantissa, -24);
  return sign * std::ldexp(1024 + mantissa, exponent - 25);
}

double BrainToDouble(uint16_t brain) {
  const uint32_t bits = static_cast<uint32_t>(brain) << 16;
  float value = 0;
  std::memcpy(&value, &bits, sizeof value);
  return value;
}

template <typename T>
double Load(const char* at) {
  T value;
  std::memcpy(&value, at, sizeof value);
  return static_cast<double>(value);
}

double LoadRaw(int type, const char* at) {
  switch (type) {
    case onnx::TensorProto::DOUBLE:
      return Load<double>(at);
    case onnx::TensorProto::INT64:
      return Load<int64_t>(at);
    case onnx::TensorProto::UINT64:
      return Load<uint64_t>(at);
    case onnx::TensorProto::FLOAT:
      return Load<float>(at);
    case onnx::TensorProto::INT32:
      return Load<int32_t>(at);
    case onnx::TensorProto::UINT32:
      return Load<uint32_t>(at);
    case onnx::TensorProto::INT16:
      return Load<int16_t>(at);
    case onnx::TensorProto::UINT16:
      return Load<uint16_t>(at);
    case onnx::TensorProto::INT8:
      return Load<int8_t>(at);
    case onnx::TensorProto::FLOAT16: {
      uint16_t bits = 0;
      std::memcpy(&bits, at, sizeof bits);
      return HalfToDouble(bits);
    }
    case onnx::TensorProto::BFLOAT16: {
      uint16_t bits = 0;
      std::memcpy(&bits, at, sizeof bits);
      return BrainToDouble(bits);
    }
    default:
      return Load<uint8_t>(at);
  }
}

absl::StatusOr<std::vector<double>> FromRaw(int type, const std::string& raw, int64_t elements,
                                            const std::string& where) {
  const int64_t size = RawBytes(type);
  if (static_cast<int64_t>(raw.size()) != elements * size) {
    return Bad(where, absl::StrCat(raw.size(), " bytes of data for ", elements, " elements of ",
                                   size, " bytes"));
  }
  std::vector<double> values(static_cast<size_t>(elements));
  for (size_t i = 0; i < values.size(); ++i) {
    values[i] = LoadRaw(type, raw.data() + i * static_cast<size_t>(size));
  }
  return values;
}

absl::StatusOr<std::vector<double>> FromFields(const onnx::TensorProto& tensor, int64_t elements,
                                               const std::string& where) {
  std::vector<double> values;
  const int type = tensor.data_type();
  switch (type) {
    case onnx::TensorProto::FLOAT:
      values.assign(tensor.float_data().begin(), tensor.float_data().end());
      break;
    case onnx::TensorProto::DOUBLE:
      values.assign(tensor.double_data().begin(), tensor.double_data().end());
      break;
    case onnx::TensorProto::INT64:
      values.assign(tensor.int64_data().begin(), tensor.int64_data().end());
      break;
    case onnx::TensorProto::UINT32:
    case onnx::TensorProto::UINT64:
      values.assign(tensor.uint64_data().begin(), tensor.uint64_data().end());
      break;
    case onnx::TensorProto::FLOAT16:
      for (int32_t bits : tensor.int32_data()) {
        values.push_back(HalfToDouble(static_cast<uint16_t>(bits)));
      }
      break;
    case onnx::TensorProto::BFLOAT16:
      for (int32_t bits : tensor.int32_data()) {
        values.push_back(BrainToDouble(static_cast<uint16_t>(bits)));
      }
      break;
    default:
      values.assign(tensor.int32_data().begin(), tensor.int32_data().end());
      break;
  }
  if (static_cast<int64_t>(values.size()) != elements) {
    return Bad(where, absl::StrCat(values.size(), " values for ", elements, " elements"));
  }
  return values;
}

struct External {
  std::string location;
  int64_t offset = 0;
  int64_t length = -1;
};

absl::StatusOr<External> ExternalOf(const onnx::TensorProto& tensor, const std::string& where) {
  External external;
  for (const auto& entry : tensor.external_data()) {
    bool ok = true;
    if (entry.key() == "location") external.location = entry.value();
    if (entry.key() == "offset") ok = absl::SimpleAtoi(entry.value(), &external.offset);
    if (entry.key() == "length") ok = absl::SimpleAtoi(entry.value(), &external.length);
    if (!ok || external.offset < 0) {
      return Bad(where, absl::StrCat("external data: ", entry.key(), " '", entry.value(),
                                     "' is not a position in a file"));
    }
  }
  const std::filesystem::path path(external.location);
  bool inside = !path.empty() && path.is_relative();
  for (const auto& part : path) inside = inside && part != "..";
  if (!inside) {
    return Bad(where, absl::StrCat("external data in '", external.location,
                                   "': only files beside the model are read; move it there"));
  }
  return external;
}

absl::Status ReadExternal(const onnx::TensorProto& tensor, const OnnxFile& file, int64_t elements,
                          const std::string& where, int64_t* budget, OnnxTensor* out) {
  auto external = ExternalOf(tensor, where);
  if (!external.ok()) return external.status();
  const int64_t bytes = elements * RawBytes(tensor.data_type());
  if (external->length >= 0 && external->length != bytes) {
    return Bad(where, absl::StrCat("external data of ", external->length,
                                   " bytes; the shape and "
                                   "type take ",
                                   bytes));
  }
  out->external = absl::StrCat(external->location, ":", external->offset, ":", bytes);
  const std::filesystem::path path = std::filesystem::path(file.directory) / external->location;
  std::error_code error;
  if (!std::filesystem::exists(path, error)) {
    out->missing = true;
    return absl::OkStatus();
  }
  // A link may not lead out of the model's folder either.
  const auto real = std::filesystem::weakly_canonical(path, error);
  const auto home = std::filesystem::weakly_canonical(
      file.directory.empty() ? std::filesystem::path(".") : std::filesystem::path(file.directory),
      error);
  if (real.string().rfind((home / "").string(), 0) != 0) {
    return Bad(where, absl::StrCat("external data in '", external->location,
                                   "' is a link out of the model's folder; copy it there"));
  }
  const auto size = static_cast<int64_t>(std::filesystem::file_size(path, error));
  if (error || bytes > size || external->offset > size - bytes) {
    return Bad(where, absl::StrCat("external data '", external->location, "' has ", size,
                                   " bytes; the tensor wants ", bytes, " from ", external->offset));
  }
  if (bytes > *budget) return absl::OkStatus();
  auto raw = ReadFilePart(path.string(), external->offset, bytes);
  if (!raw.ok()) return raw.status();
  auto values = FromRaw(tensor.data_type(), *raw, elements, where);
  if (!values.ok()) return values.status();
  *budget -= bytes;
  out->values = *std::move(values);
  out->known = true;
  return absl::OkStatus();
}

// Producers first; the file's own order where it is one.
absl::Status Sort(OnnxFile* file) {
  const onnx::GraphProto& graph = file->model.graph();
  absl::flat_hash_map<std::string, int> producer;  // -1: input or initialiser
  std::set<std::string> initializers;
  for (const auto& tensor : graph.initializer()) {
    if (!initializers.insert(tensor.name()).second) {
      return Bad(file->path, absl::StrCat("two initialisers are named '", tensor.name(), "'"));
    }
    producer.emplace(tensor.name(), -1);
  }
  for (const auto& tensor : graph.sparse_initializer()) {
    return Bad(file->path, absl::StrCat("sparse initialiser '", tensor.values().name(),
                                        "'; export dense weights"));
  }
  std::set<std::string> inputs;
  for (const auto& input : graph.input()) {
    if (!inputs.insert(input.name()).second) {
      return Bad(file->path, absl::StrCat("two inputs are named '", input.name(), "'"));
    }
    producer.emplace(input.name(), -1);
  }
  for (int i = 0; i < graph.node_size(); ++i) {
    for (const std::string& output : graph.node(i).output()) {
      if (output.empty()) continue;
      const auto [it, inserted] = producer.emplace(output, i);
      if (inserted) continue;
      const std::string first = it->second < 0
                                    ? "an input or initialiser"
                                    : absl::StrCat("node '", NodeName(graph.node(it->second)), "'");
      return Bad(file->path, absl::StrCat("node '", NodeName(graph.node(i)), "': its output '",
                                          output, "' is made by ", first, " already"));
    }
  }
  std::vector<int> waits(static_cast<size_t>(graph.node_size()), 0);
  std::vector<std::vector<int>> readers(static_cast<size_t>(graph.node_size()));
  for (int i = 0; i < graph.node_size(); ++i) {
    for (const std::string& input : graph.node(i).input()) {
      if (input.empty()) continue;
      const auto it = producer.find(input);
      if (it == producer.end()) {
        return Bad(file->path, absl::StrCat("node '", NodeName(graph.node(i)), "' (",
                                            graph.node(i).op_type(), ") reads '", input,
                                            "', which nothing makes; export the model again"));
      }
      if (it->second < 0) continue;
      readers[static_cast<size_t>(it->second)].push_back(i);
      ++waits[static_cast<size_t>(i)];
    }
  }
  for (const auto& output : graph.output()) {
    if (producer.count(output.name()) != 0) continue;
    return Bad(file->path, absl::StrCat("output '", output.name(), "' is made by no node"));
  }
  std::set<int> ready;
  for (int i = 0; i < graph.node_size(); ++i) {
    if (waits[static_cast<size_t>(i)] == 0) ready.insert(i);
  }
  while (!ready.empty()) {
    const int i = *ready.begin();
    ready.erase(ready.begin());
    file->order.push_back(i);
    for (int reader : readers[static_cast<size_t>(i)]) {
      if (--waits[static_cast<size_t>(reader)] == 0) ready.insert(reader);
    }
  }
  for (int i = 0; i < graph.node_size(); ++i) {
    if (waits[static_cast<size_t>(i)] == 0) continue;
    return Bad(file->path,
               absl::StrCat("the nodes form a cycle through '", NodeName(graph.node(i)), "' (",
                            graph.node(i).op_type(), "); a model must be acyclic"));
  }
  return absl::OkStatus();
}

}  // namespace

absl::StatusOr<DType> OnnxDType(int type, const std::string& what) {
  switch (type) {
    case onnx::TensorProto::FLOAT:
      return DType::kF32;
    case onnx::TensorProto::DOUBLE:
      return DType::kF64;
    case onnx::TensorProto::FLOAT16:
      return DType::kF16;
    case onnx::TensorProto::BFLOAT16:
      return DType::kBF16;
    case onnx::TensorProto::INT64:
    case onnx::TensorProto::UINT64:
    case onnx::TensorProto::UINT32:
      return DType::kI64;
    case onnx::TensorProto::INT32:
    case onnx::TensorProto::INT16:
    case onnx::TensorProto::UINT16:
    case onnx::TensorProto::INT8:
    case onnx::TensorProto::UINT8:
      return DType::kI32;
    case onnx::TensorProto::BOOL:
      return DType::kBool;
    default:
      return absl::InvalidArgumentError(
          absl::StrCat(what, ": element type ", type,
                       " (strings, complex numbers, 8-bit floats) is not supported; cast it"));
  }
}

absl::StatusOr<OnnxFile> ReadOnnxBytes(const std::string& bytes, const std::string& path) {
  OnnxFile file;
  file.path = path;
  file.directory = std::filesystem::path(path).parent_path().string();
  if (!file.model.ParseFromString(bytes)) {
    return Bad(path, absl::StrCat("not an ONNX model: the protobuf is truncated or damaged (",
                                  bytes.size(), " bytes); download or export it again"));
  }
  const onnx::GraphProto& graph = file.model.graph();
  if (graph.node_size() == 0 || graph.output_size() == 0) {
    return Bad(path, absl::StrCat("not an ONNX model: ", graph.node_size(), " nodes and ",
                                  graph.output_size(), " outputs"));
  }
  for (const auto& import : file.model.opset_import()) {
    if (import.domain().empty() || import.domain() == "ai.onnx") {
      file.opset = static_cast<int>(import.version());
    }
  }
  if (file.opset < kOldestOpset) {
    return Bad(path, absl::StrCat("opset ", file.opset, "; opsets from ", kOldestOpset,
                                  " on are read: convert it with onnx.version_converter"));
  }
  if (absl::Status s = Sort(&file); !s.ok()) return s;
  return file;
}

absl::StatusOr<OnnxFile> ReadOnnx(const std::string& path) {
  auto bytes = ReadFile(path);
  if (!bytes.ok()) return bytes.status();
  return ReadOnnxBytes(*bytes, path);
}

absl::StatusOr<OnnxTensor> ReadOnnxTensor(const onnx::TensorProto& tensor, const OnnxFile& file,
                                          int64_t* budget) {
  const std::string where = absl::StrCat(file.path, ": tensor '", tensor.name(), "'");
  OnnxTensor out;
  out.name = tensor.name();
  auto dtype = OnnxDType(tensor.data_type(), where);
  if (!dtype.ok()) return dtype.status();
  out.dtype = *dtype;
  out.shape.assign(tensor.dims().begin(), tensor.dims().end());
  auto elements = Elements(tensor, where);
  if (!elements.ok()) return elements.status();
  if (tensor.data_location() == onnx::TensorProto::EXTERNAL) {
    if (absl::Status s = ReadExternal(tensor, file, *elements, where, budget, &out); !s.ok()) {
      return s;
    }
    return out;
  }
  if (*elements > kLargestInlineElements) {
    return Bad(where, absl::StrCat(*elements, " elements cannot be inside a file"));
  }
  auto values = tensor.has_raw_data()
                    ? FromRaw(tensor.data_type(), tensor.raw_data(), *elements, where)
                    : FromFields(tensor, *elements, where);
  if (!values.ok()) return values.status();
  out.values = *std::move(values);
  out.known = true;
  return out;
}

absl::StatusOr<OnnxTensor> ReadOnnxTensorFile(const std::string& path) {
  auto bytes = ReadFile(path);
  if (!bytes.ok()) return bytes.status();
  onnx::TensorProto tensor;
  if (!tensor.ParseFromString(*bytes)) {
    return Bad(path, "not an ONNX tensor: the protobuf is truncated or damaged");
  }
  OnnxFile file;
  file.path = path;
  int64_t budget = 0;
  return ReadOnnxTensor(tensor, file, &budget);
}

}  // namespace tandem
