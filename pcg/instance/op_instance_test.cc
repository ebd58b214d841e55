#include "pcg/instance/op_instance.h"

#include <catch2/catch.hpp>

#include "pcg/language/op_parser.h"

namespace tandem {
namespace {

using Shapes = std::vector<FactoredShape>;

OpInstance Make(const std::string& op, const Attributes& attributes, const Shapes& inputs) {
  auto instance = Instantiate(**BuiltinOperators().Get(op), attributes, inputs);
  INFO(op << ": " << instance.status().ToString());
  REQUIRE(instance.ok());
  return *std::move(instance);
}

std::string ErrorOf(const std::string& op, const Attributes& attributes, const Shapes& inputs) {
  auto instance = Instantiate(**BuiltinOperators().Get(op), attributes, inputs);
  return instance.ok() ? "" : std::string(instance.status().message());
}

TEST_CASE("shapes follow from the signature") {
  CHECK(Make("matmul", {}, {{{2}, {3}, {4}}, {{4}, {5}}}).ShapeOf(2) ==
        FactoredShape{{2}, {3}, {5}});
  CHECK(Make("linear", {}, {{{2}, {3}, {4}}, {{4}, {5}}, {{5}}}).ShapeOf(3) ==
        FactoredShape{{2}, {3}, {5}});
  CHECK(Make("add", {}, {{{4}, {1}}, {{3}}}).ShapeOf(2) == FactoredShape{{4}, {3}});
  CHECK(Make("conv2d",
             {{"stride_h", 2},
              {"stride_w", 2},
              {"pad_top", 1},
              {"pad_left", 1},
              {"pad_bottom", 1},
              {"pad_right", 1}},
             {{{2}, {6}, {7}, {8}}, {{4}, {3}, {3}, {3}}})
            .ShapeOf(2) == FactoredShape{{2}, {2, 2}, {4}, {4}});
  CHECK(
      Make("transpose", {{"perm", std::vector<int64_t>{2, 0, 1}}}, {{{2}, {3}, {4}}}).ShapeOf(1) ==
      FactoredShape{{4}, {2}, {3}});
  CHECK(Make("reduce_sum", {{"rank_c", 0}, {"rank_r", 1}}, {{{2}, {3}, {4}}}).ShapeOf(1) ==
        FactoredShape{{2}, {3}});
  CHECK(Make("cross_entropy", {}, {{{2}, {3}, {9}}, {{2}, {3}}}).ShapeOf(2).empty());
}

TEST_CASE("a reshape refines both sides to common factors") {
  const OpInstance split =
      Make("reshape", {{"shape", std::vector<int64_t>{2, 5, 12, 64}}}, {{{2}, {5}, {768}}});
  CHECK(split.ShapeOf(0) == FactoredShape{{2}, {5}, {12, 64}});
  CHECK(split.ShapeOf(1) == FactoredShape{{2}, {5}, {12}, {64}});
  CHECK(split.tensors[0].dims[2][0] == split.tensors[1].dims[2][0]);
  const OpInstance flat =
      Make("reshape", {{"shape", std::vector<int64_t>{10, 768}}}, {{{2}, {5}, {12, 64}}});
  CHECK(flat.ShapeOf(1) == FactoredShape{{2, 5}, {12, 64}});
  // No common refinement: both keep their dims, and the index divides.
  const OpInstance odd = Make("reshape", {{"shape", std::vector<int64_t>{4, 3}}}, {{{3}, {4}}});
  CHECK(odd.ShapeOf(0) == FactoredShape{{3}, {4}});
  CHECK(odd.ShapeOf(1) == FactoredShape{{4}, {3}});
  CHECK(ToString(odd).find("//") != std::string::npos);
  CHECK(Make("reshape", {{"shape", std::vector<int64_t>{1, 6, 1}}}, {{{2}, {3}}}).ShapeOf(1) ==
        FactoredShape{{1}, {2, 3}, {1}});
}

TEST_CASE("a slice and a concatenation at multiples keep the inner factors plain") {
  const OpInstance slice =
      Make("slice", {{"start", 768}, {"size", 768}, {"rank_c", 0}}, {{{2}, {2304}}});
  CHECK(slice.ShapeOf(0) == FactoredShape{{2}, {3, 768}});
  CHECK(slice.ShapeOf(1) == FactoredShape{{2}, {768}});
  CHECK(slice.tensors[0].dims[1][1] == slice.tensors[1].dims[1][0]);
  const OpInstance concat = Make("concat", {{"rank_c", 0}}, {{{2}, {4, 16}}, {{2}, {128}}});
  CHECK(concat.ShapeOf(2) == FactoredShape{{2}, {3, 4, 16}});
  CHECK(concat.ShapeOf(1) == FactoredShape{{2}, {2, 4, 16}});
  const OpInstance uneven = Make("slice", {{"start", 1}, {"size", 6}, {"rank_c", 0}}, {{{2}, {8}}});
  CHECK(uneven.ShapeOf(0) == FactoredShape{{2}, {8}});
}

TEST_CASE("factors meet in a size, and outputs refine it too") {
  const OpInstance add = Make("add", {}, {{{2, 6}}, {{4, 3}}});
  CHECK(add.ShapeOf(2) == FactoredShape{{2, 2, 3}});
  const OpInstance clash = Make("add", {}, {{{2, 6}}, {{3, 4}}});
  CHECK(clash.ShapeOf(0) == FactoredShape{{2, 6}});
  CHECK(clash.ShapeOf(1) == FactoredShape{{3, 4}});
  auto back = InstantiateWithOutputs(**BuiltinOperators().Get("relu"), {}, {{{12}}}, {{{3, 4}}});
  REQUIRE(back.ok());
  CHECK(back->ShapeOf(0) == FactoredShape{{3, 4}});
  CHECK_FALSE(InstantiateWithOutputs(**BuiltinOperators().Get("relu"), {}, {{{12}}}, {{{3}}}).ok());
}

TEST_CASE("a missing optional input leaves no trace") {
  const OpInstance plain = Make("linear", {}, {{{3}, {4}}, {{4}, {5}}});
  CHECK(plain.num_inputs == 2);
  CHECK(plain.exprs[plain.equations[0].body].kind == ExprKind::kReduce);
  const OpInstance beta =
      Make("layer_norm", {{"absent", std::vector<int64_t>{1}}}, {{{3}, {4}}, {{4}}});
  CHECK(beta.tensors[1].name == "beta");
}

TEST_CASE("instantiation errors name operand, dim and values") {
  CHECK(ErrorOf("matmul", {}, {{{2}, {3}}, {{4}, {5}}}) ==
        "operator 'matmul': dim 0 of 'rhs' (k) is 4, but k is 3 from dim 1 of 'lhs'");
  CHECK(ErrorOf("matmul", {}, {{{2}}, {{4}, {5}}}).find("'lhs' has rank 1") != std::string::npos);
  CHECK(ErrorOf("matmul", {}, {{{2}, {3}}}).find("input 'rhs' is missing") != std::string::npos);
  CHECK(ErrorOf("matmul", {}, {{{2}, {3}}, {{3}, {3}}, {{3}}}).find("takes 2 input(s), not 3") !=
        std::string::npos);
  CHECK(ErrorOf("add", {}, {{{4}}, {{3}}}).find("is 3, but d.0 is 4") != std::string::npos);
  CHECK(ErrorOf("scale", {}, {{{4}}}).find("attribute 'value' is missing") != std::string::npos);
  CHECK(ErrorOf("relu", {{"alpha", 1.0}}, {{{4}}}).find("unknown attribute 'alpha'") !=
        std::string::npos);
  CHECK(ErrorOf("softmax", {}, {{{4}, {4}}}).find("give the attribute rank_") != std::string::npos);
  CHECK(ErrorOf("reshape", {{"shape", std::vector<int64_t>{5}}}, {{{4}}})
            .find("cannot be regrouped") != std::string::npos);
  CHECK(ErrorOf("transpose", {{"perm", std::vector<int64_t>{0, 0}}}, {{{4}, {4}}})
            .find("not a permutation") != std::string::npos);
  CHECK(
      ErrorOf("slice", {{"start", 8}, {"size", 4}, {"rank_c", 0}}, {{{8}}}).find("out of range") !=
      std::string::npos);
  CHECK(ErrorOf("conv2d", {}, {{{2}, {6}, {7}, {8}}, {{4}, {4}, {3}, {3}}})
            .find("not a multiple of c = 4") != std::string::npos);
  CHECK(ErrorOf("conv2d", {}, {{{2}, {6}, {2}, {2}}, {{4}, {6}, {3}, {3}}})
            .find("extents are positive") != std::string::npos);
  CHECK(
      ErrorOf("linear", {{"absent", std::vector<int64_t>{1}}}, {{{2}, {6}}}).find("not optional") !=
      std::string::npos);
}

}  // namespace
}  // namespace tandem
