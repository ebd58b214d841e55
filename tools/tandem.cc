// tandem: finds, proves, explains and runs the fastest way to train a model on a machine.

#include <exception>
#include <iostream>
#include <string>

#include "tools/cli/command.h"

namespace {

// What is not a command, said with the commands; empty where the first word is one.
std::string UnknownCommand(const CLI::App& app, int argc, char** argv) {
  if (argc < 2) return "";
  std::string known;
  for (const CLI::App* command : app.get_subcommands([](const CLI::App*) { return true; })) {
    if (command->get_name() == argv[1]) return "";
    known += (known.empty() ? "" : ", ") + command->get_name();
  }
  return "no command '" + std::string(argv[1]) + "'; there are " + known +
         " (tandem --help says what they do)";
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
    const std::string unknown = UnknownCommand(app, argc, argv);
    if (!unknown.empty() && e.get_exit_code() != 0) {
      std::cerr << "tandem: " << unknown << "\n";
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
