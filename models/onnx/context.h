// The state of one ONNX import: the values met so far and the graph they become. Internal to the
// importer; onnx_ops_*.cc add one handler an ONNX operator.
//
// A value is known (a formula of its indices), a weight of the file, or a tensor of the graph.
// Known values and weights enter the graph where a node reads them, not before.
//
// Two shapes. Where the batch that the export fixed is replaced, every tensor of the graph has the
// shape that the file says (`before`) beside the one it gets; a dim where they differ holds the
// batch. Constants of the file (Reshape targets) speak of the former.
#ifndef TANDEM_MODELS_ONNX_CONTEXT_H_
#define TANDEM_MODELS_ONNX_CONTEXT_H_

#include <cstdint>
#include <map>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "models/onnx/file.h"
#include "models/onnx/formula.h"
#include "models/onnx/importer.h"
#include "models/onnx/lookups.h"
#include "pcg/graph/graph.h"

namespace tandem {

using Dims = std::vector<int64_t>;

// Whether a float tensor may hold minus infinity or NaN, as masks bring them in.
enum class Finiteness : uint8_t {
  kFinite,
  kRowsFinite,  // minus infinity, but something finite in every row along the last axis
  kUnknown,
};

// A weight of the file, as it enters the graph: one parameter, or one a place that reads it.
struct Weight {
  OnnxTensor data;
  TensorRole role = TensorRole::kParameter;
  std::string note;
  std::string initializer;  // how a run fills it when there are no values
  bool per_place = false;
  bool over_batch = false;  // the export repeated it over the batch: dim 0 is taken once
  Dims shape;               // as the file says; `data` may be a table that was looked up
  std::optional<Lookup> lookup;
  int beginning_of = -1;  // another weight, which is longer along one dim
  size_t along = 0;
  TensorId tensor;  // once it is in the graph
  TensorId found;   // likewise, what was looked up in it
};

struct OnnxValue {
  enum class Kind : uint8_t { kNone, kKnown, kWeight, kTensor, kSequence, kUnsupported };
  Kind kind = Kind::kNone;
  DType dtype = DType::kF32;
  Dims shape;  // kKnown, kWeight: as the file says
  // kKnown
  int formula = -1;
  bool assumed = false;     // its data is missing, and was guessed
  bool new_batch = false;   // made from Shape: speaks of the new batch
  bool fill = false;        // of a ConstantOfShape
  std::string name;         // of the ONNX value
  int weight = -1;          // kWeight
  bool transposed = false;  // kWeight of two dims, read the other way round (shape says so)
  TensorId tensor;          // kTensor
  Dims repeated;            // kTensor, where not empty: the shape it stands for, dims of 1 repeated
  std::vector<OnnxValue> elements;  // kSequence

  bool known() const { return kind == Kind::kKnown; }
};

class OnnxContext {
 public:
  OnnxContext(const OnnxFile& file, const ImportOptions& options, ImportReport* report);

  Graph graph;
  FormulaArena formulas;
  std::map<std::string, OnnxValue> values;
  std::vector<Weight> weights;
  std::set<std::string> apart;  // results of Identity nodes that are weights of their own
  const OnnxFile& file;
  const ImportOptions& options;
  ImportReport* report;
  int64_t exported_batch = 0;  // 0: symbolic, or nothing to replace
  bool rebinding = false;
  std::string node_name;  // of the ONNX node being imported
  std::string node_op;

  // -- Errors, naming file and node.
  absl::Status Error(const std::string& message) const;
  absl::Status Unsupported(const std::string& reason) const;
  absl::Status CannotRebind(const std::string& what) const;
  void Note(const std::string& note);

  // -- Known values.
  OnnxValue Known(Dims shape, DType dtype, int formula) const;
  OnnxValue KnownInts(const std::vector<int64_t>& values) const;  // 1-D
  OnnxValue KnownScalar(double value, DType dtype) const;
  // All elements; errors where there are too many or the value is not known. `what` is a phrase
  // ("the shape") for the message.
  absl::StatusOr<std::vector<double>> Elements(const OnnxValue& value,
                                               const std::string& what) const;
  absl::StatusOr<std::vector<int64_t>> Integers(const OnnxValue& value,
                                                const std::string& what) const;
  // The value of every element, if they are known to be equal.
  std::optional<double> Uniform(const OnnxValue& value) const;

