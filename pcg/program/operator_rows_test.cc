// Every row of every built-in operator's factor table, executed: the operator run on the pieces
// that a row gives to two devices, put together as the row says, is the operator run on the whole.
#include <algorithm>
#include <catch2/catch.hpp>
#include <cmath>
#include <map>
#include <string>
#include <vector>

#include "pcg/autodiff/autodiff.h"
#include "pcg/graph/interpreter.h"
#include "pcg/language/op_parser.h"
#include "pcg/layout/factor_table.h"
#include "pcg/layout/layout.h"
#include "pcg/layout/step_data.h"

namespace tandem {
namespace {

struct Sample {
  Attributes attributes;
  std::vector<FactoredShape> inputs;  // empty: made from the signature
};

using Ints = std::vector<int64_t>;
AttrValue I(int64_t v) { return AttrValue(v); }
AttrValue L(Ints v) { return AttrValue(std::move(v)); }

// Operators whose attributes have no default, or whose dims depend on each other.
const std::map<std::string, std::vector<Sample>>& Samples() {
  static const auto* const samples = new std::map<std::string, std::vector<Sample>>{
      {"transpose", {{{{"perm", L({1, 0})}}, {}}}},
      {"reshape",
       {{{{"shape", L({8})}}, {{{4}, {2}}}},
        {{{"shape", L({4, 2})}}, {{{4, 2}}}},
        {{{"shape", L({2, 6})}}, {{{4}, {3}}}}}},
      {"expand", {{{{"shape", L({4, 6})}}, {{{1}, {6}}}}, {{{"shape", L({4, 6})}}, {{{6}}}}}},
      {"slice", {{{{"start", I(1)}, {"size", I(2)}, {"rank_c", I(1)}}, {{{4}, {6}, {2}}}}}},
      {"pad", {{{{"low", I(1)}, {"high", I(1)}, {"rank_c", I(1)}}, {{{4}, {6}, {2}}}}}},
      {"fill", {{{{"shape", L({4, 2})}, {"value", I(3)}}, {}}}},
      {"iota", {{{{"size", I(6)}}, {}}}},
      {"causal_mask", {{{{"rows", I(4)}, {"cols", I(4)}, {"low", I(-9)}}, {}}}},
      {"conv1d", {{{{"pad", I(1)}}, {{{2}, {2, 2}, {6}}, {{2, 2}, {2}, {3}}, {{2, 2}}}}}},
      {"conv2d",
       {{{{"pad_top", I(1)}, {"stride_w", I(2)}},
         {{{2}, {2, 2}, {5}, {4}}, {{2, 2}, {2}, {2}, {2}}, {{2, 2}}}},
        {{{"absent", L({2})}}, {{{2}, {4}, {4}, {3}}, {{2}, {4}, {1}, {2}}}}}},
      {"conv_transpose2d",
       {{{{"stride_h", I(2)}}, {{{2}, {2, 2}, {2}, {2}}, {{2, 2}, {2}, {2}, {2}}, {{2, 2}}}}}},
      {"max_pool2d",
       {{{{"kernel_h", I(2)}, {"kernel_w", I(2)}, {"stride_h", I(2)}}, {{{2}, {2}, {4}, {5}}}}}},
      {"avg_pool2d",
       {{{{"kernel_h", I(2)}, {"kernel_w", I(2)}, {"pad_left", I(1)}}, {{{2}, {2}, {4}, {3}}}}}},
      {"lrn",
       {{{{"alpha", AttrValue(0.1)},
          {"beta", AttrValue(0.5)},
          {"bias", AttrValue(1.0)},
          {"size", I(3)}},
         {{{2}, {4}, {4}}}}}},
  };
  return *samples;
}

// Numbers where an attribute has no default.
Attributes WithNumbers(const OpSpec& spec, Attributes attributes) {
  for (const AttrSpec& attr : spec.attributes) {
    if (!attr.has_default && attributes.count(attr.name) == 0) {
      attributes[attr.name] = attr.name == "groups" ? I(2) : AttrValue(0.5);
    }
  }
  return attributes;
}

int64_t ExtentOf(const std::string& size) {
  return size.empty() ? 4 : 4 + 2 * static_cast<int64_t>(static_cast<unsigned>(size[0]) % 2);
}

// A shape for every input from the signature: even extents, groups of two dims (one if the operator
// has several groups).
std::vector<FactoredShape> ShapesOf(const OpSpec& spec, Attributes* attributes) {
  std::vector<FactoredShape> shapes;
  int groups = 0;
  for (const DimSpec& dim : spec.inputs[0].dims) groups += dim.kind == DimSpec::Kind::kGroup;
  const size_t rank = groups > 1 ? 1 : 2;
  for (const OperandSpec& input : spec.inputs) {
    FactoredShape shape;
    for (const DimSpec& dim : input.dims) {
      if (dim.kind == DimSpec::Kind::kGroup) {
        for (size_t i = 0; i < rank; ++i) shape.push_back({i == 0 ? 4 : 2});
        if (groups > 1) (*attributes)["rank_" + dim.name] = I(static_cast<int64_t>(rank));
      } else if (dim.kind == DimSpec::Kind::kTuple) {
        shape.push_back(Factors(dim.parts.size(), 2));
      } else if (dim.kind == DimSpec::Kind::kConstant) {
        shape.push_back({dim.constant});
      } else {
        shape.push_back({ExtentOf(dim.name)});
      }
    }
    shapes.push_back(std::move(shape));
  }
  return shapes;
}

HostTensor Values(const OpInstance& op, int input, unsigned* state) {
  HostTensor tensor;
  tensor.shape = PlainShape(op.ShapeOf(input));
  for (int64_t i = 0; i < ElementCount(op.ShapeOf(input)); ++i) {
    *state = *state * 1664525u + 1013904223u;
    const unsigned r = *state >> 8;
    switch (op.input(input).kind) {
      case ElementKind::kFloat:
        tensor.data.push_back(0.25 + static_cast<double>(r % 1000) / 500);
        break;
      case ElementKind::kInt:
        tensor.data.push_back(r % 4);
        break;
      case ElementKind::kBool:
        tensor.data.push_back(r % 2);
        break;
    }
  }
  return tensor;
}

Layout OnAxis(const AxisPlacement& placement) { return Layout{{placement}}; }

// The piece of a device; of a partial tensor, its share.
std::vector<double> Local(const HostTensor& whole, const FactoredShape& shape,
                          const AxisPlacement& placement, const Mesh& mesh, int64_t device) {
  std::vector<double> local;
  for (int64_t i : PieceIndices(shape, OnAxis(placement), mesh, {device})) {
    const double value = whole.data[static_cast<size_t>(i)];
    if (placement.kind != AxisPlacement::Kind::kPartial) {
      local.push_back(value);
    } else if (placement.combiner == Combiner::kSum) {
      local.push_back(device == 0 ? 0.3 * value + 1 : 0.7 * value - 1);
    } else {
      const double less = placement.combiner == Combiner::kMax ? value - 1 : value + 1;
      local.push_back((i + device) % 2 == 0 ? value : less);
    }
  }
  return local;
}

std::vector<int64_t> LocalDims(const FactoredShape& shape, const AxisPlacement& placement,
                               const Mesh& mesh) {
  return PlainShape(LocalShape(shape, OnAxis(placement), mesh));
}

bool Holds(const OpInstance& op, const SplitRow& row) {
  const int64_t degree = 2;
  const Mesh mesh{{{"x", degree, false}}};
  unsigned state = 7;
  std::vector<HostTensor> inputs;
  std::vector<const HostTensor*> pointers;
  for (int i = 0; i < op.num_inputs; ++i) inputs.push_back(Values(op, i, &state));
  for (const HostTensor& input : inputs) pointers.push_back(&input);
  const auto expected = Evaluate(op, pointers);
  INFO(expected.status());
  REQUIRE(expected.ok());
  std::vector<std::vector<HostTensor>> results;
  for (int64_t device = 0; device < degree; ++device) {
    PieceOfOp piece;
    for (const SizeVar& size : op.sizes) piece.extents.push_back(size.extent);
    piece.offsets.assign(op.sizes.size(), 0);
    if (row.size >= 0) {
      const auto s = static_cast<size_t>(row.size);
      piece.extents[s] /= degree;
      if (row.needs_offset) piece.offsets[s] = device * piece.extents[s];
    }
    std::vector<HostTensor> locals;
    for (int i = 0; i < op.num_inputs; ++i) {
      const AxisPlacement& p = row.inputs[static_cast<size_t>(i)];
      locals.push_back({LocalDims(op.ShapeOf(i), p, mesh),
                        Local(inputs[static_cast<size_t>(i)], op.ShapeOf(i), p, mesh, device)});
    }
    std::vector<const HostTensor*> local_pointers;
    for (const HostTensor& local : locals) local_pointers.push_back(&local);
    const auto result = Evaluate(op, local_pointers, piece);
    if (!result.ok()) return false;
    results.push_back(*result);
  }
  for (size_t o = 0; o < expected->size(); ++o) {
    const FactoredShape shape = op.ShapeOf(op.num_inputs + static_cast<int>(o));
    const AxisPlacement& p = row.outputs[o];
    const std::vector<double>& whole = (*expected)[o].data;
    for (int64_t device = 0; device < degree; ++device) {
      const std::vector<int64_t> indices = PieceIndices(shape, OnAxis(p), mesh, {device});
      const std::vector<double>& local = results[static_cast<size_t>(device)][o].data;
      if (local.size() != indices.size()) return false;
      for (size_t i = 0; i < indices.size(); ++i) {
        const double value = p.kind == AxisPlacement::Kind::kPartial
                                 ? Combine(p.combiner, results[0][o].data[i], results[1][o].data[i])
                                 : local[i];
        const double want = whole[static_cast<size_t>(indices[i])];
        if (value == want || (std::isnan(value) && std::isnan(want))) continue;
        if (!(std::abs(value - want) <= 1e-9 * (1 + std::abs(want)))) return false;
      }
    }
  }
  return true;
}

std::vector<OpInstance> InstancesOf(const OpSpec& spec) {
  std::vector<Sample> samples = {{}};
  const auto own = Samples().find(spec.name);
  if (own != Samples().end()) samples = own->second;
  std::vector<OpInstance> instances;
  for (Sample& sample : samples) {
    Attributes attributes = WithNumbers(spec, sample.attributes);
    std::vector<FactoredShape> shapes = sample.inputs;
    if (shapes.empty() && !spec.inputs.empty()) shapes = ShapesOf(spec, &attributes);
    const auto instance = Instantiate(spec, attributes, shapes);
    CAPTURE(spec.name);
    INFO("give the operator a sample in Samples(): " << instance.status());
    REQUIRE(instance.ok());
    instances.push_back(*instance);
  }
  return instances;
}

TEST_CASE("Every row of every built-in operator holds when executed") {
  int rows = 0;
  for (const auto& [name, spec] : BuiltinOperators().specs()) {
    for (const OpInstance& op : InstancesOf(spec)) {
      for (const SplitRow& row : FactorTable(op)) {
        if (row.size >= 0 && op.sizes[static_cast<size_t>(row.size)].extent % 2 != 0) continue;
        CAPTURE(name, row.reason);
        REQUIRE(Holds(op, row));
        ++rows;
      }
    }
  }
  CHECK(rows > 300);
}

TEST_CASE("So does every row of every derived gradient operator") {
  int gradients = 0;
  for (const auto& [name, spec] : BuiltinOperators().specs()) {
    const OpInstance op = InstancesOf(spec)[0];
    std::vector<int> floats;
    for (int i = 0; i < op.num_inputs; ++i) {
      if (op.input(i).kind == ElementKind::kFloat) floats.push_back(i);
    }
    const auto derived = GradientsOf(op, floats);
    if (!derived.ok()) continue;  // tested with differentiation
    for (const GradientOp& gradient : *derived) {
      std::vector<FactoredShape> shapes;
      for (const GradientOp::Operand& operand : gradient.inputs) {
        const bool input = operand.source == GradientOp::Source::kInput;
        shapes.push_back(op.ShapeOf(operand.position + (input ? 0 : op.num_inputs)));
      }
      const auto instance = Instantiate(gradient.spec, gradient.attributes, shapes);
      CAPTURE(name, gradient.spec.text);
      REQUIRE(instance.ok());
      ++gradients;
      for (const SplitRow& row : FactorTable(*instance)) {
        if (row.size >= 0 && instance->sizes[static_cast<size_t>(row.size)].extent % 2 != 0) {
          continue;
        }
        CAPTURE(row.reason);
        REQUIRE(Holds(*instance, row));
      }
    }
  }
  CHECK(gradients > 60);
}

std::vector<std::string> Reasons(const std::string& op) {
  std::vector<std::string> reasons;
  for (const SplitRow& row : FactorTable(InstancesOf(**BuiltinOperators().Get(op))[0])) {
    reasons.push_back(row.reason + (row.needs_offset ? " @" : ""));
  }
  return reasons;
}

using Strings = std::vector<std::string>;

TEST_CASE("The known parallel strategies are rows of the tables, and no others") {
  CHECK(Reasons("matmul") == Strings{"replicate", "split b.0", "split b.1", "split m", "split k",
                                     "split n", "partial lhs", "partial rhs"});
  // Where the sum is split, the bias has to be shared out.
  CHECK(Reasons("linear") == Strings{"replicate", "split b.0", "split b.1", "split k, partial bias",
                                     "split n", "partial x,bias", "partial w,bias"});
  CHECK(Reasons("softmax") == Strings{"replicate", "split a.0", "split c.0"});
  CHECK(Reasons("layer_norm") ==
        Strings{"replicate", "split b.0", "split b.1", "partial gamma,beta"});
  CHECK(Reasons("embedding") == Strings{"replicate", "split b.0", "split b.1", "split v @",
                                        "split e.0", "split e.1", "partial table"});
  CHECK(Reasons("attention") ==
        Strings{"replicate", "split b.0", "split b.1", "split s", "split e", "partial v"});
  CHECK(Reasons("causal_attention") ==
        Strings{"replicate", "split b.0", "split b.1", "split s @", "split e", "partial v"});
  CHECK(Reasons("cross_entropy") == Strings{"replicate", "split b.0", "split b.1"});
  CHECK(Reasons("adamw") == Strings{"replicate", "split d.0", "split d.1"});
  CHECK(Reasons("lamb") == Strings{"replicate"});
}

SplitRow RowOf(const OpInstance& op, const std::string& reason) {
  for (const SplitRow& row : FactorTable(op)) {
    if (row.reason == reason) return row;
  }
  FAIL("no row " << reason);
  return {};
}

TEST_CASE("A row that is spoiled does not hold") {
  const OpInstance matmul = InstancesOf(**BuiltinOperators().Get("matmul"))[0];
  const OpInstance embedding = InstancesOf(**BuiltinOperators().Get("embedding"))[0];
  SplitRow row = RowOf(matmul, "split k");
  REQUIRE(Holds(matmul, row));
  SECTION("a share taken for the whole") { row.outputs[0] = AxisPlacement::Replicated(); }
  SECTION("the wrong combiner") { row.outputs[0] = AxisPlacement::Partial(Combiner::kMax); }
  SECTION("the whole taken for a share") {
    row = RowOf(matmul, "replicate");
    row.outputs[0] = AxisPlacement::Partial(Combiner::kSum);
  }
  SECTION("two partial factors") {
    row = RowOf(matmul, "partial lhs");
    row.inputs[1] = AxisPlacement::Partial(Combiner::kSum);
  }
  CHECK_FALSE(Holds(matmul, row));
  SplitRow vocabulary = RowOf(embedding, "split v");
  REQUIRE(Holds(embedding, vocabulary));
  vocabulary.needs_offset = false;
  CHECK_FALSE(Holds(embedding, vocabulary));
}

}  // namespace
}  // namespace tandem
