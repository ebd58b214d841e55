// Runs the examples of docs/operators.md.
#include <catch2/catch.hpp>
#include <fstream>
#include <sstream>
#include <string>
#include <vector>

#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "absl/strings/strip.h"
#include "pcg/graph/interpreter.h"
#include "pcg/language/op_parser.h"

namespace tandem {
namespace {

struct Block {
  std::string kind;
  std::string text;
};

std::vector<Block> BlocksOfManual() {
  std::ifstream file("docs/operators.md");
  REQUIRE(file.good());
  std::vector<Block> blocks;
  bool inside = false;
  for (std::string line; std::getline(file, line);) {
    absl::string_view rest = line;
    if (absl::ConsumePrefix(&rest, "```")) {
      inside = !inside;
      if (inside) blocks.push_back({std::string(rest), ""});
    } else if (inside) {
      absl::StrAppend(&blocks.back().text, line, "\n");
    }
  }
  REQUIRE_FALSE(inside);
  return blocks;
}

std::vector<double> Numbers(absl::string_view text) {
  std::vector<double> out;
  for (absl::string_view part : absl::StrSplit(text, ',', absl::SkipEmpty())) {
    double value = 0;
    REQUIRE(absl::SimpleAtod(part, &value));
    out.push_back(value);
  }
  return out;
}

// "x[2,3]=1,2,..." (the name may be empty).
HostTensor ParseTensor(absl::string_view text) {
  HostTensor tensor;
  const size_t open = text.find('['), close = text.find("]=");
  REQUIRE(close != absl::string_view::npos);
  for (double extent : Numbers(text.substr(open + 1, close - open - 1))) {
    tensor.shape.push_back(static_cast<int64_t>(extent));
  }
  tensor.data = Numbers(text.substr(close + 2));
  return tensor;
}

AttrValue ParseAttribute(absl::string_view text) {
  if (absl::ConsumePrefix(&text, "[")) {
    absl::ConsumeSuffix(&text, "]");
    std::vector<int64_t> list;
    for (double value : Numbers(text)) list.push_back(static_cast<int64_t>(value));
    return list;
  }
  int64_t integer = 0;
  if (absl::SimpleAtoi(text, &integer)) return integer;
  return Numbers(text).at(0);
}

// "op x[2]=1,2 ; a=3" evaluated; the message of an error otherwise.
absl::StatusOr<HostTensor> Run(const OperatorLibrary& library, absl::string_view call) {
  const std::pair<absl::string_view, absl::string_view> halves =
      absl::StrSplit(call, absl::MaxSplits(';', 1));
  std::vector<absl::string_view> words = absl::StrSplit(halves.first, ' ', absl::SkipEmpty());
  const auto spec = library.Get(words.at(0));
  if (!spec.ok()) return spec.status();
  std::vector<HostTensor> inputs;
  std::vector<FactoredShape> shapes;
  for (size_t i = 1; i < words.size(); ++i) {
    inputs.push_back(ParseTensor(words[i]));
    FactoredShape shape;
    for (int64_t extent : inputs.back().shape) shape.push_back({extent});
    shapes.push_back(std::move(shape));
  }
  Attributes attributes;
  for (absl::string_view word : absl::StrSplit(halves.second, ' ', absl::SkipEmpty())) {
    const std::pair<absl::string_view, absl::string_view> entry =
        absl::StrSplit(word, absl::MaxSplits('=', 1));
    attributes[std::string(entry.first)] = ParseAttribute(entry.second);
  }
  auto instance = Instantiate(**spec, attributes, shapes);
  if (!instance.ok()) return instance.status();
  std::vector<const HostTensor*> pointers;
  for (const HostTensor& input : inputs) pointers.push_back(&input);
  auto outputs = Evaluate(*instance, pointers);
  if (!outputs.ok()) return outputs.status();
  return outputs->at(0);
}

TEST_CASE("the examples of docs/operators.md do what the page says") {
  OperatorLibrary library = BuiltinOperators();
  int parsed = 0, evaluated = 0, refused = 0;
  for (const Block& block : BlocksOfManual()) {
    INFO(block.text);
    if (block.kind == "ops") {
      const absl::Status status = library.AddText(block.text, "docs/operators.md");
      INFO(status.ToString());
      REQUIRE(status.ok());
      ++parsed;
    } else if (block.kind == "error") {
      const size_t last = block.text.rfind('\n', block.text.size() - 2) + 1;
      auto specs = ParseOperators(block.text.substr(0, last), "t.ops");
      REQUIRE_FALSE(specs.ok());
      CHECK(absl::StrCat(specs.status().message(), "\n") ==
            absl::StrCat("t.ops:", block.text.substr(last)));
      ++refused;
    } else if (block.kind == "eval" || block.kind == "eval-error") {
      for (absl::string_view line : absl::StrSplit(block.text, '\n', absl::SkipEmpty())) {
        INFO(line);
        const std::pair<absl::string_view, absl::string_view> sides =
            absl::StrSplit(line, absl::MaxSplits(" -> ", 1));
        auto result = Run(library, sides.first);
        if (block.kind == "eval-error") {
          REQUIRE_FALSE(result.ok());
          CHECK(result.status().message() == sides.second);
          ++refused;
          continue;
        }
        INFO(result.status().ToString());
        REQUIRE(result.ok());
        const HostTensor want = ParseTensor(sides.second);
        CHECK(result->shape == want.shape);
        REQUIRE(result->data.size() == want.data.size());
        for (size_t i = 0; i < want.data.size(); ++i)
          CHECK(result->data[i] == Approx(want.data[i]));
        ++evaluated;
      }
    } else {
      FAIL("unknown kind of block: " << block.kind);
    }
  }
  CHECK(parsed >= 5);
  CHECK(evaluated >= 10);
  CHECK(refused >= 8);
}

}  // namespace
}  // namespace tandem
