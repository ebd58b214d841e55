#include <catch2/catch.hpp>
#include <string>

#include "runtime/backend.h"

namespace tandem {
namespace {

TEST_CASE("Without a toolkit, a driver or a GPU, the back end says what is missing") {
  auto backend = CreateCudaBackend();
  if (backend.ok()) {
    CHECK((*backend)->devices() > 0);
    CHECK_FALSE((*backend)->Open((*backend)->devices()).ok());
    return;
  }
  CHECK(backend.status().code() == absl::StatusCode::kFailedPrecondition);
  const std::string message(backend.status().message());
  CHECK(message.find("--backend cpu") != std::string::npos);
  const bool names_one = message.find("--config=cuda") != std::string::npos ||
                         message.find("driver") != std::string::npos ||
                         message.find("no GPU") != std::string::npos;
  CHECK(names_one);
}

}  // namespace
}  // namespace tandem
