#include "pcg/autodiff/autodiff.h"

#include <catch2/catch.hpp>
#include <functional>
#include <numeric>
#include <set>

#include "pcg/autodiff/gradient_check.h"
#include "pcg/language/op_parser.h"

namespace tandem {
namespace {

const OpSpec& Spec(const std::string& name) {
  const OpSpec* spec = BuiltinOperators().Find(name);
  if (spec == nullptr) throw std::runtime_error("no operator " + name);
  return *spec;
}

OpInstance Make(const OpSpec& spec, const OperatorCase& c) {
  auto instance = Instantiate(spec, c.attributes, c.shapes);
  if (!instance.ok()) throw std::runtime_error(std::string(instance.status().message()));
  return *std::move(instance);
}

std::vector<int> FloatInputs(const OpInstance& op) {
  std::vector<int> floats;
  for (int i = 0; i < op.num_inputs; ++i) {
    if (op.input(i).kind == ElementKind::kFloat) floats.push_back(i);
  }
  return floats;
}

// With attributes kept, as a graph's differentiation has it; a user's operator with numbers.
std::vector<GradientOp> Gradients(const OpInstance& op, const std::vector<int>& wanted,
                                  const std::vector<GradientSeed>& seeds = {}) {
  OpInstance symbolic = op;
  if (const OpSpec* spec = BuiltinOperators().Find(op.op)) {
    std::vector<FactoredShape> shapes;
    for (int i = 0; i < op.num_inputs; ++i) {
      FactoredShape shape;
      for (int64_t extent : PlainShape(op.ShapeOf(i))) shape.push_back({extent});
      shapes.push_back(std::move(shape));
    }
    auto instance = InstantiateForGradients(*spec, op.attributes, shapes);
    if (!instance.ok()) throw std::runtime_error(std::string(instance.status().message()));
    symbolic = *std::move(instance);
  }
  auto gradients = GradientsOf(symbolic, wanted, seeds);
  if (!gradients.ok()) throw std::runtime_error(std::string(gradients.status().message()));
  return *std::move(gradients);
}

// Inputs at which the operator is finite: of both signs if it can be, else positive.
struct Point {
  std::vector<HostTensor> inputs, g;
};
Point FinitePoint(const OpInstance& op, uint64_t seed) {
  std::mt19937_64 random(seed);
  for (const double low : {-1.3, 0.35}) {
    Point point;
    point.inputs = RandomInputs(op, low, 1.45, random);
    for (int o = 0; o < op.num_outputs; ++o) {
      point.g.push_back(RandomTensor(op.ShapeOf(op.num_inputs + o), -1, 1, random));
    }
    auto value = Weighted(op, point.inputs, point.g);
    if (value.ok() && std::isfinite(*value)) return point;
  }
  throw std::runtime_error("no point where " + op.op + " is finite");
}

double WorstError(const OpInstance& op, uint64_t seed = 1) {
  const std::vector<int> wanted = FloatInputs(op);
  const Point point = FinitePoint(op, seed);
  auto error = GradientError(op, Gradients(op, wanted), wanted, point.inputs, point.g);
  if (!error.ok()) throw std::runtime_error(std::string(error.status().message()));
  return *error;
}

constexpr double kTolerance = 1e-6;  // of central differences; a wrong gradient is off by far more

// ---- cases for any operator, from its signature

const std::map<std::string, AttrValue>& SampleAttributes() {
  static const auto* const kSamples = new std::map<std::string, AttrValue>{
      {"value", 0.7},
      {"exponent", 2.5},
      {"alpha", 0.3},
      {"beta", 0.75},
      {"bias", 1.5},
      {"ratio", 0.4},
      {"seed", int64_t{7}},
      {"start", int64_t{1}},
      {"kernel_h", int64_t{2}},
      {"kernel_w", int64_t{3}},
      {"groups", int64_t{2}},
      {"scale", 0.6},
      {"momentum", 0.9},
      {"low", 0.6},
      {"high", 1.1},
      {"pad.low", int64_t{1}},
      {"pad.high", int64_t{2}},
      {"slice.size", int64_t{2}},
      {"lrn.size", int64_t{3}},
      {"rows", int64_t{3}},
      {"cols", int64_t{3}},

      {"size", int64_t{4}},
  };
  return *kSamples;
}

int64_t SampleExtent(const std::string& size) {
  static const std::map<std::string, int64_t> kExtents = {{"h", 4},      {"w", 5}, {"l", 5},
                                                          {"r", 2},      {"s", 3}, {"t", 3},
                                                          {"groups", 2}, {"g", 2}, {"v", 5}};
  const auto it = kExtents.find(size);
  return it != kExtents.end() ? it->second : 2 + static_cast<int64_t>(size[0]) % 3;
}

// `broadcast`: dims marked ? of all inputs but the first are 1. `optional`: optional inputs
// present.
std::optional<OperatorCase> CaseOf(const OpSpec& spec, int group_rank, bool broadcast,
                                   bool optional) {
  OperatorCase c;
  std::set<std::string> groups;
  std::vector<int64_t> absent, first_shape;
  for (size_t i = 0; i < spec.inputs.size(); ++i) {
    FactoredShape shape;
    for (const DimSpec& dim : spec.inputs[i].dims) {
      const bool one = broadcast && dim.broadcast && i > 0;
      if (dim.kind == DimSpec::Kind::kGroup) {
        groups.insert(dim.name);
        for (int d = 0; d < group_rank; ++d) {
          shape.push_back({one ? 1 : SampleExtent(dim.name) + d});
        }
      } else if (dim.kind == DimSpec::Kind::kTuple) {
        int64_t extent = 1;
        for (const std::string& part : dim.parts) extent *= SampleExtent(part);
        shape.push_back({extent});
      } else {
        shape.push_back({dim.kind == DimSpec::Kind::kConstant ? dim.constant
                         : one                                ? 1
                                                              : SampleExtent(dim.name)});
      }
    }
    if (i == 0) first_shape = PlainShape(shape);
    if (spec.inputs[i].optional && !optional) {
      absent.push_back(static_cast<int64_t>(i));
    } else {
      c.shapes.push_back(std::move(shape));
    }
  }
  if (groups.size() > 1) {
    for (const std::string& group : groups) {
      if (group != "a") c.attributes["rank_" + group] = int64_t{group_rank};
    }
  }
  if (!absent.empty()) c.attributes["absent"] = absent;
  for (const AttrSpec& attr : spec.attributes) {
    const auto own = SampleAttributes().find(spec.name + "." + attr.name);
    if (own != SampleAttributes().end()) {
      c.attributes[attr.name] = own->second;
    } else if (attr.has_default) {
      continue;
    } else if (attr.name == "perm") {
      std::vector<int64_t> perm(first_shape.size());
      std::iota(perm.rbegin(), perm.rend(), 0);
      c.attributes["perm"] = perm;
    } else if (attr.name == "shape") {
      c.attributes["shape"] =
          spec.name == "reshape"
              ? std::vector<int64_t>{std::accumulate(first_shape.begin(), first_shape.end(),
                                                     int64_t{1}, std::multiplies<>())}
              : first_shape;
    } else {
      const auto it = SampleAttributes().find(attr.name);
      if (it == SampleAttributes().end()) return std::nullopt;
      c.attributes[attr.name] = it->second;
    }
  }
  return c;
}

bool HasFloat(const std::vector<OperandSpec>& operands) {
  return std::any_of(operands.begin(), operands.end(),
                     [](const OperandSpec& o) { return o.kind == ElementKind::kFloat; });
}

// Inputs that the equations read inside nograd(...) only: constants to whoever differentiates.
std::set<int> ReadWithoutGradient(const OpInstance& op) {
  std::set<int> stopped, live;
  const std::function<void(ExprId, bool)> visit = [&](ExprId id, bool inside) {
    const ExprNode& e = op.exprs[id];
    inside |= e.kind == ExprKind::kNoGrad;
    if (e.kind == ExprKind::kRead && e.ref < op.num_inputs) {
      (inside ? stopped : live).insert(static_cast<int>(e.ref));
    }
    for (ExprId arg : e.args) visit(arg, inside);
  };
  for (const InstanceEquation& e : op.equations) visit(e.body, false);
  for (int i : live) stopped.erase(i);
  return stopped;
}

TEST_CASE("Every built-in operator's gradient agrees with central differences") {
  int checked = 0;
  for (const auto& [name, spec] : BuiltinOperators().specs()) {
    if (!HasFloat(spec.inputs)) continue;
    std::set<std::string> seen;
    for (const bool broadcast : {false, true}) {
      for (const int rank : {1, 2}) {
        for (const bool optional : {true, false}) {
          const std::optional<OperatorCase> c = CaseOf(spec, rank, broadcast, optional);
          INFO(spec.text << "rank " << rank << " broadcast " << broadcast << " optional "
                         << optional);
          if (!c) FAIL("an attribute of " << name << " has no sample value; add one");
          std::string key;
          for (const FactoredShape& s : c->shapes) {
            for (int64_t e : PlainShape(s)) key += std::to_string(e) + ",";
            key += ";";
          }
          if (!seen.insert(key).second) continue;
          auto instance = Instantiate(spec, c->attributes, c->shapes);
          // An optional input may be what tells a size (the bias of a transposed convolution).
          if (!instance.ok() && !optional) continue;
          if (!instance.ok()) {
            FAIL_CHECK(instance.status().message());
            continue;
          }
          std::vector<int> wanted;
          const std::set<int> stopped = ReadWithoutGradient(*instance);
          for (int i : FloatInputs(*instance)) {
            if (stopped.count(i) == 0) wanted.push_back(i);
          }
          auto symbolic = InstantiateForGradients(spec, c->attributes, c->shapes);
          if (!stopped.empty()) {
            REQUIRE(symbolic.ok());
            const std::vector<int> constants(stopped.begin(), stopped.end());
            const auto none = GradientsOf(*symbolic, constants);
            CHECK((none.ok() && none->empty()));
          }
          if (wanted.empty()) continue;
          REQUIRE(symbolic.ok());
          auto gradients = GradientsOf(*symbolic, wanted);
          if (!gradients.ok()) {
            FAIL_CHECK(gradients.status().message());
            continue;
          }
          if (!HasFloat(spec.outputs)) {
            CHECK(gradients->empty());
            continue;
          }
          std::string texts;
          for (const GradientOp& g : *gradients) texts += g.spec.text;
          INFO(texts);
          const Point point = FinitePoint(*instance, 3);
          auto error = GradientError(*instance, *gradients, wanted, point.inputs, point.g);
          if (!error.ok()) {
            FAIL_CHECK(error.status().message());
            continue;
          }
          CHECK(*error < kTolerance);
          ++checked;
        }
      }
    }
  }
  CHECK(checked > 150);
}

// Attributes and shapes that the defaults above do not reach.
struct NamedCase {
  const char* op;
  std::vector<std::vector<int64_t>> shapes;
  Attributes attributes;
};

std::vector<NamedCase> SpecialCases() {
  using Ints = std::vector<int64_t>;
  const auto i = [](int64_t x) { return AttrValue(x); };
  const Attributes strided = {{"stride_h", i(2)}, {"stride_w", i(3)},   {"pad_top", i(1)},
                              {"pad_left", i(2)}, {"pad_bottom", i(2)}, {"dilation_h", i(2)}};
  const auto with = [](Attributes a, Attributes more) {
    a.insert(more.begin(), more.end());
    return a;
  };
  return {
      {"conv1d",
       {{2, 4, 7}, {6, 2, 3}, {6}},
       {{"stride", i(2)}, {"pad", i(1)}, {"dilation", i(2)}}},
      {"conv2d", {{1, 2, 5, 4}, {3, 2, 2, 2}}, strided},
      {"conv2d", {{1, 4, 5, 4}, {6, 2, 2, 2}, {6}}, strided},         // groups of 2
      {"conv2d", {{1, 3, 4, 4}, {3, 1, 2, 2}}, {{"pad_top", i(1)}}},  // depthwise
      {"conv2d", {{2, 3, 2, 2}, {4, 3, 1, 1}}, {}},
      {"conv_transpose2d",
       {{1, 4, 3, 2}, {4, 2, 2, 2}, {4}},
       with(strided, {{"output_pad_h", i(1)}})},  // groups of 2
      {"conv_transpose2d", {{1, 2, 2, 2}, {2, 3, 2, 2}, {3}}, {{"stride_h", i(2)}}},
      {"max_pool2d", {{1, 2, 6, 8}}, with(strided, {{"kernel_h", i(2)}, {"kernel_w", i(3)}})},
      {"avg_pool2d",
       {{1, 2, 5, 5}},
       {{"kernel_h", i(3)},
        {"kernel_w", i(2)},
        {"stride_h", i(2)},
        {"pad_top", i(1)},
        {"pad_left", i(1)},
        {"pad_bottom", i(2)}}},
      {"avg_pool2d",
       {{1, 2, 5, 5}},
       {{"kernel_h", i(3)},
        {"kernel_w", i(2)},
        {"pad_top", i(1)},
        {"pad_bottom", i(1)},
        {"include_pad", i(1)},
        {"count_bottom", i(1)}}},
      {"matmul", {{3, 2, 4}, {4, 5}}, {}},
      {"matmul", {{2, 4}, {3, 1, 4, 2}}, {}},
      {"matmul", {{2, 1, 2, 3}, {1, 3, 3, 2}}, {}},
      {"linear", {{3}, {3, 2}, {2}}, {}},
      {"add", {{2, 3, 2}, {1, 3, 1}}, {}},
      {"mul", {{2, 1}, {2, 2, 3}}, {}},
      {"div", {{3}, {2, 1, 3}}, {}},
      {"where", {{3}, {2, 1}, {2, 3}}, {}},
      {"expand", {{2, 1, 3}}, {{"shape", Ints{4, 2, 5, 3}}}},
      {"slice", {{7, 2}}, {{"rank_c", i(1)}, {"start", i(1)}, {"size", i(3)}, {"step", i(2)}}},
      {"slice", {{7}}, {{"rank_c", i(0)}, {"start", i(5)}, {"size", i(3)}, {"step", i(-2)}}},
      {"pad", {{6, 2}}, {{"rank_c", i(1)}, {"low", i(-2)}, {"high", i(-1)}}},
      {"transpose", {{2, 3, 4, 2}}, {{"perm", Ints{2, 0, 3, 1}}}},
      {"reshape", {{2, 3, 4}}, {{"shape", Ints{6, 1, 4}}}},
      {"reshape", {{1}}, {{"shape", Ints{}}}},
      {"attention", {{2, 2, 3, 2}, {2, 2, 4, 2}, {2, 2, 4, 3}, {2, 1, 1, 4}}, {{"scale", 0.4}}},
      {"attention", {{2, 2, 3, 2}, {2, 2, 4, 2}, {2, 2, 4, 3}, {3, 4}}, {{"scale", 0.4}}},
      {"causal_attention", {{2, 4, 2}, {2, 4, 2}, {2, 4, 3}}, {{"scale", 0.4}}},
      {"cross_entropy", {{2, 3, 4}, {2, 3}}, {}},
      {"cross_entropy", {{4}, {}}, {}},
      {"softmax", {{2, 3, 2}}, {{"rank_c", i(1)}}},
      {"layer_norm", {{3, 5}, {5}}, {}},
      {"layer_norm", {{3, 5}, {5}}, {{"absent", Ints{1}}}},
      {"power", {{3}}, {{"exponent", i(2)}}},
      {"power", {{3}}, {{"exponent", i(1)}}},
      {"clip", {{20}}, {{"low", -0.5}, {"high", 0.5}}},
      {"leaky_relu", {{20}}, {{"alpha", -0.2}}},
      {"adam", {{3}, {3}, {3}, {3}, {}, {}}, {{"decay", 0.1}}},
  };
}

OpInstance InstanceOfCase(const NamedCase& c) {
  OperatorCase operators{c.attributes, {}};
  for (const auto& shape : c.shapes) {
    FactoredShape factored;
    for (int64_t extent : shape) factored.push_back({extent});
    operators.shapes.push_back(std::move(factored));
  }
  return Make(Spec(c.op), operators);
}

TEST_CASE("Gradients of strided, grouped, padded and broadcast cases agree with differences") {
  for (const NamedCase& c : SpecialCases()) {
    const OpInstance op = InstanceOfCase(c);
    INFO(ToString(op));
    CHECK(WorstError(op) < kTolerance);
  }
}

TEST_CASE("Where an operator is linear in an input, its gradient is the adjoint map") {
  int linear = 0;
  for (const NamedCase& c : SpecialCases()) {
    const OpInstance op = InstanceOfCase(c);
    if (op.num_outputs != 1) continue;
    INFO(ToString(op));
    Point point = FinitePoint(op, 11);
    std::mt19937_64 random(5);
    for (const int input : FloatInputs(op)) {
      // Linear if f(3x) = 3 f(x); then <g, f(x)> = <f'(g), x>, exactly but for rounding.
      const auto value = [&](double scale) {
        Point p = point;
        for (double& x : p.inputs[static_cast<size_t>(input)].data) x *= scale;
        return *Weighted(op, p.inputs, p.g);
      };
      const double once = value(1);
      if (std::abs(value(3) - 3 * once) > 1e-12 || std::abs(value(-1) + once) > 1e-12) continue;
      ++linear;
      const auto gradients = Gradients(op, {input});
      for (const GradientOp& g : gradients) {
        for (const GradientOp::Operand& operand : g.inputs) {
          CHECK_FALSE((operand.source == GradientOp::Source::kInput && operand.position == input));
        }
      }
      auto values = RunGradients(op, gradients, point.inputs, point.g);
      REQUIRE(values.ok());
      const HostTensor& gradient = (*values)[static_cast<size_t>(input)];
      const HostTensor& x = point.inputs[static_cast<size_t>(input)];
      CHECK(std::abs(Dot(gradient, x) - once) < 1e-12 * (1 + std::abs(once)));
    }
  }
  CHECK(linear > 20);
}

TEST_CASE("Ties go where they are said to go") {
  const auto gradient = [](const NamedCase& c, std::vector<std::vector<double>> inputs, int input) {
    const OpInstance op = InstanceOfCase(c);
    std::vector<HostTensor> values, g;
    for (size_t i = 0; i < inputs.size(); ++i) values.push_back({c.shapes[i], inputs[i]});
    g.push_back({PlainShape(op.ShapeOf(op.num_inputs)), {}});
    g[0].data.assign(static_cast<size_t>(ElementCount(op.ShapeOf(op.num_inputs))), 1.0);
    return (*RunGradients(op, Gradients(op, {input}), values, g))[static_cast<size_t>(input)].data;
  };
  using V = std::vector<double>;
  const Attributes last = {{"rank_c", int64_t{0}}, {"rank_r", int64_t{1}}};
  CHECK(gradient({"reduce_max", {{4}}, last}, {{1, 3, 3, 2}}, 0) == V{0, 1, 0, 0});
  CHECK(gradient({"reduce_min", {{4}}, last}, {{2, 1, 3, 1}}, 0) == V{0, 1, 0, 0});
  CHECK(gradient({"maximum", {{2}, {2}}, {}}, {{1, 2}, {1, 1}}, 0) == V{0, 1});
  CHECK(gradient({"maximum", {{2}, {2}}, {}}, {{1, 2}, {1, 1}}, 1) == V{1, 0});
  CHECK(gradient({"relu", {{3}}, {}}, {{-1, 0, 2}}, 0) == V{0, 0, 1});
  CHECK(gradient({"reduce_prod", {{3}}, last}, {{2, 0, 5}}, 0) == V{0, 10, 0});
  CHECK(gradient({"pow", {{2}, {2}}, {}}, {{0, 0}, {2, 1}}, 1) == V{0, 0});
}

TEST_CASE("Sigmoids' gradients stay finite where exp overflows") {
  for (const char* name : {"sigmoid", "silu", "softplus"}) {
    const OpInstance op = InstanceOfCase({name, {{2}}, {}});
    const std::vector<HostTensor> x = {{{2}, {-800, 600}}};
    auto values = RunGradients(op, Gradients(op, {0}), x, {{{2}, {1, 1}}});
    REQUIRE(values.ok());
    INFO(name);
    CHECK(std::isfinite((*values)[0].data[0]));
    CHECK((*values)[0].data[1] == Approx(name == std::string("sigmoid") ? 0 : 1));
  }
}

TEST_CASE("The checks catch wrong gradients") {
  const auto error = [](const NamedCase& c, const std::string& from, const std::string& to) {
    const OpInstance op = InstanceOfCase(c);
    const std::vector<int> wanted = FloatInputs(op);
    std::vector<GradientOp> gradients = Gradients(op, wanted);
    bool planted = false;
    for (GradientOp& g : gradients) {
      const size_t at = g.spec.text.find(from);
      if (at == std::string::npos) continue;
      planted = true;
      std::string text = g.spec.text;
      auto specs = ParseOperators(text.replace(at, from.size(), to), "planted");
      if (!specs.ok()) throw std::runtime_error(std::string(specs.status().message()));
      g.spec = (*specs)[0];
      break;
    }
    if (!planted) throw std::runtime_error("nothing to plant in " + op.op);
    const Point point = FinitePoint(op, 4);
    return *GradientError(op, gradients, wanted, point.inputs, point.g);
  };
  CHECK(error({"tanh", {{3}}, {}}, "1 - ", "1 + ") > 1e-2);
  CHECK(error({"matmul", {{3, 3}, {3, 3}}, {}}, "rhs[ik, j]", "rhs[j, ik]") > 1e-2);
  CHECK(error({"softmax", {{2, 3}}, {{"rank_c", int64_t{0}}}}, " - t0", " + t0") > 1e-2);
  CHECK(error({"conv2d", {{1, 1, 4, 4}, {1, 1, 2, 2}}, {}}, "== ih", "== ih + 1") > 1e-2);
  CHECK(error({"layer_norm", {{2, 4}, {4}, {4}}, {}}, "0.5 * ", "0.25 * ") > 1e-2);
  // A gradient left out is taken for zero.
  const OpInstance op = InstanceOfCase({"mul", {{3}, {3}}, {}});
  const Point point = FinitePoint(op, 4);
  CHECK(*GradientError(op, Gradients(op, {0}), {0, 1}, point.inputs, point.g) > 1e-2);
}

TEST_CASE("A user's operator has a gradient from its text alone") {
  const char* const kTexts[] = {
      "operator f(x[n], w[n, m]) -> y[m] { y[j] = tanh(sum(i: n) x[i] * w[i, j]) }",
      "operator f(x[n, m]) -> y[n] { s[i] = sum(j: m) x[i, j] * x[i, j]; y[i] = log(1 + exp(s[i])) "
      "}",
      "operator f(x[n], y[n]) -> z[n] { z[i] = (x[i - 1] else y[i]) * x[i] }",
      "operator f(x[n, n]) -> z[n] { z[i] = x[i, i] * x[i, 0] }",
      "operator f(x[n]) -> z[n] { z[i] = sum(j: n) select(j <= i, x[j] * x[i - j], 0) }",
      "operator f(x[n, m], y[m]) -> z[n] { z[i] = max(j: m) x[i, j] * y[j] }",
      "operator f(x[n]) -> a[n], b[] { a[i] = x[i] * x[i]; b[] = sum(i: n) a[i] * x[i] }",
      "operator f(x[n], y[n]) -> z[n] { z[i] = nograd(y[i]) * 0 + x[i] }",
      "operator f(x[n, m]) -> z[] { p[i] = prod(j: m) x[i, j]; z[] = sum(i: n) sin(p[i]) }",
      "operator f(x[h], y[h]; stride) -> z[o = size(h) / stride] {"
      " z[i] = x[i * stride] * y[h_of(i)] }",
  };
  int parsed = 0;
  for (const char* text : kTexts) {
    auto specs = ParseOperators(text, "user");
    if (!specs.ok()) continue;  // the last is no operator
    ++parsed;
    const OpSpec& spec = (*specs)[0];
    OperatorCase c;
    for (const OperandSpec& input : spec.inputs) {
      FactoredShape shape;
      for (const DimSpec& dim : input.dims) shape.push_back({dim.name == "n" ? 4 : 3});
      c.shapes.push_back(std::move(shape));
    }
    const OpInstance op = Make(spec, c);
    INFO(text);
    CHECK(WorstError(op, 9) < kTolerance);
  }
  CHECK(parsed == 9);
}

}  // namespace
}  // namespace tandem
