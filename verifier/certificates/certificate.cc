#include "verifier/certificates/certificate.h"

#include <cstdint>
#include <cstdio>

#include "absl/status/status.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "verifier/prover/z3_query.h"

namespace tandem {

const char kProverVersion[] = "tandem-prover 1";

namespace {

constexpr char kHeader[] = "tandem certificate";

}  // namespace

std::string ContentHash(const Certificate& c) {
  std::string bytes = absl::StrCat(c.prover, "\n");
  for (const std::string& f : c.facts) absl::StrAppend(&bytes, "fact ", f, "\n");
  for (const std::string& a : c.assumptions) absl::StrAppend(&bytes, "assume ", a, "\n");
  return StableHash(absl::StrCat(bytes, "subject\n", c.subject));
}

std::string StatementHash(const std::string& subject) {
  return StableHash(absl::StrCat(kProverVersion, "\n", subject));
}

std::string StableHash(const std::string& bytes) {
  // FNV-1a, then a finalising mix; 64 bits.
  uint64_t h = 0xcbf29ce484222325ULL;
  for (unsigned char c : bytes) h = (h ^ c) * 0x100000001b3ULL;
  h ^= h >> 32;
  h *= 0xd6e8feb86659fd93ULL;
  h ^= h >> 32;
  char text[17];
  std::snprintf(text, sizeof(text), "%016llx", static_cast<unsigned long long>(h));
  return text;
}

void Seal(Certificate& c) {
  c.prover = kProverVersion;
  c.solver = absl::StrCat("Z3 ", prover::Z3Version());
  c.hash = ContentHash(c);
}

std::string ToText(const Certificate& c) {
  std::string text = absl::StrCat(kHeader, "\nhash: ", c.hash, "\nprover: ", c.prover,
                                  "\nsolver: ", c.solver, "\nmeaning: ", kCertificateMeaning, "\n");
  for (const std::string& f : c.facts) absl::StrAppend(&text, "fact: ", f, "\n");
  for (const std::string& a : c.assumptions) absl::StrAppend(&text, "assume: ", a, "\n");
  absl::StrAppend(&text, "queries: ", c.queries, "\nsubject:\n", c.subject);
  return text;
}

absl::StatusOr<Certificate> CertificateFromText(const std::string& text) {
  Certificate c;
  auto cut = text.find("\nsubject:\n");
  if (cut == std::string::npos) {
    return absl::InvalidArgumentError("certificate: no line 'subject:'");
  }
  c.subject = text.substr(cut + 10);
  bool first = true;
  for (absl::string_view line : absl::StrSplit(absl::string_view(text).substr(0, cut), '\n')) {
    if (first) {
      if (line != kHeader) {
        return absl::InvalidArgumentError(
            absl::StrCat("certificate: starts with '", line, "' instead of '", kHeader, "'"));
      }
      first = false;
      continue;
    }
    std::pair<std::string, std::string> entry = absl::StrSplit(line, absl::MaxSplits(": ", 1));
    const auto& [key, value] = entry;
    if (key == "hash") {
      c.hash = value;
    } else if (key == "prover") {
      c.prover = value;
    } else if (key == "solver") {
      c.solver = value;
    } else if (key == "fact") {
      c.facts.push_back(value);
    } else if (key == "assume") {
      c.assumptions.push_back(value);
    } else if (key == "queries") {
      if (!absl::SimpleAtoi(value, &c.queries)) {
        return absl::InvalidArgumentError(absl::StrCat("certificate: queries '", value, "'"));
      }
    } else if (key == "meaning") {
      if (value != kCertificateMeaning) {
        return absl::InvalidArgumentError(absl::StrCat(
            "certificate: it means '", value, "', this prover '", kCertificateMeaning, "'"));
      }
    } else {
      return absl::InvalidArgumentError(absl::StrCat("certificate: unknown key '", key, "'"));
    }
  }
  if (c.prover != kProverVersion) {
    return absl::FailedPreconditionError(absl::StrCat("certificate by '", c.prover, "', this is '",
                                                      kProverVersion, "': prove again"));
  }
  if (c.hash != ContentHash(c)) {
    return absl::InvalidArgumentError(
        absl::StrCat("certificate: hash ", c.hash, " does not match its content ", ContentHash(c)));
  }
  return c;
}

}  // namespace tandem
