#include <chrono>
#include <iostream>
#include <memory>
#include <nlohmann/json.hpp>

#include "absl/strings/str_format.h"
#include "pcg/io/file_io.h"
#include "substitutions/rule.h"
#include "tools/cli/command.h"
#include "verifier/builtin_proofs.h"
#include "verifier/certificates/certificate_book.h"
#include "verifier/equality/rule_proof.h"

namespace tandem::cli {
namespace {

using Json = nlohmann::ordered_json;

// Rules of the files, or the built-in ones.
absl::StatusOr<std::vector<Rule>> Rules(const std::vector<std::string>& files) {
  if (files.empty()) return BuiltinRules();
  std::vector<Rule> all;
  for (const std::string& file : files) {
    absl::StatusOr<std::string> text = ReadFile(file);
    if (!text.ok()) return text.status();
    absl::StatusOr<std::vector<Rule>> rules = ParseRules(*text, file);
    if (!rules.ok()) return rules.status();
    all.insert(all.end(), rules->begin(), rules->end());
  }
  return all;
}

absl::StatusOr<OperatorLibrary> Operators(const std::vector<std::string>& files) {
  OperatorLibrary library = BuiltinOperators();
  for (const std::string& file : files) {
    absl::StatusOr<std::string> text = ReadFile(file);
    if (!text.ok()) return text.status();
    if (absl::Status s = library.AddText(*text, file); !s.ok()) return s;
  }
  return library;
}

int VerifyRules(const std::vector<std::string>& files, const std::vector<std::string>& operators,
                bool json) {
  const auto start = std::chrono::steady_clock::now();
  absl::StatusOr<std::vector<Rule>> rules = Rules(files);
  if (!rules.ok()) return Fail(rules.status());
  absl::StatusOr<OperatorLibrary> library = Operators(operators);
  if (!library.ok()) return Fail(library.status());
  for (const Rule& rule : *rules) {  // no operator, rank or attribute that is not there
    absl::StatusOr<RuleGraphs> graphs = GraphsOf(rule, *library);
    if (!graphs.ok()) return Fail(graphs.status());
  }
  int proved = 0, refuted = 0, unknown = 0;
  Json list = Json::array();
  for (const Rule& rule : *rules) {
    const Verdict v = ProveRule(rule, *library);
    Json one;
    one["name"] = rule.name;
    one["verdict"] = IsProved(v) ? "proved" : IsRefuted(v) ? "refuted" : "unknown";
    one["reason"] = rule.reason;
    one["counterexample"] = nullptr;
    if (const auto* p = std::get_if<Proved>(&v)) {
      ++proved;
      one["certificate"] = p->certificate.hash;
      one["facts"] = p->certificate.facts;
    } else if (const auto* r = std::get_if<Refuted>(&v)) {
      ++refuted;
      one["counterexample"] = ToString(r->counterexample);
      one["reason"] = one["counterexample"];
    } else {
      ++unknown;
      one["reason"] = std::get<Unknown>(v).reason;
    }
    if (!json) {
      std::cout << absl::StrFormat("%-28s %-8s %s\n", rule.name, one["verdict"].get<std::string>(),
                                   one["reason"].get<std::string>());
    }
    list.push_back(one);
  }
  const double seconds =
      std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
  if (json) {
    std::cout << JsonText({{"proved", proved},
                           {"refuted", refuted},
                           {"unknown", unknown},
                           {"seconds", seconds},
                           {"rules", list}});
  } else {
    std::cout << absl::StrFormat("%d proved, %d refuted, %d unknown in %.2f s\n", proved, refuted,
                                 unknown, seconds);
  }
  return refuted + unknown == 0 ? kDone : kNo;
}

// Proves everything Tandem comes with, and writes the certificates or compares them with a file's.
int Certify(const std::string& out, const std::string& check) {
  CertificateBook stored;
  std::string bytes;
  if (!check.empty()) {
    absl::StatusOr<std::string> read = ReadFile(check);
    if (!read.ok()) return Fail(read.status());
    bytes = *std::move(read);
    absl::StatusOr<CertificateBook> book = CertificateBook::FromText(bytes, check);
    if (!book.ok()) return Fail(book.status());
    stored = *std::move(book);
  }
  absl::StatusOr<ProvedThings> proved = ProveAll(BuiltinRules(), BuiltinOperators());
  if (!proved.ok()) return Fail(proved.status());
  for (const std::string& line : proved->not_proved) std::cout << "not proved: " << line << "\n";
  size_t rules = 0;
  for (const CertificateEntry& e : proved->book.entries()) {
    rules += e.kind == CertificateKind::kRule ? 1 : 0;
  }
  std::cout << rules << " rules and " << proved->book.entries().size() - rules
            << " rows of factor tables proved\n";
  const std::string text = proved->book.ToText(/*with_subjects=*/false);
  std::vector<std::string> differences;
  if (!check.empty()) {
    differences = Differences(stored, proved->book);
    if (differences.empty() && bytes != text) differences.push_back(check + ": other bytes");
    for (const std::string& line : differences) std::cout << line << "\n";
    if (differences.empty()) std::cout << check << " holds exactly these\n";
  }
  if (!out.empty()) {
    if (absl::Status s = WriteFileAtomically(out, text); !s.ok()) return Fail(s);
    std::cout << "certificates written to " << out << "\n";
  }
  return proved->not_proved.empty() && differences.empty() ? kDone : kNo;
}

int ListRules(bool json) {
  Json list = Json::array();
  for (const Rule& rule : BuiltinRules()) {
    if (json) {
      list.push_back(
          {{"name", rule.name},
           {"reason", rule.reason},
           {"use", rule.use == RuleUse::kNormalize ? "normalize" : RuleUseWord(rule.use)}});
    } else {
      std::cout << absl::StrFormat("%-28s %-11s  %s\n", rule.name, RuleUseWord(rule.use),
                                   rule.reason);
    }
  }
  if (json) std::cout << JsonText(list);
  return kDone;
}

int ShowRule(const std::string& name) {
  for (const Rule& rule : BuiltinRules()) {
    if (rule.name != name) continue;
    const Verdict v = ProveRule(rule, BuiltinOperators());
    std::cout << PrintRule(rule) << "\n";
    if (const auto* p = std::get_if<Proved>(&v)) {
      std::cout << ToText(p->certificate);
      const bool stored = BuiltinCertificates().Find(p->certificate.subject).has_value();
      std::cout << (stored ? "proved now, as the stored certificate says\n"
                           : "proved now; no stored certificate fits these texts\n");
    } else {
      std::cout << ToString(v) << "\n";
    }
    return IsProved(v) ? kDone : kNo;
  }
  return Fail(absl::NotFoundError("no rule '" + name + "'; see tandem rules list"));
}

}  // namespace

void AddRules(CLI::App& app, Chosen& chosen) {
  CLI::App* rules = app.add_subcommand("rules", "Rewrite rules and their proofs.");
  rules->require_subcommand(1);
  auto json = std::make_shared<bool>(false);
  auto files = std::make_shared<std::vector<std::string>>();
  auto operators = std::make_shared<std::vector<std::string>>();
  CLI::App* verify =
      rules->add_subcommand("verify",
                            "Proves rules from the operators' texts, for all sizes.\n"
                            "Example: tandem rules verify          (the built-in ones)\n"
                            "Example: tandem rules verify my.rules --operators my.ops");
  verify->add_option("files", *files, "Rule files; default: the built-in rules");
  AddRepeated(*verify, "--operators", *operators,
              "A file of further operators as text (docs/operators.md)");
  verify->add_flag("--json", *json, "Prints JSON");
  verify->callback(
      [=, &chosen] { chosen.body = [=] { return VerifyRules(*files, *operators, *json); }; });
  CLI::App* list = rules->add_subcommand("list", "The built-in rules.\nExample: tandem rules list");
  list->add_flag("--json", *json, "Prints JSON");
  list->callback([=, &chosen] { chosen.body = [=] { return ListRules(*json); }; });
  auto out = std::make_shared<std::string>();
  auto check = std::make_shared<std::string>();
  CLI::App* certify = rules->add_subcommand(
      "certify",
      "Proves every built-in rule and every row of the built-in operators' factor tables, and "
      "stores "
      "the certificates.\n"
      "Example: tandem rules certify --out verifier/certificates/builtin.textproto\n"
      "Example: tandem rules certify --check verifier/certificates/builtin.textproto");
  certify->add_option("--out", *out, "File to write");
  certify->add_option("--check", *check, "File to compare with what is proved now");
  certify->callback([=, &chosen] { chosen.body = [=] { return Certify(*out, *check); }; });
  auto name = std::make_shared<std::string>();
  CLI::App* show = rules->add_subcommand(
      "show", "A rule's text and certificate.\nExample: tandem rules show attention_masked");
  show->add_option("name", *name, "A rule")->required();
  show->callback([=, &chosen] { chosen.body = [=] { return ShowRule(*name); }; });
}

}  // namespace tandem::cli