  // -- Shapes and types.
  Dims Shape(const OnnxValue& value) const;   // with the new batch
  Dims Before(const OnnxValue& value) const;  // as the file says
  // Batch dims of a graph tensor: factors left of the batch (1 for most; 0 = not known).
  Dims& Outer(TensorId id);
  void SetBefore(TensorId id, Dims before, Dims outer);
  Finiteness& FinitenessOf(TensorId id);

  // -- Into the graph.
  // The tensor of any value. Known values become operators without inputs (fill, iota, causal_mask,
  // or a generated one) or small constants.
  absl::StatusOr<TensorId> ToTensor(const OnnxValue& value);
  // The same where the reader repeats missing and 1-extent dims: known values are made only along
  // the dims they depend on.
  absl::StatusOr<TensorId> ToBroadcastTensor(const OnnxValue& value);
  // A weight's place: constant fills become parameters here, vectors are taken apart by place.
  // `initializer` is how a run fills it when the file has no values.
  absl::StatusOr<TensorId> ToWeight(const OnnxValue& value, TensorRole role,
                                    const std::string& initializer);

  struct EmitOptions {
    std::vector<DType> dtypes;           // of the outputs; default that of the first float input
    const Attributes* before = nullptr;  // attributes for the exported shapes, where they differ
    std::string suffix;                  // of the node's name, where one ONNX node makes several
    std::string name;                    // of the node, instead of the ONNX node's with the suffix
  };
  absl::StatusOr<std::vector<OnnxValue>> EmitAll(const std::string& op, Attributes attributes,
                                                 const std::vector<TensorId>& inputs,
                                                 const EmitOptions& emit);
  // The only output.
  absl::StatusOr<OnnxValue> Emit(const std::string& op, Attributes attributes,
                                 const std::vector<TensorId>& inputs, const EmitOptions& emit);
  absl::StatusOr<OnnxValue> Emit(const std::string& op, Attributes attributes,
                                 const std::vector<TensorId>& inputs) {
    return Emit(op, std::move(attributes), inputs, EmitOptions{});
  }
  // Defines an operator by text unless it is there ("operator NAME" + body); returns its name,
  // made of `stem` and a hash of the body.
  absl::StatusOr<std::string> Define(const std::string& stem, const std::string& body);

  // Reshape, expand, transpose; no node where nothing changes. Targets are those of the file; for
  // expand and reshape the batch is found in them.
  absl::StatusOr<OnnxValue> Reshape(const OnnxValue& value, const Dims& target,
                                    bool target_has_new_batch = false,
                                    const std::string& suffix = "");
  absl::StatusOr<OnnxValue> Expand(const OnnxValue& value, const Dims& target,
                                   bool target_has_new_batch = false);
  absl::StatusOr<OnnxValue> Transpose(const OnnxValue& value, const std::vector<int64_t>& perm,
                                      const std::string& suffix = "");
  // The value as of the shape that the file gives it: where a node made it once although it repeats
  // (an operand was known not to vary), it stands for the repetition.
  absl::StatusOr<OnnxValue> Restore(OnnxValue value, const Dims& shape);
  // Makes value's dim follow the batch: it is known or a weight, equal for every sample.
  absl::Status DropBatch(OnnxValue* value, size_t dim) const;
  // Brings values that are read together into agreement on which dims hold the batch; dims are
  // aligned at the last one.
  absl::Status AlignBatch(std::vector<OnnxValue>* together) const;

  std::string UniqueTensorName(const std::string& name);
  std::string UniqueNodeName(const std::string& name);
  OnnxValue OfTensor(TensorId id) const;

 private:
  absl::StatusOr<TensorId> MakeKnown(const OnnxValue& value, const Dims& dims);
  TensorId AddConstant(const std::string& name, const Dims& shape, DType dtype,
                       std::vector<double> values);
  TensorId AddWeight(const Weight& weight, const std::string& place);
  // Rows of the weight's table, in the shape that the file gives the weight.
  absl::StatusOr<TensorId> LookedUp(Weight* weight, TensorId table);
  // A part of another weight.
  absl::StatusOr<TensorId> Beginning(const OnnxValue& value, const Weight& weight);

  std::set<std::string> tensor_names_;
  std::set<std::string> node_names_;
  std::map<int, TensorId> tables_;                        // formula tables in the graph
  std::map<std::string, int> fills_;                      // places that a constant fill feeds
  std::map<std::pair<std::string, int>, TensorId> made_;  // known values in the graph
  std::vector<Dims> before_;
  std::vector<Dims> outer_;
  std::vector<Finiteness> finiteness_;
};

}  // namespace tandem

#endif  // TANDEM_MODELS_ONNX_CONTEXT_H_
