// Proves that a rewritten graph computes what the original does, with no help from the rules: every
// tensor of the rewritten graph whose name the original also has is a claim of equality. Cut by
// cut: the cone that computes it in the rewritten graph, back to the nearest such tensors, is
// proved equal to the cone in the original back to the same tensors. Equal cones are proved once.
#ifndef TANDEM_VERIFIER_EQUALITY_GRAPH_PROOF_H_
#define TANDEM_VERIFIER_EQUALITY_GRAPH_PROOF_H_

#include <string>
#include <vector>

#include "pcg/graph/graph.h"
#include "verifier/certificates/certificate_book.h"

namespace tandem {

struct GraphProofFailure {
  std::string tensor;
  bool refuted = false;  // else unknown
  std::string reason;
};

struct GraphProof {
  int64_t claims = 0;
  int64_t proofs = 0;
  std::vector<GraphProofFailure> failures;
  CertificateBook certificates;  // of the proofs, one a cut
};

GraphProof ProveRewrite(const Graph& original, const Graph& rewritten);

}  // namespace tandem

#endif  // TANDEM_VERIFIER_EQUALITY_GRAPH_PROOF_H_
