// Certificates as a file (text protobuf): those that Tandem comes with, and those a plan rests on.
//
// A certificate is looked up by the hash of its statement, which holds the rule's text or the row
// and the full text of every operator in it: whoever changes a text no longer finds the old proof.
// The statement is never taken from the file; the certificate's own hash has to fit the statement
// asked for. Hashes show what is stale or damaged. They cannot show that somebody wrote a
// certificate without a proof: `tandem rules certify --check` proves everything again, and `tandem
// verify` never reads a stored certificate.
#ifndef TANDEM_VERIFIER_CERTIFICATES_CERTIFICATE_BOOK_H_
#define TANDEM_VERIFIER_CERTIFICATES_CERTIFICATE_BOOK_H_

#include <map>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/statusor.h"
#include "verifier/certificates/certificate.h"

namespace tandem {

enum class CertificateKind : uint8_t { kRule, kRow, kCut };

struct CertificateEntry {
  CertificateKind kind = CertificateKind::kRule;
  std::string name;         // "silu_spelt_out", "matmul: split k: ..."
  std::string statement;    // hash
  Certificate certificate;  // its subject is empty where the file left it out
};

class CertificateBook {
 public:
  // Keeps the first certificate of a statement (and of its assumptions).
  void Add(CertificateKind kind, std::string name, Certificate certificate);
  void AddAll(const CertificateBook& other);

  const std::vector<CertificateEntry>& entries() const { return entries_; }
  // With the statement as its subject, if there is one that fits it and holds for all sizes.
  std::optional<Certificate> Find(const std::string& subject) const;
  // By the certificate's hash, as plans name it; null if there is none.
  const CertificateEntry* FindHash(const std::string& hash) const;

  // One line a certificate; same certificates, same bytes.
  std::string ToText(bool with_subjects) const;
  // Errors: no such file form, another prover's version, a seal or a hash that does not fit.
  static absl::StatusOr<CertificateBook> FromText(const std::string& text, const std::string& file);

 private:
  std::vector<CertificateEntry> entries_;
  std::map<std::pair<std::string, std::string>, size_t> at_;  // statement, hash
};

// What is stored but not proved now, and what is proved but not stored: one line each.
std::vector<std::string> Differences(const CertificateBook& stored, const CertificateBook& proved);

// Those Tandem comes with (verifier/certificates/builtin.textproto). Empty if they are of another
// version of the prover: everything is then proved when it is needed.
const CertificateBook& BuiltinCertificates();

}  // namespace tandem

#endif  // TANDEM_VERIFIER_CERTIFICATES_CERTIFICATE_BOOK_H_
