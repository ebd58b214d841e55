// A strategy in words, and what limited it.
#ifndef TANDEM_OPTIMIZER_DESCRIBE_H_
#define TANDEM_OPTIMIZER_DESCRIBE_H_

#include <cstdint>
#include <string>
#include <vector>

#include "pcg/graph/graph.h"
#include "pcg/layout/strategy.h"
#include "pcg/program/program.h"

namespace tandem {

// One line a group of consecutive blocks that do the same: which sizes of which operators each mesh
// axis splits, forward, backward and update.
std::vector<std::string> DescribeStrategy(const Graph& graph, const Strategy& strategy);

// The collectives of the Program in one line, by kind; of how many values where some carry several.
// Empty if there are none.
std::string DescribeCollectives(const Program& program);

// Mesh axes that heavy nodes could not use, and other things a user should know.
std::vector<std::string> Limits(const Graph& graph, const Strategy& strategy);

}  // namespace tandem

#endif  // TANDEM_OPTIMIZER_DESCRIBE_H_
