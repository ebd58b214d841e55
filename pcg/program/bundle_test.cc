#include "pcg/program/bundle.h"

#include <catch2/catch.hpp>
#include <string>

namespace tandem {
namespace {

// Programs of kernels and collectives by hand. Buffers are named by their numbers.
struct Sketch {
  Program program;

  BufferId Buffer(int64_t bytes = 100, DType dtype = DType::kF32) {
    tandem::Buffer buffer;
    buffer.name = std::to_string(program.buffers.size());
    buffer.bytes = bytes;
    buffer.dtype = dtype;
    program.buffers.push_back(buffer);
    return BufferId(static_cast<int64_t>(program.buffers.size()) - 1);
  }
  BufferId Kernel(std::vector<BufferId> inputs, int64_t bytes = 100, DType dtype = DType::kF32) {
    return Add(InstructionKind::kKernel, "k", std::move(inputs), bytes, dtype);
  }
  void Kernels(int count) {
    for (int i = 0; i < count; ++i) Kernel({});
  }
  BufferId Step(StepKind step, BufferId input, std::vector<int> axes = {0}) {
    const tandem::Buffer from = program.buffer(input);
    const BufferId out =
        Add(InstructionKind::kCollective, StepKindName(step), {input}, from.bytes, from.dtype);
    program.instructions.back().step = step;
    program.instructions.back().axes = std::move(axes);
    return out;
  }
  BufferId Add(InstructionKind kind, const std::string& name, std::vector<BufferId> inputs,
               int64_t bytes, DType dtype) {
    const BufferId out = Buffer(bytes, dtype);
    Instruction code;
    code.kind = kind;
    code.name = name + std::to_string(out.value);
    code.inputs = std::move(inputs);
    code.outputs = {out};
    program.instructions.push_back(std::move(code));
    return out;
  }
};

// Collectives as "(inputs)", kernels as ".", frees left out; "|" at the loop's ends.
std::string Picture(const Program& program) {
  std::string text;
  for (size_t i = 0; i < program.instructions.size(); ++i) {
    const Instruction& code = program.instructions[i];
    if (program.loop_end > program.loop_begin &&
        (static_cast<int>(i) == program.loop_begin || static_cast<int>(i) == program.loop_end)) {
      text += "|";
    }
    if (code.kind == InstructionKind::kKernel) text += ".";
    if (code.kind != InstructionKind::kCollective) continue;
    REQUIRE(code.inputs.size() == code.outputs.size());
    text += "(";
    for (BufferId id : code.inputs)
      text += (text.back() == '(' ? "" : " ") + program.buffer(id).name;
    text += ")";
  }
  return text;
}

TEST_CASE("Gradients that wait are reduced together, before the first is read") {
  Sketch s;
  const BufferId a = s.Kernel({});  // 0
  const BufferId ra = s.Step(StepKind::kAllReduce, a);
  s.Kernels(2);
  const BufferId b = s.Kernel({});  // 4
  const BufferId rb = s.Step(StepKind::kAllReduce, b);
  s.Kernels(4);
  s.Kernel({ra});
  s.Kernel({rb});
  REQUIRE(Picture(s.program) == ".(0)...(4)......");
  const Program bundled = Bundled(s.program, 1000);
  CHECK(Picture(bundled) == "........(0 4)..");
  CHECK(Picture(Bundled(s.program, 150)) == "....(0 4)......");   // full with the second
  CHECK(Picture(Bundled(s.program, 100)) == Picture(s.program));  // each is large enough
  CHECK(Bundled(s.program, 0) == s.program);
  CHECK(Bundled(s.program, 1000) == bundled);
}

TEST_CASE("Only like collectives are put together") {
  Sketch s;
  const BufferId a = s.Kernel({}), b = s.Kernel({}), c = s.Kernel({}, 100, DType::kF64),
                 d = s.Kernel({});
  const BufferId ra = s.Step(StepKind::kAllReduce, a), rb = s.Step(StepKind::kAllReduce, b, {1}),
                 rc = s.Step(StepKind::kAllReduce, c), rd = s.Step(StepKind::kReduceScatter, d);
  s.Kernels(5);
  s.Kernel({ra, rb, rc, rd});
  const Program bundled = Bundled(s.program, 1000);
  int collectives = 0;
  for (const Instruction& code : bundled.instructions) {
    collectives += code.kind == InstructionKind::kCollective ? 1 : 0;
  }
  CHECK(collectives == 4);
}

TEST_CASE("What is read at once keeps its place and its size") {
  Sketch s;
  const BufferId gradient = s.Kernel({});  // 0
  const BufferId reduced = s.Step(StepKind::kAllReduce, gradient);
  const BufferId activation = s.Kernel({});  // 2
  const BufferId whole = s.Step(StepKind::kAllReduce, activation);
  s.Kernel({whole});
  s.Kernels(6);
  s.Kernel({reduced});
  const std::string picture = Picture(Bundled(s.program, 1000));
  CHECK(picture.find("(2).") != std::string::npos);
  CHECK(picture.find("(0 2)") == std::string::npos);
}

TEST_CASE("Weights are gathered with an earlier one, not before they are there") {
  Sketch s;
  const BufferId w1 = s.Buffer(), w2 = s.Buffer();  // stored
  const BufferId g1 = s.Step(StepKind::kAllGather, w1);
  s.Kernel({g1});
  s.Kernels(4);
  const BufferId g2 = s.Step(StepKind::kAllGather, w2);
  s.Kernel({g2});
  const BufferId made = s.Kernel({});
  s.Kernels(5);
  const BufferId g3 = s.Step(StepKind::kAllGather, made);
  s.Kernel({g3});
  const std::string picture = Picture(Bundled(s.program, 1000));
  CHECK(picture.substr(0, 6) == "(0 1).");
  CHECK(picture.find("(" + s.program.buffer(made).name + ")") != std::string::npos);
}

TEST_CASE("Nothing crosses the ends of the micro-batch loop") {
  Sketch s;
  s.program.mesh.axes = {{"x", 2, false}, {"micro", 4, true}};
  const BufferId before = s.Kernel({});
  const BufferId r0 = s.Step(StepKind::kAllReduce, before);
  s.Kernels(5);
  s.program.loop_begin = static_cast<int>(s.program.instructions.size());
  const BufferId inside = s.Kernel({});
  s.Step(StepKind::kAllReduce, inside);
  s.Kernels(5);
  s.program.loop_end = static_cast<int>(s.program.instructions.size());
  const BufferId after = s.Kernel({});
  const BufferId r2 = s.Step(StepKind::kAllReduce, after);
  s.Kernels(5);
  s.Kernel({r0, r2});
  CHECK(Picture(Bundled(s.program, 1000)) == "......(" + s.program.buffer(before).name +
                                                 ")|......(" + s.program.buffer(inside).name +
                                                 ")|......(" + s.program.buffer(after).name + ").");
}

}  // namespace
}  // namespace tandem
