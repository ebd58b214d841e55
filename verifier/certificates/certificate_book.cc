#include "verifier/certificates/certificate_book.h"

#include <set>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "pcg/io/proto_io.h"
#include "verifier/certificates/certificates.pb.h"

namespace tandem {
namespace {

proto::StoredCertificate ToProto(const CertificateEntry& e, bool with_subject) {
  proto::StoredCertificate out;
  out.set_kind(e.kind == CertificateKind::kRule  ? proto::StoredCertificate::RULE
               : e.kind == CertificateKind::kRow ? proto::StoredCertificate::ROW
                                                 : proto::StoredCertificate::CUT);
  out.set_name(e.name);
  out.set_statement(e.statement);
  out.set_hash(e.certificate.hash);
  for (const std::string& f : e.certificate.facts) out.add_fact(f);
  for (const std::string& a : e.certificate.assumptions) out.add_assumption(a);
  out.set_queries(e.certificate.queries);
  if (with_subject && !e.certificate.subject.empty()) out.set_subject(e.certificate.subject);
  return out;
}

std::string Lines(const std::vector<proto::StoredCertificate>& all) {
  std::string out;
  for (const proto::StoredCertificate& c : all) {
    absl::StrAppend(&out, "certificate { ", c.ShortDebugString(), " }\n");
  }
  return out;
}

bool OwnSizesOnly(const Certificate& c) {
  for (const std::string& a : c.assumptions) {
    if (a.rfind("sizes ", 0) == 0) return true;
  }
  return false;
}

std::string Described(const CertificateEntry& e) {
  const char* kind = e.kind == CertificateKind::kRule  ? "rule "
                     : e.kind == CertificateKind::kRow ? "row "
                                                       : "cut ";
  return absl::StrCat(kind, e.name, " (", e.certificate.hash, ")");
}

}  // namespace

void CertificateBook::Add(CertificateKind kind, std::string name, Certificate certificate) {
  std::string statement = StatementHash(certificate.subject);
  if (!at_.emplace(std::make_pair(statement, certificate.hash), entries_.size()).second) return;
  entries_.push_back({kind, std::move(name), std::move(statement), std::move(certificate)});
}

void CertificateBook::AddAll(const CertificateBook& other) {
  for (const CertificateEntry& e : other.entries_) {
    if (!at_.emplace(std::make_pair(e.statement, e.certificate.hash), entries_.size()).second) {
      continue;
    }
    entries_.push_back(e);
  }
}

std::optional<Certificate> CertificateBook::Find(const std::string& subject) const {
  const std::string statement = StatementHash(subject);
  for (auto it = at_.lower_bound({statement, ""}); it != at_.end(); ++it) {
    if (it->first.first != statement) break;
    Certificate c = entries_[it->second].certificate;
    c.subject = subject;
    if (c.hash == ContentHash(c) && !OwnSizesOnly(c)) return c;
  }
  return std::nullopt;
}

const CertificateEntry* CertificateBook::FindHash(const std::string& hash) const {
  for (const CertificateEntry& e : entries_) {
    if (e.certificate.hash == hash) return &e;
  }
  return nullptr;
}

std::string CertificateBook::ToText(bool with_subjects) const {
  std::vector<proto::StoredCertificate> all;
  for (const CertificateEntry& e : entries_) all.push_back(ToProto(e, with_subjects));
  const std::string lines = Lines(all);
  proto::StoredCertificates head;
  Certificate version;
  Seal(version);
  head.set_prover(version.prover);
  head.set_solver(version.solver);
  head.set_meaning(kCertificateMeaning);
  head.set_seal(StableHash(lines));
  return absl::StrCat(head.DebugString(), lines);
}

absl::StatusOr<CertificateBook> CertificateBook::FromText(const std::string& text,
                                                          const std::string& file) {
  proto::StoredCertificates in;
  if (absl::Status s = tandem::FromText(text, file, &in); !s.ok()) return s;
  const auto error = [&](absl::string_view what) {
    return absl::InvalidArgumentError(absl::StrCat(file, ": ", what));
  };
  if (in.prover() != kProverVersion) {
    return absl::FailedPreconditionError(absl::StrCat(file, ": certificates by '", in.prover(),
                                                      "', this is '", kProverVersion,
                                                      "': prove again"));
  }
  if (in.meaning() != kCertificateMeaning) {
    return error(absl::StrCat("the certificates mean '", in.meaning(), "', this prover '",
                              kCertificateMeaning, "'"));
  }
  const std::string lines = Lines({in.certificate().begin(), in.certificate().end()});
  if (in.seal() != StableHash(lines)) {
    return error(absl::StrCat("the seal ", in.seal(), " does not fit the certificates (",
                              StableHash(lines), "): the file was changed after the proofs"));
  }
  CertificateBook book;
  for (const proto::StoredCertificate& c : in.certificate()) {
    CertificateEntry e;
    e.kind = c.kind() == proto::StoredCertificate::RULE  ? CertificateKind::kRule
             : c.kind() == proto::StoredCertificate::ROW ? CertificateKind::kRow
                                                         : CertificateKind::kCut;
    e.name = c.name();
    e.statement = c.statement();
    e.certificate.subject = c.subject();
    e.certificate.hash = c.hash();
    e.certificate.prover = in.prover();
    e.certificate.solver = in.solver();
    e.certificate.facts = {c.fact().begin(), c.fact().end()};
    e.certificate.assumptions = {c.assumption().begin(), c.assumption().end()};
    e.certificate.queries = c.queries();
    if (c.has_subject() &&
        (ContentHash(e.certificate) != c.hash() || StatementHash(c.subject()) != c.statement())) {
      return error(absl::StrCat("the hashes of '", c.name(), "' do not fit its statement"));
    }
    if (!book.at_.emplace(std::make_pair(e.statement, c.hash()), book.entries_.size()).second) {
      return error(absl::StrCat("'", c.name(), "' is there twice"));
    }
    book.entries_.push_back(std::move(e));
  }
  return book;
}

std::vector<std::string> Differences(const CertificateBook& stored, const CertificateBook& proved) {
  const auto key = [](const CertificateEntry& e) {
    return absl::StrCat(e.statement, " ", Described(e));
  };
  std::set<std::string> before, now;
  for (const CertificateEntry& e : stored.entries()) before.insert(key(e));
  for (const CertificateEntry& e : proved.entries()) now.insert(key(e));
  std::vector<std::string> out;
  for (const CertificateEntry& e : stored.entries()) {
    if (now.count(key(e)) > 0) continue;
    out.push_back(Described(e) +
                  ": stored, but no proof of it is found now: its text or an operator's was "
                  "changed, or nobody proved it");
  }
  for (const CertificateEntry& e : proved.entries()) {
    if (before.count(key(e)) == 0) out.push_back(Described(e) + ": proved, but not stored");
  }
  return out;
}

}  // namespace tandem
