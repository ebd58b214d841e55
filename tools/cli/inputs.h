// Inputs that several commands share: a model file with how to read it, a machine, how to train.
#ifndef TANDEM_TOOLS_CLI_INPUTS_H_
#define TANDEM_TOOLS_CLI_INPUTS_H_

#include <CLI/CLI.hpp>
#include <cstdint>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "models/load_model.h"
#include "pcg/graph/graph.h"
#include "pcg/program/plan.h"
#include "simulator/machine.h"

namespace tandem::cli {

struct ModelInput {
  std::string path;
  int64_t global_batch = 0;
  std::vector<std::string> dims;  // name=value
  std::vector<std::string> operator_files;
  std::vector<std::string> tie, untie;
  int64_t default_dim = 0;  // for symbolic dims without a --dim; 0 = they are an error
  void Add(CLI::App& command);
  // `train` as TrainingInput has it.
  absl::StatusOr<Graph> Load(ImportReport* report,
                             const std::vector<std::string>& train = {}) const;
};

struct MachineInput {
  std::string name;
  int64_t nodes = 0;
  int64_t devices = 0;
  void Add(CLI::App& command, bool required);
  void AddSize(CLI::App& command);  // --nodes and --devices only
  absl::StatusOr<Machine> Load() const;
};

struct TrainingInput {
  std::string loss = "cross-entropy";
  std::string optimizer = "adamw";
  std::string precision;  // "" = DefaultPrecision
  double lr = 1e-3;
  std::vector<std::string> freeze, train;
  void Add(CLI::App& command);
  // To freeze what the import has not made trainable in the first place is no error.
  absl::StatusOr<TrainingOptions> Options(const Machine& machine, const Graph& forward,
                                          const ImportReport& report) const;
};

// The first of bf16 and fp16 that the machine's file gives a contraction rate for; else fp32.
DType DefaultPrecision(const Machine& machine);

// "72 GiB", "512M", "1e9": bytes.
absl::StatusOr<int64_t> ParseBytes(const std::string& text);

}  // namespace tandem::cli

#endif  // TANDEM_TOOLS_CLI_INPUTS_H_
