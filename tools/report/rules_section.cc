#include <map>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "substitutions/rule.h"
#include "tools/report/markup.h"
#include "tools/report/sections.h"

namespace tandem::report {
namespace {

constexpr size_t kMostPlaces = 12;

struct Used {
  int count = 0;
  double gain_seconds = 0;
  std::string certificate;
  std::vector<std::string> places;
};

const Rule* FindRule(const std::string& name) {
  for (const Rule& rule : BuiltinRules()) {
    if (rule.name == name) return &rule;
  }
  return nullptr;
}

// What the summary says of the rule's certificate.
std::string ProofOf(const ReportData& data, const std::string& name) {
  const auto rules = data.summary.find("rules");
  if (rules == data.summary.end() || !rules->is_array()) return "";
  for (const auto& rule : *rules) {
    if (!rule.is_object() || TextOr(rule, "name", "") != name) continue;
    const double queries = NumberOr(rule, "queries", -1);
    if (queries < 0) return "";
    std::string out = absl::StrCat("<p class=\"hint\">Proved from the operators’ texts with ",
                                   Count(queries), " questions to Z3");
    const auto facts = rule.find("facts");
    if (facts != rule.end() && facts->is_array()) {
      for (const auto& fact : *facts) {
        if (fact.is_string()) {
          absl::StrAppend(&out, "; given: ", Escaped(fact.get<std::string>()));
        }
      }
    }
    return out + ". The certificate is in <code>certificates.textproto</code>.</p>\n";
  }
  return "";
}

std::string Detail(const ReportData& data, const std::string& name, const Used& used) {
  std::string out;
  if (const Rule* rule = FindRule(name); rule != nullptr) {
    absl::StrAppend(&out, "<pre>", Escaped(PrintRule(*rule)), "</pre>\n<p class=\"hint\">",
                    Escaped(rule->source_text), "</p>\n");
  } else {
    out += "<p class=\"hint\">Not one of the built-in rules.</p>\n";
  }
  out += ProofOf(data, name);
  out += "<p class=\"hint\">Fired at</p><ul class=\"places\">\n";
  for (const std::string& place : used.places) {
    absl::StrAppend(&out, "<li><code>", Escaped(place), "</code></li>\n");
  }
  out += "</ul>\n";
  const int more = used.count - static_cast<int>(used.places.size());
  if (more > 0) absl::StrAppend(&out, "<p class=\"hint\">and at ", more, " more places</p>\n");
  return out;
}

}  // namespace

std::string RulesSection(const ReportData& data) {
  std::map<std::string, Used> rules;
  for (const RuleApplication& r : data.plan->rules) {
    Used& used = rules[r.rule];
    ++used.count;
    used.gain_seconds += r.gain_seconds;
    if (used.certificate.empty()) used.certificate = r.certificate;
    if (used.places.size() < kMostPlaces) {
      used.places.push_back(absl::StrCat(absl::StrJoin(r.source_nodes, ", "), " → ",
                                         absl::StrJoin(r.target_nodes, ", ")));
    }
  }
  if (rules.empty()) {
    return Section("rules", "Rules and proofs",
                   "<p class=\"none\">No rewrite fired: the model is planned as it came.</p>\n");
  }
  std::string out =
      "<p>Each rule was proved for all sizes before the search could use it; the certificate is "
      "the hash of what was proved. <code>tandem verify</code> proves every place again.</p>\n"
      "<div class=\"rules\">\n";
  for (const auto& [name, used] : rules) {
    const Rule* rule = FindRule(name);
    absl::StrAppend(&out, "<details><summary><span class=\"name\">", Escaped(name),
                    "</span> <span class=\"reason\">", rule != nullptr ? Escaped(rule->reason) : "",
                    "</span> <span class=\"count\">×", used.count, "</span> <span class=\"gain\">",
                    used.gain_seconds > 0 ? absl::StrCat("gains ", Seconds(used.gain_seconds))
                                          : "gain not measured apart",
                    "</span> <span class=\"proof\">",
                    used.certificate.empty()
                        ? "no certificate"
                        : absl::StrCat("proved <code>", Escaped(used.certificate), "</code>"),
                    "</span></summary>\n", Detail(data, name, used), "</details>\n");
  }
  return Section("rules", "Rules and proofs", out + "</div>\n");
}

}  // namespace tandem::report
