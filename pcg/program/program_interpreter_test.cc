#include "pcg/program/program_interpreter.h"

#include <algorithm>
#include <catch2/catch.hpp>
#include <map>
#include <random>
#include <string>

#include "pcg/program/lowering_fixture.h"

namespace tandem {
namespace {

TEST_CASE("The interpreter of Programs does not believe a Program that is wrong") {
  MlpStep mlp;
  RowPlan plan(mlp.graph, MeshOf({2}));
  DataParallel(plan, 0);
  auto program = *plan.Lowered();
  std::mt19937 rng(3);
  std::map<TensorId, HostTensor> sources;
  for (TensorId t : {mlp.x, mlp.t, mlp.w1, mlp.w2, mlp.lr}) {
    sources[t] = Values(mlp.graph.tensor(t), rng);
  }
  REQUIRE(ExecuteProgram(mlp.graph, program, sources).ok());
  const auto find = [&](InstructionKind kind) {
    return std::find_if(program.instructions.begin(), program.instructions.end(),
                        [&](const Instruction& code) { return code.kind == kind; });
  };
  SECTION("a reduction left out") {
    const auto all_reduce =
        std::find_if(program.instructions.begin(), program.instructions.end(),
                     [](const Instruction& code) { return code.name == "all-reduce dw2"; });
    REQUIRE(all_reduce != program.instructions.end());
    for (Instruction& code : program.instructions) {
      for (BufferId& b : code.inputs) {
        if (b == all_reduce->outputs[0]) b = all_reduce->inputs[0];
      }
    }
    CHECK_FALSE(ExecuteProgram(mlp.graph, program, sources).ok());
  }
  SECTION("freed too early") {
    std::rotate(program.instructions.begin(), find(InstructionKind::kFree),
                find(InstructionKind::kFree) + 1);
    CHECK_FALSE(ExecuteProgram(mlp.graph, program, sources).ok());
  }
  SECTION("never freed") {
    program.instructions.erase(find(InstructionKind::kFree));
    CHECK_THAT(std::string(ExecuteProgram(mlp.graph, program, sources).status().message()),
               Catch::Contains("never freed"));
  }
  SECTION("a source missing") {
    sources.erase(mlp.w2);
    CHECK_THAT(std::string(ExecuteProgram(mlp.graph, program, sources).status().message()),
               Catch::Contains("\"w2\""));
  }
}

}  // namespace
}  // namespace tandem
