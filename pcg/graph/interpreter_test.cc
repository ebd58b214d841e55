#include "pcg/graph/interpreter.h"

#include <algorithm>
#include <catch2/catch.hpp>
#include <cctype>
#include <cmath>
#include <set>

#include "pcg/graph/naive_evaluator.h"
#include "pcg/graph/operator_samples.h"
#include "pcg/graph/sample_inputs.h"
#include "pcg/language/op_parser.h"

namespace tandem {
namespace {

OpInstance Make(const std::string& op, const Attributes& attributes,
                const std::vector<FactoredShape>& inputs) {
  auto instance = Instantiate(**BuiltinOperators().Get(op), attributes, inputs);
  INFO(op << ": " << instance.status().ToString());
  REQUIRE(instance.ok());
  return *std::move(instance);
}

void CheckSame(const HostTensor& got, const HostTensor& want) {
  REQUIRE(got.shape == want.shape);
  REQUIRE(got.data.size() == want.data.size());
  for (size_t i = 0; i < got.data.size(); ++i) {
    INFO("element " << i);
    if (std::isinf(want.data[i])) {
      REQUIRE(got.data[i] == want.data[i]);
    } else {
      REQUIRE(got.data[i] == Approx(want.data[i]).epsilon(1e-12).margin(1e-12));
    }
  }
}

TEST_CASE("every built-in operator has a sample and evaluates as its equations say") {
  std::set<std::string> sampled;
  SampleRandom random;
  for (const OperatorSample& sample : OperatorSamples()) {
    sampled.insert(sample.op);
    const OpInstance instance = Make(sample.op, sample.attributes, sample.inputs);
    INFO(ToString(instance));
    const std::vector<HostTensor> inputs = InputsOf(sample, random);
    auto outputs = Evaluate(instance, Pointers(inputs));
    INFO(outputs.status().ToString());
    REQUIRE(outputs.ok());
    const std::vector<HostTensor> want = NaiveEvaluator(instance, Pointers(inputs)).Run();
    REQUIRE(outputs->size() == want.size());
    for (size_t o = 0; o < want.size(); ++o) CheckSame((*outputs)[o], want[o]);
  }
  for (const auto& [name, spec] : BuiltinOperators().specs()) {
    INFO("add a sample of '" << name << "' to operator_samples.h");
    CHECK(sampled.count(name) == 1);
  }
}

// A random way to write each dim as a product.
FactoredShape Factored(const std::vector<int64_t>& shape, SampleRandom& random) {
  FactoredShape out;
  for (int64_t extent : shape) {
    Factors factors;
    for (int64_t divisor = 2; divisor <= extent;) {
      const bool take = extent % divisor == 0 && random.Uniform() < 0.5;
      if (take) factors.push_back(divisor);
      if (take) extent /= divisor;
      ++divisor;
      if (divisor > extent && extent > 1) {
        factors.push_back(extent);
        break;
      }
    }
    if (factors.empty()) factors.push_back(extent);
    out.push_back(std::move(factors));
  }
  return out;
}

TEST_CASE("however dims are factored, also against one another, values are the same") {
  SampleRandom random;
  int changed = 0;
  for (const OperatorSample& sample : OperatorSamples()) {
    const OpSpec& spec = **BuiltinOperators().Get(sample.op);
    const OpInstance plain = Make(sample.op, sample.attributes, sample.inputs);
    const std::vector<HostTensor> inputs = InputsOf(sample, random);
    const std::vector<HostTensor> want = Evaluate(plain, Pointers(inputs)).value();
    for (int round = 0; round < 8; ++round) {
      std::vector<FactoredShape> in, out;
      for (const HostTensor& input : inputs) in.push_back(Factored(input.shape, random));
      for (const HostTensor& output : want) out.push_back(Factored(output.shape, random));
      auto instance = InstantiateWithOutputs(spec, sample.attributes, in, out);
      INFO(instance.status().ToString());
      REQUIRE(instance.ok());
      changed += instance->exprs == plain.exprs ? 0 : 1;
      INFO(ToString(*instance));
      auto outputs = Evaluate(*instance, Pointers(inputs));
      INFO(outputs.status().ToString());
      REQUIRE(outputs.ok());
      for (size_t o = 0; o < want.size(); ++o) CheckSame((*outputs)[o], want[o]);
      // Operands keep at least the boundaries they came with.
      for (size_t i = 0; i < in.size(); ++i) {
        const FactoredShape got = instance->ShapeOf(static_cast<int>(i));
        for (size_t d = 0; d < in[i].size(); ++d) REQUIRE(got[d].size() >= in[i][d].size());
      }
      for (size_t o = 0; o < out.size(); ++o) {
        const FactoredShape got = instance->ShapeOf(instance->num_inputs + static_cast<int>(o));
        for (size_t d = 0; d < out[o].size(); ++d) REQUIRE(got[d].size() >= out[o][d].size());
      }
    }
  }
  CHECK(changed > 500);
}

TEST_CASE("factors change no value") {
  SampleRandom random;
  const HostTensor x = random.Tensor({{2}, {24}}, 0, false);
  const auto run = [&](const FactoredShape& shape) {
    const OpInstance op = Make("dropout", {{"ratio", 0.5}, {"seed", 3}}, {shape});
    return Evaluate(op, {&x}).value()[0].data;
  };
  CHECK(run({{2}, {24}}) == run({{2}, {4, 6}}));
  CHECK(run({{2}, {24}}) == run({{2}, {2, 3, 4}}));
}

TEST_CASE("ties of argmax go to the lowest index") {
  const HostTensor x{{2, 4}, {1, 3, 3, 2, 5, 5, 5, 5}};
  CHECK(Evaluate(Make("argmax", {{"rank_c", 0}}, {{{2}, {4}}}), {&x}).value()[0].data ==
        std::vector<double>{1, 0});
}

TEST_CASE("random numbers are spread evenly and depend on seed and index only") {
  const HostTensor x{{10000}, std::vector<double>(10000, 1)};
  const auto kept = [&](int64_t seed) {
    const OpInstance op = Make("dropout", {{"ratio", 0.25}, {"seed", seed}}, {{{10000}}});
    const std::vector<HostTensor> outputs = Evaluate(op, {&x}).value();
    double sum = 0;
    for (double v : outputs[0].data) sum += v;
    return sum;
  };
  CHECK(kept(1) == Approx(10000).epsilon(0.02));
  CHECK(kept(1) != kept(2));
  CHECK(kept(1) == kept(1));
}

// The pieces of an operator, evaluated one by one.
TEST_CASE("a piece knows its place: split vocabulary, split query, split dropout") {
  SampleRandom random;
  SECTION("embedding rows: partial sums") {
    const OpInstance op = Make("embedding", {}, {{{6}}, {{8}, {3}}});
    const HostTensor ids = random.Tensor({{6}}, 8, false),
                     table = random.Tensor({{8}, {3}}, 0, false);
    const HostTensor whole = Evaluate(op, {&ids, &table}).value()[0];
    std::vector<double> sum(whole.data.size(), 0);
    for (int64_t p = 0; p < 4; ++p) {
      PieceOfOp piece;
      for (const SizeVar& size : op.sizes) {
        piece.extents.push_back(size.name == "v" ? 2 : size.extent);
        piece.offsets.push_back(size.name == "v" ? 2 * p : 0);
      }
      HostTensor rows{{2, 3}, {table.data.begin() + p * 6, table.data.begin() + p * 6 + 6}};
      const HostTensor part = Evaluate(op, {&ids, &rows}, piece).value()[0];
      for (size_t i = 0; i < sum.size(); ++i) sum[i] += part.data[i];
    }
    CHECK(sum == whole.data);
  }
  SECTION("causal attention: query rows") {
    const OpInstance op = Make("causal_attention", {{"scale", 1.0}},
                               {{{1}, {4}, {2}}, {{1}, {4}, {2}}, {{1}, {4}, {2}}});
    const HostTensor q = random.Tensor({{1}, {4}, {2}}, 0, false);
    const HostTensor whole = Evaluate(op, {&q, &q, &q}).value()[0];
    for (int64_t p = 0; p < 2; ++p) {
      PieceOfOp piece;
      for (const SizeVar& size : op.sizes) {
        piece.extents.push_back(size.name == "s" ? 2 : size.extent);
        piece.offsets.push_back(size.name == "s" ? 2 * p : 0);
      }
      HostTensor rows{{1, 2, 2}, {q.data.begin() + p * 4, q.data.begin() + p * 4 + 4}};
      const HostTensor part = Evaluate(op, {&rows, &q, &q}, piece).value()[0];
      for (size_t i = 0; i < 4; ++i)
        CHECK(part.data[i] == Approx(whole.data[static_cast<size_t>(p) * 4 + i]));
    }
  }
  SECTION("mean: a piece divides by the logical size") {
    const OpInstance op = Make("reduce_mean", {{"rank_c", 0}, {"rank_r", 1}}, {{{4}}});
    const HostTensor half{{2}, {1, 2}};
    PieceOfOp piece{{2}, {0}};
    CHECK(Evaluate(op, {&half}, piece).value()[0].data == std::vector<double>{0.75});
  }
}

TEST_CASE("equalities in a guard are solved: windows, strides, mixed radix, scatter") {
  SampleRandom random;
  const char* text = R"(
    operator conv_dx(g[n, k, y, z], f[k, c, r, s]; stride, h, w) -> dx[n, c, oh = h, ow = w] {
      dx[b, i, p, q] = sum(o: k, u: y, v: z, dy: r, dz: s)
        select(u * stride + dy - 1 == p and v * stride + dz - 1 == q, g[b, o, u, v] * f[o, i, dy, dz], 0)
    }
    operator scatter(ids[n]: int, g[n, e]; rows) -> table[v = rows, e] {
      table[t, j] = sum(b: n) select(ids[b] == t, g[b, j], 0)
    }
    operator diagonal(x[n, m]) -> y[n, m] { y[i, j] = sum(k: n, l: m) select(k == i and l == j, x[k, l], 0) / 2 }
    operator unfold(x[n]; w) -> y[m = w, k = w] { y[i, j] = sum(a: n) select(a == i * size(k) + j, x[a], 0) }
    operator fold(x[m, k]; n) -> y[o = n] { y[a] = sum(i: m, j: k) select(a == i * size(k) + j, x[i, j], 0) }
    operator twice(x[n]) -> y[n] { y[i] = sum(k: n) select(2 * k == i, x[k], 0) }
    operator last(x[n, m]) -> y[n] { y[i] = max(k: m) select(k <= i, x[i, k], -inf) }
    operator none(ids[n]: int, x[v]) -> y[n] { y[i] = sum(t: v) select(ids[i] == t + 100, x[t], 0) }
  )";
  OperatorLibrary library;
  REQUIRE(library.AddText(text, "test").ok());
  const std::vector<OperatorSample> samples = {
      {"conv_dx",
       {{"stride", 1}, {"h", 5}, {"w", 6}},
       {{{2}, {4}, {5}, {6}}, {{4}, {3}, {3}, {3}}}},
      {"conv_dx",
       {{"stride", 2}, {"h", 6}, {"w", 7}},
       {{{2}, {4}, {3}, {3}}, {{4}, {3}, {3}, {3}}}},
      {"conv_dx",
       {{"stride", 3}, {"h", 8}, {"w", 7}},
       {{{1}, {1}, {3}, {3}}, {{1}, {1}, {2}, {2}}}},
      {"scatter", {{"rows", 9}}, {{{20}}, {{20}, {4}}}, {9, 0}},
      {"diagonal", {}, {{{3}, {4}}}},
      {"unfold", {{"w", 3}}, {{{9}}}},
      {"unfold", {{"w", 3}}, {{{3, 3}}}},
      {"fold", {{"n", 12}}, {{{3}, {4}}}},
      {"twice", {}, {{{7}}}},
      {"last", {}, {{{4}, {6}}}},
      {"none", {}, {{{5}}, {{6}}}, {6, 0}},
  };
  for (const OperatorSample& sample : samples) {
    auto instance = Instantiate(**library.Get(sample.op), sample.attributes, sample.inputs);
    INFO(instance.status().ToString());
    REQUIRE(instance.ok());
    INFO(ToString(*instance));
    const std::vector<HostTensor> inputs = InputsOf(sample, random);
    auto outputs = Evaluate(*instance, Pointers(inputs));
    INFO(outputs.status().ToString());
    REQUIRE(outputs.ok());
    CheckSame((*outputs)[0], NaiveEvaluator(*instance, Pointers(inputs)).Run()[0]);
  }
}

TEST_CASE("reads out of range without else are errors, unless they are not taken") {
  OperatorLibrary library;
  REQUIRE(
      library
          .AddText("operator bad(x[n]) -> y[n] { y[i] = x[i + 1] }\n"
                   "operator good(x[n]) -> y[n] { y[i] = select(i + 1 < size(n), x[i + 1], 0) }\n"
                   "operator edge(x[n]) -> y[n] { y[i] = x[i + 1] else -1 }",
                   "test")
          .ok());
  const HostTensor x{{3}, {1, 2, 3}};
  const auto run = [&](const char* op) {
    return Evaluate(*Instantiate(**library.Get(op), {}, {{{3}}}), {&x});
  };
  REQUIRE_FALSE(run("bad").ok());
  CHECK(run("bad").status().message() == "operator 'bad' reads 'x' out of range, computing 'y'");
  CHECK(run("good").value()[0].data == std::vector<double>{2, 3, 0});
  CHECK(run("edge").value()[0].data == std::vector<double>{2, 3, -1});
}

TEST_CASE("float kernels agree with double ones") {
  SampleRandom random;
  for (const OperatorSample& sample : OperatorSamples()) {
    const OpInstance instance = Make(sample.op, sample.attributes, sample.inputs);
    const std::vector<HostTensor> inputs = InputsOf(sample, random);
    const LoopNest nest = LoopNest::Compile(instance).value();
    std::vector<std::vector<float>> in, out;
    for (const HostTensor& input : inputs) in.emplace_back(input.data.begin(), input.data.end());
    for (int64_t elements : nest.output_elements()) out.emplace_back(static_cast<size_t>(elements));
    std::vector<const float*> in_pointers;
    std::vector<float*> out_pointers;
    for (auto& v : in) in_pointers.push_back(v.data());
    for (auto& v : out) out_pointers.push_back(v.data());
    REQUIRE(nest.Run<float>(in_pointers, out_pointers).ok());
    std::vector<HostTensor> rounded = inputs;
    for (size_t i = 0; i < in.size(); ++i) rounded[i].data.assign(in[i].begin(), in[i].end());
    const auto want = Evaluate(instance, Pointers(rounded)).value();
    for (size_t o = 0; o < out.size(); ++o) {
      for (size_t i = 0; i < out[o].size(); ++i) {
        INFO(sample.op << " " << i);
        if (std::isfinite(want[o].data[i])) {
          REQUIRE(out[o][i] == Approx(want[o].data[i]).epsilon(2e-5).margin(2e-5));
        }
      }
    }
  }
}

TEST_CASE("a graph evaluates from its sources, and names what is missing") {
  Graph graph;
  graph.operators = BuiltinOperators();
  Tensor x;
  x.name = "x";
  x.shape = {{2}};
  x.role = TensorRole::kInput;
  const TensorId a = graph.AddSource(x);
  x.name = "two";
  x.role = TensorRole::kConstant;
  x.values = {2, 2};
  const TensorId two = graph.AddSource(x);
  Node node;
  node.name = "m";
  node.op = "mul";
  node.inputs = {a, two};
  const TensorId m = graph.node(*graph.AddNode(node)).outputs[0];
  node.name = "r";
  node.op = "relu";
  node.inputs = {m};
  const TensorId r = graph.node(*graph.AddNode(node)).outputs[0];
  auto values = EvaluateGraph(graph, {{a, {{2}, {3, -1}}}}, {r, m});
  REQUIRE(values.ok());
  CHECK((*values)[r].data == std::vector<double>{6, 0});
  CHECK((*values)[m].data == std::vector<double>{6, -2});
  auto missing = EvaluateGraph(graph, {}, {r});
  REQUIRE_FALSE(missing.ok());
  CHECK(missing.status().message().find("tensor 'x' has no value") != absl::string_view::npos);
  auto wrong = EvaluateGraph(graph, {{a, {{3}, {3, -1, 0}}}}, {r});
  REQUIRE_FALSE(wrong.ok());
  CHECK(wrong.status().message().find("node 'm': input 'x'") != absl::string_view::npos);
}

bool Same(double a, double b) {
  if (std::isnan(a) || std::isnan(b)) return std::isnan(a) && std::isnan(b);
  if (std::isinf(a) || std::isinf(b)) return a == b;
  return std::abs(a - b) <= 1e-9 * (1 + std::abs(a) + std::abs(b));
}

// Names and numbers trade places, so that most mutants parse; the slow evaluator says what is
// right.
TEST_CASE("mutated operators evaluate as their equations say, or are refused") {
  uint64_t state = 3;
  const auto next = [&state](uint64_t below) {
    state = state * 6364136223846793005ULL + 1442695040888963407ULL;
    return (state >> 33) % below;
  };
  SampleRandom random;
  int same = 0, refused = 0, different = 0;
  for (const OperatorSample& sample : OperatorSamples()) {
    const std::string& text = (*BuiltinOperators().Get(sample.op))->text;
    std::vector<std::string> tokens;
    std::vector<size_t> words;
    for (size_t i = 0; i < text.size();) {
      const auto word = [&](size_t at) { return at < text.size() && std::isalnum(text[at]) != 0; };
      size_t end = i + 1;
      while (word(i) && word(end)) ++end;
      if (word(i)) words.push_back(tokens.size());
      tokens.push_back(text.substr(i, end - i));
      i = end;
    }
    for (int round = 0; round < 40; ++round) {
      std::vector<std::string> mutant = tokens;
      for (uint64_t edit = next(2) + 1; edit > 0; --edit) {
        mutant[words[next(words.size())]] = tokens[words[next(words.size())]];
      }
      std::string mutated;
      for (const std::string& token : mutant) mutated += token;
      auto specs = ParseOperators(mutated, "mutant");
      if (!specs.ok() || specs->size() != 1) continue;
      auto instance = Instantiate(specs->front(), sample.attributes, sample.inputs);
      if (!instance.ok()) {
        ++refused;
        continue;
      }
      const bool small = std::all_of(instance->sizes.begin(), instance->sizes.end(),
                                     [](const SizeVar& size) { return size.extent < 70; });
      if (!small) continue;
      const std::vector<HostTensor> inputs = InputsOf(sample, random);
      auto outputs = Evaluate(*instance, Pointers(inputs));
      if (!outputs.ok()) {
        ++refused;
        continue;
      }
      std::vector<HostTensor> want;
      try {
        want = NaiveEvaluator(*instance, Pointers(inputs)).Run();
      } catch (const std::out_of_range&) {
        continue;  // reads out of range that no result depends on
      }
      bool equal = true;
      for (size_t o = 0; o < want.size(); ++o) {
        for (size_t i = 0; i < want[o].data.size(); ++i) {
          equal = equal && Same((*outputs)[o].data[i], want[o].data[i]);
        }
      }
      INFO(mutated << ToString(*instance));
      CHECK(equal);
      (equal ? same : different) += 1;
    }
  }
  CHECK(same > 300);
  CHECK(refused > 20);
  CHECK(different == 0);
}

}  // namespace
}  // namespace tandem
