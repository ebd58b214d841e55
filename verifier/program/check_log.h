// What a check of one Program has looked at so far: how many things, and which of them were wrong.
#ifndef TANDEM_VERIFIER_PROGRAM_CHECK_LOG_H_
#define TANDEM_VERIFIER_PROGRAM_CHECK_LOG_H_

#include <cstdint>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/string_view.h"
#include "pcg/program/program.h"
#include "verifier/program/plan_proof.h"

namespace tandem {

struct ProgramCheck {
  int64_t obligations = 0;
  bool only_unknown = true;  // no failure is worse than "not proved"
  std::vector<PlanFailure> failures;
};

// `program` is kept by reference.
class CheckLog {
 public:
  CheckLog(const Program& program, std::string name) : program_(program), name_(std::move(name)) {}

  // What follows is about this instruction; -1: about the Program as a whole.
  void SetInstruction(int index) { at_ = index; }
  int instruction() const { return at_; }

  // Counts one thing that must hold; `reason` is reported where it does not. Returns `ok`.
  bool Check(bool ok, absl::string_view reason);
  void Count() { ++check_.obligations; }
  // `unknown`: it may hold, no proof was found.
  void Fail(absl::string_view reason, bool unknown = false);

  bool any_failure() const { return !check_.failures.empty(); }
  ProgramCheck Take() { return std::move(check_); }

 private:
  const Program& program_;
  const std::string name_;
  int at_ = -1;
  ProgramCheck check_;
};

}  // namespace tandem

#endif  // TANDEM_VERIFIER_PROGRAM_CHECK_LOG_H_
