// tandem: finds, proves, explains and runs the fastest way to train a model on a machine.

#include <exception>
#include <iostream>

#include "tools/cli/command.h"

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
    const int code = app.exit(e);
    return code == 0 ? tandem::cli::kDone : tandem::cli::kBadInput;
  }
  try {
    return chosen.body ? chosen.body() : tandem::cli::kBadInput;
  } catch (const std::exception& e) {
    std::cerr << "tandem: internal error: " << e.what() << "\n";
    return tandem::cli::kInternal;
  }
}
