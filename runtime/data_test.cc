#include "runtime/data.h"

#include <catch2/catch.hpp>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <random>

#include "onnx/onnx.pb.h"
#include "runtime/run.h"
#include "runtime/test_plans.h"

namespace tandem {
namespace {

namespace fs = std::filesystem;

template <typename T>
onnx::TensorProto Raw(int type, const std::vector<int64_t>& dims, const std::vector<T>& values) {
  onnx::TensorProto proto;
  proto.set_data_type(type);
  for (int64_t d : dims) proto.add_dims(d);
  proto.set_raw_data(
      std::string(reinterpret_cast<const char*>(values.data()), values.size() * sizeof(T)));
  return proto;
}

struct Folder {
  fs::path path;
  Folder() {
    static int count = 0;
    path = fs::path(std::getenv("TEST_TMPDIR") != nullptr ? std::getenv("TEST_TMPDIR") : "/tmp") /
           ("data_test_" + std::to_string(count++));
    fs::remove_all(path);
    fs::create_directories(path);
  }
  void Write(const std::string& name, const std::string& bytes) const {
    fs::create_directories((path / name).parent_path());
    std::ofstream(path / name, std::ios::binary) << bytes;
  }
  void Write(const std::string& name, const onnx::TensorProto& proto) const {
    Write(name, proto.SerializeAsString());
  }
};

TEST_CASE("Element types and both places of values") {
  using P = onnx::TensorProto;
  const auto values = [](const P& proto) {
    return Must(ParseTensorProto(proto.SerializeAsString(), "f")).data;
  };
  const std::vector<double> expected = {1, -2};
  CHECK(values(Raw<float>(P::FLOAT, {2}, {1, -2})) == expected);
  CHECK(values(Raw<double>(P::DOUBLE, {2}, {1, -2})) == expected);
  CHECK(values(Raw<int64_t>(P::INT64, {2}, {1, -2})) == expected);
  CHECK(values(Raw<int32_t>(P::INT32, {2}, {1, -2})) == expected);
  CHECK(values(Raw<int8_t>(P::INT8, {2}, {1, -2})) == expected);
  CHECK(values(Raw<uint16_t>(P::FLOAT16, {2}, {0x3c00, 0xc000})) == expected);
  CHECK(values(Raw<uint16_t>(P::BFLOAT16, {2}, {0x3f80, 0xc000})) == expected);
  CHECK(values(Raw<uint8_t>(P::BOOL, {2}, {1, 0})) == std::vector<double>{1, 0});
  // Subnormal, infinite.
  CHECK(values(Raw<uint16_t>(P::FLOAT16, {2}, {0x0001, 0x7c00})) ==
        std::vector<double>{0x1p-24, std::numeric_limits<double>::infinity()});
  P list;
  list.set_data_type(P::FLOAT);
  list.add_dims(2);
  list.add_float_data(1), list.add_float_data(-2);
  CHECK(values(list) == expected);
  CHECK(
      Must(ParseTensorProto(Raw<float>(P::FLOAT, {}, {3}).SerializeAsString(), "f")).shape.empty());
}

TEST_CASE("Damaged and unreadable tensors are errors that name the file") {
  using P = onnx::TensorProto;
  const auto refuses = [](const std::string& bytes) {
    const auto parsed = ParseTensorProto(bytes, "folder/input_0.pb");
    return !parsed.ok() && std::string(parsed.status().message()).find("folder/input_0.pb") == 0;
  };
  CHECK(refuses(Raw<float>(P::FLOAT, {3}, {1, 2}).SerializeAsString()));
  CHECK(refuses(Raw<float>(P::FLOAT, {-1}, {1}).SerializeAsString()));
  CHECK(
      refuses(Raw<float>(P::FLOAT, {int64_t{1} << 33, int64_t{1} << 33}, {1}).SerializeAsString()));
  CHECK(refuses(Raw<float>(P::STRING, {1}, {1}).SerializeAsString()));
  P external = Raw<float>(P::FLOAT, {1}, {1});
  external.set_data_location(P::EXTERNAL);
  CHECK(refuses(external.SerializeAsString()));
  const std::string good =
      Raw<float>(P::FLOAT, {64}, std::vector<float>(64, 1)).SerializeAsString();
  for (size_t size = 1; size < good.size(); ++size) CHECK(refuses(good.substr(0, size)));
  // Random bytes: an error or a tensor, never a crash.
  std::mt19937 random(1);
  for (int i = 0; i < 500; ++i) {
    std::string bytes = good;
    for (int k = 0; k < 3; ++k) bytes[random() % bytes.size()] = static_cast<char>(random());
    (void)ParseTensorProto(bytes, "f");
  }
}

Plan PlanOfMlp() {
  Plan plan = SerialPlan(MlpModel(4), "sgd");
  Strategy strategy = ReplicatedStrategy(plan.pcg, MeshOf({2}));
  Follow(plan.pcg, 0, {{"x", AxisPlacement::Split(0, 0)}, {"labels", AxisPlacement::Split(0, 0)}},
         false, strategy);
  REQUIRE(Distribute(plan, strategy).ok());
  return plan;
}

void WriteCase(const Folder& folder, const std::string& set, float first_output) {
  using P = onnx::TensorProto;
  folder.Write(set + "input_0.pb", Raw<float>(P::FLOAT, {4, 6}, std::vector<float>(24, 0)));
  folder.Write("labels.pb", Raw<int64_t>(P::INT64, {4}, {0, 1, 2, 3}));
  // x = 0 and b1 = 0: every output is 0.
  std::vector<float> output(24, 0);
  output[0] = first_output;
  folder.Write(set + "output_0.pb", Raw<float>(P::FLOAT, {4, 6}, output));
}

TEST_CASE("A run takes inputs and labels from the folder and compares outputs") {
  Plan plan = PlanOfMlp();
  for (Graph* graph : {&plan.serial, &plan.pcg}) {
    for (Tensor& t : graph->tensors) {
      if (t.name == "b1") t.initializer = "constant(0)";
    }
  }
  const std::string set = GENERATE("", "test_data_set_0/");
  const Folder folder;
  WriteCase(folder, set, 0.25f);
  RunOptions options;
  options.data_folder = folder.path.string();
  options.check = true;
  options.steps = 2;
  RunResult result = Must(RunPlan(plan, options));
  CHECK(*result.outputs_max_abs_difference == 0.25);
  CHECK(result.equal);
  CHECK(result.losses[0] == Approx(std::log(6.0)));
  WriteCase(folder, set, 0);
  result = Must(RunPlan(plan, options));
  CHECK(*result.outputs_max_abs_difference == 0);
}

TEST_CASE("Folders that do not fit the model") {
  using P = onnx::TensorProto;
  const Plan plan = PlanOfMlp();
  const Folder folder;
  RunOptions options;
  options.data_folder = folder.path.string();
  const auto error = [&] { return RunPlan(plan, options).status().ToString(); };
  CHECK(error().find("input_0.pb: is missing; the model's input 0 is 'x'") != std::string::npos);
  WriteCase(folder, "", 0);
  CHECK(error() == "OK");
  folder.Write("input_1.pb", Raw<float>(P::FLOAT, {1}, {1}));
  CHECK(error().find("has 1 inputs only") != std::string::npos);
  fs::remove(folder.path / "input_1.pb");
  folder.Write("input_0.pb", Raw<float>(P::FLOAT, {8, 6}, std::vector<float>(48)));
  CHECK(error().find("'x' has shape (8,6)") != std::string::npos);
  WriteCase(folder, "", 0);
  folder.Write("output_0.pb", Raw<float>(P::FLOAT, {24}, std::vector<float>(24)));
  CHECK(error().find("output_0.pb has shape 24") != std::string::npos);
  fs::remove(folder.path / "output_0.pb");
  folder.Write("labels.pb", std::string("no protobuf"));
  CHECK(error().find("labels.pb") != std::string::npos);
  fs::remove(folder.path / "labels.pb");
  const RunResult seeded = Must(RunPlan(plan, options));
  CHECK(seeded.notes[0].find("no labels.pb") != std::string::npos);
  CHECK_FALSE(seeded.outputs_max_abs_difference.has_value());
}

}  // namespace
}  // namespace tandem
