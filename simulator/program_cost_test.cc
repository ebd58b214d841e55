#include "simulator/program_cost.h"

#include <catch2/catch.hpp>

#include "pcg/instance/instance_builder.h"
#include "pcg/language/op_parser.h"
#include "simulator/kernel_cost.h"

namespace tandem {
namespace {

OpInstance Matmul(int64_t m, int64_t k, int64_t n) {
  InstanceBuilder b;
  const int sm = b.Size("m", m), sk = b.Size("k", k), sn = b.Size("n", n);
  const int vm = b.Var(sm), vk = b.Var(sk), vn = b.Var(sn);
  const int lhs = b.Input("lhs", {{sm}, {sk}});
  const int rhs = b.Input("rhs", {{sk}, {sn}});
  const int out = b.Output("out", {{sm}, {sn}});
  b.Equation(out, {vm, vn}, b.Sum({vk}, b.Mul(b.Read(lhs, {vm, vk}), b.Read(rhs, {vk, vn}))));
  return b.op;
}

Mesh TwoByEight(int64_t micro_batches) {
  Mesh mesh;
  mesh.axes = {{"x0", 2, false}, {"x1", 8, false}};
  if (micro_batches > 1) mesh.axes.push_back({"micro", micro_batches, true});
  return mesh;
}

TEST_CASE("a node costs what its local matrix product costs") {
  const Machine machine = *LoadMachine("dgx-a100");
  const OpInstance matmul = Matmul(1024, 4096, 2048);
  const std::vector<DType> in = {DType::kBF16, DType::kBF16}, out = {DType::kBF16};
  const NodeCost whole = CostOfNode(machine, matmul, {}, in, out);
  CHECK(whole.kind == KernelKind::kGemm);
  CHECK(whole.contraction_flops == 2.0 * 1024 * 4096 * 2048);
  CHECK(whole.bytes == 2.0 * (1024 * 4096 + 4096 * 2048 + 1024 * 2048));
  CHECK(whole.seconds ==
        Approx(KernelSeconds(machine, GemmShape(Precision::kBf16, 1024, 2048, 4096))));
  // Local extents, in the order of the instance's sizes.
  const NodeCost part = CostOfNode(machine, matmul, {1024, 512, 2048}, in, out);
  CHECK(part.seconds ==
        Approx(KernelSeconds(machine, GemmShape(Precision::kBf16, 1024, 2048, 512))));
  CHECK(part.contraction_flops == whole.contraction_flops / 8);
}

TEST_CASE("the widest float type decides the precision") {
  const Machine machine = *LoadMachine("dgx-a100");
  const OpInstance matmul = Matmul(4096, 4096, 4096);
  const auto seconds = [&](DType a, DType b) {
    return NodeSeconds(machine, matmul, {}, {a, b}, {DType::kBF16});
  };
  CHECK(seconds(DType::kF32, DType::kBF16) > 5 * seconds(DType::kBF16, DType::kBF16));
  CHECK(seconds(DType::kF32, DType::kBF16) == seconds(DType::kBF16, DType::kF32));
  CHECK(PrecisionOf(DType::kTF32) == Precision::kTf32);
  CHECK(PrecisionOf(DType::kI64) == Precision::kFp32);
}

TEST_CASE("steps are priced as collectives of the axes' groups") {
  MachineSize size;
  size.nodes = 2;
  const Machine machine = *LoadMachine("dgx-a100", size);
  const StepPricer pricer(machine, TwoByEight(4));
  const double small = 1e6, large = 8e6;
  const GroupShape inside = *MeshGroupShape(machine, {2, 8}, {1});
  CHECK(pricer.Seconds(StepKind::kAllGather, {1}, small, large) ==
        CollectiveSeconds(machine, CollectiveKind::kAllGather, large, inside));
  CHECK(pricer.Seconds(StepKind::kReduceScatter, {1}, large, small) ==
        CollectiveSeconds(machine, CollectiveKind::kReduceScatter, large, inside));
  CHECK(pricer.Seconds(StepKind::kAllReduce, {1}, large, large) ==
        CollectiveSeconds(machine, CollectiveKind::kAllReduce, large, inside));
  CHECK(pricer.Level({1}) == 0);
  CHECK(pricer.Level({0}) == 1);
  CHECK(pricer.Level({0, 1}) == 1);
  // Both axes at once are one collective, not two.
  CHECK(pricer.Seconds(StepKind::kAllReduce, {0, 1}, large, large) <
        pricer.Seconds(StepKind::kAllReduce, {0}, large, large) +
            pricer.Seconds(StepKind::kAllReduce, {1}, large, large));
  // Local steps move memory only.
  CHECK(pricer.Seconds(StepKind::kSlice, {1}, large, small) <
        pricer.Seconds(StepKind::kAllGather, {1}, small, large));
}

TEST_CASE("a step is priced as run once, inside the loop too") {
  MachineSize size;
  size.nodes = 2;
  const Machine machine = *LoadMachine("dgx-a100", size);
  const StepPricer pricer(machine, TwoByEight(4));
  const StepCost cost = pricer.AsStepCost();
  ReshardStep step;
  step.kind = StepKind::kAllReduce;
  step.axes = {1};
  step.before = step.after = Layout::Replicated(TwoByEight(4));
  step.before.axes[1] = AxisPlacement::Partial(Combiner::kSum);
  const double once = cost(step, 1e6, 1e6);
  CHECK(once == pricer.Seconds(StepKind::kAllReduce, {1}, 1e6, 1e6));
  step.before.axes[2] = step.after.axes[2] = AxisPlacement::Split(0, 0);
  CHECK(cost(step, 1e6, 1e6) == once);
}

OpInstance BuiltIn(const std::string& op, const std::vector<FactoredShape>& inputs,
                   const Attributes& attributes = {}) {
  const auto spec = BuiltinOperators().Get(op);
  REQUIRE(spec.ok());
  const auto instance = Instantiate(**spec, attributes, inputs);
  INFO(instance.status().ToString());
  REQUIRE(instance.ok());
  return *instance;
}

NodeCost CostOf(const OpInstance& instance, DType type = DType::kBF16) {
  return CostOfNode(*LoadMachine("dgx-a100"), instance, {},
                    std::vector<DType>(static_cast<size_t>(instance.num_inputs), type),
                    std::vector<DType>(static_cast<size_t>(instance.num_outputs), type));
}

TEST_CASE("built-in operators are costed as what they are") {
  const FactoredShape activation = {{8}, {512}, {1024}};
  const auto kind = [](const OpInstance& instance) {
    INFO(instance.op);
    return CostOf(instance).kind;
  };
  CHECK(kind(BuiltIn("linear", {activation, {{1024}, {4096}}, {{4096}}})) == KernelKind::kGemm);
  CHECK(kind(BuiltIn("layer_norm", {activation, {{1024}}, {{1024}}})) == KernelKind::kNorm);
  CHECK(kind(BuiltIn("gelu", {activation})) == KernelKind::kElementwise);
  CHECK(kind(BuiltIn("reduce_sum", {activation},
                     {{"rank_a", int64_t{0}}, {"rank_r", int64_t{2}}})) == KernelKind::kReduction);
  const FactoredShape weight = {{1024}, {4096}};
  CHECK(kind(BuiltIn("adamw", {weight, weight, weight, weight, {}, {}})) == KernelKind::kOptimizer);
  const Attributes three = {{"kernel_h", int64_t{3}}, {"kernel_w", int64_t{3}}};
  CHECK(kind(BuiltIn("max_pool2d", {{{8}, {64}, {56}, {56}}}, three)) == KernelKind::kPool);
  const OpInstance conv = BuiltIn("conv2d", {{{8}, {1, 64}, {56}, {56}}, {{1, 64}, {64}, {1}, {1}}},
                                  {{"absent", std::vector<int64_t>{2}}});
  CHECK(CostOf(conv).contraction_flops == 2.0 * 8 * 64 * 64 * 56 * 56);
}

TEST_CASE("a view is free, a transposition or a conversion is not") {
  const Attributes merged = {{"shape", std::vector<int64_t>{4096, 1024}}};
  CHECK(CostOf(BuiltIn("reshape", {{{8}, {512}, {1024}}}, merged)).seconds == 0);
  CHECK(CostOf(BuiltIn("identity", {{{8}, {512}}})).seconds == 0);
  const Attributes swapped = {{"perm", std::vector<int64_t>{1, 0}}};
  CHECK(CostOf(BuiltIn("transpose", {{{8}, {512}}}, swapped)).seconds > 0);
  const OpInstance cast = BuiltIn("cast", {{{8}, {512}}});
  CHECK(NodeSeconds(*LoadMachine("dgx-a100"), cast, {}, {DType::kF32}, {DType::kBF16}) > 0);
}

TEST_CASE("attention as an operator costs what the fused kernel does") {
  const FactoredShape q = {{4}, {16}, {2048}, {128}};
  const NodeCost cost = CostOf(
      BuiltIn("attention", {q, q, q}, {{"scale", 0.1}, {"absent", std::vector<int64_t>{3}}}));
  CHECK(cost.kind == KernelKind::kAttention);
  const KernelShape fused = AttentionShape(Precision::kBf16, 4, 16, 2048, 2048, 128, false, false);
  CHECK(cost.contraction_flops == Approx(fused.flops));
  CHECK(cost.seconds == Approx(KernelSeconds(*LoadMachine("dgx-a100"), fused)).epsilon(0.1));
}

}  // namespace
}  // namespace tandem
