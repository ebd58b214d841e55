// Meshes, layouts, strategies and Programs to and from their protobuf form (proto/program.proto).
// Reading checks every index, so that a damaged file is an error and never an access out of range.
#ifndef TANDEM_PCG_PROGRAM_PROGRAM_PROTO_H_
#define TANDEM_PCG_PROGRAM_PROGRAM_PROTO_H_

#include <string>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "pcg/layout/strategy.h"
#include "pcg/program/program.h"
#include "pcg/proto/program.pb.h"

namespace tandem {

void StrategyToProto(const Strategy& strategy, proto::Strategy* out);
// Indices are checked against the graph that the strategy is for.
absl::StatusOr<Strategy> StrategyFromProto(const proto::Strategy& in, const Graph& graph,
                                           const std::string& file);

void ProgramToProto(const Program& program, proto::Program* out);
absl::StatusOr<Program> ProgramFromProto(const proto::Program& in, const std::string& file);

}  // namespace tandem

#endif  // TANDEM_PCG_PROGRAM_PROGRAM_PROTO_H_
