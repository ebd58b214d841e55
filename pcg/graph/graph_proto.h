// Graphs to and from their protobuf form (proto/graph.proto). The strings of plan.h
// (SerializeGraph, ParseGraph, GraphToText, GraphFromText) are made of these.
#ifndef TANDEM_PCG_GRAPH_GRAPH_PROTO_H_
#define TANDEM_PCG_GRAPH_GRAPH_PROTO_H_

#include <string>
#include <utility>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "pcg/graph/graph.h"
#include "pcg/proto/graph.pb.h"

namespace tandem {

// kSelfContained writes the text of built-in operators too where nodes use them, so that a later
// version whose built-ins mean something else refuses the file. kForPeople leaves them out.
enum class OperatorTexts : uint8_t { kSelfContained, kForPeople };

void GraphToProto(const Graph& graph, OperatorTexts texts, proto::Graph* out);
// Infers what is left out (activations, outputs' names, types and shapes), then CheckGraph. `file`
// goes into messages.
absl::StatusOr<Graph> GraphFromProto(const proto::Graph& in, const std::string& file);

void AttributesToProto(const Attributes& attributes,
                       google::protobuf::RepeatedPtrField<proto::Attribute>* out);
absl::StatusOr<Attributes> AttributesFromProto(
    const google::protobuf::RepeatedPtrField<proto::Attribute>& in);

// Dims and factors at least 1, product below 2^62. `what` begins the message.
absl::StatusOr<FactoredShape> ShapeFromProto(
    const google::protobuf::RepeatedPtrField<proto::Factors>& in, const std::string& what);
void ShapeToProto(const FactoredShape& shape,
                  google::protobuf::RepeatedPtrField<proto::Factors>* out);

// Enums of both sides have the same order.
inline proto::DType DTypeToProto(DType t) { return static_cast<proto::DType>(t); }
inline DType DTypeFromProto(proto::DType t) { return static_cast<DType>(t); }

}  // namespace tandem

#endif  // TANDEM_PCG_GRAPH_GRAPH_PROTO_H_
