#include "models/zoo.h"

#include <cmath>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "pcg/graph/graph_builder.h"

namespace tandem {
namespace {

std::string Normal(double deviation) { return absl::StrCat("normal(", deviation, ")"); }

// He initialisation for a layer that reads `fan_in` numbers.
std::string He(int64_t fan_in) { return Normal(std::sqrt(2.0 / static_cast<double>(fan_in))); }

class ResNet {
 public:
  ResNet(const std::string& name, int64_t batch, const ResNetSize& size)
      : b_(name, batch), batch_(batch), size_(size) {}

  absl::StatusOr<Graph> Build() {
    TensorId x = b_.Input("image", {batch_, 3, size_.image, size_.image});
    b_.Block(0);
    x = Conv("conv1", x, size_.stem, 7, 2);
    x = b_.Op("relu", {BatchNorm("bn1", x)});
    x = b_.Op("max_pool2d", {x},
              {{"kernel_h", int64_t{3}},
               {"kernel_w", int64_t{3}},
               {"stride_h", int64_t{2}},
               {"stride_w", int64_t{2}},
               {"pad_top", int64_t{1}},
               {"pad_left", int64_t{1}},
               {"pad_bottom", int64_t{1}},
               {"pad_right", int64_t{1}}});
    int block = 0;
    for (size_t stage = 0; stage < size_.blocks.size(); ++stage) {
      const int64_t channels = size_.stem << stage;
      for (int i = 0; i < size_.blocks[stage]; ++i) {
        b_.Block(++block);
        x = Residual(absl::StrCat("layer", stage + 1, ".", i), x, channels,
                     i == 0 && stage > 0 ? 2 : 1);
      }
    }
    x = b_.Op("reduce_mean", {x}, {{"rank_r", int64_t{2}}, {"rank_c", int64_t{0}}});
    const int64_t features = b_.Shape(x).empty() ? 1 : b_.Shape(x).back();
    const TensorId logits =
        b_.Op("linear", {x, b_.Parameter("fc.weight", {features, size_.classes}, He(features)),
                         b_.Parameter("fc.bias", {size_.classes}, Normal(0.01))});
    return b_.Finish({logits});
  }

 private:
  TensorId Conv(const std::string& name, TensorId x, int64_t channels, int64_t kernel,
                int64_t stride) {
    const std::vector<int64_t> shape = b_.Shape(x);
    const int64_t in = shape.size() > 1 ? shape[1] : 1;
    const int64_t pad = kernel / 2;
    return b_.Named(name, "conv2d",
                    {x, b_.Parameter(name + ".weight", {channels, in, kernel, kernel},
                                     He(in * kernel * kernel))},
                    {{"stride_h", stride},
                     {"stride_w", stride},
                     {"pad_top", pad},
                     {"pad_left", pad},
                     {"pad_bottom", pad},
                     {"pad_right", pad}});
  }

  TensorId BatchNorm(const std::string& name, TensorId x) {
    const std::vector<int64_t> shape = b_.Shape(x);
    const int64_t c = shape.size() > 1 ? shape[1] : 1;
    const TensorId gamma = b_.Parameter(name + ".weight", {c}, "uniform(0.5, 1.5)");
    const TensorId beta = b_.Parameter(name + ".bias", {c}, Normal(0.1));
    const TensorId mean = b_.Named(name + ".mean", "batch_mean", {x});
    const TensorId var = b_.Named(name + ".var", "batch_var", {x, mean});
    const TensorId old_mean = b_.State(name + ".running_mean", {c}, "constant(0)");
    const TensorId old_var = b_.State(name + ".running_var", {c}, "constant(1)");
    int64_t n = 1;
    for (size_t i = 0; i < shape.size(); ++i) n *= i == 1 ? 1 : shape[i];
    const double correction = n > 1 ? static_cast<double>(n) / static_cast<double>(n - 1) : 1.0;
    b_.Update(old_mean, b_.Named(name + ".running_mean.next", "running_average", {old_mean, mean},
                                 {{"momentum", 0.9}}));
    b_.Update(old_var, b_.Named(name + ".running_var.next", "running_average", {old_var, var},
                                {{"momentum", 0.9}, {"correction", correction}}));
    return b_.Named(name, "batch_norm", {x, gamma, beta, mean, var}, {{"eps", 1e-5}});
  }

