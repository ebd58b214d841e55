// ONNX's own test cases for its operators (Debian's libonnx-testdata), through the importer and the
// reference interpreter. What is not imported must say so; what is imported must be right.
#include <algorithm>
#include <catch2/catch.hpp>
#include <cmath>
#include <filesystem>
#include <map>
#include <set>

#include "models/onnx/file.h"
#include "models/onnx/importer.h"
#include "pcg/graph/interpreter.h"
#include "pcg/io/file_io.h"

namespace tandem {
namespace {

constexpr char kCases[] = "/usr/share/libonnx-testdata/data/node";

enum class Outcome { kPassed, kRefused, kWrong };

struct Result {
  Outcome outcome = Outcome::kRefused;
  std::string message;
};

bool Close(double a, double b) {
  if (std::isnan(a) || std::isnan(b)) return std::isnan(a) && std::isnan(b);
  return a == b || std::fabs(a - b) <= 2e-3 * (1 + std::fabs(b));
}

// `as_weights`: all operands but the first are put into the file, as real models have them.
Result Run(const std::filesystem::path& folder, bool as_weights) {
  onnx::ModelProto model;
  const auto bytes = ReadFile((folder / "model.onnx").string());
  if (!bytes.ok() || !model.ParseFromString(*bytes)) return {Outcome::kRefused, "no model"};
  const auto data = folder / "test_data_set_0";
  std::vector<HostTensor> inputs;
  for (int i = 0; i < model.graph().input_size(); ++i) {
    const auto path = (data / ("input_" + std::to_string(i) + ".pb")).string();
    const auto tensor = ReadOnnxTensorFile(path);
    if (!tensor.ok()) return {Outcome::kRefused, std::string(tensor.status().message())};
    inputs.push_back({tensor->shape, tensor->values});
    if (!as_weights || i == 0) continue;
    onnx::TensorProto* weight = model.mutable_graph()->add_initializer();
    weight->ParseFromString(*ReadFile(path));
    weight->set_name(model.graph().input(i).name());
  }
  ImportReport report;
  const auto graph = ImportOnnxBytes(model.SerializeAsString(), folder.string(), {}, &report);
  if (!graph.ok()) return {Outcome::kRefused, std::string(graph.status().message())};
  std::map<TensorId, HostTensor> sources;
  for (size_t t = 0; t < graph->tensors.size(); ++t) {
    const Tensor& tensor = graph->tensors[t];
    if (tensor.producer.valid()) continue;
    HostTensor& value = sources[TensorId(static_cast<int64_t>(t))];
    value = {PlainShape(tensor.shape), tensor.values};
    for (int i = 0; i < model.graph().input_size(); ++i) {
      if (model.graph().input(i).name() == tensor.name && tensor.role == TensorRole::kInput) {
        value.data = inputs[static_cast<size_t>(i)].data;
      }
    }
  }
  const auto values = EvaluateGraph(*graph, sources, graph->outputs);
  if (!values.ok()) return {Outcome::kWrong, std::string(values.status().message())};
  for (size_t k = 0; k < graph->outputs.size(); ++k) {
    const auto wanted =
        ReadOnnxTensorFile((data / ("output_" + std::to_string(k) + ".pb")).string());
    if (!wanted.ok()) continue;
    const HostTensor& got = values->at(graph->outputs[k]);
    if (got.shape != wanted->shape) return {Outcome::kWrong, "another shape"};
    for (size_t i = 0; i < got.data.size(); ++i) {
      if (Close(got.data[i], wanted->values[i])) continue;
      return {Outcome::kWrong, "output " + std::to_string(k) + "[" + std::to_string(i) + "] is " +
                                   std::to_string(got.data[i]) + ", not " +
                                   std::to_string(wanted->values[i])};
    }
  }
  return {Outcome::kPassed, ""};
}

}  // namespace

TEST_CASE("ONNX's cases for operators are right or refused") {
  if (!std::filesystem::exists(kCases)) {
    WARN("no " << kCases << "; install libonnx-testdata for the conformance cases");
    return;
  }
  const std::set<std::string> excused = {
      // The random numbers are the framework's own.
      "test_training_dropout",
      "test_training_dropout_default",
      "test_training_dropout_default_mask",
      "test_training_dropout_mask",
      // Indices that are inputs are taken to count from the front.
      "test_gather_elements_negative_indices",
      "test_gather_negative_indices",
      "test_onehot_negative_indices",
      "test_scatter_elements_with_negative_indices",
      // Data of bfloat16 that these cases store as another type.
      "test_cast_BFLOAT16_to_FLOAT",
      "test_cast_FLOAT_to_BFLOAT16",
      "test_castlike_BFLOAT16_to_FLOAT",
      "test_castlike_BFLOAT16_to_FLOAT_expanded",
      "test_castlike_FLOAT_to_BFLOAT16",
      "test_castlike_FLOAT_to_BFLOAT16_expanded",
  };
  std::vector<std::string> names;
  for (const auto& entry : std::filesystem::directory_iterator(kCases)) {
    names.push_back(entry.path().filename().string());
  }
  std::sort(names.begin(), names.end());
  int passed = 0, refused = 0;
  for (const std::string& name : names) {
    const std::filesystem::path folder = std::filesystem::path(kCases) / name;
    Result result = Run(folder, false);
    if (result.outcome == Outcome::kRefused) result = Run(folder, true);
    if (std::getenv("VERBOSE") != nullptr && result.outcome == Outcome::kRefused) {
      std::fprintf(stderr, "%s: %s\n", name.c_str(), result.message.c_str());
    }
    passed += result.outcome == Outcome::kPassed;
    refused += result.outcome == Outcome::kRefused;
    if (excused.count(name) != 0) continue;
    INFO(name << ": " << result.message);
    CHECK(result.outcome != Outcome::kWrong);
  }
  std::printf("%d of ONNX's %zu operator cases passed, %d refused\n", passed, names.size(),
              refused);
  CHECK(passed >= 575);
}

}  // namespace tandem
