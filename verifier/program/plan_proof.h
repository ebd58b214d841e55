// Proves that a plan's Programs compute its training graph: translation validation, instruction by
// instruction, trusting neither the search, nor the rules, nor the lowering.
//
// What is proved, in this order:
//  1. the rewritten forward graph equals the imported one (cut by cut, from the operators' texts);
//  2. the PCG is the training graph of the rewritten forward graph, some nodes computed more than
//     once (value numbering). That the gradients of equal functions are equal is the one step here
//     that is mathematics and not computed;
//  3. every instruction turns buffers that hold their claimed pieces into buffers that hold theirs:
//     kernels by a proof per operator, axis and placement, for all sizes and degrees; collectives
//     and copies by their definitions; loop, lifetime and order by plain computation;
//  4. outputs, loss and every state update are what the training graph says.
// Floats are reals. The claims written in the Program are checked, never believed.
#ifndef TANDEM_VERIFIER_PROGRAM_PLAN_PROOF_H_
#define TANDEM_VERIFIER_PROGRAM_PLAN_PROOF_H_

#include <cstdint>
#include <string>
#include <vector>

#include "pcg/program/plan.h"
#include "verifier/certificates/certificate_book.h"

namespace tandem {

struct PlanFailure {
  std::string program;   // "program 0", "graph"
  int instruction = -1;  // index in the Program, -1 where none is to blame
  std::string name;      // of the instruction or node
  std::string reason;
};

struct PlanVerdict {
  enum class Kind : uint8_t { kProved, kRefuted, kUnknown };
  Kind kind = Kind::kUnknown;
  int64_t obligations = 0;            // things checked
  int64_t proofs = 0;                 // distinct proofs by the prover
  std::vector<PlanFailure> failures;  // all that were found, in program order
  CertificateBook certificates;       // of the proofs: cuts of the graph, then rows
};
const char* PlanVerdictName(PlanVerdict::Kind kind);

PlanVerdict VerifyPlan(const Plan& plan);

}  // namespace tandem

#endif  // TANDEM_VERIFIER_PROGRAM_PLAN_PROOF_H_
