#include "optimizer/solver/deep_problem.h"

#include <algorithm>
#include <cmath>
#include <map>
#include <string>
#include <tuple>
#include <utility>

namespace tandem::solver {
namespace {

// How one mesh axis lies on a tensor: replicated, split on a dim, or partial sums.
enum Layout : int32_t { kR, kS0, kS1, kS2, kP };

// One choice for one axis: the layout of the output and of each input.
struct Choice {
  Layout out;
  std::vector<Layout> in;
};

struct Kind {
  std::string name;
  std::vector<Choice> choices;
};

std::vector<Choice> Pointwise(size_t inputs, bool linear) {
  std::vector<Choice> choices;
  for (Layout l : {kR, kS0, kS1, kS2}) choices.push_back({l, std::vector<Layout>(inputs, l)});
  if (linear) choices.push_back({kP, std::vector<Layout>(inputs, kP)});
  return choices;
}

std::vector<Choice> Splits(size_t inputs, std::vector<Layout> dims) {
  std::vector<Choice> choices = {{kR, std::vector<Layout>(inputs, kR)}};
  for (Layout l : dims) choices.push_back({l, std::vector<Layout>(inputs, l)});
  return choices;
}

// y[b, s, n] = x[b, s, k] w[k, n] and its two gradients.
const std::vector<Choice> kMatmul = {
    {kR, {kR, kR}}, {kS0, {kS0, kR}}, {kS1, {kS1, kR}}, {kS2, {kR, kS1}}, {kP, {kS2, kS0}}};
const std::vector<Choice> kInputGradient = {
    {kR, {kR, kR}}, {kS0, {kS0, kR}}, {kS1, {kS1, kR}}, {kS2, {kR, kS0}}, {kP, {kS2, kS1}}};
const std::vector<Choice> kWeightGradient = {
    {kR, {kR, kR}}, {kP, {kS0, kS0}}, {kP, {kS1, kS1}}, {kS0, {kS2, kR}}, {kS1, {kR, kS2}}};

constexpr double kFlopsPerSecond = 7e14;
constexpr double kBytesPerSecond = 2.8e12;
constexpr double kLaunchSeconds = 2e-6;

// Seconds to turn `from` into `to` on one axis; `local` bytes on a device before.
double Reshard(const MeshAxis& axis, Layout from, Layout to, double local) {
  if (from == to) return 0.0;
  const double n = axis.devices;
  const double ring = (n - 1.0) / n / axis.bytes_per_second;
  const double latency = axis.latency_seconds * (1.0 + 0.2 * std::log2(n));
  if (from == kR) return 0.0;  // a slice, or zeros elsewhere
  if (from == kP) return to == kR ? 2.0 * (latency + ring * local) : latency + ring * local;
  if (to == kR || to == kP) return latency + ring * local * n;
  return latency + ring * local;
}

class Builder {
 public:
  explicit Builder(const DeepOptions& options) : options_(options) {}

  Problem Build();

 private:
  struct Made {
    int32_t node = -1;
    double bytes = 0.0;  // of the output
    int32_t signature = -1;
    std::vector<Choice> choices;
  };

  Made Add(const std::string& name, const std::vector<Choice>& choices, double flops, double bytes,
           double state_bytes, const std::vector<Made>& inputs);
  void Connect(const Made& from, const Made& to, size_t slot);
  // The choice of one axis in a state.
  static int32_t Digit(int32_t state, size_t choices, size_t axis) {
    for (size_t a = 0; a < axis; ++a) state /= static_cast<int32_t>(choices);
    return state % static_cast<int32_t>(choices);
  }
  Made Layer(const Made& input);
  // y = x w, the gradients, the parameter and its update, given what the gradient of y comes from.
  Made Matmul(const std::string& name, const Made& x, double k, double n);
  void MatmulGradients(const std::string& name, const Made& x, const Made& y_gradient, double k,
                       double n, Made* x_gradient);

