// Reading ONNX files: bytes to a checked model, tensors to numbers, external data within bounds.
// Nothing is believed: sizes are compared before anything is allocated, names must be unique, the
// nodes must form no cycle. Every error says file, node or tensor, value and remedy.
#ifndef TANDEM_MODELS_ONNX_FILE_H_
#define TANDEM_MODELS_ONNX_FILE_H_

#include <cstdint>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "onnx/onnx.pb.h"
#include "pcg/dtype.h"

namespace tandem {

// A tensor of the file. Weights kept outside and not loaded have no values.
struct OnnxTensor {
  std::string name;
  DType dtype = DType::kF32;
  std::vector<int64_t> shape;
  std::vector<double> values;
  bool known = false;    // values are here (an empty tensor has none, and is known)
  std::string external;  // "file:offset:length" where the data is (or should be)
  bool missing = false;  // external, and the file is not there
};

struct OnnxFile {
  std::string path;       // for messages
  std::string directory;  // where external data lies
  onnx::ModelProto model;
  int opset = 0;
  std::vector<int> order;  // positions of graph.node, producers first
};

// Weights outside the file are loaded while they are no more than this in all.
inline constexpr int64_t kLoadedExternalBytes = int64_t{256} << 20;

absl::StatusOr<OnnxFile> ReadOnnx(const std::string& path);
absl::StatusOr<OnnxFile> ReadOnnxBytes(const std::string& bytes, const std::string& path);

// nullopt-like: an error for types that Tandem has none for (strings, complex numbers, float8).
absl::StatusOr<DType> OnnxDType(int type, const std::string& what);

// `budget` is what may still be loaded from external files; it is reduced by what was.
absl::StatusOr<OnnxTensor> ReadOnnxTensor(const onnx::TensorProto& tensor, const OnnxFile& file,
                                          int64_t* budget);
// A tensor of a file of its own (input_0.pb of ONNX's backend tests).
absl::StatusOr<OnnxTensor> ReadOnnxTensorFile(const std::string& path);

}  // namespace tandem

#endif  // TANDEM_MODELS_ONNX_FILE_H_
