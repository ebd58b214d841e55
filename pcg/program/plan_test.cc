// Protobuf and text forms: round trips, hand-written models, and damaged files.
#include "pcg/program/plan.h"

#include <unistd.h>

#include <catch2/catch.hpp>
#include <filesystem>
#include <fstream>
#include <random>

#include "pcg/io/file_io.h"
#include "pcg/program/lower.h"

namespace tandem {
namespace {

constexpr char kSwiglu[] = R"txt(
name: "gated"
operators: "operator my_gate(x[d..], y[d..]) -> out[d..] { out[i] = x[i] / (1 + exp(-x[i])) * y[i] }"
tensor { name: "x" shape: [4, 8] role: INPUT }
tensor { name: "a" shape: [8, 6] role: PARAMETER initializer: "normal(0.02)" }
tensor { name: "b" shape: [8, 6] role: PARAMETER values: [)txt";

std::string Gated() {
  std::string text = kSwiglu;
  for (int i = 0; i < 48; ++i) text += (i ? ", " : "") + std::to_string(i) + ".5";
  return text + R"(] }
# Out of order on purpose: g is made below.
node { name: "g" op: "my_gate" input: ["u", "v"] }
node { name: "u" op: "matmul" input: ["x", "a"] block: 3 }
node { name: "v" op: "matmul" input: ["x", "b"] }
node { name: "s" op: "softmax" input: "g" attribute { name: "rank_c" i: 0 } output: "p" }
output: "p"
batch: 4
)";
}

Graph MakeGated() {
  auto graph = GraphFromText(Gated(), "gated.textproto");
  INFO(graph.status());
  REQUIRE(graph.ok());
  return *graph;
}

void CheckSame(const Graph& a, const Graph& b) {
  CHECK(a.name == b.name);
  CHECK(a.tensors == b.tensors);
  CHECK(a.nodes == b.nodes);
  CHECK(a.inputs == b.inputs);
  CHECK(a.outputs == b.outputs);
  CHECK(a.loss == b.loss);
  CHECK(a.updates == b.updates);
  CHECK(a.batch == b.batch);
  REQUIRE(a.operators.specs().size() == b.operators.specs().size());
  for (const auto& [name, spec] : a.operators.specs()) {
    REQUIRE(b.operators.Find(name) != nullptr);
    CHECK(b.operators.Find(name)->text == spec.text);
  }
}

std::string ErrorOf(const std::string& text) {
  const auto graph = GraphFromText(text, "m.textproto");
  REQUIRE_FALSE(graph.ok());
  return std::string(graph.status().message());
}

bool Has(const std::string& text, const std::string& part) {
  INFO(text);
  return text.find(part) != std::string::npos;
}

Program MakeProgram(const Graph& graph) {
  Mesh mesh;
  mesh.axes.push_back({"x0", 2, false});
  auto program = Lower(graph, ReplicatedStrategy(graph, mesh), BytesStepCost(mesh));
  INFO(program.status());
  REQUIRE(program.ok());
  return *program;
}

class Folder {
 public:
  Folder() {
    path_ = std::filesystem::temp_directory_path() / ("plan_test." + std::to_string(::getpid()));
  }
  ~Folder() {
    std::error_code error;
    std::filesystem::remove_all(path_, error);
  }
  std::string path() const { return path_.string(); }

