// What a run starts from: the values of a graph's inputs, parameters, states and constants.
//
// In order of preference: data given for the tensor (by name), values in the graph, its initializer
// ("normal(0.02)", "uniform(0.5,1.5)", "constant(1)"), a default by role and use. Defaults are
// never degenerate: integers that index a table are within it, weights are scaled by their fans,
// what multiplies is near 1, what is under a root is positive, optimizer moments are 0. Random
// values depend on the seed, the tensor's name and the logical index only (random.h).
#ifndef TANDEM_RUNTIME_SOURCES_H_
#define TANDEM_RUNTIME_SOURCES_H_

#include <cstdint>
#include <map>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "pcg/graph/graph.h"
#include "pcg/graph/interpreter.h"

namespace tandem {

// How to make one tensor's values.
struct SourceRule {
  enum class Kind : uint8_t { kGiven, kStep, kConstant, kNormal, kUniform, kInteger };
  Kind kind = Kind::kConstant;
  double a = 0, b = 0;  // constant; mean and deviation; bounds; kInteger: bound in a
  const std::vector<double>* given = nullptr;  // kGiven: in the graph or the data
  std::string step_input;                      // kStep: "lr" or "step"
};

class Sources {
 public:
  // The sources of all `graphs` by name; where two have a tensor of one name, the first says how it
  // is made (so that a rewritten graph starts from the serial graph's values). `data`: whole
  // logical values by tensor name; kept by reference, as are the graphs. `lr`: of the kStepInput
  // "lr". Errors: data of a wrong shape, a malformed initializer, an unknown step input.
  static absl::StatusOr<Sources> Create(const std::vector<const Graph*>& graphs, uint64_t seed,
                                        double lr, const std::map<std::string, HostTensor>& data);

  // values[i] = the element at logical index indices[i] of the source of that name, in training
  // step `step` (from 1).
  template <typename T>
  void Fill(const std::string& name, const std::vector<int64_t>& indices, int64_t step,
            T* values) const;
  HostTensor Whole(const Tensor& tensor, int64_t step) const;

  const SourceRule& rule(const std::string& name) const { return rules_.at(name); }
  // Parameters that neither the graphs nor the data had.
  int64_t seeded_parameters() const { return seeded_parameters_; }

 private:
  absl::Status Add(const Graph& graph, const std::map<std::string, HostTensor>& data);
  double Value(const SourceRule& rule, const class RandomStream& random, int64_t index,
               int64_t step) const;

  uint64_t seed_ = 0;
  double lr_ = 0;
  std::map<std::string, SourceRule> rules_;
  int64_t seeded_parameters_ = 0;
};

}  // namespace tandem

#endif  // TANDEM_RUNTIME_SOURCES_H_
