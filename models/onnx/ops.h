// Handlers of ONNX operators: each turns one node of the file into values. Internal to the
// importer.
#ifndef TANDEM_MODELS_ONNX_OPS_H_
#define TANDEM_MODELS_ONNX_OPS_H_

#include <map>
#include <optional>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "models/onnx/context.h"

namespace tandem {

// One node of the file with its operands.
struct OnnxCall {
  OnnxContext& c;
  const onnx::NodeProto& node;
  int opset = 0;
  std::vector<OnnxValue> in;
  std::vector<OnnxValue> out;  // one an output of the node

  bool has(size_t i) const { return i < in.size() && in[i].kind != OnnxValue::Kind::kNone; }
  bool wants(size_t k) const {
    return static_cast<int>(k) < node.output_size() && !node.output(static_cast<int>(k)).empty();
  }
  const onnx::AttributeProto* Attribute(const char* name) const;
  int64_t Int(const char* name, int64_t otherwise) const;
  double Float(const char* name, double otherwise) const;
  std::string String(const char* name, const std::string& otherwise) const;
  std::optional<std::vector<int64_t>> Ints(const char* name) const;
  // Axis counted from the front, or an error.
  absl::StatusOr<size_t> Axis(int64_t axis, size_t rank) const;
  // Integers of attribute `name`, or of input i (which later opsets use instead).
  absl::StatusOr<std::optional<std::vector<int64_t>>> IntsOf(const char* name, size_t i) const;
  // Sets output 0.
  absl::Status Give(absl::StatusOr<OnnxValue> value);
};

using OnnxHandler = absl::Status (*)(OnnxCall&);
using OnnxHandlers = std::map<std::string, OnnxHandler>;

// Each file of handlers adds its own.
void AddElementwiseHandlers(OnnxHandlers* handlers);
void AddContractionHandlers(OnnxHandlers* handlers);
void AddMovementHandlers(OnnxHandlers* handlers);
void AddReductionHandlers(OnnxHandlers* handlers);
void AddNormalizationHandlers(OnnxHandlers* handlers);
void AddTransformerHandlers(OnnxHandlers* handlers);
void AddWindowHandlers(OnnxHandlers* handlers);
void AddSlicingHandlers(OnnxHandlers* handlers);
void AddGatherHandlers(OnnxHandlers* handlers);
void AddScatterHandlers(OnnxHandlers* handlers);
const OnnxHandlers& AllOnnxHandlers();

// Operands that an operator cannot do without; of those with any number, all.
size_t OperandsNeeded(const OnnxCall& call);

// Another ONNX operator on values of this node; `attributes` are integers.
absl::StatusOr<OnnxValue> Do(OnnxCall& call, const char* op, std::vector<OnnxValue> in,
                             const std::map<std::string, int64_t>& attributes = {});

// Computed indices into a dim of `extent` (`extent_before` as the file says) that may be negative,
// counted from the front; others as they are.
absl::StatusOr<OnnxValue> FromFront(OnnxCall& call, const OnnxValue& ids, int64_t extent,
                                    int64_t extent_before);

// Resize as a known matrix along each dim: any mode and any scale.
absl::Status Interpolate(OnnxCall& call);

// Evaluates a node whose operands are all known. False: not an operator that is folded.
absl::StatusOr<bool> FoldKnown(OnnxCall& call);

// Movement of known values.
absl::StatusOr<OnnxValue> ReshapeKnown(OnnxContext& c, const OnnxValue& value, const Dims& target);
absl::StatusOr<OnnxValue> ExpandKnown(OnnxContext& c, const OnnxValue& value, const Dims& target);
// Index d of the result's formula is replaced by indices[d] (formulas of the result's indices).
OnnxValue Reindex(OnnxContext& c, const OnnxValue& value, Dims shape,
                  const std::vector<int>& indices);

// Shape of operands repeated against one another, or an error naming both.
absl::StatusOr<Dims> BroadcastShape(const OnnxContext& c, const Dims& a, const Dims& b);

// Resolves 0 and -1 in the target of a Reshape.
absl::StatusOr<Dims> ResolveTarget(const OnnxContext& c, std::vector<int64_t> target,
                                   const Dims& input, bool allow_zero);

}  // namespace tandem

#endif  // TANDEM_MODELS_ONNX_OPS_H_
