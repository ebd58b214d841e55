// tandem: finds, proves, explains and runs the fastest way to train a model on a machine.

#include <exception>
#include <iostream>
#include <string>

#include "tools/cli/command.h"

namespace {

// Where a command or one of its subcommands is missing or unknown: that, with those there are;
// empty where the first words name one.
std::string MissingCommand(const CLI::App& app, int argc, char** argv) {
  const CLI::App* at = &app;
  std::string path = app.get_name();
  for (int i = 1;; ++i) {
    std::string known;
    const CLI::App* next = nullptr;
    for (const CLI::App* command : at->get_subcommands([](const CLI::App*) { return true; })) {
      if (i < argc && command->get_name() == argv[i]) next = command;
      known += (known.empty() ? "" : ", ") + command->get_name();
    }
    if (known.empty()) return "";
    if (next == nullptr) {
      const std::string what = at == &app ? "command" : "subcommand of " + at->get_name();
      return (i < argc ? "no " + what + " '" + std::string(argv[i]) + "'"
                       : "no " + what + " is given") +
             "; there are " + known + " (" + path + " --help says what they do)";
    }
    at = next;
    path += " " + at->get_name();
  }
}

// A full disk or a closed pipe is no success.
int Flushed(int code) {
  std::cout << std::flush;
  if (std::cout) return code;
  std::cerr << "tandem: standard output cannot be written\n";
  return tandem::cli::kBadInput;
}

}  // namespace

int main(int argc, char** argv) {
  CLI::App app{
      "Finds, proves, explains and runs the fastest way to train a model on a machine.\n"
      "Example: tandem optimize model.onnx --machine dgx-a100 --nodes 4 --global-batch 256 "
      "--out plan/",
      "tandem"};
  app.set_version_flag("--version", "tandem 0.1.0");
  app.require_subcommand(1);
  app.failure_message([](const CLI::App* top, const CLI::Error& e) {
    std::string path = top->get_name();
    for (const CLI::App* at = top; !at->get_subcommands().empty();) {
      at = at->get_subcommands().front();
      path += " " + at->get_name();
    }
    return "tandem: " + std::string(e.what()) + " (" + path + " --help says more)\n";
  });
  tandem::cli::Chosen chosen;
  tandem::cli::AddOptimize(app, chosen);
  tandem::cli::AddExplain(app, chosen);
  tandem::cli::AddVerify(app, chosen);
  tandem::cli::AddRun(app, chosen);
  tandem::cli::AddSimulate(app, chosen);
  tandem::cli::AddRules(app, chosen);
  tandem::cli::AddOperators(app, chosen);
  tandem::cli::AddMachine(app, chosen);
  tandem::cli::AddModels(app, chosen);
  tandem::cli::AddExport(app, chosen);
  try {
    app.parse(argc, argv);
  } catch (const CLI::ParseError& e) {
    const std::string missing = MissingCommand(app, argc, argv);
    if (!missing.empty() && e.get_exit_code() != 0) {
      std::cerr << "tandem: " << missing << "\n";
      return tandem::cli::kBadInput;
    }
    const int code = app.exit(e);
    return code == 0 ? Flushed(tandem::cli::kDone) : tandem::cli::kBadInput;
  }
  try {
    return chosen.body ? Flushed(chosen.body()) : tandem::cli::kBadInput;
  } catch (const std::exception& e) {
    std::cerr << "tandem: internal error: " << e.what() << "\n";
    return tandem::cli::kInternal;
  }
}
