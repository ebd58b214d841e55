// With --config=cuda. Compiling kernels needs no GPU; what needs one is skipped without.
#include <catch2/catch.hpp>
#include <string>
#include <vector>

#include "runtime/backend.h"
#include "runtime/cuda/nvrtc_compile.h"

namespace tandem {
namespace {

TEST_CASE("Generated kernels compile for every machine there is a preset of") {
  for (const char* architecture : {"sm_80", "sm_90", "sm_100"}) {
    const auto cubin = CompileToCubin(ProbeKernelSource(), architecture);
    INFO(cubin.status());
    REQUIRE(cubin.ok());
    CHECK(cubin->compare(0, 4,
                         "\x7f"
                         "ELF") == 0);
  }
}

TEST_CASE("A kernel that is wrong comes back with the compiler's words") {
  const auto wrong =
      CompileToCubin("extern \"C\" __global__ void f() { undeclared = 1; }", "sm_90");
  CHECK(wrong.status().code() == absl::StatusCode::kInvalidArgument);
  CHECK(std::string(wrong.status().message()).find("undeclared") != std::string::npos);
  CHECK_FALSE(CompileToCubin(ProbeKernelSource(), "sm_1").ok());
}

TEST_CASE("On a GPU: memory, a compiled kernel, a GEMM and a communicator of one") {
  auto backend = CreateCudaBackend();
  if (!backend.ok()) {
    WARN(backend.status().message());
    return;
  }
  auto device = (*backend)->Open(0);
  REQUIRE(device.ok());
  auto stream = (*device)->NewStream();
  auto a = (*device)->Allocate(16), b = (*device)->Allocate(16), c = (*device)->Allocate(16);
  REQUIRE((stream.ok() && a.ok() && b.ok() && c.ok()));
  const std::vector<float> x = {1, 2, 3, 4}, y = {10, 20, 30, 40};
  std::vector<float> out(4);
  REQUIRE((*device)->CopyIn(**a, x.data(), 16, **stream).ok());
  REQUIRE((*device)->CopyIn(**b, y.data(), 16, **stream).ok());
  auto kernel = (*device)->Compile(ProbeKernelSource(), "tandem_add");
  REQUIRE(kernel.ok());
  void* pa = (*a)->data();
  void* pb = (*b)->data();
  void* pc = (*c)->data();
  long long count = 4;
  REQUIRE((*kernel)->Launch(**stream, 1, 32, {&pa, &pb, &pc, &count}).ok());
  REQUIRE((*device)->CopyOut(out.data(), **c, 16, **stream).ok());
  REQUIRE((*stream)->Synchronize().ok());
  CHECK(out == std::vector<float>{11, 22, 33, 44});
  REQUIRE((*device)->Gemm(**stream, DType::kF32, 2, 2, 2, pa, pb, pc).ok());
  auto id = (*backend)->UniqueId();
  REQUIRE(id.ok());
  auto communicator = (*backend)->Join(**device, **stream, 0, 1, *id);
  REQUIRE(communicator.ok());
  REQUIRE((*communicator)->AllReduce(pc, 4, DType::kF32, Combiner::kSum).ok());
  REQUIRE((*device)->CopyOut(out.data(), **c, 16, **stream).ok());
  REQUIRE((*communicator)->Barrier().ok());
  CHECK(out == std::vector<float>{70, 100, 150, 220});
  CHECK_FALSE((*device)->CopyIn(**a, x.data(), 17, **stream).ok());
}

}  // namespace
}  // namespace tandem
