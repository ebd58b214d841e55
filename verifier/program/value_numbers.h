// Value numbering: tensors that are computed by the same operators from the same sources have the
// same number. Used to see that a graph with repeated nodes computes what another one does.
#ifndef TANDEM_VERIFIER_PROGRAM_VALUE_NUMBERS_H_
#define TANDEM_VERIFIER_PROGRAM_VALUE_NUMBERS_H_

#include <map>
#include <string>
#include <vector>

#include "pcg/graph/graph.h"

namespace tandem {

class ValueNumbers {
 public:
  // Number of each tensor of the graph. Sources are told apart by name; operators by name, text and
  // attributes. Graphs numbered by the same object share numbers.
  std::vector<int> Of(const Graph& graph);

 private:
  int Number(const std::string& key);
  std::map<std::string, int> numbers_;
};

}  // namespace tandem

#endif  // TANDEM_VERIFIER_PROGRAM_VALUE_NUMBERS_H_
