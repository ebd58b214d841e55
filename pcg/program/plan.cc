#include "pcg/program/plan.h"

#include <utility>

#include "absl/strings/str_cat.h"
#include "pcg/graph/graph_proto.h"
#include "pcg/io/file_io.h"
#include "pcg/io/proto_io.h"
#include "pcg/program/program_proto.h"
#include "pcg/proto/plan.pb.h"

namespace tandem {
namespace {

constexpr int kFormat = 1;

void TrainingToProto(const TrainingOptions& options, proto::TrainingOptions* out) {
  out->set_loss(options.loss);
  out->set_optimizer(options.optimizer);
  out->set_lr(options.lr);
  out->set_precision(DTypeToProto(options.precision));
  for (const std::string& pattern : options.freeze) out->add_freeze(pattern);
  for (const std::string& pattern : options.train) out->add_train(pattern);
  if (!options.outputs) out->set_outputs(false);
}

TrainingOptions TrainingFromProto(const proto::TrainingOptions& in) {
  TrainingOptions options;
  if (in.has_loss()) options.loss = in.loss();
  if (in.has_optimizer()) options.optimizer = in.optimizer();
  if (in.has_lr()) options.lr = in.lr();
  options.precision = DTypeFromProto(in.precision());
  options.freeze.assign(in.freeze().begin(), in.freeze().end());
  options.train.assign(in.train().begin(), in.train().end());
  options.outputs = in.outputs();
  return options;
}

// What only the graph can say about a Program's indices.
absl::Status CheckAgainstGraph(const Program& program, const Graph& graph,
                               const std::string& file) {
  for (const Buffer& buffer : program.buffers) {
    if (buffer.tensor.value >= static_cast<int64_t>(graph.tensors.size())) {
      return absl::InvalidArgumentError(absl::StrCat(file, ": buffer '", buffer.name,
                                                     "' is of tensor ", buffer.tensor.value, " of ",
                                                     graph.tensors.size()));
    }
  }
  for (const Instruction& instruction : program.instructions) {
    if (instruction.node.value >= static_cast<int64_t>(graph.nodes.size())) {
      return absl::InvalidArgumentError(absl::StrCat(file, ": instruction '", instruction.name,
                                                     "' is of node ", instruction.node.value,
                                                     " of ", graph.nodes.size()));
    }
  }
  return absl::OkStatus();
}

absl::StatusOr<Plan> PlanFromProto(const proto::Plan& in, const std::string& file) {
  if (in.format() != kFormat) {
    return absl::InvalidArgumentError(
        absl::StrCat(file, ": plan format ", in.format(), "; this version reads format ", kFormat));
  }
  Plan plan;
  plan.model = in.model();
  plan.machine = in.machine();
  plan.training = TrainingFromProto(in.training());
  plan.summary_json = in.summary_json();
  const std::pair<const proto::Graph*, Graph*> graphs[] = {
      {&in.forward(), &plan.forward},
      {&in.serial(), &plan.serial},
      {&in.pcg(), &plan.pcg},
      {&in.rewritten_forward(), &plan.rewritten_forward}};
  for (const auto& [from, to] : graphs) {
    auto graph = GraphFromProto(*from, file);
    if (!graph.ok()) return graph.status();
    *to = *std::move(graph);
  }
  for (const proto::RuleApplication& rule : in.rule()) {
    plan.rules.push_back({rule.rule(),
                          rule.certificate(),
                          {rule.source_node().begin(), rule.source_node().end()},
                          {rule.target_node().begin(), rule.target_node().end()},
                          rule.gain_seconds()});
  }
  auto strategy = StrategyFromProto(in.strategy(), plan.pcg, file);
  if (!strategy.ok()) return strategy.status();
  plan.strategy = *std::move(strategy);
  for (const proto::Program& entry : in.program()) {
    auto program = ProgramFromProto(entry, file);
    if (!program.ok()) return program.status();
    if (absl::Status s = CheckAgainstGraph(*program, plan.pcg, file); !s.ok()) return s;
    plan.programs.push_back(*std::move(program));
  }
  return plan;
}

std::string PlanFile(const std::string& directory) { return directory + "/plan.pb"; }

}  // namespace

absl::StatusOr<std::string> SerializeGraph(const Graph& graph) {
  proto::Graph message;
  GraphToProto(graph, OperatorTexts::kSelfContained, &message);
  return ToBytes(message);
}

absl::StatusOr<Graph> ParseGraph(const std::string& bytes, const std::string& file) {
  proto::Graph message;
  if (absl::Status s = FromBytes(bytes, file, "a Tandem model", &message); !s.ok()) return s;
  return GraphFromProto(message, file);
}

absl::StatusOr<std::string> GraphToText(const Graph& graph) {
  proto::Graph message;
  GraphToProto(graph, OperatorTexts::kForPeople, &message);
  return ToText(message);
}

absl::StatusOr<Graph> GraphFromText(const std::string& text, const std::string& file) {
  proto::Graph message;
  if (absl::Status s = FromText(text, file, &message); !s.ok()) return s;
  return GraphFromProto(message, file);
}

absl::StatusOr<std::string> SerializeProgram(const Program& program) {
  proto::Program message;
  ProgramToProto(program, &message);
  return ToBytes(message);
}

absl::StatusOr<Program> ParseProgram(const std::string& bytes, const std::string& file) {
  proto::Program message;
  if (absl::Status s = FromBytes(bytes, file, "a Program", &message); !s.ok()) return s;
  return ProgramFromProto(message, file);
}

absl::Status WritePlan(const Plan& plan, const std::string& directory) {
  proto::Plan message;
  message.set_format(kFormat);
  message.set_model(plan.model);
  message.set_machine(plan.machine);
  TrainingToProto(plan.training, message.mutable_training());
  GraphToProto(plan.forward, OperatorTexts::kSelfContained, message.mutable_forward());
  GraphToProto(plan.serial, OperatorTexts::kSelfContained, message.mutable_serial());
  GraphToProto(plan.pcg, OperatorTexts::kSelfContained, message.mutable_pcg());
  GraphToProto(plan.rewritten_forward, OperatorTexts::kSelfContained,
               message.mutable_rewritten_forward());
  for (const RuleApplication& rule : plan.rules) {
    proto::RuleApplication* entry = message.add_rule();
    entry->set_rule(rule.rule);
    entry->set_certificate(rule.certificate);
    for (const std::string& node : rule.source_nodes) entry->add_source_node(node);
    for (const std::string& node : rule.target_nodes) entry->add_target_node(node);
    entry->set_gain_seconds(rule.gain_seconds);
  }
  StrategyToProto(plan.strategy, message.mutable_strategy());
  for (const Program& program : plan.programs) ProgramToProto(program, message.add_program());
  message.set_summary_json(plan.summary_json);
  auto bytes = ToBytes(message);
  if (!bytes.ok()) return bytes.status();
  if (absl::Status s = CreateDirectory(directory); !s.ok()) return s;
  if (absl::Status s = WriteFileAtomically(PlanFile(directory), *bytes); !s.ok()) return s;
  return WriteFileAtomically(directory + "/summary.json", plan.summary_json);
}

absl::StatusOr<Plan> ReadPlan(const std::string& directory) {
  const std::string file = PlanFile(directory);
  auto bytes = ReadFile(file);
  if (!bytes.ok()) {
    return absl::Status(bytes.status().code(),
                        absl::StrCat(bytes.status().message(),
                                     "; give a directory that `tandem optimize --out` wrote"));
  }
  proto::Plan message;
  if (absl::Status s = FromBytes(*bytes, file, "a Tandem plan", &message); !s.ok()) return s;
  return PlanFromProto(message, file);
}

}  // namespace tandem
