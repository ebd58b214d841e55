// Walks a Program and checks every instruction against what its inputs have been shown to hold.
#ifndef TANDEM_VERIFIER_PROGRAM_PROGRAM_CHECK_H_
#define TANDEM_VERIFIER_PROGRAM_PROGRAM_CHECK_H_

#include <functional>
#include <string>
#include <vector>

#include "pcg/graph/graph.h"
#include "pcg/layout/factor_table.h"
#include "pcg/program/program.h"
#include "verifier/program/check_log.h"

namespace tandem {

// Whether a row (one size split or none, inputs and outputs placed so) is true of an operator; a
// reason if it is not proved. "" = proved.
struct RowAnswer {
  enum class Kind : uint8_t { kProved, kRefuted, kUnknown };
  Kind kind = Kind::kUnknown;
  std::string reason;
};
using RowProver =
    std::function<RowAnswer(const Graph&, NodeId, const OpInstance&, const SplitRow&)>;

// `values`: value numbers of pcg's tensors; equal numbers are equal tensors.
ProgramCheck CheckProgram(const Graph& pcg, const std::vector<int>& values, const Program& program,
                          const std::string& program_name, const RowProver& prove);

}  // namespace tandem

#endif  // TANDEM_VERIFIER_PROGRAM_PROGRAM_CHECK_H_
