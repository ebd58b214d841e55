#include "runtime/data.h"

#include <cmath>
#include <cstdint>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <limits>
#include <system_error>

#include "absl/strings/str_cat.h"
#include "onnx/onnx.pb.h"

namespace tandem {
namespace {

namespace fs = std::filesystem;

absl::StatusOr<std::string> ReadFile(const fs::path& path) {
  std::ifstream stream(path, std::ios::binary);
  std::string bytes((std::istreambuf_iterator<char>(stream)), std::istreambuf_iterator<char>());
  if (!stream && bytes.empty()) {
    return absl::NotFoundError(absl::StrCat(path.string(), ": cannot be read"));
  }
  return bytes;
}

bool Exists(const fs::path& path) {
  std::error_code error;
  return fs::exists(path, error);
}

double HalfToDouble(uint16_t bits) {
  const int exponent = (bits >> 10) & 31;
  const double fraction = bits & 1023;
  const double sign = (bits & 0x8000) != 0 ? -1 : 1;
  if (exponent == 31) {
    return fraction == 0 ? sign * std::numeric_limits<double>::infinity() : std::nan("");
  }
  return exponent == 0 ? sign * std::ldexp(fraction, -24)
                       : sign * std::ldexp(1024 + fraction, exponent - 25);
}

double BFloatToDouble(uint16_t bits) {
  const uint32_t wide = static_cast<uint32_t>(bits) << 16;
  float value = 0;
  std::memcpy(&value, &wide, sizeof value);
  return value;
}

// raw_data is little-endian, as are the machines this runs on.
template <typename T, typename F>
std::vector<double> FromRaw(const std::string& raw, F convert) {
  std::vector<double> values(raw.size() / sizeof(T));
  for (size_t i = 0; i < values.size(); ++i) {
    T value;
    std::memcpy(&value, raw.data() + i * sizeof(T), sizeof(T));
    values[i] = convert(value);
  }
  return values;
}
template <typename T>
std::vector<double> FromRaw(const std::string& raw) {
  return FromRaw<T>(raw, [](T v) { return static_cast<double>(v); });
}

template <typename List>
std::vector<double> FromList(const List& list) {
  return {list.begin(), list.end()};
}

absl::StatusOr<std::vector<double>> ValuesOf(const onnx::TensorProto& t, const std::string& file) {
  const std::string& raw = t.raw_data();
  const bool is_raw = t.has_raw_data();
  switch (t.data_type()) {
    case onnx::TensorProto::FLOAT:
      return is_raw ? FromRaw<float>(raw) : FromList(t.float_data());
    case onnx::TensorProto::DOUBLE:
      return is_raw ? FromRaw<double>(raw) : FromList(t.double_data());
    case onnx::TensorProto::INT64:
      return is_raw ? FromRaw<int64_t>(raw) : FromList(t.int64_data());
    case onnx::TensorProto::INT32:
      return is_raw ? FromRaw<int32_t>(raw) : FromList(t.int32_data());
    case onnx::TensorProto::INT8:
      return is_raw ? FromRaw<int8_t>(raw) : FromList(t.int32_data());
    case onnx::TensorProto::UINT8:
    case onnx::TensorProto::BOOL:
      return is_raw ? FromRaw<uint8_t>(raw) : FromList(t.int32_data());
    case onnx::TensorProto::FLOAT16:
    case onnx::TensorProto::BFLOAT16: {
      const auto convert = [&](uint16_t bits) {
        return t.data_type() == onnx::TensorProto::FLOAT16 ? HalfToDouble(bits)
                                                           : BFloatToDouble(bits);
      };
      if (is_raw) return FromRaw<uint16_t>(raw, convert);
      std::vector<double> values;
      for (int32_t bits : t.int32_data()) values.push_back(convert(static_cast<uint16_t>(bits)));
      return values;
    }
    default:
      return absl::InvalidArgumentError(absl::StrCat(
          file, ": elements of ONNX type ", t.data_type(),
          " are not read; store float, double, float16, bfloat16, bool or an integer"));
  }
}

}  // namespace

absl::StatusOr<HostTensor> ParseTensorProto(const std::string& bytes, const std::string& file) {
  onnx::TensorProto proto;
  if (!proto.ParseFromString(bytes)) {
    return absl::InvalidArgumentError(
        absl::StrCat(file, ": is not a TensorProto (", bytes.size(), " bytes)"));
  }
  if (proto.data_location() == onnx::TensorProto::EXTERNAL) {
    return absl::InvalidArgumentError(
        absl::StrCat(file, ": its data lie in another file; store them inside"));
  }
  HostTensor tensor;
  int64_t elements = 1;
  for (int64_t dim : proto.dims()) {
    if (dim < 0 || (dim > 0 && elements > (int64_t{1} << 40) / dim)) {
      return absl::InvalidArgumentError(absl::StrCat(file, ": has a dim of ", dim));
    }
    elements *= dim;
    tensor.shape.push_back(dim);
  }
  absl::StatusOr<std::vector<double>> values = ValuesOf(proto, file);
  if (!values.ok()) return values.status();
  tensor.data = *std::move(values);
  if (static_cast<int64_t>(tensor.data.size()) != elements) {
    return absl::InvalidArgumentError(
        absl::StrCat(file, ": its dims say ", elements, " elements, it has ", tensor.data.size()));
  }
  return tensor;
}

absl::StatusOr<RunData> ReadRunData(const std::string& folder, const Graph& forward,
                                    const Graph& training) {
  fs::path root = folder;
  if (!Exists(root)) {
    return absl::NotFoundError(absl::StrCat(folder, ": no such folder"));
  }
  if (!Exists(root / "input_0.pb") && Exists(root / "test_data_set_0")) root /= "test_data_set_0";
  const auto read = [](const fs::path& path) -> absl::StatusOr<HostTensor> {
    absl::StatusOr<std::string> bytes = ReadFile(path);
    if (!bytes.ok()) return bytes.status();
    return ParseTensorProto(*bytes, path.string());
  };
  RunData data;
  std::vector<std::string> names;
  for (TensorId id : forward.inputs) {
    if (forward.tensor(id).role == TensorRole::kInput) names.push_back(forward.tensor(id).name);
  }
  for (size_t k = 0; k < names.size(); ++k) {
    const fs::path path = root / absl::StrCat("input_", k, ".pb");
    if (!Exists(path)) {
      return absl::NotFoundError(absl::StrCat(path.string(), ": is missing; the model's input ", k,
                                              " is '", names[k], "'"));
    }
    absl::StatusOr<HostTensor> tensor = read(path);
    if (!tensor.ok()) return tensor.status();
    data.inputs[names[k]] = *std::move(tensor);
  }
  const fs::path extra = root / absl::StrCat("input_", names.size(), ".pb");
  if (Exists(extra)) {
    return absl::InvalidArgumentError(
        absl::StrCat(extra.string(), ": the model has ", names.size(), " inputs only"));
  }
  for (TensorId id : training.inputs) {
    if (training.tensor(id).name != "labels" || data.inputs.count("labels") > 0) continue;
    for (const fs::path& path : {root / "labels.pb", root.parent_path() / "labels.pb"}) {
      if (!Exists(path)) continue;
      absl::StatusOr<HostTensor> tensor = read(path);
      if (!tensor.ok()) return tensor.status();
      data.inputs["labels"] = *std::move(tensor);
      break;
    }
  }
  for (size_t k = 0; k < forward.outputs.size(); ++k) {
    const fs::path path = root / absl::StrCat("output_", k, ".pb");
    if (!Exists(path)) continue;
    absl::StatusOr<HostTensor> tensor = read(path);
    if (!tensor.ok()) return tensor.status();
    data.outputs[static_cast<int>(k)] = *std::move(tensor);
  }
  return data;
}

}  // namespace tandem
