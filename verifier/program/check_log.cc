#include "verifier/program/check_log.h"

namespace tandem {

bool CheckLog::Check(bool ok, absl::string_view reason) {
  Count();
  if (!ok) Fail(reason);
  return ok;
}

void CheckLog::Fail(absl::string_view reason, bool unknown) {
  PlanFailure failure;
  failure.program = name_;
  failure.instruction = at_;
  if (at_ >= 0) failure.name = program_.instructions[static_cast<size_t>(at_)].name;
  failure.reason = std::string(reason);
  check_.only_unknown = check_.only_unknown && unknown;
  check_.failures.push_back(std::move(failure));
}

}  // namespace tandem
