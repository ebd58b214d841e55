// Each wrapped system library compiles, links and answers one question whose answer is known.

#include <absl/container/flat_hash_map.h>
#include <absl/flags/flag.h>
#include <absl/random/random.h>
#include <absl/status/statusor.h>
#include <absl/strings/numbers.h>
#include <absl/strings/str_cat.h>
#include <absl/strings/str_format.h>
#include <absl/strings/str_split.h>
#include <absl/time/time.h>
#include <cblas.h>
#include <google/protobuf/text_format.h>
#include <graphviz/gvc.h>
#include <z3++.h>

#include <catch2/catch.hpp>
#include <dnnl.hpp>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "onnx/onnx.pb.h"
#include "tests/smoke.pb.h"

ABSL_FLAG(int, smoke, 7, "a flag of the smoke test");

namespace {

absl::StatusOr<int> ParseInt(absl::string_view text) {
  int value = 0;
  if (!absl::SimpleAtoi(text, &value)) {
    return absl::InvalidArgumentError(absl::StrCat("not a number: ", text));
  }
  return value;
}

TEST_CASE("Abseil: status, strings, containers, flags, time") {
  REQUIRE(ParseInt("42").value() == 42);
  REQUIRE(ParseInt("4x").status().message() == "not a number: 4x");
  absl::flat_hash_map<std::string, int> count;
  for (absl::string_view word : absl::StrSplit("a b a", ' ')) ++count[std::string(word)];
  REQUIRE(count["a"] == 2);
  REQUIRE(absl::GetFlag(FLAGS_smoke) == 7);
  REQUIRE(absl::StrFormat("%.2f", 1.5) == "1.50");
  REQUIRE(absl::FormatDuration(absl::Milliseconds(1500)) == "1.5s");
  absl::BitGen bits;
  REQUIRE(absl::Uniform(bits, 3, 4) == 3);
}

TEST_CASE("Protocol Buffers: a message of one file inside a message of another") {
  tandem::smoke::Whole whole;
  REQUIRE(
      google::protobuf::TextFormat::ParseFromString("parts { name: 'w' size_bytes: 8 }", &whole));
  tandem::smoke::Whole copy;
  REQUIRE(copy.ParseFromString(whole.SerializeAsString()));
  REQUIRE(copy.parts(0).size_bytes() == 8);
  REQUIRE_FALSE(copy.ParseFromString("\xff\xff"));
}

TEST_CASE("Z3: x + 1 == x has no solution over the integers, x + 1 == 3 has") {
  z3::context context;
  z3::expr x = context.int_const("x");
  z3::solver solver(context);
  solver.push();
  solver.add(x + 1 == x);
  REQUIRE(solver.check() == z3::unsat);
  solver.pop();
  solver.add(x + 1 == 3);
  REQUIRE(solver.check() == z3::sat);
}

TEST_CASE("oneDNN and BLAS agree on a 2x2 product") {
  std::vector<float> a = {1, 2, 3, 4}, b = {5, 6, 7, 8}, c(4);
  dnnl::engine engine(dnnl::engine::kind::cpu, 0);
  dnnl::stream stream(engine);
  dnnl::memory::desc desc({2, 2}, dnnl::memory::data_type::f32, dnnl::memory::format_tag::ab);
  dnnl::matmul::primitive_desc primitive(dnnl::matmul::desc(desc, desc, desc), engine);
  dnnl::memory ma(desc, engine, a.data()), mb(desc, engine, b.data()), mc(desc, engine, c.data());
  dnnl::matmul(primitive).execute(stream,
                                  {{DNNL_ARG_SRC, ma}, {DNNL_ARG_WEIGHTS, mb}, {DNNL_ARG_DST, mc}});
  stream.wait();
  REQUIRE(c == std::vector<float>{19, 22, 43, 50});

  std::vector<double> da = {1, 2, 3, 4}, db = {5, 6, 7, 8}, dc(4);
  cblas_dgemm(CblasRowMajor, CblasNoTrans, CblasNoTrans, 2, 2, 2, 1.0, da.data(), 2, db.data(), 2,
              0.0, dc.data(), 2);
  REQUIRE(dc == std::vector<double>{19, 22, 43, 50});
}

TEST_CASE("ONNX schema: a node survives serialisation") {
  onnx::ModelProto model;
  model.mutable_graph()->add_node()->set_op_type("MatMul");
  onnx::ModelProto copy;
  REQUIRE(copy.ParseFromString(model.SerializeAsString()));
  REQUIRE(copy.graph().node(0).op_type() == "MatMul");
}

TEST_CASE("Graphviz reads a graph; JSON round-trips") {
  Agraph_t* graph = agmemread("digraph { a -> b }");
  REQUIRE(graph != nullptr);
  REQUIRE(agnnodes(graph) == 2);
  GVC_t* gvc = gvContext();
  REQUIRE(gvc != nullptr);
  agclose(graph);
  gvFreeContext(gvc);
  REQUIRE(nlohmann::json::parse(R"({"b": [1, 2]})")["b"][1] == 2);
  REQUIRE_THROWS_AS(nlohmann::json::parse("{"), nlohmann::json::parse_error);
}

}  // namespace
