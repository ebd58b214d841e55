// A plan: everything that `run`, `simulate`, `verify` and `explain` need, on disk as a directory.
#ifndef TANDEM_PCG_PROGRAM_PLAN_H_
#define TANDEM_PCG_PROGRAM_PLAN_H_

#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "pcg/graph/graph.h"
#include "pcg/layout/strategy.h"
#include "pcg/program/program.h"

namespace tandem {

// One application of a proved rule to the model: nodes of the graph before (by name) that became
// the nodes after. `verify` re-proves each from the operator texts.
struct RuleApplication {
  std::string rule;
  std::string certificate;  // hash of what was proved
  std::vector<std::string> source_nodes;
  std::vector<std::string> target_nodes;
  double gain_seconds = 0;
  bool operator==(const RuleApplication&) const = default;
};

// How the training graph was made from a forward graph (training.h), so that it can be made again.
struct TrainingOptions {
  std::string loss = "cross-entropy";  // cross-entropy, mse, output, none
  std::string optimizer = "adamw";     // sgd, momentum, adam, adamw, lamb; none when loss is none
  double lr = 1e-3;
  DType precision = DType::kF32;
  std::vector<std::string> freeze;  // regular expressions on tensor names
  std::vector<std::string> train;
  bool outputs = true;  // the step gives the model's outputs beside the loss and the new states
  bool operator==(const TrainingOptions&) const = default;
};

struct Plan {
  std::string model;    // as given
  std::string machine;  // textproto of the machine, whole
  TrainingOptions training;
  Graph forward;                       // F: the imported forward graph
  Graph serial;                        // G0: training graph of F; the reference meaning
  Graph pcg;                           // training graph of the rewritten forward graph F'
  Graph rewritten_forward;             // F'
  std::vector<RuleApplication> rules;  // F -> F'
  Strategy strategy;
  std::vector<Program> programs;  // one a class of devices
  std::string summary_json;       // summary.json
};

// Writes plan.pb (graphs, strategy, Programs), summary.json. Same plan, same bytes. The directory
// is created; files are replaced atomically.
absl::Status WritePlan(const Plan& plan, const std::string& directory);
absl::StatusOr<Plan> ReadPlan(const std::string& directory);

// Protobuf forms for graphs (the protobuf model format) and text forms for people.
absl::StatusOr<std::string> SerializeGraph(const Graph& graph);  // binary protobuf
absl::StatusOr<Graph> ParseGraph(const std::string& bytes, const std::string& file);
absl::StatusOr<std::string> GraphToText(const Graph& graph);  // textproto
absl::StatusOr<Graph> GraphFromText(const std::string& text, const std::string& file);
absl::StatusOr<std::string> SerializeProgram(const Program& program);
absl::StatusOr<Program> ParseProgram(const std::string& bytes, const std::string& file);

}  // namespace tandem

#endif  // TANDEM_PCG_PROGRAM_PLAN_H_
