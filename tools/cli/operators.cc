#include <iostream>
#include <memory>
#include <nlohmann/json.hpp>

#include "pcg/io/file_io.h"
#include "pcg/language/op_parser.h"
#include "tools/cli/command.h"

namespace tandem::cli {
namespace {

int Check(const std::vector<std::string>& files, bool json) {
  nlohmann::ordered_json all = nlohmann::ordered_json::array();
  for (const std::string& file : files) {
    absl::StatusOr<std::string> text = ReadFile(file);
    if (!text.ok()) return Fail(text.status());
    absl::StatusOr<std::vector<OpSpec>> specs = ParseOperators(*text, file);
    if (!specs.ok()) return Fail(specs.status());
    OperatorLibrary library = BuiltinOperators();
    for (const OpSpec& spec : *specs) {
      if (absl::Status s = library.Add(spec); !s.ok()) return Fail(s);
      if (json) {
        all.push_back({{"name", spec.name}, {"source", spec.source}, {"text", spec.text}});
      } else {
        std::cout << PrintOperator(spec) << "\n";
      }
    }
  }
  if (json) std::cout << JsonText(all);
  return kDone;
}

int List(bool json) {
  nlohmann::ordered_json all = nlohmann::ordered_json::array();
  for (const auto& [name, spec] : BuiltinOperators().specs()) {
    if (json) {
      all.push_back({{"name", name}, {"text", spec.text}});
    } else {
      std::cout << PrintOperator(spec) << "\n";
    }
  }
  if (json) std::cout << JsonText(all);
  return kDone;
}

}  // namespace

void AddOperators(CLI::App& app, Chosen& chosen) {
  CLI::App* operators = app.add_subcommand("operators", "Operators as text.");
  operators->require_subcommand(1);
  auto json = std::make_shared<bool>(false);
  auto files = std::make_shared<std::vector<std::string>>();
  CLI::App* check =
      operators->add_subcommand("check",
                                "Parses operator files and prints what was understood.\n"
                                "Example: tandem operators check my.ops");
  check->add_option("files", *files, "Operator files")->required();
  check->add_flag("--json", *json, "Prints JSON");
  check->callback(
      [files, json, &chosen] { chosen.body = [files, json] { return Check(*files, *json); }; });
  CLI::App* list =
      operators->add_subcommand("list", "The built-in operators.\nExample: tandem operators list");
  list->add_flag("--json", *json, "Prints JSON");
  list->callback([json, &chosen] { chosen.body = [json] { return List(*json); }; });
}

}  // namespace tandem::cli