 private:
  std::filesystem::path path_;
};

Plan MakePlan() {
  Plan plan;
  plan.model = "gated.textproto";
  plan.machine = "name: \"two\"";
  plan.training.lr = 0.25;
  plan.training.freeze = {"^a$"};
  plan.forward = plan.serial = plan.pcg = plan.rewritten_forward = MakeGated();
  plan.rules.push_back({"merge", "c0ffee", {"u", "v"}, {"w"}, 1e-3});
  Mesh mesh;
  mesh.axes.push_back({"x0", 2, false});
  plan.strategy = ReplicatedStrategy(plan.pcg, mesh);
  plan.programs.push_back(MakeProgram(plan.pcg));
  plan.summary_json = "{\"devices\": 2}\n";
  return plan;
}

}  // namespace

TEST_CASE("a hand-written model is completed") {
  const Graph graph = MakeGated();
  REQUIRE(graph.nodes.size() == 4);
  CHECK(graph.nodes[0].name == "u");  // sorted
  CHECK(graph.nodes[0].block == 3);
  CHECK(graph.inputs.size() == 1);
  const Tensor& out = graph.tensor(graph.outputs[0]);
  CHECK(out.name == "p");
  CHECK(PlainShape(out.shape) == std::vector<int64_t>{4, 6});
  CHECK(out.dtype == DType::kF32);
  CHECK(graph.tensors[2].values[47] == 47.5);
}

TEST_CASE("graphs round-trip through bytes and text") {
  const Graph graph = MakeGated();
  const auto bytes = SerializeGraph(graph);
  REQUIRE(bytes.ok());
  const auto again = ParseGraph(*bytes, "m.pb");
  INFO(again.status());
  REQUIRE(again.ok());
  CheckSame(graph, *again);
  CHECK(*SerializeGraph(*again) == *bytes);
  const auto text = GraphToText(graph);
  REQUIRE(text.ok());
  CHECK_FALSE(Has(*text, "operator matmul"));
  const auto from_text = GraphFromText(*text, "m.textproto");
  INFO(from_text.status());
  REQUIRE(from_text.ok());
  CheckSame(graph, *from_text);
  CHECK(*GraphToText(*from_text) == *text);
}

TEST_CASE("a built-in operator that means something else is refused") {
  auto bytes = *SerializeGraph(MakeGated());
  const size_t at = bytes.find("operator matmul");
  REQUIRE(at != std::string::npos);
  const size_t sum = bytes.find("sum", at);
  bytes.replace(sum, 3, "max");
  const auto graph = ParseGraph(bytes, "old.pb");
  REQUIRE_FALSE(graph.ok());
  CHECK(Has(std::string(graph.status().message()), "matmul"));
}

TEST_CASE("wrong models are located") {
  const std::string x = "tensor { name: 'x' shape: [4, 8] role: INPUT }\n";
  CHECK(Has(ErrorOf("tensor { nam: 'x' }"), "m.textproto:1:"));
  CHECK(Has(ErrorOf(x + "node { name: 'n' op: 'nosuch' input: 'x' }\n"
                        "node { name: 'm' op: 'other' input: 'x' }"),
            "'nosuch' (1 nodes, first 'n'), 'other'"));
  CHECK(Has(ErrorOf(x + x), "two tensors are named 'x'"));
  CHECK(Has(ErrorOf("tensor { name: 'x' shape: [4, 0] role: INPUT }"), "dim of 0"));
  CHECK(Has(ErrorOf("tensor { name: 'x' shape: [-3] role: INPUT }"), "dim of -3"));
  CHECK(
      Has(ErrorOf("tensor { name: 'x' shape: [4000000000, 4000000000, 4] role: INPUT }"), "2^62"));
  CHECK(Has(ErrorOf(x + "node { name: 'n' op: 'add' input: ['x', 'y'] }"), "no tensor 'y'"));
  CHECK(Has(ErrorOf(x + "node { name: 'n' op: 'add' input: ['x', 'm'] }\n"
                        "node { name: 'm' op: 'relu' input: 'n' }"),
            "cycle through 'n'"));
  CHECK(Has(ErrorOf(x + "node { name: 'n' op: 'relu' input: 'x' output: 'o' }\n"
                        "node { name: 'm' op: 'relu' input: 'x' output: 'o' }"),
            "both produce 'o'"));
  CHECK(Has(ErrorOf(x + "node { name: 'n' op: 'matmul' input: ['x', 'x'] }"), "node 'n'"));
  CHECK(Has(ErrorOf(x + "tensor { name: 'r' shape: [4, 9] }\n"
                        "node { name: 'n' op: 'relu' input: 'x' output: 'r' }"),
            "n"));
  CHECK(Has(ErrorOf("tensor { name: 'c' shape: [2] role: CONSTANT }"), "without values"));
  CHECK(Has(ErrorOf("tensor { name: 'c' shape: [2] role: CONSTANT values: [1, 2, 3] }"),
            "3 values for 2"));
  CHECK(Has(ErrorOf(x + "output: 'z'"), "no tensor 'z'"));
  CHECK(Has(ErrorOf("format: 9"), "format 9"));
}

TEST_CASE("damaged graphs are errors, never crashes") {
  const std::string bytes = *SerializeGraph(MakeGated());
  std::mt19937 random(7);
  for (size_t cut = 1; cut < bytes.size(); cut += 1 + bytes.size() / 97) {
    ParseGraph(bytes.substr(0, cut), "cut.pb").status().IgnoreError();
  }
  CHECK_FALSE(ParseGraph(bytes.substr(0, bytes.size() - 3), "cut.pb").ok());
  int refused = 0;
  for (int round = 0; round < 300; ++round) {
    std::string damaged = bytes;
    damaged[random() % damaged.size()] ^= static_cast<char>(1 + random() % 255);
    if (!ParseGraph(damaged, "damaged.pb").ok()) ++refused;
  }
  CHECK(refused > 100);
  CHECK_FALSE(ParseGraph("this is no protobuf", "random.pb").ok());
}

TEST_CASE("Programs round-trip, and damaged ones are errors") {
  const Program program = MakeProgram(MakeGated());
  REQUIRE_FALSE(program.instructions.empty());
  const auto bytes = SerializeProgram(program);
  REQUIRE(bytes.ok());
  const auto again = ParseProgram(*bytes, "p.pb");
  INFO(again.status());
  REQUIRE(again.ok());
  CHECK(*again == program);
  CHECK(*SerializeProgram(*again) == *bytes);

  Program wrong = program;
  wrong.instructions[0].inputs = {BufferId(100000)};
  CHECK_FALSE(ParseProgram(*SerializeProgram(wrong), "p.pb").ok());
  wrong = program;
  wrong.buffers[0].layout.axes[0] = AxisPlacement::Split(7, 0);
  CHECK_FALSE(ParseProgram(*SerializeProgram(wrong), "p.pb").ok());
  wrong = program;
  wrong.mesh.axes[0].extent = 0;
  CHECK_FALSE(ParseProgram(*SerializeProgram(wrong), "p.pb").ok());
  wrong = program;
  wrong.loop_end = 100000;
  CHECK_FALSE(ParseProgram(*SerializeProgram(wrong), "p.pb").ok());
  std::mt19937 random(11);
  for (int round = 0; round < 300; ++round) {
    std::string damaged = *bytes;
    damaged[random() % damaged.size()] ^= static_cast<char>(1 + random() % 255);
    ParseProgram(damaged, "damaged.pb").status().IgnoreError();
  }
}

TEST_CASE("plans round-trip through a directory") {
  const Folder folder;
  const Plan plan = MakePlan();
  const std::string directory = folder.path() + "/a/plan";
  const absl::Status written = WritePlan(plan, directory);
  INFO(written);
  REQUIRE(written.ok());
  const auto read = ReadPlan(directory);
  INFO(read.status());
  REQUIRE(read.ok());
  CHECK(read->model == plan.model);
  CHECK(read->machine == plan.machine);
  CHECK(read->training == plan.training);
  CheckSame(read->serial, plan.serial);
  CheckSame(read->pcg, plan.pcg);
  CHECK(read->rules == plan.rules);
  CHECK(read->strategy == plan.strategy);
  CHECK(read->programs == plan.programs);
  CHECK(read->summary_json == plan.summary_json);
  const std::string first = *ReadFile(directory + "/plan.pb");
  REQUIRE(WritePlan(*read, directory).ok());
  CHECK(*ReadFile(directory + "/plan.pb") == first);
  CHECK(*ReadFile(directory + "/summary.json") == plan.summary_json);
  for (const auto& entry : std::filesystem::directory_iterator(directory)) {
    CHECK(entry.path().extension() != ".tmp");
  }
}

TEST_CASE("no plan, half a plan and a plan of another graph are errors") {
  const Folder folder;
  CHECK(Has(std::string(ReadPlan(folder.path()).status().message()), "tandem optimize"));
  REQUIRE(WritePlan(MakePlan(), folder.path()).ok());
  const std::string file = folder.path() + "/plan.pb";
  const std::string bytes = *ReadFile(file);
  REQUIRE(WriteFileAtomically(file, bytes.substr(0, bytes.size() / 2)).ok());
  CHECK_FALSE(ReadPlan(folder.path()).ok());
  Plan other = MakePlan();
  other.strategy.nodes.pop_back();
  REQUIRE(WritePlan(other, folder.path()).ok());
  CHECK(Has(std::string(ReadPlan(folder.path()).status().message()), "a strategy for 3 nodes"));
  CHECK_FALSE(WriteFileAtomically("/proc/nosuch/file", "x").ok());
  CHECK_FALSE(ReadFile(folder.path()).ok());
}

TEST_CASE("a device is written to, never replaced by a file") {
  const Folder folder;
  CHECK(WriteFileAtomically("/dev/null", "x").ok());
  CHECK(std::filesystem::is_character_file("/dev/null"));
  if (!std::filesystem::is_character_file("/dev/full")) return;
  const absl::Status full = WriteFileAtomically("/dev/full", "x");
  CHECK(Has(std::string(full.message()), "/dev/full: cannot write: No space left"));
  CHECK(std::filesystem::is_character_file("/dev/full"));
}

}  // namespace tandem
