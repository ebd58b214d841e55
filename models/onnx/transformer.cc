// Operators of recent opsets that stand for whole pieces of a transformer, and losses inside a
// model.
#include <algorithm>
#include <cmath>
#include <limits>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "models/onnx/ops.h"

namespace tandem {
namespace {

constexpr double kInfinity = std::numeric_limits<double>::infinity();

absl::StatusOr<OnnxValue> Part(OnnxCall& call, const OnnxValue& x, int64_t start, int64_t end,
                               int64_t step) {
  OnnxContext& c = call.c;
  const OnnxValue last = c.KnownInts({-1});
  return Do(call, "Slice",
            {x, c.KnownInts({start}), c.KnownInts({end}), last, c.KnownInts({step})});
}

// [batch, tokens, heads * width] to [batch, heads, tokens, width].
absl::StatusOr<OnnxValue> ByHead(OnnxContext& c, const OnnxValue& x, int64_t heads) {
  const Dims before = c.Before(x);
  if (heads < 1 || before[2] % heads != 0) {
    return c.Error(absl::StrCat(heads, " heads do not divide a width of ", before[2]));
  }
  auto apart = c.Reshape(x, {before[0], before[1], heads, before[2] / heads}, false, "/heads");
  if (!apart.ok()) return apart;
  return c.Transpose(*apart, {0, 2, 1, 3}, "/by_head");
}

absl::StatusOr<OnnxValue> ByToken(OnnxContext& c, const OnnxValue& x) {
  auto turned = c.Transpose(x, {0, 2, 1, 3}, "/by_token");
  if (!turned.ok()) return turned;
  const Dims before = c.Before(*turned);
  return c.Reshape(*turned, {before[0], before[1], before[2] * before[3]}, false, "/merged");
}

// Keys and values that several query heads share.
absl::StatusOr<OnnxValue> ForHeads(OnnxContext& c, const OnnxValue& x, int64_t heads) {
  const Dims before = c.Before(x);
  if (before[1] == heads) return x;
  if (before[1] < 1 || heads % before[1] != 0) {
    return c.Error(absl::StrCat(before[1], " key heads for ", heads, " query heads"));
  }
  const int64_t each = heads / before[1];
  auto wide = c.Reshape(x, {before[0], before[1], 1, before[2], before[3]}, false, "/shared");
  if (!wide.ok()) return wide;
  auto all = c.Expand(*wide, {before[0], before[1], each, before[2], before[3]});
  if (!all.ok()) return all;
  return c.Reshape(*all, {before[0], heads, before[2], before[3]}, false, "/for_heads");
}

absl::Status Attention(OnnxCall& call) {
  OnnxContext& c = call.c;
  if (call.in.size() < 3) return c.Error("needs queries, keys and values");
  if (call.has(4) || call.has(5) || call.has(6)) return c.Unsupported("a cache of keys and values");
  if (call.wants(3)) return c.Unsupported("the scores are read");
  if (call.Float("softcap", 0) != 0) return c.Unsupported("softcap");
  std::vector<OnnxValue> qkv(call.in.begin(), call.in.begin() + 3);
  const size_t rank = c.Shape(qkv[0]).size();
  if (rank != 3 && rank != 4) return c.Error(absl::StrCat("queries of ", rank, " dims"));
  for (size_t k = 0; k < 3 && rank == 3; ++k) {
    auto apart = ByHead(c, qkv[k], call.Int(k == 0 ? "q_num_heads" : "kv_num_heads", 0));
    if (!apart.ok()) return apart.status();
    qkv[k] = *apart;
  }
  const Dims q = c.Before(qkv[0]), key = c.Before(qkv[1]);
  for (size_t k = 1; k < 3; ++k) {
    auto all = ForHeads(c, qkv[k], q[1]);
    if (!all.ok()) return all.status();
    if (call.out.size() > k) call.out[k] = qkv[k];
    qkv[k] = *all;
  }
  std::vector<TensorId> inputs;
  for (const OnnxValue& value : qkv) {
    auto id = c.ToTensor(value);
    if (!id.ok()) return id.status();
    inputs.push_back(*id);
  }
  const Attributes attributes = {
      {"scale", call.Float("scale", 1 / std::sqrt(static_cast<double>(q[3])))}};
  const bool causal = call.Int("is_causal", 0) != 0;
  std::string op = "attention";
  if (causal && !call.has(3)) op = "causal_attention";
  if (call.has(3)) {
    OnnxValue mask = call.in[3];
    const DType dtype = c.graph.tensor(inputs[0]).dtype;
    if (mask.dtype == DType::kBool) {
      auto additive =
          Do(call, "Where", {mask, c.KnownScalar(0, dtype), c.KnownScalar(-kInfinity, dtype)});
      if (!additive.ok()) return additive.status();
      mask = *additive;
    }
    if (causal) {
      FormulaArena& f = c.formulas;
      const int allowed = f.Call("le", {f.Index(1), f.Index(0)});
      const OnnxValue triangle = c.Known(
          {q[2], key[2]}, dtype, f.Call("select", {allowed, f.Number(0), f.Number(-kInfinity)}));
      auto both = Do(call, "Add", {mask, triangle});
      if (!both.ok()) return both.status();
      mask = *both;
    }
    std::vector<OnnxValue> together = {c.OfTensor(inputs[0]), mask};
    if (absl::Status s = c.AlignBatch(&together); !s.ok()) return s;
    auto id = c.ToBroadcastTensor(together[1]);
    if (!id.ok()) return id.status();
    while (c.graph.tensor(*id).shape.size() < 2) {
      auto wider = c.Reshape(c.OfTensor(*id),
                             {1, static_cast<int64_t>(ElementCount(c.graph.tensor(*id).shape))},
                             true, "/mask");
      if (!wider.ok()) return wider.status();
      id = wider->tensor;
    }
    inputs.push_back(*id);
  }
  OnnxContext::EmitOptions emit;
  emit.suffix = rank == 3 ? "/attention" : "";
  auto result = c.Emit(op, attributes, inputs, emit);
  if (!result.ok() || rank == 4) return call.Give(result);
  return call.Give(ByToken(c, *result));
}

absl::Status RotaryEmbedding(OnnxCall& call) {
  OnnxContext& c = call.c;
  if (call.in.size() < 3) return c.Error("needs data and two tables");
  OnnxValue x = call.in[0];
  const size_t rank = c.Shape(x).size();
  if (rank != 3 && rank != 4) return c.Error(absl::StrCat("data of ", rank, " dims"));
  if (rank == 3) {
    auto apart = ByHead(c, x, call.Int("num_heads", 0));
    if (!apart.ok()) return apart.status();
    x = *apart;
  }
  const int64_t width = c.Before(x)[3];
  const int64_t given = call.Int("rotary_embedding_dim", 0);
  const int64_t turned = given == 0 ? width : given;
  if (turned < 2 || turned > width || turned % 2 != 0) {
    return c.Error(absl::StrCat("rotary_embedding_dim ", turned, " of ", width));
  }
  OnnxValue tables[2];
  for (size_t k = 0; k < 2; ++k) {
    OnnxValue table = call.in[k + 1];
    if (call.has(3)) {
      auto rows = Do(call, "Gather", {table, call.in[3]});
      if (!rows.ok()) return rows.status();
      table = *rows;
    }
    Dims dims = c.Before(table);
    if (dims.size() != 3) return c.Error("tables of cosines and sines do not fit");
    dims.insert(dims.begin() + 1, 1);
    auto wide = c.Reshape(table, dims, table.new_batch, absl::StrCat("/table", k));
    if (!wide.ok()) return wide.status();
    tables[k] = *wide;
  }
  const bool interleaved = call.Int("interleaved", 0) != 0;
  const int64_t half = turned / 2, step = interleaved ? 2 : 1;
  auto first = Part(call, x, 0, interleaved ? turned : half, step);
  auto second = Part(call, x, interleaved ? 1 : half, turned, step);
  if (!first.ok()) return first.status();
  if (!second.ok()) return second.status();
  absl::StatusOr<OnnxValue> rotated[2];
  for (int k = 0; k < 2; ++k) {
    auto a = Do(call, "Mul", {*first, tables[k]});
    auto b = Do(call, "Mul", {*second, tables[1 - k]});
    if (!a.ok()) return a.status();
    if (!b.ok()) return b.status();
    rotated[k] = Do(call, k == 0 ? "Sub" : "Add", {*a, *b});
    if (!rotated[k].ok()) return rotated[k].status();
    if (!interleaved) continue;
    Dims apart = c.Before(*rotated[k]);
    apart.push_back(1);
    rotated[k] = c.Reshape(*rotated[k], apart, false, absl::StrCat("/pair", k));
    if (!rotated[k].ok()) return rotated[k].status();
  }
  auto result = Do(call, "Concat", {*rotated[0], *rotated[1]}, {{"axis", -1}});
  if (!result.ok()) return result.status();
  if (interleaved) {
    Dims joined = c.Before(*result);
    joined.pop_back();
    joined.back() *= 2;
    result = c.Reshape(*result, joined, false, "/joined");
    if (!result.ok()) return result.status();
  }
  if (turned < width) {
    auto rest = Part(call, x, turned, width, 1);
    if (!rest.ok()) return rest.status();
    result = Do(call, "Concat", {*result, *rest}, {{"axis", -1}});
    if (!result.ok()) return result.status();
  }
  return call.Give(rank == 3 ? ByToken(c, *result) : result);
}

// SoftmaxCrossEntropyLoss of scores, NegativeLogLikelihoodLoss of logarithms; classes are dim 1.
absl::Status ClassLoss(OnnxCall& call) {
  OnnxContext& c = call.c;
  const bool scores = call.node.op_type() == "SoftmaxCrossEntropyLoss";
  if (call.in.size() < 2) return c.Error("needs scores and labels");
  if (call.has(2)) return c.Unsupported("weights of the classes");
  const std::string reduction = call.String("reduction", "mean");
  if (reduction == "none") return c.Unsupported("a loss that is not reduced");
  // PyTorch writes its default of -100 always; any other is meant.
  const int64_t ignored = call.Int("ignore_index", -100);
  if (ignored != -100) return c.Unsupported(absl::StrCat("labels of ", ignored, " left out"));
  if (call.Attribute("ignore_index") != nullptr) {
    c.Note(absl::StrCat("node '", c.node_name, "': no label is taken to be the ignored -100"));
  }
  const size_t rank = c.Shape(call.in[0]).size();
  if (rank < 2) return c.Error("scores of fewer than two dims");
  std::vector<int64_t> perm = {0};
  for (size_t d = 2; d < rank; ++d) perm.push_back(static_cast<int64_t>(d));
  perm.push_back(1);
  auto last = c.Transpose(call.in[0], perm, "/classes_last");
  if (!last.ok()) return last.status();
  auto x = c.ToTensor(*last);
  if (!x.ok()) return x.status();
  auto labels = c.ToTensor(call.in[1]);
  if (!labels.ok()) return labels.status();
  std::string op = "cross_entropy";
  if (!scores) {
    auto name =
        c.Define("negative_log_likelihood",
                 "(x[b.., v], labels[b..]: int) -> loss[] { l[b] = sum(t: v) "
                 "select(labels[b] == t, x[b, t], 0); loss[] = -(sum(i: b) l[i]) / size(b) }");
    if (!name.ok()) return name.status();
    op = *name;
  }
  OnnxContext::EmitOptions emit;
  emit.suffix = reduction == "sum" ? "/mean" : "";
  auto loss = c.Emit(op, {}, {*x, *labels}, emit);
  if (!loss.ok()) return loss.status();
  if (reduction == "sum") {
    if (c.rebinding) return c.Unsupported("a summed loss at another batch");
    double count = 1;
    for (int64_t extent : c.Shape(call.in[1])) count *= static_cast<double>(extent);
    loss = c.Emit("scale", {{"value", count}}, {loss->tensor});
    if (!loss.ok()) return loss.status();
  }
  call.out[0] = *loss;
  if (!call.wants(1)) return absl::OkStatus();
  auto logs = Do(call, "LogSoftmax", {call.in[0]}, {{"axis", 1}});
  if (!logs.ok()) return logs.status();
  call.out[1] = *logs;
  return absl::OkStatus();
}

}  // namespace

void AddTransformerHandlers(OnnxHandlers* handlers) {
  (*handlers)["Attention"] = Attention;
  (*handlers)["RotaryEmbedding"] = RotaryEmbedding;
  (*handlers)["SoftmaxCrossEntropyLoss"] = ClassLoss;
  (*handlers)["NegativeLogLikelihoodLoss"] = ClassLoss;
}

}  // namespace tandem
