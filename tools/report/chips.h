// Layouts as people read them: "1024 [x0] × 4096 [x1]", each mesh axis in its own colour and with
// its name, so that nothing is said by colour alone. Chips are the common form of HTML tables and
// SVG.
#ifndef TANDEM_TOOLS_REPORT_CHIPS_H_
#define TANDEM_TOOLS_REPORT_CHIPS_H_

#include <string>
#include <vector>

#include "pcg/layout/layout.h"
#include "pcg/program/program.h"

namespace tandem::report {

struct Chip {
  enum class Kind : uint8_t {
    kStrong,  // an operator
    kText,
    kMuted,
    kAxis,     // a mesh axis that splits what stands before it
    kPartial,  // a mesh axis over which the value is yet to be summed
    kStep,     // a collective
  };
  Kind kind = Kind::kText;
  std::string text;
  std::string axis_class;  // kAxis, kPartial: class of the colour, "ax0"
};
using Chips = std::vector<Chip>;

// Whether a chip goes on with a dim of several factors: no space before it.
bool Continues(const Chip& chip);

// The class of a mesh axis's colour: "ax0" to "ax5", "axm" for micro-batches.
std::string AxisClass(const Mesh& mesh, int axis);
Chip AxisChip(const Mesh& mesh, int axis);

// Extents with the axes that split them; a dim of several factors shows them where they differ.
Chips ShapeChips(const FactoredShape& shape, const Layout& layout, const Mesh& mesh);

// "all-reduce [x0] 64 MiB" of a collective, local copy or accumulation; of all values that it
// carries, "64 MiB of 12 values".
Chips StepChips(const Program& program, int instruction);

std::string Html(const Chips& chips);
std::string PlainText(const Chips& chips);
int TextLength(const std::string& utf8);  // characters, not bytes

}  // namespace tandem::report

#endif  // TANDEM_TOOLS_REPORT_CHIPS_H_
