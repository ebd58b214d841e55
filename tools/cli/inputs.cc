#include "tools/cli/inputs.h"

#include <algorithm>
#include <cctype>
#include <cstdlib>
#include <regex>
#include <utility>

#include "absl/status/status.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "pcg/io/file_io.h"
#include "tools/cli/command.h"

namespace tandem::cli {

void ModelInput::Add(CLI::App& command) {
  command.add_option("model", path, "An ONNX file, a protobuf model, or a name from the zoo")
      ->required()
      ->check(NotEmpty());
  command
      .add_option("--global-batch", global_batch,
                  "Examples a step; replaces the batch that an ONNX file or the zoo fixed")
      ->check(AtLeastOne());
  AddRepeated(command, "--dim", dims, "Binds a symbolic dimension: --dim seq=2048");
  AddRepeated(command, "--operators", operator_files,
              "A file of further operators as text (docs/operators.md)");
  AddRepeated(command, "--tie", tie,
              "Regular expression of vectors of an ONNX file that are one parameter wherever they "
              "are read; without it each place has its own");
  AddRepeated(command, "--untie", untie,
              "Regular expression of matrices of an ONNX file that are a parameter of their own in "
              "each place, although they are equal");
}

absl::StatusOr<Graph> ModelInput::Load(ImportReport* report,
                                       const std::vector<std::string>& train) const {
  LoadOptions options;
  options.global_batch = global_batch;
  options.default_dim = default_dim;
  options.tie = tie;
  options.untie = untie;
  options.train = train;
  for (const std::string& dim : dims) {
    const size_t eq = dim.find('=');
    int64_t value = 0;
    if (eq == std::string::npos || !absl::SimpleAtoi(dim.substr(eq + 1), &value) || value < 1) {
      return absl::InvalidArgumentError(
          absl::StrCat("--dim ", dim, ": write name=value with a positive value"));
    }
    const auto [it, added] = options.dims.emplace(dim.substr(0, eq), value);
    if (!added && it->second != value) {
      return absl::InvalidArgumentError(
          absl::StrCat("--dim ", dim, ": '", it->first, "' is ", it->second, " already"));
    }
  }
  for (const std::string& file : operator_files) {
    absl::StatusOr<std::string> text = ReadFile(file);
    if (!text.ok()) return text.status();
    absl::StatusOr<std::vector<OpSpec>> specs = ParseOperators(*text, file);
    if (!specs.ok()) return specs.status();
    options.operators.insert(options.operators.end(), specs->begin(), specs->end());
  }
  return LoadModel(path, options, report);
}

void MachineInput::Add(CLI::App& command, bool required) {
  CLI::Option* o = command.add_option(
      "--machine", name, "A preset (tandem machine list) or a machine's textproto file");
  o->check(NotEmpty());
  if (required) o->required();
  AddSize(command);
}

void MachineInput::AddSize(CLI::App& command) {
  command.add_option("--nodes", nodes, "Number of nodes; default: what the machine's file says")
      ->check(AtLeastOne());
  command.add_option("--devices", devices, "Number of devices: part of one node, or whole nodes")
      ->check(AtLeastOne());
}

absl::StatusOr<Machine> MachineInput::Load() const {
  MachineSize size;
  if (nodes != 0) size.nodes = nodes;
  if (devices != 0) size.devices = devices;
  return LoadMachine(name, size);
}

void TrainingInput::Add(CLI::App& command) {
  command
      .add_option("--loss", loss, "Loss that is trained on; output: the model's output is the loss")
      ->check(CLI::IsMember({"cross-entropy", "mse", "output", "none"}))
      ->capture_default_str();
  command.add_option("--optimizer", optimizer, "Optimizer")
      ->check(CLI::IsMember({"sgd", "momentum", "adam", "adamw", "lamb"}))
      ->capture_default_str();
  command.add_option("--lr", lr, "Learning rate")->check(AboveZero())->capture_default_str();
  command
      .add_option(
          "--precision", precision,
          "What is planned and costed; default: the first of bf16 and fp16 (with fp32 master "
          "weights) that the machine has units for, else fp32")
      ->check(CLI::IsMember({"fp32", "tf32", "bf16", "fp16", "fp64"}));
  AddRepeated(command, "--freeze", freeze, "Regular expression of tensors not to train");
  AddRepeated(command, "--train", train, "Regular expression of tensors to train");
}

absl::StatusOr<TrainingOptions> TrainingInput::Options(const Machine& machine, const Graph& forward,
                                                       const ImportReport& report) const {
  TrainingOptions out;
  out.loss = loss;
  out.optimizer = optimizer;
  out.lr = lr;
  for (const std::string& text : freeze) {
    try {
      const std::regex pattern(text);
      const bool in_graph =
          std::any_of(forward.tensors.begin(), forward.tensors.end(), [&](const Tensor& t) {
            return !t.producer.valid() && std::regex_search(t.name, pattern);
          });
      const bool in_file =
          std::any_of(report.initializers.begin(), report.initializers.end(),
                      [&](const std::string& name) { return std::regex_search(name, pattern); });
      if (!in_graph && in_file) continue;  // a rotary table, a mask: computed, not trained
    } catch (const std::regex_error& e) {
      return absl::InvalidArgumentError(
          absl::StrCat("--freeze '", text, "' is not a regular expression: ", e.what()));
    }
    out.freeze.push_back(text);
  }
  out.train = train;
  out.precision = DefaultPrecision(machine);
  if (!precision.empty()) {
    const std::optional<DType> dtype = DTypeFromName(precision);
    if (!dtype) return absl::InvalidArgumentError(absl::StrCat("unknown precision ", precision));
    out.precision = *dtype;
  }
  return out;
}

DType DefaultPrecision(const Machine& machine) {
  for (const auto& [precision, dtype] :
       {std::pair(Precision::kBf16, DType::kBF16), std::pair(Precision::kFp16, DType::kF16)}) {
    if (machine.device.contraction[static_cast<size_t>(precision)].peak_flops > 0) return dtype;
  }
  return DType::kF32;
}

absl::StatusOr<int64_t> ParseBytes(const std::string& text) {
  char* end = nullptr;
  const double value = std::strtod(text.c_str(), &end);
  std::string unit;
  for (const char* c = end; *c != '\0'; ++c) {
    if (std::isspace(static_cast<unsigned char>(*c)) == 0) {
      unit += static_cast<char>(std::tolower(static_cast<unsigned char>(*c)));
    }
  }
  double scale = 0;
  if (unit.empty() || unit == "b") scale = 1;
  if (unit == "k" || unit == "kib") scale = 1024.0;
  if (unit == "m" || unit == "mib") scale = 1024.0 * 1024;
  if (unit == "g" || unit == "gib") scale = 1024.0 * 1024 * 1024;
  if (unit == "kb") scale = 1e3;
  if (unit == "mb") scale = 1e6;
  if (unit == "gb") scale = 1e9;
  if (end == text.c_str() || scale == 0 || !(value > 0) || value * scale > 9e18) {
    return absl::InvalidArgumentError(
        absl::StrCat("'", text, "' is not a number of bytes; write for example 72GiB"));
  }
  return static_cast<int64_t>(value * scale);
}

}  // namespace tandem::cli