  const DeepOptions& options_;
  Problem problem_;
  int32_t layer_ = 0;
  int32_t position_ = 0;
  std::map<std::string, int32_t> signatures_;
  std::map<std::tuple<int32_t, int32_t, size_t>, int32_t> tables_;
  std::map<std::string, Made> parameters_;
};

Builder::Made Builder::Add(const std::string& name, const std::vector<Choice>& choices,
                           double flops, double bytes, double state_bytes,
                           const std::vector<Made>& inputs) {
  const size_t axes = options_.mesh.size();
  int32_t states = 1;
  for (size_t a = 0; a < axes; ++a) states *= static_cast<int32_t>(choices.size());
  std::vector<double> unary(states);
  std::vector<double> memory(states);
  for (int32_t s = 0; s < states; ++s) {
    double share = 1.0;
    double held = 1.0;
    for (size_t a = 0; a < axes; ++a) {
      const int32_t digit = Digit(s, choices.size(), a);
      if (digit > 0) share /= options_.mesh[a].devices;
      const Layout out = choices[digit].out;
      if (out != kR && out != kP) held /= options_.mesh[a].devices;
    }
    unary[s] = flops == 0.0
                   ? 0.0
                   : share * std::max(flops / kFlopsPerSecond, 3 * bytes / kBytesPerSecond) +
                         kLaunchSeconds;
    memory[s] = state_bytes * held;
  }
  Node node;
  node.name = name + "." + std::to_string(layer_);
  node.unary = problem_.AddVector(std::move(unary));
  node.memory = problem_.AddVector(std::move(memory));
  node.block = layer_;
  node.position = position_++;
  Made made;
  made.node = problem_.AddNode(std::move(node));
  made.bytes = bytes;
  made.choices = choices;
  made.signature =
      signatures_.insert({name, static_cast<int32_t>(signatures_.size())}).first->second;
  for (size_t slot = 0; slot < inputs.size(); ++slot) Connect(inputs[slot], made, slot);
  return made;
}

void Builder::Connect(const Made& from, const Made& to, size_t slot) {
  const auto [it, added] = tables_.insert({{from.signature, to.signature, slot}, -1});
  if (added) {
    Table table{problem_.states(from.node), problem_.states(to.node), {}};
    for (int32_t r = 0; r < table.rows; ++r) {
      double local = from.bytes;
      for (size_t a = 0; a < options_.mesh.size(); ++a) {
        const Layout out = from.choices[Digit(r, from.choices.size(), a)].out;
        if (out != kR && out != kP) local /= options_.mesh[a].devices;
      }
      for (int32_t c = 0; c < table.cols; ++c) {
        double seconds = 0.0;
        for (size_t a = 0; a < options_.mesh.size(); ++a) {
          const Layout out = from.choices[Digit(r, from.choices.size(), a)].out;
          const Layout in = to.choices[Digit(c, to.choices.size(), a)].in[slot];
          seconds += Reshard(options_.mesh[a], out, in, local);
        }
        table.cost.push_back(seconds);
      }
    }
    it->second = problem_.AddTable(std::move(table));
  }
  problem_.AddEdge(from.node, to.node, it->second);
}

Builder::Made Builder::Matmul(const std::string& name, const Made& x, double k, double n) {
  const double tokens = options_.batch * options_.sequence;
  const Made parameter = Add(name + "_w", Splits(1, {kS0, kS1}), 0.0, 2 * k * n, 2 * k * n, {});
  parameters_[name] = parameter;
  return Add(name, kMatmul, 2 * tokens * k * n, 2 * tokens * n, 2 * tokens * n, {x, parameter});
}

void Builder::MatmulGradients(const std::string& name, const Made& x, const Made& y_gradient,
                              double k, double n, Made* x_gradient) {
  const double tokens = options_.batch * options_.sequence;
  const Made& parameter = parameters_[name];
  *x_gradient = Add(name + "_dx", kInputGradient, 2 * tokens * k * n, 2 * tokens * k, 0.0,
                    {y_gradient, parameter});
  const Made weight_gradient =
      Add(name + "_dw", kWeightGradient, 2 * tokens * k * n, 2 * k * n, 0.0, {x, y_gradient});
  const Made update = Add(name + "_adam", Splits(1, {kS0, kS1}), 12 * k * n, 12 * k * n, 14 * k * n,
                          {weight_gradient});
  Connect(update, parameter, 0);
}

Builder::Made Builder::Layer(const Made& input) {
  const double d = options_.model;
  const double h = options_.hidden;
  const double kv = d / 4;
  const double tokens = options_.batch * options_.sequence;
  const double full = 2 * tokens * d;
  const std::vector<Choice> relay = Pointwise(1, true);
  const std::vector<Choice> norm = Splits(1, {kS0, kS1});
  const std::vector<Choice> heads3 = Splits(3, {kS0, kS2});
  const std::vector<Choice> heads4 = Splits(4, {kS0, kS2});

  const Made n1 = Add("norm1", norm, 5 * tokens * d, full, full, {input});
  const Made n1_read = Add("norm1_read", relay, 0.0, full, 0.0, {n1});
  const Made q = Matmul("q", n1_read, d, d);
  const Made k = Matmul("k", n1_read, d, kv);
  const Made v = Matmul("v", n1_read, d, kv);
  const double score_flops = 2 * tokens * options_.sequence * d;
  const Made attention = Add("attention", heads3, score_flops, full, full, {q, k, v});
  const Made o = Matmul("o", attention, d, d);
  const Made sum1 = Add("sum1", Pointwise(2, true), tokens * d, full, full, {input, o});
  const Made sum1_read = Add("sum1_read", relay, 0.0, full, 0.0, {sum1});
  const Made n2 = Add("norm2", norm, 5 * tokens * d, full, full, {sum1_read});
  const Made n2_read = Add("norm2_read", relay, 0.0, full, 0.0, {n2});
  const Made gate = Matmul("gate", n2_read, d, h);
  const Made up = Matmul("up", n2_read, d, h);
  const Made product = Add("product", Pointwise(2, false), 4 * tokens * h, 2 * tokens * h,
                           2 * tokens * h, {gate, up});
  const Made down = Matmul("down", product, h, d);
  const Made out = Add("sum2", Pointwise(2, true), tokens * d, full, full, {sum1_read, down});

  // Backward, from the gradient of the layer's output: here of the output itself, read again.
  const Made g = Add("gradient", relay, 0.0, full, 0.0, {out});
  Made product_g, gate_g, up_g, n2_ga, n2_gb, attention_g, n1_gq, n1_gk, n1_gv;
  MatmulGradients("down", product, g, h, d, &product_g);
  gate_g = Add("product_bwd", Pointwise(3, false), 8 * tokens * h, 2 * tokens * h, 0.0,
               {product_g, gate, up});
  MatmulGradients("gate", n2_read, gate_g, d, h, &n2_ga);
  MatmulGradients("up", n2_read, gate_g, d, h, &n2_gb);
  const Made n2_g = Add("norm2_g", Pointwise(2, true), tokens * d, full, 0.0, {n2_ga, n2_gb});
  const Made sum1_g =
      Add("norm2_bwd", Splits(2, {kS0, kS1}), 8 * tokens * d, full, 0.0, {n2_g, sum1_read});
  const Made o_g = Add("sum1_g", Pointwise(2, true), tokens * d, full, 0.0, {sum1_g, g});
  MatmulGradients("o", attention, o_g, d, d, &attention_g);
  const Made qkv_g =
      Add("attention_bwd", heads4, 2.5 * score_flops, full, 0.0, {attention_g, q, k, v});
  MatmulGradients("q", n1_read, qkv_g, d, d, &n1_gq);
  MatmulGradients("k", n1_read, qkv_g, d, kv, &n1_gk);
  MatmulGradients("v", n1_read, qkv_g, d, kv, &n1_gv);
  const Made n1_g =
      Add("norm1_g", Pointwise(3, true), 2 * tokens * d, full, 0.0, {n1_gq, n1_gk, n1_gv});
  Add("norm1_bwd", Splits(2, {kS0, kS1}), 8 * tokens * d, full, 0.0, {n1_g, o_g});
  return out;
}

Problem Builder::Build() {
  const double full = 2 * options_.batch * options_.sequence * options_.model;
  Made x = Add("input", Splits(1, {kS0, kS1}), 0.0, full, 0.0, {});
  for (layer_ = 1; layer_ <= options_.layers; ++layer_) {
    position_ = 0;
    x = Layer(x);
  }
  position_ = 0;
  Add("loss", Splits(1, {kS0, kS1}), 1.0, full, 0.0, {x});
  return std::move(problem_);
}

}  // namespace

Problem DeepProblem(const DeepOptions& options) { return Builder(options).Build(); }

}  // namespace tandem::solver
