// The commands of `tandem`. Each file of this folder registers some; main() only dispatches.
//
// Conventions: JSON to stdout with --json, tables for people otherwise, progress and errors to
// stderr. Exit codes: 0 done, 1 the answer is no, 2 bad usage or bad input, 3 internal error.
#ifndef TANDEM_TOOLS_CLI_COMMAND_H_
#define TANDEM_TOOLS_CLI_COMMAND_H_

#include <CLI/CLI.hpp>
#include <functional>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "absl/status/status.h"

namespace tandem::cli {

// In a plan's folder: the certificates of all rules, rows and cuts it rests on.
inline constexpr char kCertificatesFile[] = "certificates.textproto";

inline constexpr int kDone = 0;
inline constexpr int kNo = 1;
inline constexpr int kBadInput = 2;
inline constexpr int kInternal = 3;

// Prints "tandem: <message>" and gives the exit code of a status: ResourceExhausted and Cancelled
// are "no", Internal is internal, everything else is bad input.
int Fail(const absl::Status& status);

// The JSON that a command prints, with a line end. Names come from files: bytes that are no UTF-8
// are replaced.
std::string JsonText(const nlohmann::ordered_json& json);

// CLI11 checks of a number's text, with messages for people: a whole number of at least 0 or 1,
// and a finite number above 0. An empty text is none of them.
CLI::Validator AtLeastZero();
CLI::Validator AtLeastOne();
CLI::Validator AboveZero();
// Refuses the empty text, which is most often a variable that is not set.
CLI::Validator NotEmpty();

// An option that may be given several times, one value each: it never takes what stands behind its
// value, which may be the model.
CLI::Option* AddRepeated(CLI::App& command, const std::string& name,
                         std::vector<std::string>& values, const std::string& description);

// A command's body; its result is the exit code.
using Body = std::function<int()>;
// Set by the chosen command's callback; run by main() outside CLI11.
struct Chosen {
  Body body;
};

void AddOptimize(CLI::App& app, Chosen& chosen);
void AddExplain(CLI::App& app, Chosen& chosen);
void AddVerify(CLI::App& app, Chosen& chosen);
void AddRun(CLI::App& app, Chosen& chosen);
void AddSimulate(CLI::App& app, Chosen& chosen);
void AddRules(CLI::App& app, Chosen& chosen);
void AddOperators(CLI::App& app, Chosen& chosen);
void AddMachine(CLI::App& app, Chosen& chosen);
void AddModels(CLI::App& app, Chosen& chosen);
void AddExport(CLI::App& app, Chosen& chosen);

}  // namespace tandem::cli

#endif  // TANDEM_TOOLS_CLI_COMMAND_H_
