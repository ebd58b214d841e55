// Proves rows of factor tables: "if the inputs are such pieces, running the same operator on the
// pieces leaves such pieces of the output". Sizes, the degree and all values are symbolic.
//
// Meaning of a piece, for device coordinate p on an axis of degree P: replicated X[i]; split X[(p,
// o)]; partial: X = SUM (max, min) over q of X_q, and the device holds X_p. The local operator is
// the same equations with loops over the split size running over the piece; a size used as a number
// is the logical one; an index used as a number has the piece's base p*m added if the row asks for
// it.
//
// Several axes at once need no proof of their own. Rows are proved for all sizes, so the local
// operator of one axis is again an instance the other axes' proofs speak about: apply them one
// after the other. Each step keeps the claims of the axes before it, because a piece of a piece is
// the piece at both coordinates, and sums over different axes commute.
#ifndef TANDEM_VERIFIER_SPLITS_SPLIT_PROOF_H_
#define TANDEM_VERIFIER_SPLITS_SPLIT_PROOF_H_

#include <map>
#include <string>

#include "pcg/instance/op_instance.h"
#include "pcg/layout/factor_table.h"
#include "verifier/certificates/certificate_book.h"
#include "verifier/certificates/verdict.h"

namespace tandem {

// The statement as text: the instance in full (equations with sizes by name, every digit of every
// number), the row. Extents of sizes that the operator's text does not fix are left out: the proof
// is for all of them. Equal statements are the same theorem.
std::string SplitStatement(const OpInstance& instance, const SplitRow& row);

// "matmul: split k: split 1, split 0 -> partial sum": what the statement is about, in a line.
std::string RowName(const std::string& split_statement);

// One proof, nothing remembered. If the row does not hold for all sizes by this prover's means, it
// is tried for the instance's own extents and all degrees that divide; the certificate says so.
Verdict ProveSplit(const OpInstance& instance, const SplitRow& row);

// Remembers verdicts by statement (equal operators of equal structure are proved once).
class SplitProver {
 public:
  SplitProver() = default;
  // Believes a book's certificates where they fit the statement.
  explicit SplitProver(const CertificateBook* book) : book_(book) {}
  const Verdict& Prove(const OpInstance& instance, const SplitRow& row);
  // Every proof so far, in the order of their statements.
  CertificateBook Certificates() const;
  int proofs() const { return proofs_; }  // done, not remembered

 private:
  const CertificateBook* book_ = nullptr;
  std::map<std::string, Verdict> verdicts_;
  int proofs_ = 0;
};

}  // namespace tandem

#endif  // TANDEM_VERIFIER_SPLITS_SPLIT_PROOF_H_
