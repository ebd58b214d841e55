// Loading by name or content, and summaries.
#include "models/load_model.h"

#include <catch2/catch.hpp>
#include <nlohmann/json.hpp>

#include "models/model_summary.h"
#include "models/zoo.h"
#include "pcg/io/file_io.h"
#include "pcg/program/plan.h"

namespace tandem {
namespace {

std::string ErrorOf(const std::string& path, const LoadOptions& options = {}) {
  const auto graph = LoadModel(path, options, nullptr);
  REQUIRE_FALSE(graph.ok());
  return std::string(graph.status().message());
}

bool Has(const std::string& text, const std::string& part) {
  INFO(text);
  return text.find(part) != std::string::npos;
}

// A file of this test's own folder.
std::string Written(const std::string& name, const std::string& bytes) {
  const char* folder = std::getenv("TEST_TMPDIR");
  const std::string path = std::string(folder != nullptr ? folder : "/tmp") + "/" + name;
  REQUIRE(WriteFileAtomically(path, bytes).ok());
  return path;
}

}  // namespace

TEST_CASE("parameters and FLOPs are the published ones") {
  const auto resnet = Summarize(*ZooModel("resnet50", 8), nullptr);
  REQUIRE(resnet.ok());
  CHECK(resnet->parameters == 25557032);  // torchvision
  CHECK(resnet->trainable_parameters == 25557032);
  CHECK(resnet->forward_flops == 65426948096.0);
  const auto bert = Summarize(*ZooModel("bert-large", 8), nullptr);
  REQUIRE(bert.ok());
  CHECK(bert->parameters == 335174458 - 2 * 1024);  // without token types
  CHECK(bert->forward_flops == 2944686620672.0);
}

TEST_CASE("a summary's JSON has the keys that scripts rely on") {
  ImportReport report;
  report.unsupported.push_back({"Foo", 2, "n", "no \"foo\" here"});
  const auto summary = Summarize(*ZooModel("mlp-tiny", 0), &report);
  REQUIRE(summary.ok());
  const auto json = nlohmann::json::parse(ToJson(*summary));
  CHECK(json["nodes"] == 5);
  CHECK(json["parameters"] == 1062);
  CHECK(json["trainable_parameters"] == 1062);
  CHECK(json["parameter_bytes"] == 4 * 1062);
  CHECK(json["forward_flops"] == 2 * 24 * (12 * 24 + 24 * 24 + 24 * 6));
  CHECK(json["inputs"][0]["name"] == "x");
  CHECK(json["outputs"][0]["shape"] == nlohmann::json({24, 6}));
  CHECK(json["unsupported"][0]["count"] == 2);
}

TEST_CASE("models are loaded by name, and by what a file holds") {
  const Graph mlp = *ZooModel("mlp-tiny", 8);
  LoadOptions eight;
  eight.global_batch = 8;
  for (const std::string& path :
       {std::string("mlp-tiny"), Written("mlp.pb", *SerializeGraph(mlp)),
        Written("mlp", *SerializeGraph(mlp)), Written("mlp.textproto", *GraphToText(mlp)),
        Written("mlp_text", *GraphToText(mlp))}) {
    INFO(path);
    const auto graph = LoadModel(path, eight, nullptr);
    INFO(graph.status());
    REQUIRE(graph.ok());
    CHECK(graph->tensors == mlp.tensors);
    CHECK(graph->nodes == mlp.nodes);
  }
}

TEST_CASE("operators of the command line are known to a text model") {
  const std::string path = Written("user.textproto", R"(
tensor { name: "x" shape: [2, 3] role: INPUT }
node { name: "y" op: "my_op" input: "x" }
output: "y")");
  CHECK(Has(ErrorOf(path), "'my_op'"));
  LoadOptions options;
  options.operators =
      *ParseOperators("operator my_op(x[d..]) -> out[d..] {\n out[i] = x[i] * 3\n}", "my.ops");
  const auto graph = LoadModel(path, options, nullptr);
  INFO(graph.status());
  REQUIRE(graph.ok());
  CHECK(graph->nodes[0].op == "my_op");
}

TEST_CASE("the manual's model loads") {
  const auto manual = ReadFile("docs/formats.md");
  INFO(manual.status());
  REQUIRE(manual.ok());
  const std::string fence = "```textproto model\n";
  const size_t begin = manual->find(fence);
  REQUIRE(begin != std::string::npos);
  const size_t end = manual->find("```", begin + fence.size());
  const std::string text = manual->substr(begin + fence.size(), end - begin - fence.size());
  const auto graph = LoadModel(Written("manual.textproto", text), {}, nullptr);
  INFO(graph.status());
  REQUIRE(graph.ok());
  CHECK(graph->nodes.size() == 5);
  CHECK(PlainShape(graph->tensor(graph->outputs[0]).shape) == std::vector<int64_t>{8, 4});
}

TEST_CASE("what is no model is refused with a remedy") {
  CHECK(Has(ErrorOf("no-such-model"), "bert-large"));
  CHECK(Has(ErrorOf(Written("empty.onnx", "")), "empty.onnx"));
  CHECK(Has(ErrorOf(Written("empty.pb", "")), "empty.pb"));
  CHECK(Has(ErrorOf(Written("noise.onnx", std::string("\x08\x07\xff\x00\x13", 5))),
            "not an ONNX model"));
  CHECK(Has(ErrorOf(Written("words.textproto", "hello world")), ":1:"));
  LoadOptions sixteen;
  sixteen.global_batch = 16;
  const std::string eight = Written("eight.pb", *SerializeGraph(*ZooModel("mlp-tiny", 8)));
  CHECK(Has(ErrorOf(eight, sixteen), "a batch of 8, not 16"));
  LoadOptions dim;
  dim.dims["seq"] = 4;
  CHECK(Has(ErrorOf("mlp-tiny", dim), "'seq'"));
  LoadOptions negative;
  negative.global_batch = -1;
  CHECK(Has(ErrorOf("mlp", negative), "batch of -1"));
}

}  // namespace tandem
