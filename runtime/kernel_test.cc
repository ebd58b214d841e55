#include "runtime/kernel.h"

#include <catch2/catch.hpp>
#include <cmath>
#include <random>
#include <string>

#include "pcg/autodiff/autodiff.h"
#include "pcg/graph/interpreter.h"
#include "pcg/graph/operator_samples.h"
#include "pcg/language/op_parser.h"
#include "pcg/layout/factor_table.h"

namespace tandem {
namespace {

size_t At(int i) { return static_cast<size_t>(i); }

int64_t LocalElements(const OpInstance& op, const PieceOfOp& piece, int tensor) {
  int64_t elements = 1;
  for (const auto& dim : op.tensors[At(tensor)].dims) {
    for (int size : dim) elements *= piece.extents[At(size)];
  }
  return elements;
}

std::vector<int64_t> LocalShapeOf(const OpInstance& op, const PieceOfOp& piece, int tensor) {
  std::vector<int64_t> shape;
  for (const auto& dim : op.tensors[At(tensor)].dims) {
    shape.push_back(1);
    for (int size : dim) shape.back() *= piece.extents[At(size)];
  }
  return shape;
}

PieceOfOp Whole(const OpInstance& op) {
  PieceOfOp piece;
  for (const SizeVar& size : op.sizes) piece.extents.push_back(size.extent);
  piece.offsets.assign(op.sizes.size(), 0);
  return piece;
}

// Runs the kernel and the interpreter on the same random piece. float32 rounds its inputs first.
template <typename T>
void CheckPiece(const OpInstance& op, const PieceOfOp& piece, const std::vector<HostTensor>& inputs,
                double tolerance) {
  auto kernel = Kernel<T>::Prepare(op, piece);
  INFO(kernel.status());
  REQUIRE(kernel.ok());
  CAPTURE((*kernel)->stages());
  std::vector<std::vector<T>> in;
  std::vector<HostTensor> rounded = inputs;
  for (HostTensor& input : rounded) {
    in.emplace_back(input.data.begin(), input.data.end());
    input.data.assign(in.back().begin(), in.back().end());
  }
  std::vector<const HostTensor*> host;
  std::vector<const T*> from;
  std::vector<std::vector<T>> out;
  std::vector<T*> to;
  for (size_t i = 0; i < in.size(); ++i) {
    host.push_back(&rounded[i]);
    from.push_back(in[i].data());
  }
  for (int o = 0; o < op.num_outputs; ++o) {
    out.emplace_back(static_cast<size_t>(LocalElements(op, piece, op.num_inputs + o)), T(77));
  }
  for (auto& o : out) to.push_back(o.data());
  const auto expected = Evaluate(op, host, piece);
  INFO(expected.status());
  REQUIRE(expected.ok());
  std::vector<T> scratch;
  for (int run = 0; run < 2; ++run) {
    const absl::Status status = (*kernel)->Run(from, to, scratch);
    INFO(status);
    REQUIRE(status.ok());
    for (size_t o = 0; o < out.size(); ++o) {
      for (size_t i = 0; i < out[o].size(); ++i) {
        const double want = (*expected)[o].data[i];
        const double got = static_cast<double>(out[o][i]);
        if (got == want || (std::isnan(got) && std::isnan(want))) continue;
        CAPTURE(o, i, got, want);
        REQUIRE(std::abs(got - want) <= tolerance * (1 + std::abs(want)));
      }
    }
  }
}

class Checker {
 public:
  void Check(const OpInstance& op, const std::vector<int64_t>& index_below, bool positive,
             double float_tolerance = 2e-4) {
    const std::string text = ToString(op);
    CAPTURE(text);
    CheckAt(op, Whole(op), index_below, positive, float_tolerance);
    // Every way of splitting it in two, both halves.
    for (const SplitRow& row : FactorTable(op)) {
      if (row.size < 0 || op.sizes[At(row.size)].extent % 2 != 0) continue;
      for (int64_t half = 0; half < 2; ++half) {
        PieceOfOp piece = Whole(op);
        piece.extents[At(row.size)] /= 2;
        piece.offsets[At(row.size)] = half * piece.extents[At(row.size)];
        CAPTURE(row.reason, half);
        CheckAt(op, piece, index_below, positive, float_tolerance);
      }
    }
  }

 private:
  void CheckAt(const OpInstance& op, const PieceOfOp& piece,
               const std::vector<int64_t>& index_below, bool positive, double float_tolerance) {
    std::uniform_real_distribution<double> value(positive ? 0.5 : -1, positive ? 1.5 : 1);
    std::vector<HostTensor> inputs;
    for (int i = 0; i < op.num_inputs; ++i) {
      HostTensor input;
      input.shape = LocalShapeOf(op, piece, i);
      const int64_t below = At(i) < index_below.size() ? index_below[At(i)] : 0;
      for (int64_t n = LocalElements(op, piece, i); n > 0; --n) {
        input.data.push_back(below > 0
                                 ? static_cast<double>(random_() % static_cast<uint64_t>(below))
                                 : value(random_));
      }
      inputs.push_back(std::move(input));
    }
    CheckPiece<double>(op, piece, inputs, 1e-12);
    CheckPiece<float>(op, piece, inputs, float_tolerance);
  }