  TensorId Residual(const std::string& name, TensorId x, int64_t channels, int64_t stride) {
    const int64_t out = size_.bottleneck ? 4 * channels : channels;
    const std::vector<int64_t> shape = b_.Shape(x);
    TensorId shortcut = x;
    if (stride != 1 || shape.size() < 2 || shape[1] != out) {
      shortcut = BatchNorm(name + ".downsample.1", Conv(name + ".downsample.0", x, out, 1, stride));
    }
    TensorId y = x;
    if (size_.bottleneck) {
      y = b_.Op("relu", {BatchNorm(name + ".bn1", Conv(name + ".conv1", y, channels, 1, 1))});
      y = b_.Op("relu", {BatchNorm(name + ".bn2", Conv(name + ".conv2", y, channels, 3, stride))});
      y = BatchNorm(name + ".bn3", Conv(name + ".conv3", y, out, 1, 1));
    } else {
      y = b_.Op("relu", {BatchNorm(name + ".bn1", Conv(name + ".conv1", y, channels, 3, stride))});
      y = BatchNorm(name + ".bn2", Conv(name + ".conv2", y, out, 3, 1));
    }
    return b_.Op("relu", {b_.Op("add", {y, shortcut})});
  }

  GraphBuilder b_;
  int64_t batch_;
  ResNetSize size_;
};

class Bert {
 public:
  Bert(const std::string& name, int64_t batch, const BertSize& size)
      : b_(name, batch), batch_(batch), size_(size) {}

  absl::StatusOr<Graph> Build() {
    const int64_t s = size_.sequence, w = size_.width;
    const TensorId ids = b_.Input("input_ids", {batch_, s}, DType::kI64);
    b_.Block(0);
    const TensorId table = b_.Parameter("embeddings.word", {size_.vocabulary, w});
    TensorId x = b_.Op("embedding", {ids, table});
    x = b_.Op("add", {x, b_.Parameter("embeddings.position", {s, w})});
    x = Norm("embeddings.norm", x);
    for (int64_t i = 0; i < size_.layers; ++i) {
      b_.Block(static_cast<int>(i) + 1);
      x = Layer(absl::StrCat("encoder.layer.", i, "."), x);
    }
    x = Norm("head.norm", b_.Op("gelu", {Linear("head.dense", x, w, w)}));
    const TensorId logits =
        b_.Op("linear_t", {x, table, b_.Parameter("head.bias", {size_.vocabulary})});
    return b_.Finish({logits});
  }

 private:
  TensorId Linear(const std::string& name, TensorId x, int64_t in, int64_t out) {
    return b_.Named(
        name, "linear",
        {x, b_.Parameter(name + ".weight", {in, out}), b_.Parameter(name + ".bias", {out})});
  }
  TensorId Norm(const std::string& name, TensorId x) {
    return b_.Named(name, "layer_norm",
                    {x, b_.Parameter(name + ".weight", {size_.width}, "uniform(0.5, 1.5)"),
                     b_.Parameter(name + ".bias", {size_.width})},
                    {{"eps", 1e-12}});
  }
  TensorId Heads(TensorId x) {
    const int64_t d = size_.width / size_.heads;
    const TensorId r = b_.Op(
        "reshape", {x}, {{"shape", std::vector<int64_t>{batch_, size_.sequence, size_.heads, d}}});
    return b_.Op("transpose", {r}, {{"perm", std::vector<int64_t>{0, 2, 1, 3}}});
  }
  TensorId Layer(const std::string& p, TensorId x) {
    const int64_t w = size_.width;
    const TensorId q = Heads(Linear(p + "attention.query", x, w, w));
    const TensorId k = Heads(Linear(p + "attention.key", x, w, w));
    const TensorId v = Heads(Linear(p + "attention.value", x, w, w));
    const double scale = 1 / std::sqrt(static_cast<double>(w / size_.heads));
    const TensorId a = b_.Named(p + "attention", "attention", {q, k, v}, {{"scale", scale}});
    const TensorId t = b_.Op("transpose", {a}, {{"perm", std::vector<int64_t>{0, 2, 1, 3}}});
    const TensorId m =
        b_.Op("reshape", {t}, {{"shape", std::vector<int64_t>{batch_, size_.sequence, w}}});
    x = Norm(p + "attention.norm", b_.Op("add", {Linear(p + "attention.output", m, w, w), x}));
    const TensorId up = b_.Op("gelu", {Linear(p + "intermediate", x, w, size_.feed_forward)});
    return Norm(p + "norm", b_.Op("add", {Linear(p + "output", up, size_.feed_forward, w), x}));
  }

