// The record of a proof: what was proved, under which conditions, with which facts and versions.
// Two proofs of the same statement by the same prover give the same certificate, byte for byte.
#ifndef TANDEM_VERIFIER_CERTIFICATES_CERTIFICATE_H_
#define TANDEM_VERIFIER_CERTIFICATES_CERTIFICATE_H_

#include <string>
#include <vector>

#include "absl/status/statusor.h"

namespace tandem {

struct Certificate {
  std::string subject;             // the statement, in full: operators' equations, row or rule
  std::string hash;                // of subject, facts and prover version
  std::string prover;              // version of the rewrites
  std::string solver;              // "Z3 4.8.12"
  std::vector<std::string> facts;  // beyond arithmetic: "exp(a+b) = exp(a) exp(b)"
  std::vector<std::string> assumptions;  // side conditions, definitions of sizes
  int queries = 0;                       // questions that went to the solver
  bool operator==(const Certificate&) const = default;
};

// Changes whenever a rewrite changes, so that stored certificates of older provers are not
// believed.
extern const char kProverVersion[];

// What every proof means.
inline constexpr char kCertificateMeaning[] =
    "floats are reals; 1/0 = 0; all sizes and degrees are >= 1";

// Of version, statement, facts and assumptions; and of version and statement alone.
std::string ContentHash(const Certificate& certificate);
std::string StatementHash(const std::string& subject);

// Fills hash, prover and solver.
void Seal(Certificate& certificate);

// Text: one "key: value" a line, the subject last. Says that floats are reals and 1/0 = 0.
std::string ToText(const Certificate& certificate);
// Errors on unknown keys, on a hash that does not match and on another prover's version.
absl::StatusOr<Certificate> CertificateFromText(const std::string& text);

// 16 hex digits of a stable 64-bit hash.
std::string StableHash(const std::string& bytes);

}  // namespace tandem

#endif  // TANDEM_VERIFIER_CERTIFICATES_CERTIFICATE_H_
