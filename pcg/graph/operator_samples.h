// Sample applications of every built-in operator: what the conformance tests walk. A new operator
// gets its lines here; the tests fail until it has some.
#ifndef TANDEM_PCG_GRAPH_OPERATOR_SAMPLES_H_
#define TANDEM_PCG_GRAPH_OPERATOR_SAMPLES_H_

#include <string>
#include <vector>

#include "pcg/instance/op_instance.h"

namespace tandem {

struct OperatorSample {
  std::string op;
  Attributes attributes;
  std::vector<FactoredShape> inputs;
  // Positions of inputs that hold indices below this (0: real numbers).
  std::vector<int64_t> index_below = {};
  bool positive = false;  // real inputs are drawn from (0.5, 1.5) instead of (-1, 1)
};

inline std::vector<OperatorSample> OperatorSamples() {
  using L = std::vector<int64_t>;
  std::vector<OperatorSample> samples = {
      {"matmul", {}, {{{2}, {3}, {4}}, {{2}, {4}, {5}}}},
      {"matmul", {}, {{{2}, {3}, {9}, {16}}, {{16}, {17}}}},
      {"matmul", {}, {{{3, 3}, {2, 8}}, {{16}, {2, 5}}}},
      {"matmul", {}, {{{70}, {300}}, {{300}, {19}}}},
      {"linear", {}, {{{2}, {3}, {4}}, {{4}, {5}}, {{5}}}},
      {"linear", {}, {{{6}, {4}}, {{4}, {5}}}},
      {"linear_t", {}, {{{6}, {4}}, {{5}, {4}}, {{5}}}},
      {"conv1d",
       {{"stride", 2}, {"pad", 1}, {"pad_end", 1}},
       {{{2}, {4}, {9}}, {{6}, {2}, {3}}, {{6}}}},
      {"conv2d", {}, {{{2}, {3}, {6}, {5}}, {{8}, {3}, {3}, {2}}, {{8}}}},
      {"conv2d",
       {{"stride_h", 2},
        {"stride_w", 2},
        {"pad_top", 1},
        {"pad_left", 1},
        {"pad_bottom", 1},
        {"pad_right", 1}},
       {{{2}, {4}, {7}, {6}}, {{6}, {2}, {3}, {3}}}},
      {"conv2d",
       {{"dilation_h", 2}, {"dilation_w", 2}, {"pad_top", 2}, {"pad_left", 2}},
       {{{1}, {2}, {6}, {7}}, {{4}, {1}, {3}, {3}}}},
      {"conv_transpose2d",
       {{"stride_h", 2}, {"stride_w", 2}, {"pad_top", 1}, {"pad_left", 1}},
       {{{2}, {3}, {4}, {3}}, {{3}, {5}, {3}, {3}}, {{5}}}},
      {"max_pool2d",
       {{"kernel_h", 3},
        {"kernel_w", 3},
        {"stride_h", 2},
        {"stride_w", 2},
        {"pad_top", 1},
        {"pad_left", 1},
        {"pad_bottom", 1},
        {"pad_right", 1}},
       {{{2}, {3}, {7}, {6}}}},
      {"avg_pool2d",
       {{"kernel_h", 3}, {"kernel_w", 2}, {"stride_h", 2}, {"pad_top", 1}, {"pad_bottom", 1}},
       {{{2}, {3}, {6}, {6}}}},
      {"avg_pool2d",
       {{"kernel_h", 2}, {"kernel_w", 2}, {"pad_left", 1}, {"include_pad", 1}},
       {{{1}, {2}, {5}, {5}}}},
      {"lrn", {{"alpha", 0.1}, {"beta", 0.75}, {"bias", 1.0}, {"size", 3}}, {{{2}, {6}, {3}, {3}}}},
      {"where", {}, {{{3}, {1}}, {{3}, {4}}, {{4}}}, {2, 0, 0}},
      {"dropout", {{"ratio", 0.5}, {"seed", 7}}, {{{4}, {3, 5}}}},
      {"transpose", {{"perm", L{2, 0, 1}}}, {{{2}, {3}, {4}}}},
      {"reshape", {{"shape", L{2, 3, 2, 4}}}, {{{6}, {8}}}},
      {"reshape", {{"shape", L{4, 3}}}, {{{3}, {4}}}},
      {"reshape", {{"shape", L{9, 2, 5}}}, {{{6}, {15}}}},
      {"reshape", {{"shape", L{1, 24}}}, {{{2}, {3}, {4}}}},
      {"expand", {{"shape", L{2, 3, 4}}}, {{{3}, {1}}}},
      {"slice", {{"start", 4}, {"size", 4}, {"rank_c", 1}}, {{{2}, {12}, {3}}}},
      {"slice", {{"start", 1}, {"size", 3}, {"step", 2}, {"rank_c", 0}}, {{{2}, {8}}}},
      {"concat", {{"rank_c", 0}}, {{{2}, {4}}, {{2}, {8}}}},
      {"concat", {{"rank_c", 1}}, {{{2}, {3}, {2}}, {{2}, {5}, {2}}}},
      {"concat3", {{"rank_c", 0}}, {{{2}, {4}}, {{2}, {4}}, {{2}, {2}}}},
      {"concat4", {{"rank_c", 0}}, {{{2}, {4}}, {{2}, {4}}, {{2}, {8}}, {{2}, {4}}}},
      {"pad", {{"low", 2}, {"high", 1}, {"value", 0.5}, {"rank_c", 1}}, {{{2}, {3}, {2}}}},
      {"pad", {{"low", 4}, {"high", 4}, {"rank_c", 0}}, {{{2}, {2, 2}}}},
      {"embedding", {}, {{{2}, {5}}, {{7}, {3}}}, {7, 0}},
      {"embedding", {}, {{{2}, {5}}, {{2, 4}, {3}}}, {8, 0}},
      {"take", {{"rank_a", 1}, {"rank_c", 1}}, {{{2}, {5}, {3}}, {{4}}}, {0, 5}},
      {"take_along", {{"rank_a", 1}, {"rank_c", 1}}, {{{2}, {5}, {3}}, {{2}, {4}, {3}}}, {0, 5}},
      {"fill", {{"shape", L{2, 3}}, {"value", 1.5}}, {}},
      {"iota", {{"size", 5}, {"start", 2}, {"step", 3}}, {}},
      {"causal_mask", {{"rows", 3}, {"cols", 4}, {"low", -1e9}}, {}},
      {"softmax", {{"rank_c", 0}}, {{{3}, {2, 4}}}},
      {"softmax", {{"rank_c", 1}}, {{{3}, {4}, {2}}}},
      {"log_softmax", {{"rank_c", 0}}, {{{3}, {5}}}},
      {"layer_norm", {}, {{{3}, {2}, {8}}, {{8}}, {{8}}}},
      {"layer_norm", {{"absent", L{1}}}, {{{3}, {8}}, {{8}}}},
      {"rms_norm", {}, {{{3}, {8}}, {{8}}}},
      {"group_norm", {{"groups", 2}}, {{{3}, {6}, {2}, {2}}, {{6}}, {{6}}}},
      {"instance_norm", {}, {{{2}, {3}, {4}}, {{3}}, {{3}}}},
      {"batch_norm", {}, {{{2}, {3}, {4}}, {{3}}, {{3}}, {{3}}, {{3}}}, {}, true},
      {"batch_mean", {}, {{{2}, {3}, {4}}}},
      {"batch_var", {}, {{{2}, {3}, {4}}, {{3}}}},
      {"running_average", {{"momentum", 0.9}}, {{{4}}, {{4}}}},
      {"attention", {{"scale", 0.5}}, {{{2}, {3}, {4}}, {{2}, {5}, {4}}, {{2}, {5}, {6}}}},
      {"attention",
       {{"scale", 0.5}},
       {{{2}, {2}, {3}, {4}}, {{2}, {2}, {5}, {4}}, {{2}, {2}, {5}, {6}}, {{2}, {1}, {1}, {5}}}},
      {"causal_attention", {{"scale", 0.5}}, {{{2}, {5}, {4}}, {{2}, {5}, {4}}, {{2}, {5}, {6}}}},
      {"argmax", {{"rank_c", 0}}, {{{3}, {5}}}},
      {"argmax", {{"rank_c", 1}}, {{{3}, {2, 2}, {2}}}},
      {"cross_entropy", {}, {{{3}, {5}}, {{3}}}, {0, 5}},
      {"cross_entropy", {}, {{{2}, {3}, {2, 4}}, {{2}, {3}}}, {0, 8}},
      {"row_max", {}, {{{3}, {2, 4}}}},
      {"cross_entropy_sums", {}, {{{2}, {3}, {5}}, {{2}, {3}}, {{2}, {3}}}, {0, 0, 5}},
      {"cross_entropy_of_sums", {}, {{{2}, {3}}, {{2}, {3}}, {{2}, {3}}}, {}, true},
      {"mse", {}, {{{3}, {4}}, {{3}, {4}}}},
      {"mean_all", {}, {{{3}, {4}}}},
      {"sgd", {}, {{{3}, {4}}, {{3}, {4}}, {}}},
      {"momentum", {}, {{{5}}, {{5}}, {{5}}, {}}},
      {"adam", {{"decay", 0.1}}, {{{5}}, {{5}}, {{5}}, {{5}}, {}, {}}, {}, true},
      {"adamw", {}, {{{5}}, {{5}}, {{5}}, {{5}}, {}, {}}, {}, true},
      {"lamb", {}, {{{5}}, {{5}}, {{5}}, {{5}}, {}, {}}, {}, true},
      {"scale", {{"value", 2.5}}, {{{3}, {4}}}},
      {"shift", {{"value", 2.5}}, {{{3}, {4}}}},
      {"power", {{"exponent", 3}}, {{{3}, {4}}}, {}, true},
      {"leaky_relu", {{"alpha", 0.1}}, {{{3}, {4}}}},
      {"clip", {{"low", -0.5}, {"high", 0.25}}, {{{3}, {4}}}},
      {"hard_sigmoid", {{"alpha", 0.2}, {"beta", 0.5}}, {{{3}, {4}}}},
  };
  for (const char* op : {"add", "sub", "mul", "div", "pow", "maximum", "minimum", "equal", "less",
                         "less_equal", "greater", "greater_equal", "logical_and", "logical_or"}) {
    samples.push_back({op, {}, {{{2}, {3}, {4}}, {{3}, {1}}}, {}, true});
  }
  for (const char* op :
       {"identity",   "cast",      "neg",         "exp",      "log",   "sqrt", "rsqrt",
        "reciprocal", "square",    "abs",         "sign",     "floor", "tanh", "erf",
        "sin",        "cos",       "sigmoid",     "softplus", "relu",  "silu", "hard_swish",
        "gelu",       "gelu_tanh", "logical_not", "isnan"}) {
    samples.push_back({op, {}, {{{300}, {4}}}, {}, true});
  }
  samples.push_back({"swiglu", {}, {{{3}, {4}}, {{3}, {4}}}});
  for (const char* op : {"reduce_sum", "reduce_mean", "reduce_max", "reduce_min", "reduce_prod"}) {
    samples.push_back({op, {{"rank_c", 0}, {"rank_r", 2}}, {{{3}, {4}, {2}}}});
    samples.push_back({op, {{"rank_c", 1}, {"rank_r", 1}}, {{{3}, {4}, {2}}}});
  }
  for (const char* op : {"reduce_sum_keep", "reduce_mean_keep", "reduce_max_keep"}) {
    samples.push_back({op, {{"rank_c", 1}}, {{{3}, {4}, {2}}}});
  }
  return samples;
}

}  // namespace tandem

#endif  // TANDEM_PCG_GRAPH_OPERATOR_SAMPLES_H_