  GraphBuilder b_;
  int64_t batch_;
  BertSize size_;
};

}  // namespace

absl::StatusOr<Graph> BuildMlp(const std::string& name, int64_t batch, int64_t width,
                               const std::vector<int64_t>& hidden, int64_t classes) {
  GraphBuilder b(name, batch);
  TensorId x = b.Input("x", {batch, width});
  int64_t in = width;
  for (size_t i = 0; i <= hidden.size(); ++i) {
    const int64_t out = i < hidden.size() ? hidden[i] : classes;
    const std::string layer = absl::StrCat("layers.", i);
    b.Block(static_cast<int>(i));
    x = b.Named(layer, "linear",
                {x, b.Parameter(layer + ".weight", {in, out}, He(in)),
                 b.Parameter(layer + ".bias", {out}, Normal(0.01))});
    if (i < hidden.size()) x = b.Op("relu", {x});
    in = out;
  }
  return b.Finish({x});
}

absl::StatusOr<Graph> BuildResNet(const std::string& name, int64_t batch, const ResNetSize& size) {
  return ResNet(name, batch, size).Build();
}

absl::StatusOr<Graph> BuildBert(const std::string& name, int64_t batch, const BertSize& size) {
  return Bert(name, batch, size).Build();
}

const std::vector<ZooEntry>& ZooEntries() {
  static const auto* entries = new std::vector<ZooEntry>{
      {"mlp", "multi-layer perceptron, 784-4096-4096-10", 512},
      {"resnet50", "ResNet-50, 224 x 224 images, training batch normalisation", 256},
      {"bert-large", "BERT-Large with a masked-language-model head, 512 tokens", 256},
      {"mlp-tiny", "12-24-24-6", 24},
      {"resnet-tiny", "two basic blocks on 8 x 8 images", 24},
      {"bert-tiny", "two layers, 24 wide, 12 tokens", 24},
  };
  return *entries;
}

absl::StatusOr<Graph> ZooModel(absl::string_view name, int64_t batch) {
  std::string names;
  for (const ZooEntry& e : ZooEntries()) {
    absl::StrAppend(&names, names.empty() ? "" : ", ", e.name);
    if (e.name != name) continue;
    const int64_t n = batch > 0 ? batch : e.default_batch;
    if (name == "mlp") return BuildMlp("mlp", n, 784, {4096, 4096}, 10);
    if (name == "mlp-tiny") return BuildMlp("mlp-tiny", n, 12, {24, 24}, 6);
    if (name == "resnet50") return BuildResNet("resnet50", n, {});
    if (name == "resnet-tiny") {
      return BuildResNet(
          "resnet-tiny", n,
          {.blocks = {1, 1}, .stem = 12, .bottleneck = false, .image = 8, .classes = 6});
    }
    if (name == "bert-large") return BuildBert("bert-large", n, {});
    return BuildBert("bert-tiny", n,
                     {.layers = 2,
                      .width = 24,
                      .heads = 12,
                      .feed_forward = 48,
                      .sequence = 12,
                      .vocabulary = 48});
  }
  return absl::NotFoundError(absl::StrCat("no model '", name, "' in the zoo; it has ", names));
}

}  // namespace tandem