  std::mt19937 random_{7};
};

TEST_CASE("Every built-in operator, whole and in halves, equals the interpreter") {
  Checker checker;
  for (const OperatorSample& sample : OperatorSamples()) {
    const auto op =
        Instantiate(*BuiltinOperators().Find(sample.op), sample.attributes, sample.inputs);
    REQUIRE(op.ok());
    checker.Check(*op, sample.index_below, sample.positive);
  }
}

// All gradients of an instance, with operands in its own order of inputs, outputs, gradients.
void CheckGradients(Checker& checker, const OpInstance& op, const std::vector<int64_t>& index_below,
                    bool positive) {
  std::vector<int> wanted;
  for (int i = 0; i < op.num_inputs; ++i) {
    if (op.input(i).kind == ElementKind::kFloat) wanted.push_back(i);
  }
  const auto gradients = GradientsOf(op, wanted);
  if (!gradients.ok()) return;  // argmax and the like
  for (const GradientOp& gradient : *gradients) {
    std::vector<FactoredShape> shapes;
    std::vector<int64_t> below;
    for (const GradientOp::Operand& operand : gradient.inputs) {
      const bool input = operand.source == GradientOp::Source::kInput;
      shapes.push_back(op.ShapeOf(input ? operand.position : op.num_inputs + operand.position));
      const size_t at = At(operand.position);
      below.push_back(input && at < index_below.size() ? index_below[at] : 0);
    }
    const auto instance = Instantiate(gradient.spec, gradient.attributes, shapes);
    CAPTURE(gradient.spec.text, instance.status());
    REQUIRE(instance.ok());
    checker.Check(*instance, below, positive, 2e-3);
  }
}

TEST_CASE("So do their gradients, whatever form differentiation gives them") {
  Checker checker;
  for (const OperatorSample& sample : OperatorSamples()) {
    const auto op =
        Instantiate(*BuiltinOperators().Find(sample.op), sample.attributes, sample.inputs);
    REQUIRE(op.ok());
    CheckGradients(checker, *op, sample.index_below, sample.positive);
  }
}

std::string Stages(const OpInstance& op) {
  const auto kernel = Kernel<float>::Prepare(op, {});
  REQUIRE(kernel.ok());
  return (*kernel)->stages();
}

TEST_CASE("Convolutions of random shapes, and their gradients, run in the library") {
  Checker checker;
  std::mt19937 random(3);
  const auto pick = [&](int64_t low, int64_t high) {
    return low + static_cast<int64_t>(random() % static_cast<uint64_t>(high - low + 1));
  };
  for (int i = 0; i < 12; ++i) {
    const int64_t groups = pick(1, 3), in = pick(2, 3), out = pick(2, 4);
    const int64_t r = pick(1, 3), s = pick(1, 3);
    const Attributes attributes = {{"stride_h", pick(1, 3)},           {"stride_w", pick(1, 2)},
                                   {"pad_top", pick(0, r - 1)},        {"pad_left", pick(0, s - 1)},
                                   {"pad_bottom", pick(0, 1)},         {"dilation_h", pick(1, 2)},
                                   {"absent", std::vector<int64_t>{2}}};
    const auto op = Instantiate(*BuiltinOperators().Find("conv2d"), attributes,
                                {{{pick(1, 4)}, {groups * in}, {pick(7, 9)}, {pick(6, 8)}},
                                 {{groups * out}, {in}, {r}, {s}}});
    INFO(op.status());
    REQUIRE(op.ok());
    CHECK(Stages(*op).find("conv") != std::string::npos);
    checker.Check(*op, {}, false);
    for (int input : {0, 1}) {
      const auto gradient = GradientsOf(*op, {input});
      REQUIRE(gradient.ok());
      REQUIRE(gradient->size() == 1);
      std::vector<FactoredShape> shapes;
      for (const GradientOp::Operand& operand : (*gradient)[0].inputs) {
        shapes.push_back(operand.source == GradientOp::Source::kInput
                             ? op->ShapeOf(operand.position)
                             : op->ShapeOf(op->num_inputs + operand.position));
      }
      const auto instance = Instantiate((*gradient)[0].spec, (*gradient)[0].attributes, shapes);
      CAPTURE((*gradient)[0].spec.text);
      REQUIRE(instance.ok());
      CHECK(Stages(*instance).find("conv") != std::string::npos);
      checker.Check(*instance, {}, false, 1e-3);
    }
  }
}

TEST_CASE("Heavy operators go to a library, others do not") {
  const auto stages = [](const std::string& name, const std::vector<FactoredShape>& inputs,
                         const Attributes& attributes = {}) {
    const auto op = Instantiate(*BuiltinOperators().Find(name), attributes, inputs);
    REQUIRE(op.ok());
    return Stages(*op);
  };
  CHECK(stages("matmul", {{{2}, {3}, {4}}, {{4}, {5}}}) == "gemm");
  CHECK(stages("linear", {{{2}, {4}}, {{4}, {5}}, {{5}}}) == "gemm+loops");
  const FactoredShape q = {{2}, {3}, {8}};
  CHECK(stages("attention", {q, q, q}, {{"scale", 0.5}}) == "gemm+loops+gemm+loops");
  CHECK(stages("softmax", {{{3}, {4}}}, {{"rank_c", int64_t{0}}}) == "loops");
  CHECK(stages("embedding", {{{3}}, {{5}, {4}}}) == "loops");
}

TEST_CASE("A read out of range is an error of the operator, not of the process") {
  const auto specs =
      ParseOperators("operator f(x[n]; size) -> out[m = size] { out[i] = x[i + 1] }", "f.ops");
  REQUIRE(specs.ok());
  const auto op = Instantiate((*specs)[0], {{"size", int64_t{4}}}, {{{4}}});
  REQUIRE(op.ok());
  const auto kernel = Kernel<double>::Prepare(*op, {});
  if (!kernel.ok()) {
    CHECK(std::string(kernel.status().message()).find("operator f") != std::string::npos);
    return;
  }
  const std::vector<double> x(4, 1);
  std::vector<double> out(4), scratch;
  CHECK_FALSE((*kernel)->Run({x.data()}, {out.data()}, scratch).ok());
}

}  // namespace
}  // namespace tandem
