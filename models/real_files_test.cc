// Real exported models, where there are some: the files in ../shared beside the checkout (published
// counts of parameters and FLOPs; small models with PyTorch's outputs). Without them the cases say
// so and pass.
#include <catch2/catch.hpp>
#include <cmath>
#include <cstdlib>
#include <filesystem>
#include <map>
#include <nlohmann/json.hpp>

#include "models/load_model.h"
#include "models/model_summary.h"
#include "models/onnx/file.h"
#include "pcg/autodiff/training.h"
#include "pcg/graph/interpreter.h"
#include "pcg/io/file_io.h"

namespace tandem {
namespace {

namespace fs = std::filesystem;

// ../shared/NAME beside the sources' folder, or nothing. The runfiles are links to the sources.
fs::path Shared(const std::string& name) {
  std::error_code error;
  const fs::path source = fs::canonical("models/zoo.h", error);
  if (error) return {};
  for (fs::path at = source.parent_path(); at.has_relative_path(); at = at.parent_path()) {
    const fs::path found = at.parent_path() / "shared" / name;
    if (fs::exists(found, error)) return found;
  }
  WARN("no ../shared/" << name << " beside the checkout: real files are not tried");
  return {};
}

struct Expected {
  const char* file;
  int64_t batch;  // 0 = as exported
  double parameters;
  double flops;  // 0 = not published
  std::map<std::string, int64_t> dims;
};

}  // namespace

TEST_CASE("real exports have the published parameters and FLOPs") {
  const fs::path folder = Shared("models");
  if (folder.empty()) return;
  const Expected expected[] = {
      {"tv_resnet50", 0, 25557032, 65426948096, {}},
      {"tv_resnet50_train", 8, 25557032, 65426948096, {}},
      {"tv_resnext50_32x4d", 8, 25028904, 67687677952, {}},
      {"tv_inception_v3", 0, 23834568, 91411457536, {}},
      {"tv_mobilenet_v3_large", 0, 5483032, 3465436160, {}},
      {"tv_vit_b_16", 0, 86567656, 281021251584, {}},
      {"hf_bert_large", 0, 335174458, 2944686620672, {}},
      {"hf_gpt2_medium", 0, 354823168, 3307804295168, {}},
      {"hf_llama3_8b", 0, 8030261248, 158140695838720, {}},
      {"hf_t5_large", 0, 737668096, 1925570887680, {}},
      {"hf_mixtral_4layer", 0, 24.27e9 / 4, 0, {}},
      {"hf_distilbert_opset17_dynamic", 4, 66955010, 0, {{"seq", 64}}},
      {"light_resnet50", 0, 25557032, 0, {}},
      {"light_vgg19", 0, 143667240, 0, {}},
      // A changed batch changes the FLOPs in proportion.
      {"hf_bert_large", 256, 335174458, 32 * 2944686620672.0, {}},
      {"hf_llama3_8b", 32, 8030261248, 32 * 158140695838720.0, {}},
      {"tv_vit_b_16", 24, 86567656, 3 * 281021251584.0, {}},
      {"hf_t5_large", 8, 737668096, 2 * 1925570887680.0, {}},
      {"hf_gpt2_medium", 12, 354823168, 3 * 3307804295168.0, {}},
  };
  for (const Expected& one : expected) {
    const std::string path = (folder / (std::string(one.file) + ".onnx")).string();
    INFO(path << " at batch " << one.batch);
    if (!fs::exists(path)) continue;
    LoadOptions options;
    options.global_batch = one.batch;
    options.dims = one.dims;
    ImportReport report;
    const auto graph = LoadModel(path, options, &report);
    INFO(graph.status());
    REQUIRE(graph.ok());
    const auto summary = Summarize(*graph, &report);
    REQUIRE(summary.ok());
    CHECK(std::fabs(static_cast<double>(summary->parameters) / one.parameters - 1) < 0.01);
    if (one.flops > 0) CHECK(std::fabs(summary->forward_flops / one.flops - 1) < 0.01);
    if (one.batch > 0) CHECK(graph->batch == one.batch);
    // Guards of masks that the data decides stay; all others are proved needless.
    if (!one.dims.empty()) continue;
    for (const Node& node : graph->nodes) CHECK(node.op != "isnan");
  }
}

TEST_CASE("small real models give PyTorch's outputs and losses") {
  const fs::path folder = Shared("numeric");
  if (folder.empty()) return;
  for (const auto& entry : fs::directory_iterator(folder)) {
    if (!entry.is_directory()) continue;
    INFO(entry.path());
    const fs::path data = entry.path() / "test_data_set_0";
    const auto input = ReadOnnxTensorFile((data / "input_0.pb").string());
    REQUIRE(input.ok());
    LoadOptions options;
    options.global_batch = input->shape[0];
    const auto graph = LoadModel((entry.path() / "model.onnx").string(), options, nullptr);
    INFO(graph.status());
    REQUIRE(graph.ok());
    std::map<TensorId, HostTensor> sources;
    int k = 0;
    for (size_t t = 0; t < graph->tensors.size(); ++t) {
      const Tensor& tensor = graph->tensors[t];
      if (tensor.producer.valid() || tensor.role == TensorRole::kInput) continue;
      CHECK_FALSE(tensor.values.empty());
      sources[TensorId(static_cast<int64_t>(t))] = {PlainShape(tensor.shape), tensor.values};
    }
    for (TensorId id : graph->inputs) {
      const auto tensor =
          ReadOnnxTensorFile((data / ("input_" + std::to_string(k++) + ".pb")).string());
      REQUIRE(tensor.ok());
      sources[id] = {tensor->shape, tensor->values};
    }
    const auto values = EvaluateGraph(*graph, sources, graph->outputs);
    INFO(values.status());
    REQUIRE(values.ok());
    const auto wanted = ReadOnnxTensorFile((data / "output_0.pb").string());
    REQUIRE(wanted.ok());
    const HostTensor& got = values->at(graph->outputs[0]);
    REQUIRE(got.shape == wanted->shape);
    double worst = 0;
    for (size_t i = 0; i < got.data.size(); ++i) {
      worst = std::max(worst, std::fabs(got.data[i] - wanted->values[i]));
    }
    CHECK(worst < 1e-6);

    // Five steps of plain SGD, the loss taken before each update.
    const auto training =
        nlohmann::json::parse(*ReadFile((entry.path() / "training.json").string()));
    TrainingOptions how;
    how.optimizer = training["optimizer"];
    how.loss = training["loss"];
    how.precision = DType::kF64;
    const auto step = MakeTrainingGraph(*graph, how);
    INFO(step.status());
    REQUIRE(step.ok());
    std::map<std::string, HostTensor> by_name;
    for (const auto& [id, value] : sources) by_name[graph->tensor(id).name] = value;
    const auto labels = ReadOnnxTensorFile((entry.path() / "labels.pb").string());
    REQUIRE(labels.ok());
    by_name["labels"] = {labels->shape, labels->values};
    by_name["lr"] = {{}, {training["lr"].get<double>()}};
    for (size_t i = 0; i < training["losses"].size(); ++i) {
      std::map<TensorId, HostTensor> now;
      for (size_t t = 0; t < step->tensors.size(); ++t) {
        const Tensor& tensor = step->tensors[t];
        if (tensor.producer.valid()) continue;
        const auto found = by_name.find(tensor.name);
        if (found == by_name.end())
          by_name[tensor.name] = {PlainShape(tensor.shape), tensor.values};
        now[TensorId(static_cast<int64_t>(t))] = by_name[tensor.name];
      }
      std::vector<TensorId> asked = {*step->loss};
      for (const StateUpdate& update : step->updates) asked.push_back(update.next);
      const auto after = EvaluateGraph(*step, now, asked);
      INFO(after.status());
      REQUIRE(after.ok());
      const double loss = after->at(*step->loss).data[0];
      const double expected_loss = training["losses"][i];
      CHECK(std::fabs(loss / expected_loss - 1) < 1e-5);
      for (const StateUpdate& update : step->updates) {
        by_name[step->tensor(update.state).name] = after->at(update.next);
      }
    }
  }
}

}  // namespace tandem
